"""Items prepared for matching: title, first author, year, and the identifiers that they have or refer to.

Names of first authors and of journals, compared in the forms in which they are written.

Authors are compared by family name and initial: `Smith JA`, `J. Smith`, `Smith, John`, `John A. Smith`.
A name has several readings if it does not show which part is the family name; two names agree if one reading of each
does. Accents, particles, hyphens and `ue` for `ü` make no difference.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from retrieve_cli.contracts.works import LINKS, Found, Id, Item
from retrieve_cli.websearch import ids
from retrieve_cli.websearch.merging import titles
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
        first_author(item),
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
            self._words[text] = frozenset(_STEM.findall(folded(text)))
        return self._words[text]


def by_identifier(descriptions: Sequence[Description]) -> Mapping[Id, list[int]]:
    """Return the places of the descriptions that have each identifier, or refer to it as another of the same work."""
    places: defaultdict[Id, list[int]] = defaultdict(list)
    for place, description in enumerate(descriptions):
        for one in (*description.own, *description.related):
            places[one].append(place)
    return places


_WORD = re.compile(r"[^\W\d_]+")
_LONGEST = 300
_REMEMBERED = 4096
_PARTICLES = frozenset(
    "van von vom zu zur de der den des del della di da do dos du la le el al bin ibn ben ter ten".split()
)
_SUFFIXES = frozenset("jr sr ii iii iv phd md".split())
_MOST_INITIALS = 4
_LITTLE = frozenset("the of and for in on a an et de la der die und".split())
"""Words that abbreviations of journals skip."""
_LETTERS = str.maketrans({"ø": "o", "å": "a", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})


class NameReading(NamedTuple):
    """A name as family name and initial of the first given name; the initial is empty if it is not known."""

    family: str
    initial: str


Name: TypeAlias = frozenset[NameReading]
"""Readings of a name; empty: unknown."""


def first_author(item: Item) -> Name:
    """Return the name of the first author of an item."""
    return read(item.authors[0][:_LONGEST] if item.authors else "", item.first_family[:_LONGEST])


@lru_cache(_REMEMBERED)
def read(full: str, first_family: str) -> Name:
    """Return the readings of a name, of which the family name may be known."""
    family = first_family or full.partition(",")[0] * ("," in full)
    if not family:
        return _of_line(full)
    families = _family(_words(family))
    given = [word for word in _words(full) if word not in _words(family)]
    return frozenset(NameReading(name, given[0][0] if given else "") for name in families)


def agree(one: Name, other: Name) -> bool:
    """Return True if the names can be of one person; False if either is unknown."""
    return any(
        a.family == b.family and (not a.initial or not b.initial or a.initial == b.initial) for a in one for b in other
    )


def differ(one: Name, other: Name) -> bool:
    """Return True if both names are known and cannot be of one person."""
    return bool(one and other) and not agree(one, other)


def venues_agree(one: str, other: str) -> bool:
    """Return True if two names can be of one journal: `Proc Natl Acad Sci U S A`, `PNAS`; or if either is not known."""
    words, others = ([word for word in _words(text[:_LONGEST]) if word not in _LITTLE] for text in (one, other))
    if not words or not others:
        return True
    fewer, more = sorted((words, others), key=lambda words: (len(words), words))
    if len(fewer) == 1 and fewer[0].startswith("".join(word[0] for word in more)[: max(len(fewer[0]), 2)]):
        return True  # an acronym
    rest = iter(more)
    return all(any(_abbreviates(word, long) or _abbreviates(long, word) for long in rest) for word in fewer)


def _abbreviates(short: str, long: str) -> bool:
    """Return True if a word begins as another one, and has all its letters in that order: `natl` for `national`."""
    letters = iter(long)
    return short[0] == long[0] and all(letter in letters for letter in short)


def folded(text: str) -> str:
    """Return a text in lower case without accents, with English letters in place of other Latin letters."""
    if text.isascii():
        return text.casefold()
    bare = unicodedata.normalize("NFKD", text).casefold().translate(_LETTERS)
    return bare if bare.isascii() else "".join(c for c in bare if not unicodedata.combining(c))


def _of_line(name: str) -> Name:
    """Return the readings of a name whose parts are not marked."""
    raw = [word for word in name.replace(".", ". ").split() if _WORD.search(word)]
    raw = [word for word in raw if len(raw) < 3 or not _SUFFIXES.issuperset(_words(word))]
    words = [word for part in raw for word in _words(part)]
    if len(words) < 2:
        return frozenset(NameReading(family, "") for family in _family(words))
    last = raw[-1].strip(".,")
    if last.isupper() and len(last.replace("-", "")) <= _MOST_INITIALS and not raw[0].isupper():  # `Smith JA`
        return frozenset(NameReading(family, last[0].casefold()) for family in _family(words[: -len(_words(last))]))
    families = {_joined(words[-1:]), _joined(words[-2:])} if len(words) > 2 else {_joined(words[-1:])}
    readings = {NameReading(family, words[0][0]) for family in families}
    if len(words) > 2:
        readings.add(NameReading(_joined(words[-2:-1]), words[0][0]))  # `Ana Garcia Lopez` is `Garcia A` elsewhere
    elif len(words[0]) > 1:
        readings.add(NameReading(_joined(words[:1]), words[1][0]))  # the family name comes first in some languages
    return frozenset(reading for reading in readings if len(reading.family) > 1)


def _family(words: list[str]) -> set[str]:
    """Return the forms of a family name: all of it, and its last and first words for those who write only one."""
    while len(words) > 1 and words[0] in _PARTICLES:
        words = words[1:]
    words = [word for word in words if word not in _SUFFIXES] or words
    return {_joined(words), _joined(words[-1:]), _joined(words[:1])} - {""}


def _words(text: str) -> list[str]:
    return _WORD.findall(folded(text.replace("’", "").replace("'", "")))


def _joined(words: list[str]) -> str:
    return "".join(words).replace("ae", "a").replace("oe", "o").replace("ue", "u")
