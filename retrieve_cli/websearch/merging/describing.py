"""Items prepared for matching: title, first author, year, and the identifiers that they have or refer to."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from retrieve_cli.contracts.works import LINKS, Found, Id, Item
from retrieve_cli.websearch import ids
from retrieve_cli.websearch.merging import names, titles
from retrieve_cli.websearch.merging.names import Name
from retrieve_cli.websearch.merging.titles import Quoting, Title

Subject = Literal["work", "about", "data"]
"""`about`: a review, comment, correction or retraction of another work; `data`: a data set, or supplement of a work."""
Stage = Literal["published", "preprint", "page"]
_SUBJECTS: Mapping[Quoting, Subject] = {"": "work", "data": "data"}
_STEM = re.compile(r"\b[^\W\d_]{5,6}")
"""Beginning of a longer word."""
_LEAST_VOCABULARY = 20
_ABSTRACT = 6000
"""Characters of an abstract that are compared."""


class Description(NamedTuple):
    """An item in the form in which it is compared with other items."""

    item: Item
    provider: str
    title: Title
    author: Name
    year: int | None
    subject: Subject
    stage: Stage
    own: tuple[Id, ...]
    """Its identifiers, without versions."""
    related: tuple[Id, ...]
    """Identifiers of the same work that it refers to: of its article, of its preprint, of other versions."""
    published: frozenset[Id]
    """DOIs among its own identifiers that are not of preprints."""


def described(found: Sequence[Found]) -> list[Description]:
    """Return descriptions of items, in the same order."""
    published = _published(item for item, _ in found)
    return [_described(item, source.provider, titles.read(item.title), published) for item, source in found]


def _described(item: Item, provider: str, title: Title, published: frozenset[Id]) -> Description:
    linked = {ids.unversioned(other) for kind, other in item.relations if kind in LINKS}
    own = [one for one in dict.fromkeys(map(ids.unversioned, item.ids)) if one not in linked]
    related = [ids.unversioned(other) for kind, other in item.relations if kind not in LINKS]
    if item.type == "preprint":  # arXiv has the DOI of the article in the record of the preprint
        related += [one for one in own if one in published]
        own = [one for one in own if one not in published]
    subject = "about" if item.type == "review" else _SUBJECTS.get(title.quoting, "about")
    return Description(
        item,
        provider,
        title,
        names.first_author(item),
        int(item.date[:4]) if item.date[:4].isdecimal() else None,
        "data" if item.type == "dataset" and subject == "work" else subject,
        _stage(item, published),
        tuple(own),
        tuple(one for one in dict.fromkeys(related) if one not in own and one not in linked),
        frozenset(one for one in own if one in published),
    )


def _published(items: Iterable[Item]) -> frozenset[Id]:
    """Return the DOIs that are not of preprints: some item that is not a preprint has it; or one that is has another
    identifier that only preprints have."""
    preprints: set[Id] = set()
    others: set[Id] = set()
    for item in items:
        keys = [ids.unversioned(one) for one in item.ids]
        dois = [key for one, key in zip(item.ids, keys, strict=True) if key.kind == "doi" and not ids.is_preprint(one)]
        marked = any(ids.is_preprint(one) for one in item.ids)
        (preprints if item.type == "preprint" and not marked else others).update(dois)
    return frozenset(others)


def _stage(item: Item, published: frozenset[Id]) -> Stage:
    if item.type == "web":
        return "page"
    if item.type == "preprint":
        return "preprint"
    kinds = {one.kind for one in item.ids}
    has_article = "pmid" in kinds or "pmcid" in kinds or any(ids.unversioned(one) in published for one in item.ids)
    return "preprint" if not has_article and any(map(ids.is_preprint, item.ids)) else "published"


class Abstracts:
    """Agreement of abstracts: the share of the longer words of the shorter one that the other one has, too. Of a word,
    the first six letters count."""

    def __init__(self) -> None:
        self._words: dict[str, frozenset[str]] = {}

    def agreement(self, one: Item, other: Item) -> float | None:
        """Return a number from 0 to 1, None if one has no abstract to compare."""
        here, there = self._read(one), self._read(other)
        if min(len(here), len(there)) < _LEAST_VOCABULARY:
            return None
        return len(here & there) / min(len(here), len(there))

    def _read(self, item: Item) -> frozenset[str]:
        text = item.abstract[:_ABSTRACT]
        if text not in self._words:
            self._words[text] = frozenset(_STEM.findall(names.folded(text)))
        return self._words[text]


def by_identifier(descriptions: Sequence[Description]) -> Mapping[Id, list[int]]:
    """Return the places of the descriptions that have each identifier, or refer to it as another of the same work."""
    places: defaultdict[Id, list[int]] = defaultdict(list)
    for place, description in enumerate(descriptions):
        for one in (*description.own, *description.related):
            places[one].append(place)
    return places
