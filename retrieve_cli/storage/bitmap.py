"""Set of rows at one bit per row, for queries that make no array as long as the index.

Fixed sample of groups of rows, such as the chunks of records, for statistics of the best row of each group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Vectors


PIECE = 1 << 15
"""Rows that are looked at together; a multiple of 8."""


class Bitmap:
    """Rows that pass, in the place of a (rows,) bool array, to which it is converted for all other uses."""

    def __init__(self, bits: NDArray[np.uint8], length: int) -> None:
        """`bits` are in the order of `numpy.packbits`."""
        self.bits = bits
        self._length = length
        self.samples: Sequence[SampledGroups] = ()
        self.of_chunks: Sequence[SampledGroups] = ()
        """Stored samples of single rows and of rows of groups; of chunks, if these are records."""

    @classmethod
    def of(cls, length: int, block: Callable[[int, int], Mask]) -> Any:
        """Return the rows that pass; `block(first, end)` returns which rows from `first` up to but not `end` do."""
        parts = [np.packbits(block(first, min(first + PIECE, length))) for first in range(0, length, PIECE)]
        return cls(np.concatenate([np.empty(0, np.uint8), *parts]), length)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, rows: Any) -> Any:
        """Return which of some rows pass, or whether one does. Raises: IndexError: a row does not exist."""
        places = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        if places.size > PIECE:
            return np.concatenate([self[places[first : first + PIECE]] for first in range(0, len(places), PIECE)])
        if places.size and not 0 <= places.min() <= places.max() < self._length:
            raise IndexError(f"a row is not among {self._length}")
        return (self.bits[places >> 3] << (places & 7).astype(np.uint8) & 128).astype(np.bool_)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Mask:
        return np.unpackbits(self.bits, count=self._length).view(np.bool_)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # NumPy asks for other ways to make an array
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __and__(self, other: Any) -> Bitmap:
        return Bitmap(self.bits & (other.bits if isinstance(other, Bitmap) else np.packbits(other)), len(self))

    def __or__(self, other: Bitmap) -> Bitmap:
        return Bitmap(self.bits | other.bits, len(self))

    def __invert__(self) -> Bitmap:
        bits = ~self.bits
        bits[-1:] &= np.uint8(255 << -len(self) % 8 & 255)  # behind the last row
        return Bitmap(bits, len(self))

    def any(self) -> bool:
        return bool(self.bits.any())

    def sum(self) -> int:
        return int(np.bitwise_count(self.bits).sum())

    def nonzero(self) -> tuple[Rows]:
        some = np.flatnonzero(self.bits)
        places, bits = np.unpackbits(self.bits[some][:, None], axis=1).nonzero()
        return (some[places] * 8 + bits,)


def total(rows: int, mask: Mask | None) -> int:
    """Return the number of rows in a mask; all rows if there is no mask."""
    return rows if mask is None else mask.sum() if isinstance(mask, Bitmap) else int(np.count_nonzero(mask))


def of_members(mask: Mask, starts: Rows) -> Any:
    """Return a mask of groups as one of their rows; `starts` has the first row of each group, then their number."""
    if not isinstance(mask, Bitmap):
        return np.repeat(mask, np.diff(starts))
    of = partial(np.searchsorted, starts, side="right")
    found = mask if several(starts) is None else Bitmap.of(int(starts[-1]), lambda *it: mask[of(np.arange(*it)) - 1])
    found.samples = mask.of_chunks
    return found


SAMPLE_ROWS = 8192
"""Rows that are sampled, unless vectors are long or rows have many terms: with 512 the loss of nDCG@10 is small as well
(docs/benchmarks.md), but more of the results change places."""
POPULATION_ROWS = 4096
"""Rows of a tenant that are scored for the mean and the deviation of its scores; few tenants have more."""
_MOST_OF_A_GROUP = 64
"""Rows of a group that are sampled at most: many groups with some rows of each tell more about the deviation between
groups than few groups with all of theirs."""


class Restricted:
    """An index that computes its numbers over some of its rows."""

    population: Mask | None = None
    """Rows that the mean and the deviation of scores are computed over; None: all."""

    def within(self, rows: Mask) -> Self:
        """Return the index over some rows, (n,) bool."""
        view = copy(self)
        view.population = rows
        return view


class SampledGroups(NamedTuple):
    """Some rows of some groups, at even distances."""

    rows: Rows
    """(m,) int64 row numbers, ascending."""
    begins: Rows
    """(groups + 1,) int64 place of each group's first row in `rows`, then their number."""


def sampled_groups(starts: Rows, most: int) -> SampledGroups:
    """Return a sample of at most `most` rows, in as many groups as possible.

    `starts` has the first row of each group, then the number of rows. The same groups have the same sample everywhere.
    """
    sizes = np.diff(starts)
    count = min(len(sizes), most)
    groups, kept = _evenly(len(sizes), count, sizes)
    while count > 1 and kept.sum() > most:
        count = max(1, min(count - 1, int(count * most // kept.sum())))
        groups, kept = _evenly(len(sizes), count, sizes)
    begins = np.append(0, np.cumsum(kept))
    places = np.arange(begins[-1]) - np.repeat(begins[:-1], kept)
    offsets = places * np.repeat(sizes[groups], kept) // np.maximum(np.repeat(kept, kept), 1)
    return SampledGroups(np.repeat(starts[groups], kept) + offsets, begins)


def spread_within(population: Mask, starts: Rows | None, scores_of: Callable[[Rows], Vectors]) -> tuple[float, float]:
    """Return mean and standard deviation of the scores of a population, (rows,) bool, or of the best in its groups.

    `scores_of` returns the scores of rows. A sample of a large population is scored; the choice depends only on the
    population, and the deviation of the mean is then 1.6 % of the deviation of the scores.
    """
    stored = getattr(population, "samples", ())
    place = int(several(starts) is not None)
    chosen = stored[place] if place < len(stored) else sample_of(population, starts)
    if not len(chosen.rows):
        return 0.0, 0.0
    best = np.maximum.reduceat(scores_of(chosen.rows), chosen.begins[:-1]).astype(np.float64)
    return float(best.sum()) / len(best), math.sqrt(variance(best))


def sample_of(population: Mask, starts: Rows | None) -> SampledGroups:
    """Return a sample of the rows of a population, as if its groups were all there are."""
    rows = population.nonzero()[0]
    if several(starts) is None or starts is None:
        begins = np.arange(len(rows) + 1)
    else:
        begins = np.append(0, np.cumsum(np.diff(starts)[population[starts[:-1]]]))
    chosen = sampled_groups(begins, POPULATION_ROWS)
    return SampledGroups(rows[chosen.rows], chosen.begins)


def several(starts: Rows | None) -> Rows | None:
    """Return the starts of groups if any group has several rows; otherwise groups are rows, and this returns None."""
    return starts if starts is not None and len(starts) > 1 and int(starts[-1]) > len(starts) - 1 else None


def variance(values: NDArray[np.float64]) -> float:
    """Return the mean square of the distances from the mean; 0 if there are no values."""
    if not len(values):
        return 0.0
    return float(np.square(values - values.sum() / len(values)).sum()) / len(values)


def _evenly(groups: int, count: int, sizes: Rows) -> tuple[Rows, Rows]:
    """Return the numbers of some groups at even distances, and the number of rows to sample of each."""
    chosen = np.arange(count) * max(groups - 1, 0) // max(count - 1, 1)
    return chosen, np.minimum(sizes[chosen], _MOST_OF_A_GROUP)
