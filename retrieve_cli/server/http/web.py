"""Web and literature search: `POST /web`. The answer is the JSON of `retrieve web --json`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.api.web import read_web
from retrieve_cli.api.web_choices import WEB
from retrieve_cli.output.web_results import web_json
from retrieve_cli.server.http.admission import read_body
from retrieve_cli.server.http.answers import response
from retrieve_cli.server.http.description import operation
from retrieve_cli.server.http.requests import read_object
from retrieve_cli.server.http.state import State

SCOPE = "web"


def router(state: State) -> APIRouter:
    """Return the route of the web search."""

    async def web(request: Request) -> Response:
        """Search the web and literature by providers outside, which receive the query."""
        caller = state.callers.of(request, SCOPE)
        options = read_web(read_object(await read_body(request, state.limits)))
        return response(web_json(await state.web.answer(request, options, caller)))

    routes = APIRouter(tags=["web"])
    described = operation("search_web", "WebResults", body=WEB.schema([*WEB.of_json]), errors=(502,), scope=SCOPE)
    routes.add_api_route("/web", web, **described)
    return routes
