"""Operators in the text of a query: `"a phrase"`, `-word`, `NOT word`, `-"a phrase"`, `field:word`.

Text that only looks like one stays text: options of commands (`-O2`, `--verbose`), compounds (`state-of-the-art`),
emphasis (`does NOT work`), lonely quotation marks, quotations in sentences, and `word:word` without such a field.

They are read only from a text of which `tags.has_operator` is true.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from retrieve_cli.frozen import Frozen

_PIECE = re.compile(
    r"""
    (?<!\S)(?P<minus>-?)["“”„](?P<quoted>[^"“”„]{1,1000})["“”](?=[\s.,;:!?)]|$)
    | (?P<word>\S++)
    """,
    re.VERBOSE,
)
_EXCLUDED = re.compile(r"-(?=[^\W\d_])([^\W\d_]{2,}+(?:[-_][^\W_]{2,}+)*)[.,;!?]?$")
_FIELD = re.compile(r"(-?)([A-Za-z][\w.]{1,60}):([^\s:/\\=]{1,200})$")
_OF_RECORDS = frozenset({"format", "anatomy"})
"""Words of the texts of records that look like a field: `format:DICOM`."""
_EMPHASISED = frozenset(
    "am is are was were be been do does did has have had can could will would shall should must may might need the a "
    "an to and or but if only just why of in for on with".split()
)
"""Words beside which NOT is emphasis (`does NOT work`), and after which a dash is text."""
_HAS_WORD = re.compile(r"\w")
_SHORT = 5
"""Words beside its operators of a query that is no sentence: it may have phrases, and excluded words anywhere."""
_MOST = 32
"""Operators of a text; with more, it is a text of another kind: each costs a look into the index."""


class Operators(Frozen):
    """A text and the operators in it."""

    text: str
    """The text for the retrievers: with the words of phrases, without excluded words and conditions."""
    phrases: tuple[str, ...] = ()
    """Words that a result has next to each other."""
    without: tuple[str, ...] = ()
    """Words that no result has; a phrase between quotation marks."""
    filters: tuple[str, ...] = ()
    """Conditions in the filter language."""


def read_operators(text: str, *, is_value: Callable[[str, str], bool], is_text: Callable[[str], bool]) -> Operators:
    """Return the operators of a query's text; `is_value` tells if a record has a value in a field, `is_text` if one has
    a word with a dash before it, which is an option of a command: `tar -xzf`."""
    kept: list[str] = []
    phrases: list[str] = []
    without: list[str] = []
    filters: list[str] = []
    pieces = list(_PIECE.finditer(text))
    shouts = text.isupper()
    words = [at for at, piece in enumerate(pieces) if (piece["word"] or "-")[0] != "-"]
    short, last_word = len(words) <= _SHORT, max(words, default=-1)
    skipped = False
    for at, piece in enumerate(pieces):
        quoted, word = piece["quoted"], piece["word"]
        if skipped:
            skipped = False
        elif quoted is not None and piece["minus"] and _HAS_WORD.search(quoted):
            without.append(f'"{quoted}"')
        elif quoted is not None and short and _HAS_WORD.search(quoted):
            phrases.append(quoted)
            kept.append(f" {quoted}")
        elif word == "NOT" and not shouts and (excluded := _after_not(pieces, at)):
            condition = _field(f"-{excluded}", is_value)
            (filters if condition else without).append(condition or excluded)
            skipped = True
        # Natural text has dashes, too: `analysis of -omics data`.
        elif (short or at > last_word) and (excluded := _dashed(pieces, at)) and not is_text(f"-{excluded}"):
            without.append(excluded)
        elif condition := _field(word or "", is_value):
            filters.append(condition)
        else:
            # A comma stays at what is before it.
            kept.append(piece[0] if at and piece.start() == pieces[at - 1].end() else f" {piece[0]}")
    if not 0 < len(phrases) + len(without) + len(filters) <= _MOST:
        return Operators(text)
    if not filters and not any(map(_HAS_WORD.search, kept)):  # nothing is left to search for
        return Operators(text)
    return Operators("".join(kept).strip(), tuple(phrases), tuple(without), tuple(filters))


def _after_not(pieces: list[re.Match[str]], at: int) -> str | None:
    """Return what a NOT excludes; None if it is emphasis: at the beginning, or beside a stop word."""
    if not 0 < at < len(pieces) - 1 or _is_emphasis(pieces, at - 1):
        return None
    after = pieces[at + 1]
    if after["quoted"] is not None:
        return None if after["minus"] else f'"{after["quoted"]}"'
    word = after["word"].rstrip(".,;!?")
    return None if word.casefold() in _EMPHASISED or not word[:1].isalpha() else word


def _is_emphasis(pieces: list[re.Match[str]], before: int) -> bool:
    """Return True if the piece in front of an operator is a stop word, so that it is plain text."""
    return before >= 0 and (pieces[before]["word"] or "").casefold() in _EMPHASISED


def _lettered(word: str) -> str:
    """Return a word of the same length with letters for its marks, which are no letters to a pattern."""
    return word if word.isascii() else "".join("a" if unicodedata.category(c)[0] == "M" else c for c in word)


def _dashed(pieces: list[re.Match[str]], at: int) -> str:
    """Return the word after the dash of a piece; empty if it has none, or follows a stop word."""
    word = pieces[at]["word"] or ""
    match = None if _is_emphasis(pieces, at - 1) else _EXCLUDED.match(_lettered(word))
    return "" if match is None else word[slice(*match.span(1))]


def _field(word: str, is_value: Callable[[str, str], bool]) -> str:
    """Return the condition of `field:value`, or with a dash before it its contrary; empty if it is text."""
    match = _FIELD.match(word)
    if match is None or match[2].casefold() in _OF_RECORDS or not is_value(match[2], match[3]):
        return ""
    return f"{match[2]}{'!' if match[1] else ''}={match[3]}"
