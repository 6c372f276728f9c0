"""Routes of the page: `/`, `/web`, `/r/<id>`, `/docs`, `/signin`, `/signout`, files.

The tab "Web" of the page: results of the web and literature with their providers and their status.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.api.web import read_web
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import figures
from retrieve_cli.contracts.works import Work
from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.output.plain_text import significant
from retrieve_cli.output.web_works import RELATIONS
from retrieve_cli.search.web_answer import ProviderStatus, WebAnswer, WebHit, WebOptions
from retrieve_cli.server.http.answers import KINDS, STATUS, rejection
from retrieve_cli.server.http.observing import observed
from retrieve_cli.server.http.requests import RejectedRequest
from retrieve_cli.server.http.state import State
from retrieve_cli.server.page import rendering, signing
from retrieve_cli.server.page.address import Address
from retrieve_cli.server.page.contents import Problem, record_page, search_page
from retrieve_cli.server.page.rendering import cut, link
from retrieve_cli.server.page.view import Badge

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

    from retrieve_cli.server.http.callers import Caller

    Handler = Callable[[Request], Awaitable[Response]]

_READ = ["GET", "HEAD"]
_WEB = "web"
"""Scope of the web search."""


def router(state: State) -> APIRouter:
    """Return the routes of the page."""
    from fastapi import APIRouter

    pages, routes = _Pages(state), APIRouter(include_in_schema=False)
    table: tuple[tuple[str, Handler, list[str]], ...] = (
        ("/", pages.search, _READ),
        ("/r/{record_id:path}", pages.record, _READ),
        ("/web", pages.web, ["GET"]),
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
        values = {**page.values, **self._tabs(caller)}
        return rendering.page(request, "search", values, status=page.status, pictures_of=self._hosts)

    async def web(self, request: Request) -> Response:
        state, caller = self._state, self._state.callers.of(request, _WEB)
        search = Search.of(request.query_params.multi_items())
        values = {"asks": state.settings.web.providers, **self._tabs(caller, _WEB)}
        state.web.expect_enabled()
        answer, problem, status = None, None, 200
        if search.query and not signing.from_elsewhere(request):  # no other site may send queries in the user's name
            try:
                answer = await state.web.answer(request, search.options(), caller)
            except RetrieveError as error:
                problem, status = Problem(error.message, error.hint), rejection(error).status
        values |= web_values(search, problem=problem, answer=answer)
        return rendering.page(request, "web", values, status=status)

    async def record(self, request: Request) -> Response:
        state, caller = self._state, self._state.callers.of(request, "search")
        record_id = request.path_params["record_id"] or request.query_params.get("id", "")
        first, generation = request.query_params.get("from", ""), request.query_params.get("generation", "")
        values = await state.pool.run(request, record_page, state.live, record_id, first, generation, caller.tenant)
        return rendering.page(request, "record", {**values, **self._tabs(caller)})

    def _tabs(self, caller: Caller, current: str = "") -> dict[str, Any]:
        """The value of the tabs; empty unless the caller may search the web, too."""
        if not (self._state.web.enabled and caller.may(_WEB)):
            return {}
        tabs = (("Index", "/", ""), ("Web", "/web", _WEB))
        return {"tabs": [{"label": label, "href": href, "current": scope == current} for label, href, scope in tabs]}

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

    async def missing(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404 and wants_page(request):
            return failure(request, RejectedRequest(404, "No page has this address."))
        answer: Response = await others[HTTPException](request, error)
        return answer

    return {**others, HTTPException: missing}


_TEXT = 700
"""Characters of an abstract or snippet."""
_AUTHORS = 6
_VERSIONS = 10
"""Most versions, linked works and conflicts of a result."""
_WEB_KINDS = (("", "Chosen by the query"), ("web", "Web"), ("literature", "Literature"))


class Search(NamedTuple):
    """A web search as the parameters of an address."""

    query: str = ""
    kind: str = ""
    """Empty: chosen by the query."""
    since: str = ""
    category: str = ""
    """Categories of arXiv with commas between them."""

    @classmethod
    def of(cls, parameters: Iterable[tuple[str, str]]) -> Search:
        """Return the search that the parameters describe; unknown ones are ignored."""
        last = dict(parameters)
        return cls(*(last.get(key, "").strip() for key in ("q", "kind", "since", "category")))

    def options(self) -> WebOptions:
        """Return the options of the search. Raises: UsageError."""
        given: dict[str, Json] = {"kind": self.kind, "since": self.since, "categories": self.category}
        item = {"query": self.query, **{key: value for key, value in given.items() if value}}
        return read_web(item, where="the address").options


def web_values(search: Search, *, problem: Problem | None = None, answer: WebAnswer | None = None) -> dict[str, Any]:
    """Return the values of the page: of the form alone, of an error, or of an answer."""
    values = {"search": search, "kinds": _WEB_KINDS, "error": problem, "hits": None, "providers": (), "notices": ()}
    if answer is None:
        return {**values, "count": "The query has an error." if problem else "", "partial": False}
    skipped = (f"{name} was skipped: {reason}" for name, reason in answer.strategies_skipped.items())
    works = figures.count(answer.total_works, "work")
    incomplete = ", incomplete: a provider failed" if answer.partial else ""
    return {
        **values,
        "hits": [_shown(hit) for hit in answer.hits],
        "providers": [_asked(status) for status in answer.statuses],
        "notices": [*map(cut, answer.notices), *skipped],
        "partial": answer.partial,
        "count": f"{len(answer.hits)} of {works}{incomplete}. {cut(answer.kind_reason)}",
    }


def _shown(hit: WebHit) -> dict[str, Any]:
    """Return the view of a result; `facts` are identifiers, licence, citations and conflicting values of providers,
    `others` other versions and works that are linked: the relation, a text and a link."""
    work = hit.work
    more = len(work.authors) - _AUTHORS
    names = ", ".join(map(cut, work.authors[:_AUTHORS])) + (f" and {more} more" if more > 0 else "")
    badges = [Badge(work.type, "modality")]
    badges += [Badge(cut(name), "found") for name in dict.fromkeys(source.provider for source in work.found_by)]
    badges += [Badge("open access", "licence")] if work.open_access else []
    others = [
        (version.relation, " · ".join(filter(None, (cut(version.title), version.date, cut(version.id)))), version.url)
        for version in work.versions[:_VERSIONS]
    ]
    others += [(linked.relation, cut(linked.id), linked.id) for linked in work.linked[:_VERSIONS]]
    return {
        "title": cut(work.title) or cut(work.id),
        "link": link(work.url),
        "pdf": link(work.pdf_url),
        "badges": badges,
        "about": " · ".join(filter(None, (names, work.date, cut(work.venue)))),
        "text": cut(work.abstract or work.snippet, _TEXT),
        "retracted": work.retracted,
        "others": [(RELATIONS.get(relation, relation), text, link(url)) for relation, text, url in others],
        "facts": [*_facts(work), ("score", significant(hit.hit.score, 4))],
    }


def _facts(work: Work) -> Iterator[tuple[str, str]]:
    yield from ((id_.kind, cut(id_.value)) for id_ in work.ids if id_.kind != "url")
    if work.license:
        yield "licence", cut(work.license)
    if work.citations is not None:
        yield "citations", f"{work.citations.number:,} ({cut(work.citations.source)})"
    for source in work.found_by:
        place = f"rank {source.rank}" if source.rank else "further facts"
        yield cut(source.provider), f"{place}, {source.at}"
    for name, conflicts in list(work.conflicts.items())[:_VERSIONS]:
        said = "; ".join(f"{cut(each.value)} ({cut(each.source)})" for each in conflicts[:_VERSIONS])
        yield f"{cut(name)} elsewhere", said


def _asked(status: ProviderStatus) -> dict[str, Any]:
    name = cut(status.provider) + (" (further facts)" if status.role == "enricher" else "")
    if status.status == "ok":
        total = "" if status.total is None else f" of {status.total:,}"
        age = "" if status.age_s is None else f", stored {status.age_s / 3600:.3g} h ago"
        message = f"{status.results}{total} results{age}" + "".join(f"; {cut(notice)}" for notice in status.notices)
        return {"name": name, "status": "answered", "failed": False, "message": message}
    message = cut("; ".join(filter(None, (status.message, status.hint))), _TEXT)
    return {"name": name, "status": status.status.replace("_", " "), "failed": status.failed, "message": message}
