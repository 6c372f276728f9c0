"""Routes of the page: `/`, `/r/<id>`, `/docs`, `/signin`, `/signout`, files."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.server.http.answers import KINDS, STATUS, rejection
from retrieve_cli.server.http.observing import observed
from retrieve_cli.server.http.requests import RejectedRequest
from retrieve_cli.server.http.state import State
from retrieve_cli.server.page import rendering, signing
from retrieve_cli.server.page.address import Address
from retrieve_cli.server.page.contents import record_page, search_page

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

    Handler = Callable[[Request], Awaitable[Response]]

_READ = ["GET", "HEAD"]


def router(state: State) -> APIRouter:
    """Return the routes of the page."""
    from fastapi import APIRouter

    pages, routes = _Pages(state), APIRouter(include_in_schema=False)
    table: tuple[tuple[str, Handler, list[str]], ...] = (
        ("/", pages.search, _READ),
        ("/r/{record_id:path}", pages.record, _READ),
        ("/docs", pages.docs, _READ),
        ("/static/{name}", pages.static, _READ),
        ("/signin", pages.sign_in_form, _READ),
        ("/signin", pages.sign_in, ["POST"]),
        ("/signout", pages.sign_out, ["POST"]),
    )
    for path, handler, methods in table:
        routes.add_route(path, as_page(handler, state), methods=methods)
    return routes


class _Pages:
    def __init__(self, state: State) -> None:
        self._state = state
        self._hosts = expect_hosts(state.settings.serve.picture_hosts)

    async def search(self, request: Request) -> Response:
        state, caller = self._state, self._state.callers.of(request, "search")
        address = Address.of(request.query_params.multi_items())
        page = await state.pool.run(request, search_page, state.live, address, caller.tenant)
        observed(request).answers = page.answers
        values = page.values
        return rendering.page(request, "search", values, status=page.status, pictures_of=self._hosts)

    async def record(self, request: Request) -> Response:
        state, caller = self._state, self._state.callers.of(request, "search")
        record_id = request.path_params["record_id"] or request.query_params.get("id", "")
        first, generation = request.query_params.get("from", ""), request.query_params.get("generation", "")
        values = await state.pool.run(request, record_page, state.live, record_id, first, generation, caller.tenant)
        return rendering.page(request, "record", values)

    async def docs(self, request: Request) -> Response:
        self._state.callers.of(request, "search")
        kinds = {
            **{kind: str(status) for status, kind in KINDS.items()},
            **{kind: str(n) for kind, n in STATUS.items()},
        }
        groups: dict[str, list[tuple[str, str, Any]]] = {}
        for path, methods in (api := request.app.openapi())["paths"].items():
            for method, each in methods.items():
                groups.setdefault(each["tags"][0], []).append((method, path, each))
        values = {"api": api, "groups": groups.items(), "kinds": sorted(kinds.items(), key=itemgetter(1))}
        return rendering.page(request, "docs", values)

    async def static(self, request: Request) -> Response:
        answer = rendering.static(request.path_params["name"])
        if answer is None:
            raise RejectedRequest(404, "the file does not exist")
        return answer

    async def sign_in_form(self, request: Request) -> Response:
        return signing.form(request, following=request.query_params.get("next", "/"))

    async def sign_in(self, request: Request) -> Response:
        return await signing.sign_in(self._state, request)

    async def sign_out(self, request: Request) -> Response:
        signing.expect_own_page(request, self._state)
        return signing.sign_out(request)


_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?(?::[0-9]{1,5})?")


def expect_hosts(names: Sequence[str]) -> Sequence[str]:
    """Return names of servers that a policy may have. Raises: UsageError if one is something else."""
    for name in names:
        if not _HOST.fullmatch(name):
            raise UsageError(f"serve.picture_hosts has {quoted(name)}", hint="name hosts: upload.wikimedia.org")
    return names


def as_page(handler: Handler, state: State) -> Handler:
    """Return a handler whose failures are pages: the form to sign in for 401."""

    @wraps(handler)
    async def answered(request: Request) -> Response:
        request = signing.with_credential(request)
        await state.callers.prepare(request.headers)
        try:
            return await handler(request)
        except RejectedRequest as error:
            return failure(request, error)
        except RetrieveError as error:
            return failure(request, rejection(error))

    return answered


def failure(request: Request, error: RejectedRequest) -> Response:
    """Return the page of a failure."""
    if error.status == 401:
        return signing.form(request, following=signing.address_of(request), status=401)
    headings = {403: "Not allowed", 404: "Not found", 503: "Not available at the moment"}
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

    async def missing(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404 and wants_page(request):
            return failure(request, RejectedRequest(404, "No page has this address."))
        answer: Response = await others[HTTPException](request, error)
        return answer

    return {**others, HTTPException: missing}
