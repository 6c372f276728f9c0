"""Postings of inverted files: collected in any order, sorted in one go by group (a term) and then by row.

They are sorted one range of groups at a time, so that no copy of all postings is in memory: sorted blocks go to the
disk immediately. The same postings give the same blocks.

Rows of an index on their way into an engine.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.contracts.engines import Part

    Values = NDArray[Any]

_SORTED = 1 << 20
"""Postings sorted at a time: they stay in the processor's cache."""


class PostingTable(Frozen, eq=False):
    """Postings of a segment: group g is from `starts[g]` to `starts[g + 1]`, in order of row."""

    starts: Rows
    """Start of each group, (g + 1,)."""
    rows: Values
    """Row of each posting, (p,)."""
    values: Values
    """Weight of each posting, (p,)."""
    length: int
    """Number of rows."""


def even_cuts(counts: Rows) -> Rows:
    """Return boundaries that divide the groups into ranges of about `_SORTED` postings, or of one group."""
    ends = np.cumsum(counts)
    cuts, last = [0], 0
    while last < len(counts):
        done = int(ends[last - 1]) if last else 0
        last = max(last + 1, int(np.searchsorted(ends, done + _SORTED, side="right")))
        cuts.append(last)
    return np.array(cuts, np.int64)


class PostingBlock(NamedTuple):
    """Postings by group and then by row."""

    rows: NDArray[np.int32]
    values: Values


class PostingSorter:
    """Collector of postings: a group (a term), a row and a float32 value each, twelve bytes in memory."""

    def __init__(self) -> None:
        self._groups = array("i")
        self._rows = array("i")
        self._values = array("f")

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, groups: Values, rows: Values, values: Values) -> None:
        """Add postings, (p,) each; a group has a row once."""
        self._groups.frombytes(groups.astype(np.intc, copy=False).tobytes())
        self._rows.frombytes(rows.astype(np.intc, copy=False).tobytes())
        self._values.frombytes(values.astype(np.float32, copy=False).tobytes())

    def blocks(self) -> Iterator[PostingBlock]:
        """Yield the rows and values of all postings in the order in which they were added."""
        rows, values = np.frombuffer(self._rows, np.intc), np.frombuffer(self._values, np.float32)
        for start in range(0, len(rows), _SORTED):
            block = slice(start, start + _SORTED)
            yield PostingBlock(rows[block], values[block])

    def counts(self, groups: int) -> Rows:
        """Return the number of postings of each of the groups, (groups,)."""
        counts = np.zeros(groups, np.int64)
        numbers = np.frombuffer(self._groups, np.intc)
        for start in range(0, len(numbers), _SORTED):
            counts += np.bincount(numbers[start : start + _SORTED], minlength=groups)
        return counts

    def sorted(self, counts: Rows, numbers: Rows | NDArray[np.int32]) -> Iterator[PostingBlock]:
        """Yield all postings by the number of their group and then by row. This consumes them.

        `numbers` has the number of each group, and `counts` the number of postings of each number.
        """
        groups = np.frombuffer(self._groups, np.intc)
        for start in range(0, len(groups), _SORTED):
            groups[start : start + _SORTED] = numbers[groups[start : start + _SORTED]]
        rows, values = np.frombuffer(self._rows, np.intc), np.frombuffer(self._values, np.float32)
        for first, end in pairwise(even_cuts(counts).tolist()):
            order = _in_order(groups, rows, first, end)
            yield PostingBlock(rows[order], values[order])
        self._groups, self._rows, self._values = array("i"), array("i"), array("f")


def _in_order(groups: Values, rows: Values, first: int, end: int) -> Rows:
    """Return the places of the postings of the groups from `first` to `end`, by group and then by row."""
    places = np.flatnonzero((groups >= first) & (groups < end))
    added = rows[places]
    if bool((added[1:] < added[:-1]).any()):
        places = places[np.argsort(added, kind="stable")]
    # Sorting numbers with their places in the lower half is five times as fast as argsort.
    keys = (groups[places].astype(np.int64) - first) << 32 | np.arange(len(places))
    keys.sort()
    order: Rows = places[keys & 0xFFFFFFFF]
    return order


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
