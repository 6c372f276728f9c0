"""Learned sparse retrieval: an inverted file with the rows and weights of each term.

A score is the inner product of the query's weights and the row's. Terms are ids of a model's vocabulary, so a query
needs no dictionary look-up: it sums a few slices of a memory-mapped file, exactly. A posting takes eight bytes: 92 MiB
for 100,000 rows of 120 terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Card, Chunk, Json, Passages, Record, TermWeights, Unit
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.retrieval.retrievers.retriever import TERMS, Building, IndexWriter, Retriever
from retrieve_cli.retrieval.retrievers.selection import ScoringIndex
from retrieve_cli.storage import pickles
from retrieve_cli.storage.pickles import Later
from retrieve_cli.storage.postings import PostingFileWriter, PostingSorter, even_cuts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Rows, Terms, Vectors
    from retrieve_cli.retrieval.retrievers.selection import Lowest
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.segment import Segment

_HINT = "retrieve inspect verify"


class SparseWriter(PostingFileWriter):
    """Writer of the rows of one segment: new ones (`add`), or rows of other segments (`take`)."""

    def __init__(self, *, unit: Unit) -> None:
        self._unit = unit
        self._postings = PostingSorter()
        self._length = 0
        self._terms = 0
        """Number above the largest term."""

    def add(self, weights: TermWeights) -> None:
        """Append a row."""
        rows = np.full(len(weights.terms), self._length, np.intc)
        self._postings.add(weights.terms, rows, weights.weights)
        self._length += 1
        self._terms = max(self._terms, int(weights.terms.max(initial=-1)) + 1)

    def take(self, stored: Mapping[str, Json], rows: Rows) -> None:
        """Copy rows of a segment's contents: `rows` has the new row of each, -1 for one that is dropped."""
        starts = stored["starts"]
        for first, end in pairwise(even_cuts(np.diff(starts)).tolist()):
            postings = slice(int(starts[first]), int(starts[end]))
            terms = np.repeat(np.arange(first, end), np.diff(starts[first : end + 1]))
            targets = rows[stored["rows"][postings]]
            kept = np.flatnonzero(targets >= 0)
            self._postings.add(terms[kept], targets[kept], stored["impacts"][postings][kept])
        self._length += int(np.count_nonzero(rows >= 0))
        self._terms = max(self._terms, len(starts) - 1)

    def _contents(self) -> tuple[dict[str, Json], Iterator[tuple[Later, NDArray[Any]]]]:
        counts = np.trim_zeros(self._postings.counts(self._terms), "b")
        starts = np.append(0, np.cumsum(counts))
        rows, impacts = Later("<i4", (len(self._postings),)), Later("<f4", (len(self._postings),))
        blocks = self._postings.sorted(counts, np.arange(self._terms))
        stored = {"unit": self._unit, "length": self._length, "starts": starts, "rows": rows, "impacts": impacts}
        return stored, (part for block in blocks for part in ((rows, block.rows), (impacts, block.values)))


class SparsePart:
    """The postings of one segment."""

    def __init__(self, stored: Mapping[str, Json], first: int) -> None:
        """Open the contents from `SparseWriter`; `first` is the row of its first row in the index.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        try:
            self.unit: Unit = stored["unit"]
            self.starts: Rows = stored["starts"]
            self.rows: NDArray[np.uint32] = stored["rows"].view(np.uint32)
            self.impacts: Vectors = stored["impacts"]
            self.span = slice(first, first + int(stored["length"]))
            typed = (self.starts.dtype, stored["rows"].dtype, self.impacts.dtype) == (np.int64, np.int32, np.float32)
            fit = typed and len(self.rows) == len(self.impacts) == self.starts[-1] and self.starts[0] == 0
            sound = fit and self.span.stop >= first and bool((np.diff(self.starts) >= 0).all())
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"splade.pkl is incomplete ({quoted(error)})", hint=_HINT) from error
        if not sound:
            raise IndexCorrupt("the arrays of splade.pkl do not fit each other", hint=_HINT)

    def columns(self, query: TermWeights) -> Iterator[tuple[int, np.float32, slice]]:
        """Yield the query's terms with their weights and the places of their postings."""
        for term, weight in zip(query.terms.tolist(), query.weights, strict=True):
            if 0 <= term < len(self.starts) - 1:
                yield term, weight, slice(int(self.starts[term]), int(self.starts[term + 1]))

    def weights(self, rows: Rows) -> tuple[Rows, Terms, Vectors]:
        """Return the weights of different rows: the start of each row, (n + 1,), in the terms and their weights."""
        places = np.full(self.span.stop - self.span.start, -1)
        places[rows] = np.arange(len(rows))
        chosen = np.flatnonzero(places[self.rows] >= 0)
        owners = places[self.rows[chosen]]
        order = np.argsort(owners, kind="stable")  # postings are in order of term: so are those of a row
        terms = np.searchsorted(self.starts, chosen[order], side="right") - 1
        starts = np.append(0, np.cumsum(np.bincount(owners, minlength=len(rows))))
        return starts, terms.astype(np.int32), self.impacts[chosen[order]]


