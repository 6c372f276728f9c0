"""Weighted terms of rows, as BM25 collects and stores them."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Field, Json
from retrieve_cli.contracts.terms.languages import ENGLISH
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.storage import pickles
from retrieve_cli.storage.pickles import Later
from retrieve_cli.storage.postings import MergedBlock, PostingsWriter, PostingTable, kept_by_group
from retrieve_cli.storage.vocabulary import MergedTexts, TextBuffer, Vocabulary, places_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows


class Postings:
    """Collector of weighted term frequencies, one row at a time, with the statistics that BM25 needs.

    A row is analysed (`add`) or copied from the file of an older index (`keep`).
    """

    def __init__(self, analyzer: TextAnalyzer) -> None:
        self._analyzer = analyzer
        self._old: Mapping[str, Json] = _NONE
        self._vocabulary: dict[str, int] = {}
        self._rows = PostingsWriter("f")
        self._lengths = array("d")
        self._languages = array("i")

    def reuse(self, stored: Mapping[str, Json]) -> None:
        """Use the contents from a writer of this module as the older index, made with the same analyzer."""
        self._old = stored

    def keep_all(self, rows: range) -> None:
        """Append a contiguous range of rows of the older index."""
        self._rows.keep_all(rows)

    def keep(self, row: int) -> None:
        """Append a row of the older index."""
        self._rows.keep(row)

    def add(self, fields: Iterable[Field], language: str = ENGLISH) -> None:
        """Append a row made of weighted fields in a language; a field of weight 0 is skipped."""
        counts: defaultdict[str, float] = defaultdict(float)
        forms: defaultdict[str, float] = defaultdict(float)
        analyzer = self._analyzer.among((language,))
        for piece in fields:
            if piece.weight > 0:
                for word, count in Counter(analyzer.words(piece.text)).items():
                    terms, others = analyzer.read_word(word)
                    for term in terms:
                        counts[term] += count * piece.weight
                    for term in others:
                        forms[term] += count * piece.weight
                for term in analyzer.singles(piece.text):
                    forms[term] += piece.weight
                for _, _, term in analyzer.forms_of_text(piece.text):
                    forms[term] += piece.weight
        self._lengths.append(sum(counts.values()))
        for term, weight in forms.items():  # other forms of what is counted, so that the row is not longer
            counts[term] += weight
        numbers = [self._vocabulary.setdefault(term, len(self._vocabulary)) for term in counts]
        self._rows.add(numbers, counts.values())
        self._languages.append(number_of(language))

    def columns(self) -> dict[str, Json]:
        """Return by term in order: `vocabulary`, `starts` (v + 1), `rows` and `frequencies` (p), `lengths` (n)."""
        columns, merged = self.merged()
        stored, rows, frequencies = stored_columns(columns)
        filled = pickles.fill(stored, posting_blocks(merged, rows, frequencies))
        return {**filled, "vocabulary": vocabulary_of(filled)}

    def merged(self) -> tuple[dict[str, Json], Iterator[MergedBlock]]:
        """Return by term in order `terms`, `term_ends` and `starts` (v + 1), by row `lengths` (n); and an iterator over
        the postings, some terms at a time.

        The same rows give the same columns, whether they were kept or added. This consumes the collected rows.
        """
        self._analyzer.forget()
        stored = self._old
        old = PostingTable(stored["starts"], stored["rows"], stored["frequencies"], len(stored["lengths"]))
        origins = self._rows.origins(old.length)
        kept = kept_by_group(old, origins)
        texts, of_fresh = self._names(kept > 0)
        fresh, self._vocabulary = len(self._vocabulary), {}
        counts = np.zeros(len(texts), np.int64)
        counts[texts.of_old[texts.kept]] += kept[texts.kept]
        np.add.at(counts, of_fresh, self._rows.added_by_term(fresh))
        columns = {
            "length": len(self._rows),
            "terms": texts.text,
            "term_ends": texts.ends,
            "starts": np.append(0, np.cumsum(counts)),
            "lengths": self._rows.by_row(self._old["lengths"], np.array(self._lengths)),
            "languages": self._rows.by_row(self._old["languages"], np.array(self._languages)),
        }
        return columns, self._rows.merged(old, origins, counts, old_groups=texts.of_old, groups=of_fresh)

    def _names(self, used: NDArray[np.bool_]) -> tuple[MergedTexts, Rows]:
        """Return the terms of the older index that are `used`, merged with the terms of new rows, and for each new term
        its number among them."""
        old = Vocabulary(self._old["terms"], self._old["term_ends"])
        words = [term.encode() for term in self._vocabulary]
        order = sorted(range(len(words)), key=words.__getitem__)
        ordered = [words[code] for code in order]
        places, known = places_of(old, ordered)
        used[places[known]] = True
        new = TextBuffer(word for word, there in zip(ordered, known.tolist(), strict=True) if not there)
        texts = MergedTexts(old, used, new, places[~known])
        numbers = np.empty(len(words), np.int64)
        numbers[known], numbers[~known] = texts.of_old[places[known]], texts.of_fresh
        of_fresh = np.empty(len(words), np.int64)
        of_fresh[np.array(order, np.int64)] = numbers
        return texts, of_fresh


_NONE: Mapping[str, Json] = {
    "terms": np.empty(0, np.uint8),
    "term_ends": np.zeros(1, np.int64),
    "starts": np.zeros(1, np.int64),
    "rows": np.empty(0, np.int32),
    "frequencies": np.empty(0, np.float32),
    "lengths": np.empty(0, np.float64),
    "languages": np.empty(0, np.int32),
}
"""An index without rows."""


def vocabulary_of(stored: Mapping[str, Json]) -> list[str]:
    """Return the terms of stored columns, in order."""
    text, ends = stored["terms"].tobytes(), stored["term_ends"].tolist()
    return [text[start:end].decode() for start, end in pairwise(ends)]


def stored_columns(columns: Mapping[str, Json]) -> tuple[dict[str, Json], Later, Later]:
    """Return the columns as files store them, and the places of rows and frequencies in them."""
    postings = (int(columns["starts"][-1]),)
    rows, frequencies = Later("<i4", postings), Later("<f4", postings)
    named = {**columns, "rows": rows, "frequencies": frequencies}
    return {name: named[name] for name in _STORED}, rows, frequencies


def posting_blocks(
    merged: Iterable[MergedBlock], rows: Later, frequencies: Later
) -> Iterator[tuple[Later, NDArray[Any]]]:
    """Yield the blocks for the places of rows and frequencies."""
    return (part for block in merged for part in ((rows, block.rows), (frequencies, block.values)))


_STORED = ("length", "terms", "term_ends", "starts", "rows", "frequencies", "lengths", "languages")


def languages_in(column: NDArray[np.int32]) -> list[str]:
    """Return the codes of the languages in a stored column, in order."""
    return sorted(map(language_at, np.unique(column).tolist()))


@cache
def number_of(language: str) -> int:
    """Return the number of a language in a stored column."""
    return int.from_bytes(language.encode(), "big")


def language_at(number: int) -> str:
    """Return the code of the language that a stored column has as this number."""
    return number.to_bytes(4, "big").lstrip(b"\0").decode()
