"""Serper, Google's results as JSON (https://serper.dev)."""

from __future__ import annotations

import json
from typing import ClassVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Fetch, KeyPlace, Need, Page, Rate, Response, WebKind, WebQuery
from retrieve_cli.frozen import dataclass
from retrieve_cli.websearch import replies
from retrieve_cli.websearch.providers import web_results
from retrieve_cli.websearch.providers.web_results import Row

_ORIGIN = "https://google.serper.dev"
_OF_ONE_CREDIT = 10
_KEY = KeyPlace("SERPER_API_KEY", "header", "X-API-KEY")


@dataclass(frozen=True, slots=True)
class Serper:
    """Search of the web by Google through Serper. Up to ten results cost one credit, more cost two."""

    name: ClassVar[str] = "serper"
    title: ClassVar[str] = "Serper"
    kind: ClassVar[WebKind] = "web"
    needs: ClassVar[tuple[Need, ...]] = (Need("SERPER_API_KEY", required=True, purpose="key"),)
    rate: ClassVar[Rate] = Rate(5, 1.0)
    """Of a key without a plan."""
    terms: ClassVar[str] = "https://serper.dev/terms"
    servers: ClassVar[tuple[str, ...]] = (_ORIGIN,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        """Return its results. Raises: ProviderFailed: there is no answer, or it cannot be read."""
        cheap = 0 < query.shown <= _OF_ONE_CREDIT
        body: dict[str, Json] = {"q": query.text, "num": min(query.k, _OF_ONE_CREDIT) if cheap else query.k}
        if query.since:
            body["tbs"] = web_results.google_filter(query.since)
        headers = {"Content-Type": "application/json"}
        response = fetch(Call(f"{_ORIGIN}/search", headers=headers, body=json.dumps(body).encode(), keys=(_KEY,)))
        return web_results.page(_rows(response), response, query=query, engine=self.title)


def _rows(response: Response) -> list[Row]:
    answer = replies.read_object(response)
    if "organic" not in answer and (complaint := replies.text(answer, "message")):
        raise web_results.rejected(complaint, response)
    results = replies.listed(answer.get("organic"), response, "organic")
    return web_results.rows_of(results, "title", "link", "snippet", "date")