class SparseIndex(ScoringIndex[TermWeights]):
    """Opened `splade.pkl` of each segment: a `contracts.Index` whose queries are `TermWeights`."""

    def __init__(self, segments: Sequence[Mapping[str, Json]], *, lowest: Lowest | None = None) -> None:
        """Open the contents from `SparseWriter`, at least one.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        self.lowest = lowest
        self._parts: list[SparsePart] = []
        for stored in segments:
            self._parts.append(SparsePart(stored, len(self)))
        if len({part.unit for part in self._parts}) != 1:
            raise IndexCorrupt("the segments of splade.pkl do not go together", hint="build again: retrieve build")
        self.unit: Unit = self._parts[0].unit

    def __len__(self) -> int:
        return self._parts[-1].span.stop if self._parts else 0

    def shared(self, query: TermWeights, row: int) -> TermWeights:
        """Return the terms that the query shares with a row, and the score that each adds to the row."""
        (part,) = (part for part in self._parts if part.span.start <= row < part.span.stop)
        row -= part.span.start
        terms, scores = [], []
        for term, weight, column in part.columns(query):
            place = column.start + int(np.searchsorted(part.rows[column], row))
            if place < column.stop and part.rows[place] == row:
                terms.append(term)
                scores.append(weight * part.impacts[place])
        return TermWeights(np.array(terms, np.int32), np.array(scores, np.float32))

    def _scores(self, query: TermWeights) -> Vectors:
        scores = np.zeros(len(self), np.float32)
        try:
            for part in self._parts:
                for _, weight, column in part.columns(query):
                    # Faster than `scores[rows] += ...`, which first gathers the old values.
                    np.add.at(scores[part.span], part.rows[column], part.impacts[column] * weight)
        except IndexError as error:
            raise IndexCorrupt(f"splade.pkl refers to a missing row ({error})", hint=_HINT) from error
        return scores


class _Writer:
    """Writer of the term weights of all chunks, from the encoder or from other segments."""

    def __init__(self) -> None:
        self._rows = SparseWriter(unit="chunk")

    def add(self, record: Record, chunks: Sequence[Chunk]) -> None:
        """Do nothing: weights come with the passages."""

    def take(self, segment: Segment, records: Rows, chunks: Rows) -> None:
        self._rows.take(pickles.load(segment.file(RETRIEVER.file)), chunks)

    def write(self, path: Path, passages: Passages) -> int:
        for weights in passages.weights():
            self._rows.add(weights)
        return self._rows.write(path)


class Splade(Retriever[TermWeights]):
    """SPLADE retriever: ranks by learned term weights."""

    name = "splade"
    file = "splade.pkl"
    form = TERMS
    role = "sparse"

    def card(self, building: Building) -> Card | None:
        return None if building.sparse is None else {"family": self.name, **building.sparse.card}

    def writer(self, building: Building) -> IndexWriter:
        return _Writer()

    def open(self, generation: Generation, settings: Settings) -> SparseIndex:
        contents = [pickles.load(segment.file(self.file)) for segment in generation.segments]
        index = SparseIndex(contents, lowest=generation.lowest)
        for segment, stored in zip(generation.segments, contents, strict=True):
            segment.expect(self.file, stored["length"])
        return index

    def required(self, settings: Settings) -> bool:
        return settings.splade.policy == "required"

    def configured(self, settings: Settings) -> bool:
        return settings.splade.model is not None


RETRIEVER = Splade()


def segment_weights(segment: Segment, rows: Rows) -> tuple[Rows, Terms, Vectors]:
    """Return the weights of different rows of a segment, as `SparsePart.weights` does. Raises: IndexCorrupt."""
    return SparsePart(pickles.load(segment.file(RETRIEVER.file)), 0).weights(rows)
