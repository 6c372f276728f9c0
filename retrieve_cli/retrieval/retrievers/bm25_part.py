"""The postings of one segment's `bm25.pkl`, read by term."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json, Unit
from retrieve_cli.contracts.terms.languages import languages
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.retrieval.retrievers.bm25_formula import Formula, saturation
from retrieve_cli.storage.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Vectors

    Unsigned = NDArray[np.uint32]
    Floats = NDArray[np.float64]

_HINT = "retrieve inspect verify"
_PLACES = 4096
"""Terms whose place is remembered."""
_TYPES = {
    "terms": ("|u1",),
    "term_ends": ("<i8",),
    "starts": ("<i8",),
    "rows": ("<i4",),
    "codes": ("<u2", "<u4"),
    "pair_frequencies": ("<f4",),
    "pair_lengths": ("<f8",),
    "lengths": ("<f8",),
    "languages": ("|u1",),
}
"""Types of the arrays, each of one dimension."""


class Bm25Part:
    """Rows of one segment: their terms, lengths and languages."""

    def __init__(self, stored: Mapping[str, Json], first: int, live: Mask | None) -> None:
        """Open the contents from `Bm25Writer`. `first` is the row of its first row in the index, whose rows that are
        not deleted `live` masks.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        self.stored = stored
        try:
            self.unit: Unit = stored["unit"]
            total = float(stored["total"])
            self.held: list[str] = stored["held"]
            held_rows: list[int] = stored["held_rows"]
            arrays = {name: stored[name] for name in _TYPES}
            length = int(stored["length"])
            sound = _fit(arrays, length) and total >= 0 and len(self.held) == len(held_rows)
            sound = sound and set(self.held) <= languages().keys() and sum(held_rows) == length
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"bm25.pkl is incomplete ({quoted(error)})", hint=_HINT) from error
        if not sound:
            raise IndexCorrupt("the arrays of bm25.pkl do not fit each other", hint=_HINT)
        self.span = slice(first, first + length)
        """Its rows in the index."""
        self.vocabulary = Vocabulary(arrays["terms"], arrays["term_ends"])
        """The terms, in order of their bytes."""
        self.starts: Rows = arrays["starts"]
        self._rows: Unsigned = arrays["rows"].view(np.uint32)  # negative rows of a damaged file are out of range then
        self._codes: NDArray[Any] = arrays["codes"]
        self._frequencies: Vectors = arrays["pair_frequencies"]
        self._pair_lengths: Floats = arrays["pair_lengths"]
        self._languages: NDArray[np.uint8] = arrays["languages"]
        self._tables: dict[tuple[Formula, float], Floats] = {}
        live = None if live is None else live[self.span]
        self._live = None if live is None or bool(live.all()) else live
        self.place_of = lru_cache(maxsize=_PLACES)(self.vocabulary.place)
        """Function that returns the place of a term in the vocabulary; None if no row has it."""
        self.total, self.rows_by_language = total, dict(zip(self.held, held_rows, strict=True))
        if self._live is not None:
            self.total -= float(arrays["lengths"][~self._live].sum())
            for code in self.held:
                self.rows_by_language[code] -= int(np.count_nonzero(self.in_language(code) & ~self._live))

    def rows(self, place: int) -> Unsigned:
        """Return the rows with a term, counted in the segment."""
        return self._rows[self._postings(place)]

    def count(self, place: int, own: Mask | None) -> int:
        """Return the number of rows with a term, of the `own` ones of the index if given, else of live ones."""
        mask = self._live if own is None else own[self.span]
        if mask is None:
            return len(self.rows(place))
        return int(np.count_nonzero(mask[self.rows(place)]))

    def scores(self, place: int, idf: float, formula: Formula, mean_length: float) -> Vectors:
        """Return the score that a term adds to each of its rows, (p,) float32."""
        codes = self._codes[self._postings(place)]
        if len(codes) < len(self._frequencies):
            return (idf * self._shares(codes, formula, mean_length)).astype(np.float32)
        key = (formula, mean_length)
        if key not in self._tables:
            self._tables[key] = self._shares(slice(None), formula, mean_length)
        return (idf * self._tables[key]).astype(np.float32).take(codes)

    def _shares(self, codes: NDArray[Any] | slice, formula: Formula, mean_length: float) -> Floats:
        """Return the saturated frequencies of some pairs, (p,) float64."""
        frequencies = self._frequencies[codes].astype(np.float64)
        return saturation(formula, frequencies, self._pair_lengths[codes], mean_length=mean_length)

    def _postings(self, place: int) -> slice:
        start, end = int(self.starts[place]), int(self.starts[place + 1])
        if not 0 <= start < end <= len(self._rows):
            raise IndexCorrupt("bm25.pkl has a term without rows", hint=_HINT)
        return slice(start, end)

    def in_language(self, code: str) -> Mask:
        """Return the rows in a language, (n,) bool."""
        mask: Mask = self._languages == (self.held.index(code) if code in self.held else len(self.held))
        return mask

    def languages(self) -> list[str]:
        """Return the code of the language of each row."""
        return [self.held[number] for number in self._languages.tolist()]

    def languages_of(self, rows: Unsigned, codes: tuple[str, ...]) -> Rows:
        """Return the place of each row's language in `codes`, which has the languages of all live rows."""
        places = np.array([codes.index(code) if code in codes else 0 for code in self.held], np.int64)
        return places[self._languages[rows]]


def _fit(arrays: Mapping[str, NDArray[Any]], length: int) -> bool:
    """Return True if the arrays of a file have their types and go together."""
    typed = all(array.dtype.str in _TYPES[name] and array.ndim == 1 for name, array in arrays.items())
    terms, starts, frequencies = arrays["term_ends"], arrays["starts"], arrays["pair_frequencies"]
    return (
        typed
        and length >= 0
        and len(arrays["rows"]) == len(arrays["codes"]) == int(starts[-1])
        and len(starts) == len(terms)
        and len(arrays["lengths"]) == len(arrays["languages"]) == length
        and len(arrays["pair_lengths"]) == len(frequencies)
        and bool(np.isfinite(frequencies).all() and (frequencies >= 0).all())
    )
