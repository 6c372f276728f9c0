"""Versions of a work: the published article, and the preprint in each of its versions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias, get_args

from retrieve_cli.contracts.works import Found, Id, IdKind, RelationKind, Version, WorkType
from retrieve_cli.websearch import ids
from retrieve_cli.websearch.merging.describing import Description

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
    _join_unnumbered(versions)
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


def _join_unnumbered(versions: dict[_Key, list[Member]]) -> None:
    """Add items without a version to the latest version."""
    for key in [key for key in versions if key.number == 0]:
        latest = max(other for other in versions if other[:2] == key[:2])
        if latest != key:
            versions[latest] += versions.pop(key)


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
