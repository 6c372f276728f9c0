"""Queries that are lists of names, such as `pydicom, nibabel and ITK-SNAP`: each of the named records is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts.terms.words import has_words

if TYPE_CHECKING:
    from retrieve_cli.storage.records.view import RecordView

_SEPARATORS = (",", ";", "\n", " and ", " & ")
_BETWEEN = frozenset({"and", "&", "or"})
_FEWEST = 3
"""Names of a list that has blanks alone between them."""
_MOST_WORDS = 100
_LONGEST = 6
"""Words of a name."""
_RARE = 0.01
"""Share of the rows up to which a word is rare: without commas, most of the words of a list are."""


def named_records(view: RecordView, text: str, lexical: Callable[[], Any]) -> tuple[int, ...]:
    """Return the rows of the visible records that a text lists by their names, in its order.

    Empty if it has other words, or only one name; `lexical` opens the index of words, if there is one.
    """
    words = text.replace(",", " ").replace(";", " ").split()
    listed = text.strip(" ,;\n")
    separated = any(separator in listed for separator in _SEPARATORS)
    fewest = 2 if separated else _FEWEST
    if not fewest <= len(words) <= _MOST_WORDS or not (separated or _are_rare(words, view, lexical())):
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


def _are_rare(words: list[str], view: RecordView, index: Any) -> bool:
    """Return True if most of the words are in few rows, which saves most queries a look at the names."""
    if not hasattr(index, "place_of"):
        return True
    own = view.rows_by(index.unit)
    analyzer = index.analyzer_of(own)
    terms = [found[0] for word in words if (found := analyzer.terms(word))]  # none of a stop word
    places = [index.place_of(term) for term in terms]
    most = max(_RARE * (len(index) if own is None else int(own.sum())), 5)
    rare = [place is None or bool(index.rows_with(place, own) <= most) for place in places]
    return 2 * rare.count(True) > len(words)
