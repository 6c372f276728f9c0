"""Web and literature search: `POST /web`. The answer is the JSON of `retrieve web --json`."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.api.web import add_rows, read_web
from retrieve_cli.api.web_choices import WEB
from retrieve_cli.output.web_results import web_json
from retrieve_cli.server.http.admission import read_body
from retrieve_cli.server.http.answers import response
from retrieve_cli.server.http.description import operation
from retrieve_cli.server.http.requests import read_object
from retrieve_cli.server.http.state import State

SCOPE, ADDING = "web", "documents:write"


def router(state: State) -> APIRouter:
    """Return the route of the web search."""

    async def web(request: Request) -> Response:
        """Search the web and literature by providers outside, which receive the query."""
        caller = state.callers.of(request, SCOPE)
        asked = read_web(read_object(await read_body(request, state.limits)))
        if asked.add:
            state.callers.of(request, ADDING)
        answer = await state.web.answer(request, asked.options, caller)
        if not asked.add:
            return response(web_json(answer))
        tenant, task = caller.tenant, None
        receipt = await state.pool.run(request, lambda: add_rows(state.documents, answer, tenant=tenant))
        if receipt.sequence:
            job = await asyncio.to_thread(state.syncing.submit, "documents", tenant=tenant, receipt=receipt)
            task = job.task
        statuses = [status.to_json() for status in receipt.documents]
        added = {"task": task, "sequence": receipt.sequence or None, "documents": statuses}
        return response({**web_json(answer), "added": added})

    routes = APIRouter(tags=["web"])
    described = operation("search_web", "WebResults", body=WEB.schema([*WEB.of_json]), errors=(502,), scope=SCOPE)
    routes.add_api_route("/web", web, **described)
    return routes
