"""Tavily, a search engine for programs: pages of the web with excerpts (https://docs.tavily.com)."""

from __future__ import annotations

import json
from typing import ClassVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Fetch, KeyPlace, Need, Page, Rate, Response, WebKind, WebQuery
from retrieve_cli.frozen import dataclass
from retrieve_cli.websearch import replies
from retrieve_cli.websearch.providers import web_results
from retrieve_cli.websearch.providers.web_results import Row

_ORIGIN = "https://api.tavily.com"
_KEY = KeyPlace("TAVILY_API_KEY", "header", "Authorization", "Bearer {}")
_MOST_RESULTS = 20
_LONGEST = 400
"""Characters of the longest question that it accepts."""


@dataclass(frozen=True, slots=True)
class Tavily:
    """Search of the web by Tavily. A search costs one credit of the key's plan."""

    name: ClassVar[str] = "tavily"
    title: ClassVar[str] = "Tavily"
    kind: ClassVar[WebKind] = "web"
    needs: ClassVar[tuple[Need, ...]] = (Need("TAVILY_API_KEY", required=True, purpose="key"),)
    rate: ClassVar[Rate] = Rate(100, 60.0)
    """Of a key for development; keys for production have ten times as much."""
    terms: ClassVar[str] = "https://www.tavily.com/terms"
    servers: ClassVar[tuple[str, ...]] = (_ORIGIN,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        """Return its results. Raises: ProviderFailed: there is no answer, or it cannot be read."""
        sent = _cut(query.text)
        body: dict[str, Json] = {
            "query": sent,
            "topic": "general",
            "search_depth": "basic",
            "max_results": min(query.k, _MOST_RESULTS),
        }
        if query.since:
            body["start_date"] = web_results.first_day(query.since)
        headers = {"Content-Type": "application/json"}
        response = fetch(Call(f"{_ORIGIN}/search", headers=headers, body=json.dumps(body).encode(), keys=(_KEY,)))
        notices = []
        if sent != query.text:
            notices.append(f"Tavily accepts {_LONGEST} characters: only the beginning of the question was sent")
        if query.k > _MOST_RESULTS:
            notices.append(f"Tavily returns at most {_MOST_RESULTS} results")
        return web_results.page(_rows(response), response, query=query, engine=self.title, sent=sent, notices=notices)


def _cut(text: str) -> str:
    """Return the beginning of a question that is short enough, in whole words if they are not too long."""
    if len(text) <= _LONGEST:
        return text
    beginning = text[: _LONGEST + 1].rpartition(" ")[0].rstrip()
    return beginning or text[:_LONGEST]


def _rows(response: Response) -> list[Row]:
    answer = replies.read_object(response)
    if complaint := replies.text(answer, "detail", "error") or replies.text(answer, "error", "message"):
        raise web_results.rejected(complaint, response)
    results = replies.listed(answer.get("results"), response, "results")
    return web_results.rows_of(results, "title", "url", "content", "published_date")
