"""Names of first authors and of journals, compared in the forms in which they are written.

Authors are compared by family name and initial: `Smith JA`, `J. Smith`, `Smith, John`, `John A. Smith`.
A name has several readings if it does not show which part is the family name; two names agree if one reading of each
does. Accents, particles, hyphens and `ue` for `ü` make no difference.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from retrieve_cli.contracts.works import Item

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
