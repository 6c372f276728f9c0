"""SerpAPI, Google's results as JSON (https://serpapi.com/search-api)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Fetch, KeyPlace, Need, Page, Rate, Response, WebKind, WebQuery
from retrieve_cli.errors import quoted
from retrieve_cli.frozen import dataclass
from retrieve_cli.websearch import replies
from retrieve_cli.websearch.providers import web_results
from retrieve_cli.websearch.providers.web_results import Row

_ORIGIN = "https://serpapi.com"
_KEY = KeyPlace("SERPAPI_API_KEY", "parameter", "api_key")
_NOTHING_FOUND = "hasn't returned any results"
"""Part of the error by which it says, with status 200, that nothing matches."""
_EMPTY = "fully empty"


@dataclass(frozen=True, slots=True)
class SerpApi:
    """Search of the web by Google through SerpAPI. Every search costs one of the key's plan and returns the first page
    of Google, about ten results."""

    name: ClassVar[str] = "serpapi"
    title: ClassVar[str] = "SerpAPI"
    kind: ClassVar[WebKind] = "web"
    needs: ClassVar[tuple[Need, ...]] = (Need("SERPAPI_API_KEY", required=True, purpose="key"),)
    rate: ClassVar[Rate] = Rate(1, 1.0)
    """The plan of a key limits the searches of an hour; the server answers 429 beyond."""
    terms: ClassVar[str] = "https://serpapi.com/legal"
    servers: ClassVar[tuple[str, ...]] = (_ORIGIN,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        """Return its results. Raises: ProviderFailed: there is no answer, or it cannot be read."""
        parameters = {"engine": "google", "q": query.text}
        if query.since:
            parameters["tbs"] = web_results.google_filter(query.since)
        response = fetch(Call(f"{_ORIGIN}/search.json", parameters=parameters, keys=(_KEY,)))
        answer = replies.read_object(response)
        rows = _rows(answer, response)
        return web_results.page(
            rows,
            response,
            query=query,
            engine=self.title,
            total=replies.number(answer, "search_information", "total_results"),
            notices=_notices(answer, len(rows), query),
        )


def _rows(answer: Mapping[str, Json], response: Response) -> list[Row]:
    error = replies.text(answer, "error")
    if error and _NOTHING_FOUND not in error:
        raise web_results.rejected(error, response)
    status = replies.text(answer, "search_metadata", "status")
    if status != "Success":
        replies.malformed("a search with the status `Success`", response)
    state = replies.text(answer, "search_information", "organic_results_state").lower()
    if "organic_results" not in answer and (error or state == _EMPTY):
        return []
    results = replies.listed(answer.get("organic_results"), response, "organic_results")
    return web_results.rows_of(results, "title", "link", "snippet", "date")


def _notices(answer: Mapping[str, Json], rows: int, query: WebQuery) -> list[str]:
    notices = []
    if instead := replies.text(answer, "search_information", "showing_results_for"):
        notices.append(f"Google searched for {quoted(instead)} instead")
    if rows < query.k and replies.text(answer, "serpapi_pagination", "next"):
        notices.append(f"SerpAPI returns the first page of Google: {rows} results")
    return notices
