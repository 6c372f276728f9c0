"""Learned sparse retrieval: an inverted file with the rows and weights of each term.

A score is the inner product of the query's weights and the row's. Terms are ids of a model's vocabulary, so a query
needs no dictionary look-up: it sums a few slices of a memory-mapped file, exactly. A posting takes eight bytes: 92 MiB
for 100,000 rows of 120 terms.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Card, Chunk, Json, Record, TermWeights, Unit
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.retrieval.retrievers.retriever import TERMS, Building, IndexWriter, Passages, Retriever
from retrieve_cli.retrieval.retrievers.selection import ScoringIndex
from retrieve_cli.storage import pickles
from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.pickles import Later
from retrieve_cli.storage.postings import Exported, PostingsWriter, PostingTable, kept_by_group

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Index, Rows, Terms, Vectors
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.segment import Segment

_HINT = "retrieve inspect verify"


class SparseWriter:
    """Writer of `splade.pkl`, one row at a time: a new one (`add`) or one of an older index (`keep`)."""

    def __init__(self, *, unit: Unit) -> None:
        self._unit = unit
        self._old = PostingTable(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 0)
        self._postings = PostingsWriter("f")
        self._terms = 0
        """Number above the largest new term."""

    def reuse(self, stored: Mapping[str, Json]) -> None:
        """Use the contents from a writer of this module as the older index, made with the same encoder."""
        self._old = PostingTable(stored["starts"], stored["rows"], stored["impacts"], stored["length"])

    def keep(self, row: int) -> None:
        """Append a row of the older index."""
        self._postings.keep(row)

    def add(self, weights: TermWeights) -> None:
        """Append a row."""
        # Extending an array by an array of its type is one copy; extending it by a list goes number by number.
        terms = array("i", weights.terms.astype(np.int32, copy=False).tobytes())
        self._postings.add(terms, array("f", weights.weights.astype(np.float32, copy=False).tobytes()))
        self._terms = max(self._terms, int(weights.terms.max(initial=-1)) + 1)

    def stored(self) -> dict[str, Json]:
        """Return the contents of the file: by term in order, the `starts` (v + 1) of its `rows` and `impacts` (p).

        The same rows give the same arrays, whether they were kept or added. This consumes the collected rows.
        """
        return pickles.fill(*self._merged())

    def write(self, path: Path) -> int:
        """Write the file block by block, and return the number of rows. This consumes the collected rows."""
        stored, blocks = self._merged()
        pickles.dump(stored, path, blocks)
        return int(stored["length"])

    def _merged(self) -> tuple[dict[str, Json], Iterator[tuple[Later, NDArray[Any]]]]:
        origins = self._postings.origins(self._old.length)
        kept = kept_by_group(self._old, origins)
        counts = np.zeros(max(len(kept), self._terms), np.int64)
        counts[: len(kept)] += kept
        counts[: self._terms] += self._postings.added_by_term(self._terms)
        counts = counts[: int(np.flatnonzero(counts)[-1]) + 1 if counts.any() else 0]
        starts = np.append(0, np.cumsum(counts))
        rows, impacts = Later("<i4", (int(starts[-1]),)), Later("<f4", (int(starts[-1]),))
        names = np.where(kept > 0, np.arange(len(kept)), -1)
        merged = self._postings.merged(self._old, origins, counts, old_groups=names, groups=np.arange(self._terms))
        stored = {"unit": self._unit, "length": len(self._postings), "starts": starts, "rows": rows, "impacts": impacts}
        return stored, (part for block in merged for part in ((rows, block.rows), (impacts, block.values)))


class SparseIndex(ScoringIndex[TermWeights]):
    """Opened `splade.pkl`: a `contracts.Index` whose queries are `TermWeights`."""

    def __init__(self, stored: Mapping[str, Json]) -> None:
        """Open the contents from `SparseWriter`.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        try:
            self.unit: Unit = stored["unit"]
            self._length: int = stored["length"]
            self._starts: Rows = stored["starts"]
            self._rows: NDArray[np.int32] = stored["rows"]
            self._impacts: Vectors = stored["impacts"]
            fit = len(self._rows) == len(self._impacts) == self._starts[-1] and self._starts[0] == 0
            sound = fit and self._length >= 0 and bool((np.diff(self._starts) >= 0).all())
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"splade.pkl is incomplete ({quoted(error)})", hint=_HINT) from error
        if not sound:
            raise IndexCorrupt("the arrays of splade.pkl do not fit each other", hint=_HINT)

    def __len__(self) -> int:
        return self._length

    def exported(self, name: str) -> Exported:
        """Return the rows for an engine; `name` is the retriever's name."""
        from retrieve_cli.contracts.engines import Part

        table = PostingTable(self._starts, self._rows, self._impacts, self._length)
        return Exported(Part(name, self.unit, self._length), postings=table)

    def shared(self, query: TermWeights, row: int) -> TermWeights:
        """Return the terms that the query shares with a row, and the score that each adds to the row."""
        terms, parts = [], []
        for term, weight, column in self._columns(query):
            place = column.start + int(np.searchsorted(self._rows[column], row))
            if place < column.stop and self._rows[place] == row:
                terms.append(term)
                parts.append(weight * self._impacts[place])
        return TermWeights(np.array(terms, np.int32), np.array(parts, np.float32))

    def _scores(self, query: TermWeights) -> Vectors:
        scores = np.zeros(self._length, np.float32)
        rows = self._rows.view(np.uint32)  # negative rows of a damaged file are out of range then
        try:
            for _, weight, column in self._columns(query):
                # Faster than `scores[rows] += ...`, which first gathers the old values.
                np.add.at(scores, rows[column], self._impacts[column] * weight)
        except IndexError as error:
            raise IndexCorrupt(f"splade.pkl refers to a missing row ({error})", hint=_HINT) from error
        return scores

    def _columns(self, query: TermWeights) -> Iterator[tuple[int, np.float32, slice]]:
        """Yield the query's terms with their weights and the places of their postings."""
        terms: Terms = query.terms[query.terms < len(self._starts) - 1]
        for term, weight in zip(terms.tolist(), query.weights, strict=False):
            column = slice(int(self._starts[term]), int(self._starts[term + 1]))
            yield term, weight, column


