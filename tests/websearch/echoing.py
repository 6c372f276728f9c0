"""A provider of a format of its own, and questions to it at a server on loopback."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raw_servers import Conversation

from retrieve_cli.contracts.websearch import Call, Fetch, Id, Item, KeyPlace, Need, Page, Response, WebKind, WebQuery
from retrieve_cli.websearch.asking import Asking
from retrieve_cli.websearch.cache import FILE, PageCache
from retrieve_cli.websearch.sending import Pauses, Sender

ORIGIN = "https://api.example.org"
JSON = "Content-Type: application/json"
KEY = "sk-sesame-opens"


@dataclass(frozen=True)
class Echo:
    """A provider whose answer is a list of titles."""

    name: str = "echo"
    pause_s: float = 0.0
    needs: tuple[Need, ...] = ()
    keys: tuple[KeyPlace, ...] = ()
    servers: tuple[str, ...] = (ORIGIN,)
    extra: Mapping[str, str] = field(default_factory=dict)
    title: str = "Echo"
    kind: WebKind = "web"

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


def item(title: str, doi: str = "", **values: Any) -> Item:
    ids = (Id("doi", doi) if doi else Id("url", f"https://example.org/{title}"),)
    return Item(**{"type": "web", "title": title, "ids": ids, **values})


def page(response: Response, query: str) -> Page:
    titles = json.loads(response.body)
    return Page(tuple(item(title) for title in titles), query)


def titles(talk: Conversation) -> None:
    """Answers with two titles, the path and the number of the request."""
    path = talk.asked.line.split()[1]
    talk.answer(json.dumps([path, str(len(talk.server.asked))]).encode(), JSON)


def asking(url: str, folder: Path, *, owner: str = "", max_age_s: float = 3600.0) -> Asking:
    """Return the means to ask, with a server in the place of the origin."""
    endpoints = {ORIGIN: url} if url else {}
    return Asking(Sender(endpoints, pauses=Pauses()), PageCache(folder / FILE, keep_s=86_400), max_age_s, owner)
