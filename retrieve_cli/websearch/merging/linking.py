"""Links between works and what was written about them: reviews, comments, corrections and retractions.

A link is declared by a provider, or known by the title that a review quotes, or by a DOI that continues the one of the
work (`10.7554/elife.1.sa2`). If a title belongs to several works, none is linked by it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from retrieve_cli.contracts.works import Id
from retrieve_cli.websearch import ids
from retrieve_cli.websearch.merging import titles
from retrieve_cli.websearch.merging.describing import Description
from retrieve_cli.websearch.merging.titles import Likeness, likeness


class Link(NamedTuple):
    """A link from a review to the work that it is about."""

    review: int | Id
    """Place of the group of descriptions; an identifier if no item has it."""
    work: int | Id


def links(groups: Sequence[Sequence[Description]], owners: Mapping[Id, int]) -> list[Link]:
    """Return the links between groups, of which each is one work; `owners` are the groups of identifiers."""
    shared = _Titles(groups)
    found: set[Link] = set()
    for place, group in enumerate(groups):
        declared = set(_declared(place, group, owners))
        if not declared and group[0].subject == "about":
            declared = {Link(place, work) for work in _guessed(group, owners, shared) if work != place}
        found |= declared
    return sorted(found, key=str)


def _declared(place: int, group: Sequence[Description], owners: Mapping[Id, int]) -> Iterator[Link]:
    for description in group:
        for kind, other in description.item.relations:
            target = owners.get(ids.unversioned(other), other)
            if target != place and kind == "reviews":
                yield Link(place, target)
            elif target != place and kind == "reviewed_by":
                yield Link(target, place)


def _guessed(group: Sequence[Description], owners: Mapping[Id, int], shared: _Titles) -> set[int]:
    """Return the work that a review is about, by its DOI or else by its title; none if several may be."""
    continued = {owners[stem] for each in group for one in each.own for stem in _stems(one) if stem in owners}
    if len(continued) == 1:
        return continued
    quoted = {place for each in group if each.title.quoting for place in shared.quoted(each)}
    return quoted if len(quoted) == 1 else set()


def _stems(identifier: Id) -> Iterator[Id]:
    """Yield the DOIs that a DOI continues with a full stop, a slash or a hyphen."""
    if identifier.kind == "doi":
        value = identifier.value
        start = value.index("/") + 2
        yield from (Id("doi", value[:place]) for place in range(start, len(value)) if value[place] in "./-")


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
        """Return the groups whose titles a review quotes; of a year that permits it."""
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
