"""Words of texts in every script: where they are, and their spelling for a comparison.

A word is letters with their marks and digits. Scripts without blanks between words (Han, kana, Thai …) and Hangul,
whose words grow endings, are cut into overlapping pairs of characters as readers see them (Lucene's CJKBigramFilter).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import blake2b
from itertools import pairwise

from retrieve_cli.contracts.terms.languages import LATIN, script_of

Spans = list[tuple[int, int]]

WORD = re.compile(
    r"""
    [vV]?\d+(?:[.,]\d+)+(?![^\W_])     # 1.2.3  v1.2.3  10,000
    | [^\W_]+(?:[-_:](?![vV]?\d+[.,]\d)[^\W_]+)*  # words, and compounds joined by - _ :
      (?:\+\+|\#(?!\w))?               # C++  C#
    """,
    re.VERBOSE,
)
"""The words of a text without marks and scripts that are cut into pairs."""
_OTHER = "[^\x00-\xac\xae-\u02ff\u0370-\u0482\u048a-\u058f\u1e00-\u200a\u2010-\u205f\u2065-\u20cf\u2100-\u2c7f]"
"""Characters that may be marks or of such scripts. By those that are not, it compiles in a sixth of the time."""
_PAIRED = frozenset("CJK HIRAGANA KATAKANA BOPOMOFO HANGUL THAI LAO KHMER MYANMAR".split())
_BASE, _MARK, _JOINING = "\x01", "\x02", "\x03"
"""Roles of characters that ASCII lacks: a letter of a paired script, a mark, and a mark that joins the next letter."""
_LETTERS = f"[0-9A-Za-z][0-9A-Za-z{_MARK}{_JOINING}]*"


def hashed(term: str) -> int:
    """Return the number of a term in engines: 31 bits of its hash, so that no engine needs the vocabulary."""
    return int.from_bytes(blake2b(term.encode("utf-8", "replace"), digest_size=4).digest()) >> 1


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of the same words by the roles of characters, with runs of a paired script as the first
    group, and of one character of such a run. Most processes meet no text that needs them."""
    words = rf"""
        ({_BASE}[{_BASE}{_MARK}{_JOINING}]*)
        | [vV]?\d+(?:[.,]\d+)+(?![0-9A-Za-z{_MARK}{_JOINING}])
        | {_LETTERS}(?:[-_:](?![vV]?\d+[.,]\d){_LETTERS})*(?:\+\+|\#(?![\w{_BASE}]))?
        """
    character = f"{_BASE}(?:{_JOINING}{_BASE}|[{_MARK}{_JOINING}])*"
    return re.compile(words, re.VERBOSE | re.ASCII), re.compile(character)


_IN_WORDS = frozenset("\xad\u200c\u200d\u200e\u200f\u2060\ufeff\u0e33\u0eb3\uff9e\uff9f")
"""Invisible characters that do not end a word; vowels and sound marks that are letters by category alone."""
_STACKING = frozenset("\u1039\u17d2\u0e4d\u0ecd")
"""Signs of Myanmar, Khmer, Thai and Lao that put the next letter below or around the one before."""
_FOLDED = {"œ": "oe", "Œ": "oe", "ı": "i"}
"""Letters that are written without their mark, too; ß is among those that case folding replaces."""
_MOST_MARKS = 30
"""Marks after a letter, as in the Stream-Safe Text Format (UAX #15): sorting more takes quadratic time."""


def has_words(text: str) -> bool:
    """Return True if a text has a letter, a digit or a pictograph."""
    return any(char.isalnum() or unicodedata.category(char) == "So" for char in text)


def is_plain(text: str) -> bool:
    """Return True if `WORD` finds the words of a text."""
    return text.isascii() or re.search(_OTHER, text) is None


def words_of(text: str, segment: Callable[[str], Iterable[str]] | None = None) -> tuple[Spans, Spans]:
    """Return the places of the words of a text, where pairs overlap; and of the single characters in pairs. `segment`
    returns words to use instead of pairs."""
    roles, (pattern, one_character) = text.translate(_roles), _patterns()
    words: Spans = []
    singles: Spans = []
    for found in pattern.finditer(roles):
        if found[1] is None:
            words.append(found.span())
            continue
        characters = [one.span() for one in one_character.finditer(roles, *found.span())]
        if segment is not None:
            words += _places_of(segment(text[slice(*found.span())]), text, *found.span())
        elif len(characters) == 1:
            words += characters
        else:
            words += [(start, end) for (start, _), (_, end) in pairwise(characters)]
            singles += characters
    return words, singles


def _places_of(words: Iterable[str], text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where words occur in a stretch of a text, one after the other."""
    for word in words:
        if word.strip() and (found := text.find(word, start, end)) >= 0:
            start = found + len(word)
            yield found, start


class _Roles(dict[int, str]):
    """Each character as one of ASCII that plays the same role in words; filled as characters occur."""

    def __missing__(self, code: int) -> str:
        self[code] = role = _role(chr(code))
        return role


_roles = _Roles()


def _role(char: str) -> str:
    if char < "\x80":
        return " " if char <= _JOINING else char
    if "\uff01" <= char <= "\uff5e":  # full width
        return chr(ord(char) - 0xFEE0)
    if char in _STACKING:
        return _JOINING
    if unicodedata.category(char)[0] == "M" or char in _IN_WORDS or 0x1160 <= ord(char) < 0x1200:  # Jamo in a syllable
        return _MARK
    if not char.isalnum():
        return " "
    return "0" if char.isdecimal() else _BASE if script_of(char) in _PAIRED else "a"


def clean(word: str) -> str:
    """Return a word with plain letters for compatible ones (NFKC), without invisible characters and blanks."""
    if word.isascii():
        return word
    composed = unicodedata.normalize("NFKC", _stream_safe(word) if len(word) > _MOST_MARKS else word)
    composed = "".join(char for char in composed if char.isprintable() and char != " " and not _is_selector(char))
    return re.sub("μ(?=[A-Za-z])", "u", composed) if "μ" in composed else composed


def fold(word: str) -> str:
    """Return a word in lower case, without the marks that readers of its script leave out or expect to be ignored:
    all of Latin, Greek and Hebrew, stress and the dots of ё in Cyrillic, short vowels in Arabic."""
    if word.isascii():
        return word.lower()
    kept: list[str] = []
    base = "a"
    for char in unicodedata.normalize("NFKD", clean(word)):
        if unicodedata.category(char)[0] != "M":
            base = char
        elif _is_optional(char, base):
            continue
        if char not in "\u0640 ":  # the stroke that stretches Arabic words
            kept.append(_FOLDED.get(char, char))
    return unicodedata.normalize("NFC", "".join(kept).casefold())


def _is_optional(mark: str, base: str) -> bool:
    script = LATIN if base < "\x80" else script_of(base)
    if script == "CYRILLIC":
        return (mark in "\u0300\u0301" and base not in "гкГК") or (mark == "\u0308" and base in "еЕ")
    if script == "ARABIC":
        return not "\u0653" <= mark <= "\u0655"  # hamza and madda are letters
    return script in (LATIN, "GREEK", "HEBREW") or not base.isalpha()


def _is_selector(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0100" or char == "\u034f"


def _stream_safe(word: str) -> str:
    kept: list[str] = []
    marks = 0
    for char in word:
        marks = marks + 1 if unicodedata.category(char)[0] == "M" else 0
        if marks <= _MOST_MARKS:
            kept.append(char)
    return "".join(kept)
