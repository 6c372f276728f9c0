"""Search engines of the web: one value each, which describes its request and the place of the results in its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, NamedTuple
from urllib.parse import urlsplit

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import (
    Call,
    Fetch,
    Item,
    KeyPlace,
    Need,
    Page,
    Response,
    WebKind,
    WebQuery,
)
from retrieve_cli.errors import printable, quoted, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import dates, items, replies

_LONGEST_DATE = 60
_MOST_ROWS = 1000
"""Results of an answer that are looked at: more than any engine returns."""
_DAY_FIRST = re.compile(r"\b([0-9]{1,2})\.? ([A-Za-z]{3,9})\.?,? ([0-9]{4})\b")
_MONTH_FIRST = re.compile(r"\b([A-Za-z]{3,9})\.? (?:([0-9]{1,2}),? )?([0-9]{4})\b")
_AGO = re.compile(r"\b([0-9]{1,3}) (minute|hour|day)s? ago\b")


class WebResult(NamedTuple):
    """A result as a search engine describes it."""

    title: str
    url: str
    snippet: str = ""
    date: str = ""
    """Date as the engine writes it."""


class WebResults(NamedTuple):
    """Results in the answer of a search engine."""

    rows: Sequence[WebResult]
    notices: Sequence[str] = ()
    total: int | None = None


class WebEngine(Frozen):
    """A search engine of the web as a provider."""

    kind: ClassVar[WebKind] = "web"
    name: str
    title: str
    origin: str
    pause_s: float
    call: Callable[[WebQuery], Call]
    """Request of a question."""
    read: Callable[[Response, WebQuery], WebResults]
    """Results in the answer. Raises: ProviderFailed."""
    key: KeyPlace | None = None
    longest: int = 0
    """Characters of the longest question that it accepts; 0: it names none."""
    accept: tuple[int, ...] = (200,)
    """Status codes of an answer."""

    @property
    def needs(self) -> tuple[Need, ...]:
        return (Need(self.key.variable, required=True, purpose="key"),) if self.key else ()

    @property
    def servers(self) -> tuple[str, ...]:
        return (self.origin,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        """Return its results, at most as many as are wanted.

        Raises:
            ProviderFailed: there is no answer, or it cannot be read.
        """
        sent = query.text
        if 0 < self.longest < len(sent):  # in whole words if they are not too long
            sent = sent[: self.longest + 1].rpartition(" ")[0].rstrip() or sent[: self.longest]
        request = self.call(WebQuery(sent, query.k, since=query.since))
        keys = (self.key,) if self.key else ()
        response = fetch(Call(request.url, request.parameters, request.headers, request.body, keys), accept=self.accept)
        results = self.read(response, query)
        rows = results.rows[:_MOST_ROWS]
        notices = []
        if sent != query.text:
            notices.append(
                f"{self.title} accepts {self.longest} characters: only the beginning of the question was sent"
            )
        notices += results.notices
        found_items = (_item(row, response.at) for row in rows)
        return replies.page_of(found_items, sent, response, k=query.k, total=results.total, notices=notices)


def _item(row: WebResult, at: str) -> Item | None:
    try:
        is_pdf = urlsplit(row.url).path.lower().endswith(".pdf")
    except ValueError:
        is_pdf = False
    return items.made(
        type="web",
        title=row.title,
        ids_=(),
        url=row.url,
        pdf_url=row.url if is_pdf else "",
        snippet=row.snippet,
        date=date_of(row.date, at),
    )


def date_of(text: str, at: str) -> str:
    """Return the date that an engine writes as `2024-03-12`, `Mar 12, 2024`, `12 March 2024`, `March 2024`, as in mail
    (RFC 5322), or as `3 days ago` before the time `at` of the response. Empty: none of these; weeks and months ago,
    which do not tell a day."""
    text = " ".join(text[:_LONGEST_DATE].split())
    if iso := dates.of_text(text):
        return iso
    if match := _DAY_FIRST.search(text):
        day, month, year = match.groups()
        return dates.of_parts(year, month, day)
    if match := _MONTH_FIRST.search(text):
        return dates.of_parts(match[3], match[1], match[2] or "")
    if match := _AGO.search(text):
        ago = timedelta(**{f"{match[2]}s": int(match[1])})
        return (datetime.fromisoformat(at) - ago).date().isoformat()
    return ""


def google_filter(since: str) -> str:
    """Return the value of Google's parameter `tbs` for pages that are dated `since` or later.

    It names no last day: a question is then the same request on every day.
    """
    year, month, day = dates.first_day(since).split("-")
    return f"cdr:1,cd_min:{int(month)}/{int(day)}/{year}"


def _posted(url: str, body: Mapping[str, Json]) -> Call:
    return Call(url, headers={"Content-Type": "application/json"}, body=json.dumps(body).encode())


def _rows(answer: Mapping[str, Json], response: Response, name: str, *keys: str) -> list[WebResult]:
    """Return the results in a list of an answer, by the names of their keys."""
    results: Iterable[Json] = replies.listed(answer.get(name), response, name)
    return [WebResult(*(replies.text(result, key) for key in keys)) for result in results]


_SERPER = "https://google.serper.dev"


def _serper_call(query: WebQuery) -> Call:
    body: dict[str, Json] = {"q": query.text, "num": query.k}
    if query.since:
        body["tbs"] = google_filter(query.since)
    return _posted(f"{_SERPER}/search", body)


def _serper_results(response: Response, _: WebQuery) -> WebResults:
    answer = replies.read_object(response)
    if "organic" not in answer and (complaint := replies.text(answer, "message")):
        replies.rejected(printable(shortened(complaint, 200)))
    return WebResults(_rows(answer, response, "organic", "title", "link", "snippet", "date"))


SERPER = WebEngine(
    "serper",
    "Serper",
    _SERPER,
    0.2,
    _serper_call,
    _serper_results,
    KeyPlace("SERPER_API_KEY", "header", "X-API-KEY"),
)
"""Google's results as JSON (https://serper.dev). Up to ten results cost one credit, more cost two."""

