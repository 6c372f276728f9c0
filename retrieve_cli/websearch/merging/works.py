"""One work for all its items from providers: versions, identifiers, fields, links and sources.

The published article represents a work, else the latest version of the preprint. The work has its identifiers and its
date, and its other fields as far as providers give them; see `versions.py` for the provider of each field,
`matching.py` for the items of a work.

A work is linked to the texts about it: reviews, comments, corrections and retractions. A link is declared by a
provider, or known by the title that a review quotes, or by a DOI that continues the one of the work
(`10.7554/elife.1.sa2`). If a title belongs to several works, none is linked by it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from retrieve_cli.contracts.works import FieldConflict, Found, Id, Linked, Work, WorkType
from retrieve_cli.websearch import ids
from retrieve_cli.websearch.merging import titles
from retrieve_cli.websearch.merging.describing import Description, described
from retrieve_cli.websearch.merging.matching import matched
from retrieve_cli.websearch.merging.titles import Likeness, likeness
from retrieve_cli.websearch.merging.versions import KINDS, Member, best_id, chosen, others_of, versions_of

_TYPES: tuple[WorkType, ...] = ("article", "dataset", "review", "preprint", "web")
"""Types in the order in which one is chosen if providers do not agree about the representative version of a work."""


class _Group(NamedTuple):
    """The items of one work, with their descriptions; in versions, of which the first represents it."""

    items: Sequence[Member]
    versions: Sequence[Sequence[Member]]
    ids: tuple[Id, ...]
    """Identifiers of its representative version."""
    id: str


def merge(found: Sequence[Found]) -> list[Work]:
    """Return one work for each publication or page among items, ordered by their best rank, then by id.

    The result does not depend on the order of the items. Works that no provider ranked appear only as links.
    """
    items = _canonical(found)
    descriptions = described(items)
    members = [[(items[place], descriptions[place]) for place in group] for group in matched(descriptions)]
    owners = _owners(members)
    groups = _identified(members, owners)
    linked, retractions = _links(groups, owners)
    works = [
        _work(group, linked[place], retractions[place])
        for place, group in enumerate(groups)
        if any(found.source.rank is not None for found, _ in group.items)
    ]
    return sorted(works, key=lambda work: (min(one.rank for one in work.found_by if one.rank is not None), work.id))


def _canonical(found: Sequence[Found]) -> list[Found]:
    """Return the items without repetitions, in an order that only depends on their values."""
    keyed: defaultdict[tuple[object, ...], list[Found]] = defaultdict(list)
    for one in found:
        item, source = one
        rank = -1 if source.rank is None else source.rank
        key = (source.provider, rank, source.digest, source.query, source.at, item.title, item.ids, item.date)
        keyed[key].append(one)
    ordered: list[Found] = []
    for _, same in sorted(keyed.items(), key=lambda pair: pair[0]):
        ordered += same if len(same) == 1 else [one for _, one in sorted({repr(one): one for one in same}.items())]
    return ordered


def _owners(members: Sequence[Sequence[Member]]) -> dict[Id, int]:
    """Return the group of each identifier: of several, the one of which most items have it, works before reviews."""
    claims: defaultdict[Id, Counter[int]] = defaultdict(Counter)
    for place, group in enumerate(members):
        for _, description in group:
            for one in description.own:
                claims[one][place] += 1
    about = [group[0][1].subject == "about" for group in members]
    return {one: min(counts, key=lambda place: (about[place], -counts[place], place)) for one, counts in claims.items()}


def _identified(members: Sequence[Sequence[Member]], owners: Mapping[Id, int]) -> list[_Group]:
    """Return the groups with their versions and identifiers. No two have the same id."""
    taken: set[str] = set()
    groups = []
    for place, group in enumerate(members):
        versions = versions_of(group)
        own = _ids(versions[0], place, owners)
        first = text = best_id(own or sorted(one for found, _ in group for one in found.item.ids))
        number = 1
        while text in taken:  # only an identifier of another work is known of it
            number += 1
            text = f"{first}#{number}"
        taken.add(text)
        groups.append(_Group(group, versions, own, text))
    return groups


def _ids(version: Sequence[Member], place: int, owners: Mapping[Id, int]) -> tuple[Id, ...]:
    """Return the identifiers of a version, of each kind the one that most items have; none of another work."""
    counts: Counter[Id] = Counter()
    articles: set[Id] = set()
    of_records: set[Id] = set()
    for found, description in version:
        known = set(description.own)
        for one in dict.fromkeys(found.item.ids):
            key = ids.unversioned(one)
            if key in known and owners[key] == place:
                counts[one] += 1
                if key in description.published:
                    articles.add(one)
                if description.stage != "page":
                    of_records.add(one)

    def order(one: Id) -> tuple[bool, bool, int, int, str]:
        length = len(one.value) if one.kind == "url" else 0
        return one not in articles, one not in of_records, -counts[one], length, one.value

    kept = {one.kind: one for one in sorted(counts, key=order, reverse=True)}  # of each kind, the first one in order
    return tuple(kept[kind] for kind in KINDS if kind in kept)


_Link: TypeAlias = tuple[int | Id, int | Id]
"""A review and the work that it is about, each as the place of its group, or as an identifier that no item has."""


def _declared(place: int, group: Sequence[Description], owners: Mapping[Id, int]) -> Iterator[_Link]:
    for description in group:
        for kind, other in description.item.relations:
            target = owners.get(ids.unversioned(other), other)
            if target != place and kind == "reviews":
                yield place, target
            elif target != place and kind == "reviewed_by":
                yield target, place


def _guessed(group: Sequence[Description], owners: Mapping[Id, int], shared: _Titles) -> set[int]:
    """Return the work that a review is about, by its DOI or else by its title; none if several may be."""
    stems = (  # the DOIs that a DOI continues with a full stop, a slash or a hyphen
        Id("doi", one.value[:place])
        for one in (one for each in group for one in each.own if one.kind == "doi")
        for place in range(one.value.index("/") + 2, len(one.value))
        if one.value[place] in "./-"
    )
    continued = {owners[stem] for stem in stems if stem in owners}
    if len(continued) == 1:
        return continued
    quoted = {place for each in group if each.title.quoting for place in shared.quoted(each)}
    return quoted if len(quoted) == 1 else set()


class _Titles:
    """Groups of works by their titles."""

    def __init__(self, groups: Sequence[Sequence[Description]]) -> None:
        self._exact: defaultdict[str, set[int]] = defaultdict(set)
        self._by_word: defaultdict[str, set[int]] = defaultdict(set)
        self._titles: defaultdict[int, list[titles.Title]] = defaultdict(list)
        for place, group in enumerate(groups):
            if group[0].subject == "work":
                for title in {each.title for each in group if each.title.distinct}:
                    self._titles[place].append(title)
                    for letters in {title.letters, title.main} - {""}:
                        self._exact[letters].add(place)
                    for word in title.words:
                        self._by_word[word].add(place)

    def quoted(self, review: Description) -> set[int]:
        """Return the groups whose titles a review quotes."""
        title = titles.read(review.title.quoted)
        if not title.distinct:
            return set()
        found = self._exact.get(title.letters) or self._exact.get(title.main) or set()
        if not found:
            rarest = sorted(title.words, key=lambda word: (len(self._by_word.get(word, ())), word))[:2]
            near = {place for word in rarest for place in self._by_word.get(word, ())}
            found = {
                place
                for place in near
                if any(likeness(title, known) >= Likeness.EXTENDED for known in self._titles[place])
            }
        return found


def _links(groups: Sequence[_Group], owners: Mapping[Id, int]) -> tuple[list[set[Linked]], list[set[str]]]:
    """Return the links of each group, and the providers of the retractions that are linked to it."""
    linked: list[set[Linked]] = [set() for _ in groups]
    retractions: list[set[str]] = [set() for _ in groups]
    descriptions = [[description for _, description in group.items] for group in groups]
    shared = _Titles(descriptions)
    for place, group in enumerate(descriptions):
        links = set(_declared(place, group, owners))
        if not links and group[0].subject == "about":
            links = {(place, work) for work in _guessed(group, owners, shared) if work != place}
        for review, work in links:
            if isinstance(work, int):
                linked[work].add(Linked(groups[review].id if isinstance(review, int) else str(review), "reviews"))
            if isinstance(review, int):
                linked[review].add(Linked(groups[work].id if isinstance(work, int) else str(work), "reviewed_by"))
            if isinstance(review, int) and isinstance(work, int):
                retracting = (each.provider for each in descriptions[review] if each.title.quoting == "retraction")
                retractions[work].update(retracting)
    return linked, retractions


def _work(group: _Group, linked: set[Linked], retractions: set[str]) -> Work:
    standing = [found for found, _ in group.versions[0]]
    fields = chosen(standing, [found for version in group.versions[1:] for found, _ in version])
    provenance, conflicts = fields.provenance, fields.conflicts
    values: dict[str, Any] = {"title": "", **fields.values}
    if retractions and not values.get("retracted"):
        values["retracted"], provenance["retracted"] = True, min(retractions)
    shown = {ids.unversioned(one) for one in group.ids if one.kind == "doi"}
    others = {
        FieldConflict(one.value, found.source.provider)
        for found, description in group.versions[0]
        for one in description.published
        if shown and one not in shown
    }
    if others:
        conflicts["doi"] = tuple(sorted(others, key=lambda one: (one.source, one.value)))
    sources = sorted(
        {found.source for found, _ in group.items},
        key=lambda source: (source.provider, *source.order, source.digest, source.query, source.at),
    )
    return Work(
        id=group.id,
        type=_type(group, linked),
        found_by=tuple(sources),
        ids=group.ids,
        versions=others_of(group.versions),
        linked=tuple(sorted(linked)),
        provenance=provenance,
        conflicts=conflicts,
        **values,
    )


def _type(group: _Group, linked: set[Linked]) -> WorkType:
    description = group.versions[0][0][1]
    if description.stage == "preprint":
        return "preprint"
    types = {found.item.type for found, _ in group.versions[0]}
    is_comment = any(each.title.quoting == "comment" for _, each in group.items)
    if "review" in types or (is_comment and any(link.relation == "reviewed_by" for link in linked)):
        return "review"
    return next(one for one in _TYPES if one in types)
