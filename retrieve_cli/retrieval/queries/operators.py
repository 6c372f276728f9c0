"""Operators in the text of a query: `"a phrase"`, `-word`, `NOT word`, `-"a phrase"`, `field:word`.

Text that only looks like one stays text: options of commands (`-O2`, `--verbose`), compounds (`state-of-the-art`),
emphasis (`does NOT work`), lonely quotation marks, and `word:word` without such a field.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from retrieve_cli.frozen import Frozen

_PIECE = re.compile(
    r"""
    (?<!\S)(?P<minus>-?)["“”](?P<quoted>[^"“”]{1,1000})["“”](?=[\s.,;:!?)]|$)
    | (?<!\S)(?P<word>\S{1,1000}+)
    """,
    re.VERBOSE,
)
_EXCLUDED = re.compile(r"-(?=[^\W\d_])([^\W\d_]{2,}+(?:[-_][^\W_]{2,}+)*)[.,;!?]?$")
_FIELD = re.compile(r"([A-Za-z][\w.]{1,60}):([^\s:/\\=]{1,200})$")
_OF_RECORDS = frozenset({"format", "anatomy"})
"""Words of the texts of records that look like a field: `format:DICOM`."""
_EMPHASISED = frozenset(
    "am is are was were be been do does did has have had can could will would shall should must may might need the a "
    "an to and or but if only just why of in for on with".split()
)
"""Words beside which NOT is emphasis (`does NOT work`), and after which a dash is text."""
_HAS_WORD = re.compile(r"\w")


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


def read_operators(text: str, *, is_value: Callable[[str, str], bool]) -> Operators:
    """Return the operators of a query's text; `is_value` tells if a record has a value in a field."""
    kept: list[str] = []
    phrases: list[str] = []
    without: list[str] = []
    filters: list[str] = []
    pieces = list(_PIECE.finditer(text))
    shouts = text.isupper()
    skipped = False
    for at, piece in enumerate(pieces):
        quoted, word = piece["quoted"], piece["word"]
        if skipped:
            skipped = False
        elif quoted is not None and _HAS_WORD.search(quoted):
            (without if piece["minus"] else phrases).append(f'"{quoted}"' if piece["minus"] else quoted)
            kept += [] if piece["minus"] else [quoted]
        elif word == "NOT" and not shouts and (excluded := _after_not(pieces, at)):
            without.append(excluded)
            skipped = True
        elif word is not None and (match := _EXCLUDED.match(word)) is not None and _means(pieces, at):
            without.append(match[1])
        elif word is not None and (match := _FIELD.match(word)) is not None and _is_field(match, is_value):
            filters.append(f"{match[1]}={match[2]}")
        else:
            kept.append(piece[0])
    if not (phrases or without or filters):
        return Operators(text)
    if not any(_HAS_WORD.search(part) for part in kept) and not filters:  # nothing is left to search for
        return Operators(text)
    return Operators(" ".join(kept), tuple(phrases), tuple(without), tuple(filters))


def _after_not(pieces: list[re.Match[str]], at: int) -> str | None:
    """Return what a NOT excludes; None if it is emphasis: at the beginning, or beside a stop word."""
    before = pieces[at - 1]["word"] if at else None
    after = pieces[at + 1] if at + 1 < len(pieces) else None
    if not at or after is None or (before or "").casefold() in _EMPHASISED:
        return None
    if after["quoted"] is not None:
        return None if after["minus"] else f'"{after["quoted"]}"'
    word = after["word"].rstrip(".,;!?")
    return None if word.casefold() in _EMPHASISED or not word[:1].isalpha() else word


def _means(pieces: list[re.Match[str]], at: int) -> bool:
    """Return True if a dash before a word is an operator: in a short query, or at the end of a longer one, and not
    after a stop word. Natural text has dashes, too: `analysis of -omics data`."""
    if at and (pieces[at - 1]["word"] or "").casefold() in _EMPHASISED:
        return False
    last = all(piece["minus"] or (piece["word"] or "").startswith("-") for piece in pieces[at + 1 :])
    return last or sum(not piece[0].startswith("-") for piece in pieces) <= _SHORT


_SHORT = 5
"""Words of a query in which an excluded word may be anywhere."""


def _is_field(match: re.Match[str], is_value: Callable[[str, str], bool]) -> bool:
    return match[1].casefold() not in _OF_RECORDS and is_value(match[1], match[2])