_TAVILY = "https://api.tavily.com"
_MOST_OF_TAVILY = 20


def _tavily_call(query: WebQuery) -> Call:
    most = min(query.k, _MOST_OF_TAVILY)
    body: dict[str, Json] = {"query": query.text, "topic": "general", "search_depth": "basic", "max_results": most}
    if query.since:
        body["start_date"] = dates.first_day(query.since)
    return _posted(f"{_TAVILY}/search", body)


def _tavily_results(response: Response, query: WebQuery) -> WebResults:
    answer = replies.read_object(response)
    if complaint := replies.text(answer, "detail", "error") or replies.text(answer, "error", "message"):
        replies.rejected(printable(shortened(complaint, 200)))
    rows = _rows(answer, response, "results", "title", "url", "content", "published_date")
    notices = [f"Tavily returns at most {_MOST_OF_TAVILY} results"] if query.k > _MOST_OF_TAVILY else []
    return WebResults(rows, notices)


TAVILY = WebEngine(
    "tavily",
    "Tavily",
    _TAVILY,
    0.6,
    _tavily_call,
    _tavily_results,
    KeyPlace("TAVILY_API_KEY", "header", "Authorization", "Bearer {}"),
    longest=400,
)
"""A search engine for programs: pages of the web with excerpts (https://docs.tavily.com). A search costs one credit."""

_SERPAPI = "https://serpapi.com"
_NOTHING_FOUND = "hasn't returned any results"
"""Part of the error by which it reports, with status 200, that nothing matches."""
_EMPTY = "fully empty"


def _serpapi_call(query: WebQuery) -> Call:
    since = {"tbs": google_filter(query.since)} if query.since else {}
    return Call(f"{_SERPAPI}/search.json", parameters={"engine": "google", "q": query.text, **since})


def _serpapi_results(response: Response, query: WebQuery) -> WebResults:
    answer = replies.read_object(response)
    error = replies.text(answer, "error")
    if error and _NOTHING_FOUND not in error:
        replies.rejected(printable(shortened(error, 200)))
    if replies.text(answer, "search_metadata", "status") != "Success":
        replies.malformed("a search with the status `Success`", response)
    state = replies.text(answer, "search_information", "organic_results_state").lower()
    rows: list[WebResult] = []
    if "organic_results" in answer or not (error or state == _EMPTY):
        rows = _rows(answer, response, "organic_results", "title", "link", "snippet", "date")
    notices = []
    if instead := replies.text(answer, "search_information", "showing_results_for"):
        notices.append(f"Google searched for {quoted(instead)} instead")
    if len(rows) < query.k and replies.text(answer, "serpapi_pagination", "next"):
        notices.append(f"SerpAPI returns the first page of Google: {len(rows)} results")
    return WebResults(rows, notices, replies.number(answer, "search_information", "total_results"))


SERPAPI = WebEngine(
    "serpapi",
    "SerpAPI",
    _SERPAPI,
    1.0,
    _serpapi_call,
    _serpapi_results,
    KeyPlace("SERPAPI_API_KEY", "parameter", "api_key"),
)
"""Google's results as JSON (https://serpapi.com/search-api). Every search costs one of the key's plan and returns the
first page of Google, about ten results."""
