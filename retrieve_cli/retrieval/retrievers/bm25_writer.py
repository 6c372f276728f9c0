"""Writer of `bm25.pkl`: the terms of rows with their weighted frequencies, and nothing that depends on other rows.

A posting is a row and a code: the number of its pair of weighted term frequency and length of the row, of which texts
have few. Mean length and document frequencies are computed when the index is opened, so that segments can be searched
together. Field weights multiply term frequencies (BM25F in its simple form: Robertson, Zaragoza, Taylor 2004), so a
weight of 2 equals writing the field twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Field, Json, Unit
from retrieve_cli.contracts.terms.languages import ENGLISH
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.word_counts import WordCounts
from retrieve_cli.storage.pickles import Later
from retrieve_cli.storage.postings import PostingFileWriter, PostingSorter, even_cuts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Vectors

    Pairs = NDArray[np.int64]

_NARROW = 1 << 16
"""Pairs up to which a code has 16 bits."""


class Bm25Writer(PostingFileWriter):
    """Writer of the rows of one segment: analysed (`add`), or copied from other segments (`take`)."""

    def __init__(self, *, analyzer: TextAnalyzer, unit: Unit) -> None:
        self._head = {"unit": unit, "analyzer": dict(analyzer.card)}
        self._postings = PostingSorter()
        self._terms: dict[str, int] = {}
        self._words = WordCounts(analyzer, self._terms, self._postings)
        self._lengths = array("d")
        self._held: dict[str, int] = {}
        """Number of each language."""
        self._languages = array("B")

    def add(self, fields: Iterable[Field], language: str = ENGLISH) -> None:
        """Append a row made of weighted fields in a language; a field of weight 0 is skipped."""
        self._words.add(fields, language)
        self._languages.append(self._held.setdefault(language, len(self._held)))

    def take(self, stored: Mapping[str, Json], rows: Rows) -> None:
        """Copy rows of a segment's contents: `rows` has the new row of each, -1 for one that is dropped."""
        numbers = [self._terms.setdefault(term, len(self._terms)) for term in vocabulary_of(stored)]
        groups, starts = np.array(numbers, np.intc), stored["starts"]
        for first, end in pairwise(even_cuts(np.diff(starts)).tolist()):
            postings = slice(int(starts[first]), int(starts[end]))
            terms = np.repeat(groups[first:end], np.diff(starts[first : end + 1]))
            targets, frequencies = rows[stored["rows"][postings]], stored["pair_frequencies"]
            kept = np.flatnonzero(targets >= 0)
            codes = stored["codes"][postings][kept]
            self._postings.add(terms[kept], targets[kept], frequencies[codes])
        kept = np.flatnonzero(rows >= 0)
        held = [self._held.setdefault(language, len(self._held)) for language in stored["held"]]
        _put(self._lengths, rows[kept], stored["lengths"][kept])
        _put(self._languages, rows[kept], np.array(held, np.uint8)[stored["languages"][kept]])

    def _contents(self) -> tuple[dict[str, Json], Iterator[tuple[Later, NDArray[Any]]]]:
        self._lengths.extend(self._words.finish())
        terms, term_ends, counts, numbers = self._sorted_terms()
        lengths = np.array(self._lengths, np.float64)
        different, rank = np.unique(lengths, return_inverse=True)
        pairs = _pairs(rank, self._postings)
        postings = (len(self._postings),)
        rows, codes = Later("<i4", postings), Later("<u2" if len(pairs) <= _NARROW else "<u4", postings)
        stored = {
            **self._head,
            "length": len(lengths),
            "total": float(lengths.sum()),
            **self._language_columns(),
            "terms": terms,
            "term_ends": term_ends,
            "starts": np.append(0, np.cumsum(counts)),
            "rows": rows,
            "codes": codes,
            "pair_frequencies": (pairs & 0xFFFFFFFF).astype(np.uint32).view(np.float32),
            "pair_lengths": different[pairs >> 32],
            "lengths": lengths,
        }

        def blocks() -> Iterator[tuple[Later, NDArray[Any]]]:
            for block in self._postings.sorted(counts, numbers):
                yield rows, block.rows
                yield codes, np.searchsorted(pairs, _keys(rank, *block))

        return stored, blocks()

    def _sorted_terms(self) -> tuple[NDArray[np.uint8], Rows, Rows, NDArray[np.int32]]:
        """Return the text of the terms of the rows in order, where each ends, their numbers of postings, and the place
        of each collected term. The terms are used up: a million of them take 200 MB."""
        counts = self._postings.counts(len(self._terms))
        words = [term.encode() for term in self._terms]
        self._terms.clear()
        order = sorted(np.flatnonzero(counts).tolist(), key=words.__getitem__)
        numbers = np.full(len(words), -1, np.intc)
        numbers[order] = np.arange(len(order))
        text = np.frombuffer(b"".join(map(words.__getitem__, order)), np.uint8)
        sizes = np.fromiter(map(len, map(words.__getitem__, order)), np.int64, len(order))
        return text, np.append(0, np.cumsum(sizes)), counts[order], numbers

    def _language_columns(self) -> dict[str, Json]:
        """Return the codes of the languages in order, the number of rows in each, and the language of each row."""
        numbers = np.frombuffer(self._languages, np.uint8)
        counts = np.bincount(numbers, minlength=len(self._held))
        held = sorted(language for language, number in self._held.items() if counts[number])
        places = np.zeros(len(self._held) + 1, np.uint8)
        places[[self._held[language] for language in held]] = np.arange(len(held))
        rows = [int(counts[self._held[language]]) for language in held]
        return {"held": held, "held_rows": rows, "languages": places[numbers]}


def vocabulary_of(stored: Mapping[str, Json]) -> list[str]:
    """Return the terms of the contents of a file, in order."""
    text, ends = stored["terms"].tobytes(), stored["term_ends"].tolist()
    return [text[start:end].decode() for start, end in pairwise(ends)]


def _keys(rank: Rows, rows: NDArray[np.int32], frequencies: Vectors) -> Pairs:
    """Return a number for each posting by the length of its row, then by its frequency."""
    return (rank[rows].astype(np.int64) << 32) | frequencies.view(np.uint32)


def _pairs(rank: Rows, postings: PostingSorter) -> Pairs:
    """Return the different numbers of all postings in order."""
    pairs = np.empty(0, np.int64)
    for block in postings.blocks():
        pairs = np.sort(np.concatenate([pairs, _keys(rank, *block)]))
        pairs = pairs[np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1]))]
    return pairs


def _put(column: array[Any], rows: Rows, values: NDArray[Any]) -> None:
    """Set the values of some rows of a column, which grows as needed."""
    missing = int(rows.max(initial=-1)) + 1 - len(column)
    column.frombytes(bytes(max(missing, 0) * column.itemsize))
    np.frombuffer(column, column.typecode)[rows] = values
