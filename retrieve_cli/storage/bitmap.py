"""Set of rows at one bit per row, for queries that make no array as long as the index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.storage.sampled_groups import SampledGroups, several

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows

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
