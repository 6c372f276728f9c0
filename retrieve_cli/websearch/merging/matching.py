"""Descriptions of one work, matched by identifiers, declared relations, addresses and titles, and joined by union-find.

Evidence is used in the order of its strength, and in a canonical order within; a join that contradicts an
earlier one is not made. So one wrong identifier does not chain two works:

1. A DOI or an arXiv identifier: unless both the titles and the first authors are different.
2. A declared relation (`preprint_of`, `published_as`, `version_of`, `same_as`): likewise; and never two DOIs of
   articles through a preprint that claims both.
3. A PMID, PMCID, identifier of Semantic Scholar or address: if titles or first authors agree, and no DOI contradicts.
4. Titles of a ratio of at least 0.93 with the same first author, and years that differ by at most two. Numbers must be
   the same; where words are replaced, the abstracts must agree; DOIs and PMIDs of articles must not differ, nor DOIs of
   one preprint server (a preprint may be on two servers). Titles that many works have do
   not count.

Reviews, comments, corrections and retractions are never joined to a work, and data sets are not by title.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from retrieve_cli.contracts.works import Id
from retrieve_cli.websearch import dates, ids
from retrieve_cli.websearch.merging import names
from retrieve_cli.websearch.merging.describing import Abstracts, Description, by_identifier
from retrieve_cli.websearch.merging.titles import Likeness, likeness

_STRONG = ("doi", "arxiv")
_ASSIGN_PMIDS = ("pubmed", "europepmc")
_YEARS = 2
"""Years between a preprint and its article."""
_EQUAL, _AGREE, _RESEMBLE, _CONTRADICT = 0.9, 0.7, 0.5, 0.3
"""Agreement of abstracts: of one article, at least; from which a preprint and an article are one work; which those have
at least; below which they are of different works."""
_RARE = 3
"""Rarest words of a title by which similar ones are sought."""
_WINDOW = 40
"""Descriptions with which each one is compared in a group that shares an identifier, or a word and an author. A group
of this size is compared completely; of a larger one, those that are close to each other in order."""


class _Level(IntEnum):
    STRONG = 0
    DECLARED = 1
    WEAK = 2
    TITLE = 3


class _Edge(NamedTuple):
    """Evidence that two descriptions are of one work; the least is used first."""

    level: _Level
    unlikeness: int
    one: int
    other: int
    same_record: bool
    """True: it holds against different DOIs, which are then a conflict."""


def matched(descriptions: Sequence[Description]) -> list[list[int]]:
    """Return the places of the descriptions of each work, in ascending order."""
    descriptions = _with_sure_dois(descriptions)
    groups = _Groups(descriptions)
    for edge in sorted(set(_by_identifiers(descriptions))):
        groups.join(edge)
    for edge in sorted(_by_titles(descriptions, groups)):
        groups.join(edge)
    return groups.result()


def _by_identifiers(descriptions: Sequence[Description]) -> Iterator[_Edge]:
    for identifier, places in by_identifier(descriptions).items():
        for here, there in _pairs(places):
            one, other = descriptions[here], descriptions[there]
            declared = identifier in one.related or identifier in other.related
            level = _Level.DECLARED if declared else _Level.STRONG if identifier.kind in _STRONG else _Level.WEAK
            if not _is_barred(one, other, level):
                alike = likeness(one.title, other.title)
                same_record = _is_same_record(one, other, alike, level)
                if same_record or _holds(one, other, alike, level):
                    yield _Edge(level, -alike, here, there, same_record)


def _with_sure_dois(descriptions: Sequence[Description]) -> Sequence[Description]:
    """Return the descriptions without those DOIs of articles that more others have for another work than for this one:
    a wrong DOI, or the one of all proceedings, does not speak against other evidence."""
    balance: Counter[tuple[int, Id]] = Counter()
    for identifier, places in by_identifier(descriptions).items():
        if identifier.kind != "doi" or len({descriptions[place].title.letters for place in places}) == 1:
            continue
        for here, there in _pairs([place for place in places if identifier in descriptions[place].published]):
            one, other = descriptions[here], descriptions[there]
            held = _holds(one, other, likeness(one.title, other.title), _Level.STRONG)
            balance.update({(here, identifier): 1 if held else -1, (there, identifier): 1 if held else -1})
    doubted: defaultdict[int, set[Id]] = defaultdict(set)
    for (place, identifier), votes in balance.items():
        if votes < 0:
            doubted[place].add(identifier)
    return [
        one._replace(published=one.published - doubted[place]) if place in doubted else one
        for place, one in enumerate(descriptions)
    ]


def _pairs(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    for start, here in enumerate(places):
        for there in places[start + 1 : start + _WINDOW]:
            yield here, there


def _is_barred(one: Description, other: Description, level: _Level) -> bool:
    """Return True if a work is compared with a text about a work, or by title with a data set."""
    if one.subject == other.subject:
        return False
    if "about" not in (one.subject, other.subject):
        return level is _Level.TITLE
    quoting = one.title.quoting or other.title.quoting  # else only one provider knows that it is a review
    return bool(quoting) or level is not _Level.STRONG or not names.agree(one.author, other.author)


def _holds(one: Description, other: Description, alike: Likeness, level: _Level) -> bool:
    """Return True unless a shared identifier, or a relation, is contradicted by titles and first authors."""
    if "page" in (one.stage, other.stage):
        return True  # titles of pages name the site, and have no authors
    if level is not _Level.WEAK:
        return alike > Likeness.UNLIKE or not names.differ(one.author, other.author)
    if alike is Likeness.UNLIKE:
        return names.agree(one.author, other.author) and _years_apart(one, other) <= 1
    return not names.differ(one.author, other.author)


def _is_same_record(one: Description, other: Description, alike: Likeness, level: _Level) -> bool:
    """Return True if two descriptions are of one work even if their DOIs differ: a relation between articles is
    declared, or they agree in all but, perhaps, a mistyped DOI."""
    if level is _Level.DECLARED:
        return one.stage == other.stage == "published"
    same = alike is Likeness.SAME and one.title.distinct and _years_apart(one, other) == 0
    return same and names.agree(one.author, other.author)


def _years_apart(one: Description, other: Description) -> int:
    return 0 if one.year is None or other.year is None else abs(one.year - other.year)


def _by_titles(descriptions: Sequence[Description], groups: _Groups) -> Iterator[_Edge]:
    abstracts, recurrent = Abstracts(), _recurrent(descriptions)
    for here, there in {pair for places in _candidates(descriptions) for pair in _pairs(places)}:
        if groups.name(here) == groups.name(there):
            continue
        one, other = descriptions[here], descriptions[there]
        if _is_barred(one, other, _Level.TITLE) or not names.agree(one.author, other.author):
            continue
        apart = _years_apart(one, other)
        if apart > _YEARS or _is_repeated(one, other, recurrent):
            continue
        alike = likeness(one.title, other.title)
        if alike >= Likeness.CHANGED and _is_one_text(one, other, alike, abstracts):
            yield _Edge(_Level.TITLE, -alike, here, there, same_record=False)


def _candidates(descriptions: Sequence[Description]) -> Iterable[list[int]]:
    """Return groups of descriptions of which some may have similar titles: by first author, and a rare word or all
    letters of the title, or of the title without its subtitle."""
    frequency = Counter(word for one in descriptions for word in set(one.title.words))
    blocks: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, one in enumerate(descriptions):
        if not one.title.distinct or not one.author:
            continue
        rare = sorted(set(one.title.words), key=lambda word: (frequency[word], word))[:_RARE]
        keys = {one.title.letters, one.title.main, *(f" {word}" for word in rare)} - {""}
        for family in {reading.family for reading in one.author}:
            for key in keys:
                blocks[family, key].append(place)
    return (places for places in blocks.values() if len(places) > 1)


def _recurrent(descriptions: Sequence[Description]) -> frozenset[tuple[str, str]]:
    """Return titles, with family names of first authors, that two articles have: a third one may have it, too."""
    dois: defaultdict[tuple[str, str], set[Id]] = defaultdict(set)
    for one in descriptions:
        if one.published and one.stage == "published":
            for reading in one.author:
                dois[one.title.letters, reading.family].update(one.published)
    return frozenset(key for key, values in dois.items() if len(values) > 1)


def _is_repeated(one: Description, other: Description, recurrent: frozenset[tuple[str, str]]) -> bool:
    """Return True if descriptions of one title are of two works: the title comes again, in another year; or it is that
    of a contribution to a conference and of the article that followed."""
    if any((one.title.letters, reading.family) in recurrent for reading in (*one.author, *other.author)):
        return True
    if one.stage != other.stage:
        return False
    if one.title.recurrent and not dates.agree(one.item.date, other.item.date):
        return True
    return _years_apart(one, other) > 0 and not names.venues_agree(one.item.venue, other.item.venue)


def _is_one_text(one: Description, other: Description, alike: Likeness, abstracts: Abstracts) -> bool:
    agreement = abstracts.agreement(one.item, other.item)
    if agreement is not None and agreement < _CONTRADICT:
        return False
    if alike is Likeness.SAME:
        return True
    if one.stage == other.stage:  # two providers have the same title of an article, or one mistypes it
        return agreement is not None and agreement >= _EQUAL
    if alike is Likeness.EXTENDED:  # a title may grow from the preprint to the article
        return agreement is None or agreement >= _RESEMBLE
    return agreement is not None and agreement >= _AGREE


class _Groups:
    """Disjoint sets of descriptions. A set is named by the least of its members."""

    def __init__(self, descriptions: Sequence[Description]) -> None:
        self._all = descriptions
        self._parents = list(range(len(descriptions)))
        self._members = {place: [place] for place in self._parents}

    def join(self, edge: _Edge) -> None:
        """Join the sets of two descriptions, unless they contradict each other."""
        least, other = sorted((self.name(edge.one), self.name(edge.other)))
        if least == other or (not edge.same_record and self._contradict(least, other, edge.level)):
            return
        self._parents[other] = least
        self._members[least] += self._members.pop(other)

    def result(self) -> list[list[int]]:
        """Return the members of each set."""
        return [sorted(members) for members in self._members.values()]

    def name(self, place: int) -> int:
        """Return the name of the set of a description."""
        while self._parents[place] != place:
            self._parents[place] = self._parents[self._parents[place]]
            place = self._parents[place]
        return place

    def _contradict(self, least: int, other: int, level: _Level) -> bool:
        here = [self._all[place] for place in self._members[least]]
        there = [self._all[place] for place in self._members[other]]
        by_title = level is _Level.TITLE
        return _differ(_articles(here), _articles(there)) or (by_title and _contradict_by_title(here, there))


def _contradict_by_title(here: Sequence[Description], there: Sequence[Description]) -> bool:
    """Return True if two sets with similar titles have identifiers, years or titles of two works."""
    dois = _articles(here) | _declared(here), _articles(there) | _declared(there)
    if _differ(*dois) or _differ(_pmids(here), _pmids(there)):
        return True
    one, other = _preprints(here), _preprints(there)
    if any(_differ(one[server], other[server]) for server in one.keys() & other.keys()):
        return True
    years = [each.year for each in (*here, *there) if each.year is not None and each.stage == "published"]
    if years and max(years) - min(years) > _YEARS:
        return True
    titles = {(each.stage, each.title) for each in here if each.stage != "page"}
    others = {(each.stage, each.title) for each in there}
    return any(a[0] == b[0] and likeness(a[1], b[1]) is Likeness.UNSURE for a in titles for b in others)


def _differ(one: set[Id], other: set[Id]) -> bool:
    return bool(one and other) and one.isdisjoint(other)


def _articles(group: Sequence[Description]) -> set[Id]:
    return {doi for each in group for doi in each.published}


def _declared(group: Sequence[Description]) -> set[Id]:
    return {one for each in group for one in each.related if one.kind == "doi" and not ids.is_preprint(one)}


def _pmids(group: Sequence[Description]) -> set[Id]:
    """Return PMIDs as those give them who assign them; in other records some are wrong."""
    sure = [each for each in group if each.provider in _ASSIGN_PMIDS and each.stage == "published"]
    return {one for each in sure for one in each.own if one.kind == "pmid"}


def _preprints(group: Sequence[Description]) -> dict[str, set[Id]]:
    servers: dict[str, set[Id]] = {}
    for each in group:
        for one in each.own:
            if ids.is_preprint(one):
                servers.setdefault(ids.server(one), set()).add(one)
    return servers