class _Writer:
    """Writer of the term weights of all chunks: from the older index for known texts, from the encoder for others."""

    def __init__(self) -> None:
        self._rows = SparseWriter(unit="chunk")
        self._known = KeyRows(as_keys([]))

    def reuse(self, older: Generation) -> None:
        self._rows.reuse(pickles.load(older.file(RETRIEVER.file)))
        self._known = KeyRows(as_keys(older.texts))

    def add(self, record: Record, chunks: Sequence[Chunk]) -> None:
        """Do nothing: texts are looked up when all are known."""

    def keep(self, record: int) -> None:
        """Do nothing: texts are looked up when all are known."""

    def keep_all(self, records: range) -> None:
        """Do nothing: texts are looked up when all are known."""

    def write(self, path: Path, passages: Passages) -> int:
        for place, row in enumerate(self._known.find(as_keys(passages.texts)).tolist()):
            if row >= 0:
                self._rows.keep(row)
            else:
                self._rows.add(passages.terms(passages.texts[place]))
        return self._rows.write(path)


class Splade(Retriever[TermWeights]):
    """SPLADE retriever: ranks by learned term weights."""

    name = "splade"
    file = "splade.pkl"
    form = TERMS
    by_text = True
    role = "sparse"

    def card(self, building: Building) -> Card | None:
        return None if building.sparse is None else {"family": self.name, **building.sparse.card}

    def writer(self, building: Building) -> IndexWriter:
        return _Writer()

    def open(self, generation: Generation, settings: Settings) -> SparseIndex:
        return SparseIndex(pickles.load(generation.file(self.file)))

    def exported(self, index: Index[TermWeights]) -> Exported:
        return index.exported(self.name) if isinstance(index, SparseIndex) else super().exported(index)

    def required(self, settings: Settings) -> bool:
        return settings.splade.policy == "required"

    def configured(self, settings: Settings) -> bool:
        return settings.splade.model is not None


RETRIEVER = Splade()


def segment_weights(segment: Segment, rows: Rows) -> tuple[Rows, Terms, Vectors]:
    """Return the weights of different rows: the start of each row, (n + 1,), in the terms and their weights.

    Raises:
        IndexCorrupt: the file is damaged.
    """
    index = SparseIndex(pickles.load(segment.file(RETRIEVER.file)))
    table = index.exported(RETRIEVER.name).postings
    places = np.full(len(index), -1)
    places[rows] = np.arange(len(rows))
    chosen = np.flatnonzero(places[table.rows] >= 0)
    owners = places[table.rows[chosen]]
    order = np.argsort(owners, kind="stable")  # postings are in order of term: so are those of a row
    terms = np.searchsorted(table.starts, chosen[order], side="right") - 1
    starts = np.append(0, np.cumsum(np.bincount(owners, minlength=len(rows))))
    return starts, terms.astype(np.int32), table.values[chosen[order]]
