"""Fields of a work, each from the provider that knows it best, and the values that contradict those."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from retrieve_cli.contracts.works import Cited, FieldConflict, Found, Item
from retrieve_cli.websearch import dates
from retrieve_cli.websearch.merging import titles
from retrieve_cli.websearch.merging.titles import Likeness

_TEXTS = ("pubmed", "europepmc", "biorxiv", "arxiv", "crossref", "s2")
"""Those that publishers and authors send their records to come first; Crossref often has no subtitle, and Semantic
Scholar extracts."""
_RIGHTS = ("crossref", "europepmc", "biorxiv", "arxiv", "s2", "pubmed")
_ORDERS: Mapping[str, Sequence[str]] = {
    "title": _TEXTS,
    "authors": _TEXTS,
    "venue": _TEXTS,
    "abstract": _TEXTS,
    "snippet": (),
    "date": ("crossref", "pubmed", "europepmc", "biorxiv", "arxiv", "s2"),
    "url": ("crossref", "biorxiv", "arxiv", "pubmed", "europepmc", "s2"),
    "pdf_url": ("arxiv", "biorxiv", "europepmc", "crossref", "s2"),
    "open_access": _RIGHTS,
    "license": _RIGHTS,
    "citations": ("s2", "crossref", "europepmc"),
    "retracted": ("crossref", "pubmed", "europepmc", "s2"),
}
"""Providers of each field, the best first; others follow in alphabetical order."""
_OF_VERSION = ("title", "authors", "date", "venue", "url", "license", "open_access")
"""Fields that differ between versions of a work: taken from its representative version."""
_OTHERS = ("authors", "date", "venue", "url")
"""Fields of those that another version answers for if that one does not."""
_Value = TypeVar("_Value")


class ChosenFields(NamedTuple):
    """Values of the fields of a work that have one, their providers, and the values that contradict them."""

    values: dict[str, object]
    provenance: dict[str, str]
    conflicts: dict[str, tuple[FieldConflict, ...]]


def chosen(standing: Sequence[Found], others: Sequence[Found]) -> ChosenFields:
    """Return the fields of a work from the items of its representative version and the items of other versions."""
    values: dict[str, object] = {}
    provenance: dict[str, str] = {}
    for name in _ORDERS:
        best = _best(name, standing)
        if best is None and (name not in _OF_VERSION or name in _OTHERS):
            best = _best(name, others)
        if best is not None:
            value = getattr(best.item, name)
            values[name] = Cited(value, best.source.provider, best.source.at) if name == "citations" else value
            provenance[name] = best.source.provider
    _retraction(values, provenance, [*standing, *others])
    return ChosenFields(values, provenance, _conflicts(values, standing, [*standing, *others]))


def place(provider: str, order: Sequence[str]) -> tuple[int, str]:
    """Return a key that sorts providers by an order, and others after it by name."""
    return (order.index(provider) if provider in order else len(order), provider)


def _best(name: str, found: Sequence[Found]) -> Found | None:
    """Return the item whose value of a field is the best one; None if no item has one."""
    having = [one for one in found if getattr(one.item, name) not in (None, "", ())]
    if name == "snippet":  # search engines rank their snippets
        having.sort(key=lambda one: (one.source.order, one.source.provider))
        return having[0] if having else None
    literature = [one for one in having if one.item.type != "web"] or having
    having = sorted(literature, key=_key(name))
    if name == "date" and having:  # the most precise one that agrees
        first = having[0].item.date
        return max((one for one in having if one.item.date.startswith(first)), key=lambda one: len(one.item.date))
    return having[0] if having else None


def _key(name: str) -> Callable[[Found], tuple[object, ...]]:
    order = _ORDERS[name]

    def key(one: Found) -> tuple[object, ...]:
        value = getattr(one.item, name)
        size = -len(value) if name == "abstract" else -value if name == "citations" else 0
        provider = place(one.source.provider, order)
        first = (size, *provider) if name == "abstract" else (*provider, size)
        return (*first, one.source.order, str(value))

    return key


def _retraction(values: dict[str, object], provenance: dict[str, str], found: Sequence[Found]) -> None:
    """Set `retracted` to True if any item is marked as retracted, by the field or before the title."""
    saying = [one for one in found if one.item.retracted or titles.read(one.item.title).retracted]
    if saying:
        best = min(saying, key=lambda one: place(one.source.provider, _ORDERS["retracted"]))
        values["retracted"], provenance["retracted"] = True, best.source.provider


def _conflicts(
    values: Mapping[str, object], standing: Sequence[Found], every: Sequence[Found]
) -> dict[str, tuple[FieldConflict, ...]]:
    """Return the values of the same version that contradict the chosen ones."""
    rules: Mapping[str, tuple[Sequence[Found], Callable[[Item], bool]]] = {
        "title": (standing, lambda item: item.type != "web" and _is_other_title(str(values["title"]), item.title)),
        "date": (
            standing,
            lambda item: item.type != "web" and bool(item.date) and not dates.agree(str(values["date"]), item.date),
        ),
        "open_access": (standing, lambda item: item.open_access not in (None, values["open_access"])),
        "license": (standing, lambda item: item.license.lower() not in ("", str(values["license"]).lower())),
        "retracted": (every, lambda item: item.retracted not in (None, values["retracted"])),
    }
    conflicts: dict[str, tuple[FieldConflict, ...]] = {}
    for name, (found, contradicts) in rules.items():
        if name in values:
            different = {FieldConflict(_shown(getattr(one.item, name)), one.source.provider)
                         for one in found if contradicts(one.item)}  # fmt: skip
            if different:
                conflicts[name] = tuple(sorted(different, key=lambda one: (one.source, one.value)))
    return conflicts


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_other_title(shown: str, title: str) -> bool:
    return titles.likeness(titles.read(shown), titles.read(title)) is not Likeness.SAME
