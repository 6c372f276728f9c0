"""Versions of a work: the published article, and the preprint in each of its versions.

Fields of a work, each from the provider that knows it best, and the values that contradict those.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, get_args

from retrieve_cli.contracts.works import Cited, FieldConflict, Found, Id, IdKind, Item, RelationKind, Version, WorkType
from retrieve_cli.websearch import dates, ids
from retrieve_cli.websearch.merging import titles
from retrieve_cli.websearch.merging.describing import Description
from retrieve_cli.websearch.merging.titles import Likeness

KINDS: tuple[IdKind, ...] = get_args(IdKind)
Member: TypeAlias = tuple[Found, Description]
"""An item of a work."""
_LONGEST_NUMBER = 4


class _Key(NamedTuple):
    """A version: the identifier that all versions of the article, or of the preprint, share, and its number."""

    published: bool
    identifier: str
    """Empty: it is not known."""
    number: int
    """0: it is not known."""


def versions_of(group: Sequence[Member]) -> list[list[Member]]:
    """Return the items of each version of a work; first the representative one, then the others, latest first."""
    keys = [_key(found, description) for found, description in group]
    dois = Counter(key.identifier for key in keys if key and key.published and key.identifier)
    main = min(dois, key=lambda doi: (-dois[doi], doi), default="")
    related = {str(one) for _, description in group for one in description.related}
    versions: defaultdict[_Key, list[Member]] = defaultdict(list)
    rest = []
    for key, one in zip(keys, group, strict=True):
        if key is None or not (key.published or key.identifier):
            rest.append(one)
        elif key.published and key.identifier != main and key.identifier not in related:
            versions[key._replace(identifier=main)].append(one)  # it has no DOI, or another one, which is a conflict
        else:
            versions[key].append(one)
    for key in [key for key in versions if key.number == 0]:  # without a number: of the latest version
        latest = max(other for other in versions if other[:2] == key[:2])
        if latest != key:
            versions[latest] += versions.pop(key)
    ordered = _latest_first(versions, main)
    for one in rest[:]:
        if place := next((key for key in ordered if key.identifier in map(str, one[1].own)), None):
            versions[place].append(one)  # a page of that version
            rest.remove(one)
    rest.sort(key=lambda one: one[1].stage == "page")
    return [versions[ordered[0]] + rest, *(versions[key] for key in ordered[1:])] if ordered else [rest]


def others_of(versions: Sequence[Sequence[Member]]) -> tuple[Version, ...]:
    """Return all versions but the first one, and an article of which only the DOI is known."""
    standing = versions[0][0][1].stage
    shown = [_shown(version, standing == "published") for version in versions[1:]]
    if standing == "preprint":
        declared = {one for version in versions for _, description in version for one in description.related}
        shown += [
            Version(str(one), "article", "published_as", "", "", f"https://doi.org/{one.value}")
            for one in sorted(declared)
            if one.kind == "doi" and not ids.is_preprint(one)
        ]
    return tuple(shown)


def best_id(identifiers: Iterable[Id]) -> str:
    """Return the first identifier in the order of kinds; an arXiv identifier instead of its DOI."""
    known = [ids.unversioned(one) if ids.server(one) == ids.ARXIV else one for one in identifiers]
    return str(min(known, key=lambda one: (KINDS.index(one.kind), one.value)))


def _key(found: Found, description: Description) -> _Key | None:
    """Return the version that an item describes; None: any, as pages do."""
    if description.stage == "page":
        return None
    published = description.stage == "published"
    own = [one for one in found.item.ids if ids.unversioned(one) in description.own and one.kind in ("doi", "arxiv")]
    if published:
        own = [one for one in own if ids.unversioned(one) in description.published]
    own.sort(key=lambda one: (not ids.is_preprint(one), one.kind != "arxiv"))
    number = own and ids.doi_version(own[0])
    number = (number if published else found.item.version or number) or ""
    counted = int(number) if number.isdecimal() and len(number) <= _LONGEST_NUMBER else 0
    return _Key(published, str(ids.unversioned(own[0])) if own else "", counted)


def _latest_first(versions: dict[_Key, list[Member]], main: str) -> list[_Key]:
    """Return articles before preprints, then by date of the latest version, then by number."""
    dates: defaultdict[str, str] = defaultdict(str)
    for key, members in versions.items():
        dates[key.identifier] = max(dates[key.identifier], *(found.item.date for found, _ in members))
    return sorted(
        versions,
        key=lambda key: (key.published, key.identifier == main, dates[key.identifier], key.identifier, key.number),
        reverse=True,
    )


def _shown(version: Sequence[Member], is_published: bool) -> Version:
    found, description = min(version, key=lambda one: one[0].source.order)
    item = found.item
    is_preprint = description.stage == "preprint"
    own = [one for one in item.ids if ids.unversioned(one) in description.own] or item.ids
    relation: RelationKind = "preprint_of" if is_preprint and is_published else "version_of"
    kind: WorkType = "preprint" if is_preprint else item.type
    return Version(best_id(own), kind, relation, item.title, item.date, item.url)


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
    every = [*standing, *others]
    # marked by the field, or before the title
    if saying := [one for one in every if one.item.retracted or titles.read(one.item.title).retracted]:
        best = min(saying, key=lambda one: place(one.source.provider, _ORDERS["retracted"]))
        values["retracted"], provenance["retracted"] = True, best.source.provider
    return ChosenFields(values, provenance, _conflicts(values, standing, every))


def place(provider: str, order: Sequence[str]) -> tuple[int, str]:
    """Return a key that sorts providers by an order, and others after it by name."""
    return (order.index(provider) if provider in order else len(order), provider)


def _best(name: str, found: Sequence[Found]) -> Found | None:
    """Return the item whose value of a field is the best one; None if no item has one."""
    having = [one for one in found if getattr(one.item, name) not in (None, "", ())]
    if name == "snippet":  # search engines rank their snippets
        return min(having, key=lambda one: (one.source.order, one.source.provider), default=None)

    def key(one: Found) -> tuple[object, ...]:
        value = getattr(one.item, name)
        size = -len(value) if name == "abstract" else -value if name == "citations" else 0
        provider = place(one.source.provider, _ORDERS[name])
        first = (size, *provider) if name == "abstract" else (*provider, size)
        return (*first, one.source.order, str(value))

    having = sorted([one for one in having if one.item.type != "web"] or having, key=key)
    if name == "date" and having:  # the most precise one that agrees
        first = having[0].item.date
        return max((one for one in having if one.item.date.startswith(first)), key=lambda one: len(one.item.date))
    return having[0] if having else None


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
            different = {FieldConflict(_shown_value(getattr(one.item, name)), one.source.provider)
                         for one in found if contradicts(one.item)}  # fmt: skip
            if different:
                conflicts[name] = tuple(sorted(different, key=lambda one: (one.source, one.value)))
    return conflicts


def _shown_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_other_title(shown: str, title: str) -> bool:
    return titles.likeness(titles.read(shown), titles.read(title)) is not Likeness.SAME
