"""Routes of the page: `/`, `/r/<id>`, `/signin`, `/signout`, and its static files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import RetrieveError
from retrieve_cli.serving.answers import rejection
from retrieve_cli.serving.page import rendering, signing
from retrieve_cli.serving.page.address import Address
from retrieve_cli.serving.page.contents import record_page, search_page
from retrieve_cli.serving.requests import Rejected
from retrieve_cli.serving.state import State

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

    Handler = Callable[[Request], Awaitable[Response]]

_READ = ["GET", "HEAD"]


def router(state: State) -> APIRouter:
    """Return the routes of the page."""
    from fastapi import APIRouter

    async def search(request: Request) -> Response:
        caller = state.callers.of(request, "search")
        address = Address.of(request.query_params.multi_items())
        status, values = await state.pool.run(request, search_page, state.live, address, caller.tenant)
        return rendering.page(request, "search", values, status=status)

    async def record(request: Request) -> Response:
        caller = state.callers.of(request, "search")
        record_id = request.path_params["record_id"] or request.query_params.get("id", "")
        first, generation = request.query_params.get("from", ""), request.query_params.get("generation", "")
        values = await state.pool.run(request, record_page, state.live, record_id, first, generation, caller.tenant)
        return rendering.page(request, "record", values)

    async def static(request: Request) -> Response:
        answer = rendering.static(request.path_params["name"])
        if answer is None:
            raise Rejected(404, "there is no such file")
        return answer

    async def sign_in_form(request: Request) -> Response:
        return signing.form(request, following=request.query_params.get("next", "/"))

    async def sign_in(request: Request) -> Response:
        return await signing.sign_in(state, request)

    async def sign_out(request: Request) -> Response:
        signing.expect_own_page(request, state)
        return signing.sign_out(request)

    routes = APIRouter(include_in_schema=False)
    pages: tuple[tuple[str, Handler, list[str]], ...] = (
        ("/", search, _READ),
        ("/r/{record_id:path}", record, _READ),
        ("/static/{name}", static, _READ),
        ("/signin", sign_in_form, _READ),
        ("/signin", sign_in, ["POST"]),
        ("/signout", sign_out, ["POST"]),
    )
    for path, handler, methods in pages:
        routes.add_route(path, as_page(handler, state), methods=methods)
    return routes


def as_page(handler: Handler, state: State) -> Handler:
    """Return a handler whose failures are pages: the form to sign in for 401."""

    @wraps(handler)
    async def answered(request: Request) -> Response:
        request = signing.with_credential(request)
        await state.callers.prepare(request.headers)
        try:
            return await handler(request)
        except Rejected as error:
            return failure(request, error)
        except RetrieveError as error:
            return failure(request, rejection(error))

    return answered


def failure(request: Request, error: Rejected) -> Response:
    """Return the page of a failure."""
    if error.status == 401:
        return signing.form(request, following=signing.address_of(request), status=401)
    headings = {403: "Not allowed", 404: "Not found", 429: "Too many requests", 503: "Not available at the moment"}
    heading = headings.get(error.status, "This did not work")
    values = {"heading": heading, "message": str(error), "hint": error.hint}
    answer = rendering.page(request, "message", values, status=error.status)
    answer.headers.update(error.headers)
    return answer


def wants_page(request: Request) -> bool:
    """Return True for a browser: it takes HTML, and prefers it to JSON."""
    accepted = request.headers.get("Accept", "")
    return request.method in _READ and "text/html" in accepted and "application/json" not in accepted


def handlers(others: dict[Any, Any]) -> dict[Any, Any]:
    """Return the handlers of exceptions, with a page in place of the error object where a browser asks for an address
    that does not exist."""
    from starlette.exceptions import HTTPException

    otherwise = others[HTTPException]

    async def missing(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404 and wants_page(request):
            return failure(request, Rejected(404, "There is no page at this address."))
        answer: Response = await otherwise(request, error)
        return answer

    return {**others, HTTPException: missing}
