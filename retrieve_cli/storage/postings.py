"""Postings of inverted files: collected in any order, sorted in one go by group (a term) and then by row.

They are sorted one range of groups at a time, so that no copy of all postings is in memory: sorted blocks go to the
disk immediately. The same postings give the same blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.storage import pickles
from retrieve_cli.storage.pickles import Later

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Values = NDArray[Any]

_SORTED = 1 << 20
"""Postings sorted at a time: they stay in the processor's cache."""


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


_DIFFERENT = 1 << 8
"""Different values of a batch up to which a posting has the number of its value: frequencies of terms are few."""


class _Batch:
    """Postings that were added together: a group and a value each in memory, of few different values as one byte, and
    eight bytes for each run of one row."""

    def __init__(self, groups: Values, rows: Values, values: Values) -> None:
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        self.groups = groups.astype(np.int32)
        self._values = values.astype(np.float32)
        different, numbers = np.unique(self._values, return_inverse=True)
        self._numbers: NDArray[np.uint8] | None = None
        if len(different) <= _DIFFERENT:
            self._values, self._numbers = different, numbers.astype(np.uint8)
        self._rows = rows[begins].astype(np.int32)
        self._sizes = np.diff(begins, append=len(rows)).astype(np.int32)

    @property
    def rows(self) -> NDArray[np.int32]:
        """The row of each posting."""
        return np.repeat(self._rows, self._sizes)

    def values(self, chosen: Rows | slice = slice(None)) -> NDArray[np.float32]:
        """Return the values of some postings."""
        if self._numbers is None:
            return self._values[chosen]
        return self._values[self._numbers[chosen]]


class PostingSorter:
    """Collector of postings: a group (a term), a row and a float32 value each."""

    def __init__(self) -> None:
        self._batches: list[_Batch] = []
        self._waiting: list[tuple[Values, Values, Values]] = []
        self._waiting_length = 0

    def __len__(self) -> int:
        return sum(len(batch.groups) for batch in self._batches) + self._waiting_length

    def add(self, groups: Values, rows: Values, values: Values) -> None:
        """Add postings, (p,) each, best in order of rows; a group has a row once."""
        self._waiting.append((groups, rows, values))
        self._waiting_length += len(groups)
        if self._waiting_length >= _SORTED:
            self._pack()

    def _pack(self) -> None:
        """Make a batch of the postings that wait."""
        if self._waiting_length:
            groups, rows, values = map(np.concatenate, zip(*self._waiting, strict=True))
            self._batches.append(_Batch(groups, rows, values))
        self._waiting, self._waiting_length = [], 0

    def blocks(self) -> Iterator[PostingBlock]:
        """Yield the rows and values of all postings in the order in which they were added."""
        self._pack()
        return (PostingBlock(batch.rows, batch.values()) for batch in self._batches)

    def counts(self, groups: int) -> Rows:
        """Return the number of postings of each of the groups, (groups,)."""
        self._pack()
        counts = np.zeros(groups, np.int64)
        for batch in self._batches:
            counts += np.bincount(batch.groups, minlength=groups)
        return counts

    def sorted(self, counts: Rows, numbers: Rows | NDArray[np.int32]) -> Iterator[PostingBlock]:
        """Yield all postings by the number of their group and then by row. This consumes them.

        `numbers` has the number of each group, and `counts` the number of postings of each number.
        """
        self._pack()
        for batch in self._batches:
            batch.groups = numbers[batch.groups].astype(np.int32)
        for first, end in pairwise(even_cuts(counts).tolist()):
            yield self._between(first, end)
        self._batches = []

    def _between(self, first: int, end: int) -> PostingBlock:
        """Return the postings of the groups from `first` to `end`, by group and then by row."""
        groups, rows, values = [], [], []
        for batch in self._batches:
            chosen = np.flatnonzero((batch.groups >= first) & (batch.groups < end))
            groups.append(batch.groups[chosen])
            rows.append(batch.rows[chosen])
            values.append(batch.values(chosen))
        every = np.concatenate(rows)
        order = _order(np.concatenate(groups) - first, every)
        return PostingBlock(every[order], np.concatenate(values)[order])


def _order(groups: Values, rows: Values) -> Rows:
    """Return the places of postings in the order of their groups and then their rows."""
    by_row = np.arange(len(rows))
    if bool((rows[1:] < rows[:-1]).any()):
        by_row = np.argsort(rows, kind="stable")
    # Sorting numbers with their places in the lower half is five times as fast as argsort.
    keys = groups[by_row].astype(np.int64) << 32 | np.arange(len(rows))
    keys.sort()
    order: Rows = by_row[keys & 0xFFFFFFFF]
    return order


class PostingFileWriter(ABC):
    """Writer of a file whose postings are sorted while it is written."""

    @abstractmethod
    def _contents(self) -> tuple[dict[str, Json], Iterator[tuple[Later, Values]]]:
        """Return the contents with the places of the postings, and the blocks of these."""

    def stored(self) -> dict[str, Json]:
        """Return the contents of the file. This consumes the collected rows."""
        stored: dict[str, Json] = pickles.in_memory(*self._contents())
        return stored

    def write(self, path: Path) -> int:
        """Write the file block by block, and return the number of rows. This consumes the collected rows."""
        stored, blocks = self._contents()
        pickles.dump(stored, path, blocks)
        return int(stored["length"])
