"""Selection of the best rows of a score array, and statistics of the scores; the same for every index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates, Unit

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors

Q = TypeVar("Q")

_NEAR = 2e-6
"""Maximum distance of two float32 scores that may be equal after rounding, as `Ranking.of` rounds them."""


class Lowest(Protocol):
    """Function that chooses among rows with equal scores, by their ids."""

    def __call__(self, rows: Rows, count: int, *, unit: Unit) -> Rows:
        """Return the `count` rows that come first in the order of ids."""


def best(scores: Vectors, among: Rows, depth: int, *, unit: Unit, lowest: Lowest | None) -> Rows:
    """Return the `depth` rows of `among` with the highest scores, best first.

    Scores are rounded to 1e-6; equal ones are in the order of `lowest`, which also decides which of them are in the
    list. None: in row order.
    """
    values = scores[among]
    if depth < len(among):
        last = np.partition(values, len(values) - depth)[len(values) - depth]
        near = ~(values < last - _NEAR)  # not `>=`: keeps NaN
        among, values = among[near], values[near]
    keys = -np.round(values.astype(np.float64), 6)
    order = np.lexsort((among, keys))
    among, keys = among[order].astype(np.int64), keys[order]
    if lowest is None or not (keys[1:] == keys[:-1]).any() or np.isnan(keys).any():
        return among[:depth]
    last = keys[min(depth, len(keys)) - 1]
    better = among[keys < last]
    listed = np.concatenate([better, lowest(among[keys == last], depth - len(better), unit=unit)])
    by_id = lowest(listed, len(listed), unit=unit)
    keys = -np.round(scores[by_id].astype(np.float64), 6)
    return by_id[np.argsort(keys, kind="stable")]


def spread(values: Vectors, total: int) -> tuple[float, float]:
    """Return mean and standard deviation of `total` scores; those not in `values` are zero."""
    if total == 0:
        return 0.0, 0.0
    mean = float(values.sum(dtype=np.float64)) / total
    square = float(np.square(values, dtype=np.float64).sum()) / total
    return mean, float(np.sqrt(max(square - mean * mean, 0.0)))


def best_of_groups(scores: Vectors, starts: Rows | None) -> Vectors:
    """Return the best score of each group of rows.

    `starts` has the first row of each group, then the number of rows.
    """
    if starts is None or not len(scores) or len(starts) - 1 == len(scores):
        return scores  # groups are not empty: each has one row
    return np.asarray(np.maximum.reduceat(scores, starts[:-1]), np.float32)


def rows_of(groups: Rows, starts: Rows) -> tuple[Rows, Rows]:
    """Return all rows of the given groups, and the start of each group among them."""
    sizes = starts[groups + 1] - starts[groups]
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    rows = np.repeat(starts[groups] - begins, sizes) + np.arange(int(sizes.sum()))
    return rows, begins


def masks(queries: Sequence[object], given: Sequence[Mask | None] | None) -> Sequence[Mask | None]:
    """Return a mask of rows for each query, None for all rows."""
    return [None] * len(queries) if given is None else given


def count_of(rows: int, mask: Mask | None) -> int:
    """Return the number of rows in a mask; all rows if there is no mask."""
    return rows if mask is None else int(np.count_nonzero(mask))


class ScoringIndex(ABC, Generic[Q]):
    """A `contracts.Index` that scores all its rows at once.

    Rows without a term of the query score 0.
    """

    unit: Unit
    lowest: Lowest | None = None
    """Function that decides which of equal scores are listed; None: the first rows."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _scores(self, query: Q) -> Vectors:
        """Return the query's score for every row, (n,) float32, 0 if none of its terms occurs."""

    def search(
        self,
        queries: Sequence[Q],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
    ) -> list[Candidates]:
        """Return the best rows with a term of the query; rows without one are never listed."""
        answers = []
        unit: Unit = self.unit if starts is None else "record"
        limits = zip(masks(queries, allowed), masks(queries, visible), strict=True)
        for query, (mask, shown) in zip(queries, limits, strict=True):
            scores = best_of_groups(self._scores(query), starts)
            rows = np.flatnonzero(scores)
            seen = rows if shown is None else rows[shown[rows]]
            listed = rows if mask is None else rows[mask[rows]]
            # Over all visible rows, allowed or not: a fused score must not depend on the filter.
            mean, deviation = spread(scores[seen], count_of(len(scores), shown))
            kept = best(scores, listed, depth, unit=unit, lowest=self.lowest)
            found = Candidates(kept, scores[kept], mean, deviation, len(seen), len(listed))
            answers.append(found)
        return answers

    def matching(self, query: Q, *, starts: Rows | None = None, allowed: Mask | None = None) -> Rows:
        """Return the rows (or groups) with a term of the query, in ascending order."""
        rows = np.flatnonzero(best_of_groups(self._scores(query), starts))
        return rows if allowed is None else rows[allowed[rows]]

    def score(self, query: Q, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the score of each of `rows` (or groups), 0 if no term of the query occurs."""
        return best_of_groups(self._scores(query), starts)[rows]
