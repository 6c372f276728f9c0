"""One list from the pages of several providers: equal results are one row, and ranks are fused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

from retrieve_cli.contracts.websearch import Id, IdKind, Item, Page, Source, WebRow
from retrieve_cli.frozen import replace

K = 60
_KINDS = get_args(IdKind)
_FILLED = "authors date venue abstract snippet url pdf_url open_access license citations".split()
"""Fields that the next item gives if the best one lacks them."""


class Answered(NamedTuple):
    """The page of a provider, and when it was received."""

    provider: str
    page: Page
    at: str


class _Found(NamedTuple):
    item: Item
    source: Source


def fuse(pages: Sequence[Answered]) -> list[WebRow]:
    """Return the results of all pages, best first.

    Items that have an identifier or a normalised address in common are one row. Its score is the sum over providers
    of 1 / (60 + rank), with the best rank at each (reciprocal rank fusion: Cormack, Clarke and Büttcher, SIGIR 2009).
    """
    groups: dict[Id, list[_Found]] = {}
    for provider, page, at in pages:
        for rank, item in enumerate(page.items, 1):
            found = _Found(item, Source(provider, rank, 1 / (K + rank), page.query, at))
            _add(groups, found)
    distinct = {id(group): group for group in groups.values()}
    rows = [_row(group) for group in distinct.values()]
    return sorted(rows, key=lambda row: (-round(row.score, 6), row.id))


def _add(groups: dict[Id, list[_Found]], found: _Found) -> None:
    """Put an item into the group of its identifiers; it joins groups that have one of them each."""
    joined: list[_Found] = []
    for group in {id(groups[one]): groups[one] for one in found.item.ids if one in groups}.values():
        joined += group
    joined.append(found)
    for member in joined:
        groups.update(dict.fromkeys(member.item.ids, joined))


def _row(group: Sequence[_Found]) -> WebRow:
    ranked = sorted(group, key=lambda found: found.source.rank)  # stable: then as providers are configured
    best: dict[str, Source] = {}
    for found in ranked:
        best.setdefault(found.source.provider, found.source)
    score = sum(source.score for source in best.values())
    return WebRow(_merged([found.item for found in ranked]), tuple(best.values()), score)


def _merged(items: Sequence[Item]) -> Item:
    """Return the first item with missing fields from the others, and all identifiers, the best kinds first."""
    first = items[0]
    known = dict.fromkeys(one for item in items for one in item.ids)
    given = {
        name: next((value for item in items if (value := getattr(item, name)) not in ("", (), None)), None)
        for name in _FILLED
    }
    retracted = [item.retracted for item in items if item.retracted is not None]
    return replace(
        first,
        type=next((item.type for item in items if item.type != "web"), "web"),
        ids=tuple(sorted(known, key=lambda one: _KINDS.index(one.kind))),
        retracted=any(retracted) if retracted else None,
        **{name: value for name, value in given.items() if value is not None},
    )
