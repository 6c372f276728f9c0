"""Queries that are lists of names, such as `pydicom, nibabel and ITK-SNAP`: each of the named records is wanted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts.terms.words import has_words

if TYPE_CHECKING:
    from retrieve_cli.storage.records.view import RecordView

_SEPARATED = re.compile(r"[,;\n]|\sand\s|\s&\s")
_WORD = re.compile(r"[^\s,;]+")
_BETWEEN = frozenset({"and", "&", "or"})
_FEWEST = 3
"""Names of a list that has blanks alone between them."""
_MOST_WORDS = 100
_LONGEST = 6
"""Words of a name."""
_RARE = 0.01
"""Share of the rows up to which a word is rare: without commas, at least half of the words of a list are."""


def named_records(view: RecordView, text: str, lexical: Callable[[], Any]) -> tuple[int, ...]:
    """Return the rows of the visible records that a text lists by their names, in its order.

    Empty if it has other words, or only one name; `lexical` opens the index of words, if there is one.
    """
    words = _WORD.findall(text)
    separated = _SEPARATED.search(text.strip(" ,;\n")) is not None
    fewest = 2 if separated else _FEWEST
    if not fewest <= len(words) <= _MOST_WORDS or not (separated or _are_rare(words, lexical())):
        return ()
    rows: dict[int, None] = {}
    start = names = 0
    while start < len(words):
        end = min(start + _LONGEST, len(words))
        while end > start and not (found := view.rows_named(" ".join(words[start:end]))):
            end -= 1
        if end == start and words[start] not in _BETWEEN and has_words(words[start]):
            return ()
        if end > start:
            rows |= dict.fromkeys(found)
            names += 1
        start = max(end, start + 1)
    return tuple(rows) if names >= fewest else ()


def _are_rare(words: list[str], index: Any) -> bool:
    """Return True if at least half of the words are in few rows, which saves most queries a look at the names."""
    if not hasattr(index, "place_of"):
        return True
    terms = [(index.analyzer.terms(word) or [""])[0] for word in words]
    places = [index.place_of(term) for term in terms]
    most = max(_RARE * len(index), 5)
    rare: int = sum(place is None or index.rows_with(place) <= most for place in places)
    return 2 * rare >= len(words)
