"""Selection of the best rows of a score array: exact, deterministic, and the same for every index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates, Unit

if TYPE_CHECKING:
    from typing import Self

    from retrieve_cli.contracts import Mask, Rows, Vectors


Q = TypeVar("Q")


def best(scores: Vectors, among: Rows, depth: int) -> Rows:
    """Return the `depth` rows of `among` with the highest scores, best first; equal scores in row order."""
    if depth < len(among):
        values = scores[among]
        threshold = np.partition(values, len(values) - depth)[len(values) - depth]
        above = among[values > threshold]
        level = among[values == threshold][: depth - len(above)]
        among = np.concatenate([above, level])
    order = np.lexsort((among, -scores[among]))
    return among[order].astype(np.int64)


def spread(values: Vectors, total: int) -> tuple[float, float]:
    """Return mean and standard deviation of `total` scores, of which those not in `values` are zero."""
    if total == 0:
        return 0.0, 0.0
    mean = float(values.sum(dtype=np.float64)) / total
    square = float(np.square(values, dtype=np.float64).sum()) / total
    return mean, float(np.sqrt(max(square - mean * mean, 0.0)))


def best_of_groups(scores: Vectors, starts: Rows | None) -> Vectors:
    """Return the best score of each group of rows; `starts` has each group's first row, then the number of rows."""
    if starts is None or not len(scores) or len(starts) - 1 == len(scores):  # groups are not empty: each has one row
        return scores
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


def groups_in(rows: Mask | None, starts: Rows | None) -> Mask | None:
    """Return a mask of rows as one of groups, whose rows are in it together."""
    return rows if rows is None or starts is None else rows[starts[:-1]]


def total(rows: int, mask: Mask | None) -> int:
    """Return the number of rows in a mask; all rows if there is no mask."""
    return rows if mask is None else int(np.count_nonzero(mask))


def candidates(
    scores: Vectors, among: Rows, depth: int, allowed: Mask | None = None, visible: Mask | None = None, *, size: int
) -> Candidates:
    """Return the answer of an exact index from the scores of its `size` rows; rows outside `among` score zero.

    Of `among`, the `allowed` rows are listed, and the `visible` rows are counted.
    """
    # Over all rows, allowed or not: the z-score, and so a record's fused score, must not depend on the filter.
    mean, deviation = spread(scores[among], size)
    within = among if allowed is None else among[allowed[among]]
    rows = best(scores, within, depth)
    before = len(among) if visible is None else int(np.count_nonzero(visible[among]))
    return Candidates(rows, scores[rows], mean, deviation, before=before, after=len(within))


class ScoringIndex(ABC, Generic[Q]):
    """A `contracts.Index` that scores all its rows at once; rows without a term of the query score 0."""

    unit: Unit
    population: Mask | None = None
    """Rows that the numbers are computed over; None: all."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _scores(self, query: Q) -> Vectors:
        """Return the query's score for every row, (n,) float32, 0 if none of its terms occurs."""

    def within(self, rows: Mask) -> Self:
        """Return the index over some rows, (n,) bool; `_scores` of a subclass may weigh terms by these."""
        view = copy(self)
        view.population = rows
        return view

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
        for query, mask, shown in zip(queries, masks(queries, allowed), masks(queries, visible), strict=True):
            scores = best_of_groups(self._own_scores(query), starts)
            size = total(len(scores), groups_in(self.population, starts))
            answers.append(candidates(scores, np.flatnonzero(scores), depth, mask, shown, size=size))
        return answers

    def matching(self, query: Q, *, starts: Rows | None = None, allowed: Mask | None = None) -> Rows:
        """Return the rows (or groups of rows) with a term of the query, in ascending order."""
        rows = np.flatnonzero(best_of_groups(self._own_scores(query), starts))
        return rows if allowed is None else rows[allowed[rows]]

    def score(self, query: Q, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the score of each of `rows` (or groups of rows), 0 if no term of the query occurs."""
        scores = self._own_scores(query)
        if starts is None:
            return scores[rows]
        members, begins = rows_of(rows, starts)
        return best_of_groups(scores[members], np.append(begins, len(members)))

    def _own_scores(self, query: Q) -> Vectors:
        """Return the score of every row; those that are not of the population score 0."""
        scores = self._scores(query)
        return scores if self.population is None else np.where(self.population, scores, np.float32(0))
