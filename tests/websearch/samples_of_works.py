"""Items of publications that do not exist, for tests of merging."""

from typing import Any

from retrieve_cli.contracts.works import Found, Id, Source, Work, WorkType
from retrieve_cli.websearch import ids, items
from retrieve_cli.websearch.merging import works

TITLE = "Glacial lakes as reservoirs of dormant microbial communities"
AT = "2026-11-23T04:00:00Z"


def found(provider: str, *identifiers: str, rank: int | None = 1, type: WorkType = "article", **given: Any) -> Found:  # noqa: A002
    """Return an item by a provider; identifiers as `doi:…`, `pmid:…`, `arxiv:…`, `s2:…`, relations as `(kind, id)`."""
    known: dict[str, Any] = {"title": TITLE, "authors": ["Amara Okafor", "Lei Zhou"], "date": "2024"}
    known |= {"relations": [(kind, of(one)) for kind, one in given.pop("relations", ())]} | given
    made = items.made(type=type, ids_=map(of, identifiers), **known)
    assert made is not None
    return Found(made, Source(provider, rank, "lakes", AT, f"{provider}-{rank}"))


def of(text: str) -> Id | None:
    """Return the identifier that a text like `doi:10.1000/a` is."""
    kind, _, value = text.partition(":")
    return {"doi": ids.doi, "pmid": ids.pmid, "pmcid": ids.pmcid, "arxiv": ids.arxiv, "s2": ids.s2}[kind](value)


def merged(*given: Found) -> list[Work]:
    """Return the works of these items; in the reverse order they are the same."""
    answer = works.merge(given)
    assert works.merge(given[::-1]) == answer
    return answer


def one(*given: Found) -> Work:
    """Return the only work of these items."""
    (work,) = merged(*given)
    return work
