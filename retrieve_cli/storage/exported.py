"""Rows of an index on their way into an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import Part
from retrieve_cli.storage.postings import PostingTable

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_POSTINGS = 1 << 23
"""Postings that are sorted by row at a time; bounds the memory."""
_ROWS = 2048
"""Rows passed on at a time."""


class Exported(NamedTuple):
    """Rows of an index for an engine: either vectors, or an inverted file."""

    part: Part
    vectors: Callable[[], Iterator[Vectors]] | None = None
    """Function that returns all vectors in blocks, (m, dim) float32 each."""
    postings: PostingTable | None = None

    def blocks(self) -> Iterator[Vectors | list[TermWeights]]:
        """Yield all rows in order, some at a time."""
        if self.vectors is not None:
            yield from self.vectors()
        elif self.postings is not None:
            yield from weights_by_row(self.postings)


def weights_by_row(table: PostingTable) -> Iterator[list[TermWeights]]:
    """Yield the rows of an inverted file in order, some at a time, each with its terms in ascending order.

    Groups of the table are terms. The postings are read once for every eight millions of them.
    """
    total = int(table.starts[-1])
    parts = max(1, -(-total // _POSTINGS))
    counts = np.bincount(table.rows, minlength=table.length) if parts > 1 else np.empty(0, np.int64)
    bounds = [0, *np.searchsorted(np.cumsum(counts), [part * total / parts for part in range(1, parts)]), table.length]
    for first, end in pairwise(bounds):
        yield from _rows(table, int(first), int(end))
        table.release()


def _rows(table: PostingTable, first: int, end: int) -> Iterator[list[TermWeights]]:
    """Yield rows from `first` up to but not `end`, from one pass over the postings."""
    chosen = np.flatnonzero((table.rows >= first) & (table.rows < end))
    rows = table.rows[chosen]
    order = chosen[np.argsort(rows, kind="stable")]  # postings are in order of term: so are those of a row
    terms = (np.searchsorted(table.starts, order, side="right") - 1).astype(np.int32)
    weights = table.values[order].astype(np.float32)
    ends = np.searchsorted(np.sort(rows), np.arange(first, end + 1))
    for start in range(first, end, _ROWS):
        stop = min(start + _ROWS, end)
        places = ends[start - first : stop - first + 1].tolist()
        yield [TermWeights(terms[low:high], weights[low:high]) for low, high in pairwise(places)]
