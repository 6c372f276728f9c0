"""A provider and an enricher of a format of their own, and exchanges with them by a server on loopback."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from raw_servers import Conversation

from retrieve_cli.contracts.websearch import Call, Fetch, KeyPlace, Need, Page, Rate, Response, WebKind, WebQuery
from retrieve_cli.contracts.works import Id, Item
from retrieve_cli.http.limits import Clock
from retrieve_cli.websearch.exchange import Exchange
from retrieve_cli.websearch.rates import Rates
from retrieve_cli.websearch.stored import Stored

ORIGIN = "https://api.example.org"
JSON = "Content-Type: application/json"
NOW = datetime(2026, 11, 23, 4, 0, 0, tzinfo=UTC)
RATE = Rate(1000, 1.0)
KEY = "sk-sesame-opens"


@dataclass(frozen=True)
class Echo:
    """A provider whose answer is a list of titles."""

    name: str = "echo"
    rate: Rate = RATE
    needs: tuple[Need, ...] = ()
    keys: tuple[KeyPlace, ...] = ()
    servers: tuple[str, ...] = (ORIGIN,)
    extra: Mapping[str, str] = field(default_factory=dict)
    title: str = "Echo"
    kind: WebKind = "web"
    terms: str = "https://api.example.org/terms"

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        call = Call(f"{self.servers[0]}/{self.name}", {"q": query.text, **self.extra}, keys=self.keys)
        return page(fetch(call), query.text)


@dataclass(frozen=True)
class Raising(Echo):
    """A provider whose program is wrong."""

    error: BaseException = field(default_factory=lambda: KeyError("title"))

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        raise self.error


@dataclass(frozen=True)
class Doing(Echo):
    """A provider that does something instead of asking."""

    does: Callable[[], Any] = field(default=lambda: None)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        result: Page = self.does()
        return result


@dataclass(frozen=True)
class Counting:
    """An enricher that sends the number of items; it has nothing to look up for items without a DOI."""

    name: str = "count"
    title: str = "Count"
    rate: Rate = RATE
    terms: str = "https://api.example.org/terms"
    servers: tuple[str, ...] = (ORIGIN,)

    def enrich(self, items: Sequence[Item], fetch: Fetch) -> Page | None:
        known = [item for item in items if any(one.kind == "doi" for one in item.ids)]
        body = json.dumps(len(known)).encode()
        return page(fetch(Call(f"{ORIGIN}/{self.name}", body=body)), "count") if known else None


def item(title: str, doi: str = "") -> Item:
    return Item("web", title, (Id("doi", doi) if doi else Id("url", f"https://example.org/{title}"),))


def page(response: Response, query: str) -> Page:
    titles = json.loads(response.body)
    return Page(tuple(item(title) for title in titles), query, response)


def titles(talk: Conversation) -> None:
    """Answers with two titles, the path and the number of the request."""
    path = talk.asked.line.split()[1]
    talk.answer(json.dumps([path, str(len(talk.server.asked))]).encode(), JSON)


def exchange(url: str, folder: Path, *, store: bool = True, **given: Any) -> Exchange:
    """Exchanges in which a server stands for the origin."""
    stored = Stored(folder / "web", keep_s=1e6, keep_mb=10) if store else None
    how: dict[str, Any] = {"max_age_s": 3600.0, "offline": False, "now": lambda: NOW, **given}
    rates = how.pop("rates", None) or Rates(folder / "rates")
    return Exchange(stored=stored, rates=rates, endpoints={ORIGIN: url} if url else {}, **how)


def unstored(endpoints: Mapping[str, str], rates: Rates) -> Exchange:
    """Exchanges with other servers in the places of origins, of which nothing is stored."""
    return Exchange(stored=None, rates=rates, endpoints=endpoints, max_age_s=0, offline=False)


def long(seconds: float = 60.0) -> Clock:
    return Clock(seconds, seconds)
