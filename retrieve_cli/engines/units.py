"""Rows of a part, or groups of them, as the units of a list. A group is worth its best row."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from retrieve_cli.storage.bitmap import total
from retrieve_cli.storage.sampled_groups import several

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts.values import Mask, Rows, Vectors

Number = TypeVar("Number", np.int32, np.int64)


class Units:
    """The rows of a part; with `starts` (first row of each group, then the number of rows) its groups."""

    def __init__(self, rows: int, starts: Rows | None) -> None:
        self.starts = several(starts)
        self.grouped = starts is not None
        self.count = rows if starts is None else len(starts) - 1

    def of(self, rows: Rows) -> Rows:
        """Return the unit of each row."""
        return rows if self.starts is None else np.searchsorted(self.starts, rows, side="right") - 1

    def sizes(self, units: Rows) -> Rows:
        """Return the number of rows of each unit."""
        return np.ones(len(units), np.int64) if self.starts is None else self.starts[units + 1] - self.starts[units]

    def rows(self, units: Rows) -> tuple[Rows, Rows]:
        """Return all rows of some units, and the place in `units` that each belongs to, ascending."""
        sizes = self.sizes(units)
        owners = np.repeat(np.arange(len(units)), sizes)
        if self.starts is None:
            return units, owners
        return np.repeat(self.starts[units] - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(owners)), owners

    def total(self, mask: Mask | None) -> int:
        """Return the number of units in a mask; all units if there is no mask."""
        return total(self.count, mask)

    def those_in(self, mask: Mask | None) -> Rows:
        """Return the units in a mask, ascending; all units if there is no mask."""
        return np.arange(self.count) if mask is None else mask.nonzero()[0]

    def worth(self, rows: Rows, scores: Vectors) -> tuple[Rows, Vectors]:
        """Return the units that have any of these different rows, ascending, and the best of their scores."""
        order = np.argsort(rows, kind="stable")
        units, scores = self.of(rows[order]), scores[order]
        first = np.flatnonzero(np.append(True, units[1:] != units[:-1])[: len(units)])
        return units[first], (np.maximum.reduceat(scores, first) if len(first) else scores)


def distinct(numbers: NDArray[Number]) -> tuple[NDArray[Number], Rows]:
    """Return different numbers, ascending, and the place of each given number among them. (numpy.unique would import
    numpy.ma.)"""
    ordered = np.sort(numbers)
    different = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return different, np.searchsorted(different, numbers)


def best(units: Rows, scores: Vectors, depth: int) -> tuple[Rows, Vectors]:
    """Return the `depth` units with the highest scores and these, best first; equal ones in order of the units."""
    order = np.lexsort((units, -scores))[:depth]
    return units[order].astype(np.int64), scores[order]
