"""A provider of web search as a package outside of the program adds it: the catalogue of a library."""

from __future__ import annotations

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Plugin
from retrieve_cli.contracts.websearch import Call, Fetch, Item, KeyPlace, Need, Page, WebKind, WebQuery
from retrieve_cli.frozen import dataclass
from retrieve_cli.websearch import ids
from retrieve_cli.websearch.items import made
from retrieve_cli.websearch.replies import listed, number, read_object, text

SERVER = "https://library.example.org"


@dataclass(frozen=True, slots=True)
class Library:
    """Books and articles of a library, as JSON."""

    shelf: str = "all"
    name: str = "library"
    title: str = "Library"
    kind: WebKind = "literature"
    needs: tuple[Need, ...] = (Need("LIBRARY_KEY", required=False, purpose="a higher rate"),)
    pause_s: float = 0.01
    servers: tuple[str, ...] = (SERVER,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        parameters = {"q": query.text, "n": str(query.k), "shelf": self.shelf}
        key = KeyPlace("LIBRARY_KEY", "header", "X-Key")
        response = fetch(Call(f"{SERVER}/search", parameters=parameters, keys=(key,)))
        answer = read_object(response)
        items: list[Item] = []
        for entry in listed(answer.get("books"), response, "books"):
            book = made(
                type="article",
                title=text(entry, "title"),
                ids_=[ids.doi(text(entry, "doi"))],
                authors=[text(entry, "author")],
                date=text(entry, "year"),
                abstract=text(entry, "about"),
            )
            items += [book] if book else []
        return Page(tuple(items[: query.k]), query.text, total=number(answer, "total"))


def library(settings: Settings) -> Library:
    """Return the provider for the shelf that `plugins: {library: {shelf: …}}` names."""
    return Library(shelf=str(settings.plugins.get("library", {}).get("shelf", "all")))


PROVIDER = Plugin("provider", library)
