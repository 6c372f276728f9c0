"""Selection of the best rows of a score array: exact, deterministic, and the same for every index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates, Unit
from retrieve_cli.storage.bitmap import Restricted, several, total

if TYPE_CHECKING:
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


class ScoringIndex(Restricted, ABC, Generic[Q]):
    """A `contracts.Index` that scores all its rows at once; rows without a term of the query score 0."""

    unit: Unit

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
        for query, mask, shown in zip(queries, masks(queries, allowed), masks(queries, visible), strict=True):
            rows, listed = np.empty(0, np.int64), np.empty(0, np.float32)
            first_sum, second_sum, before, after = 0.0, 0.0, 0, 0
            for first, scores in self._pieces(query, starts):
                among = np.flatnonzero(scores)
                # Over all rows, allowed or not: the z-score, and so a fused score, must not depend on the filter.
                first_sum += float((worth := scores[among]).sum(dtype=np.float64))
                second_sum += float(np.square(worth, dtype=np.float64).sum())
                numbers = among + first if first else among
                before += len(among) if shown is None else int(np.count_nonzero(shown[numbers]))
                within = among if mask is None else among[mask[numbers]]
                after += len(within)
                kept = best(scores, within, depth)
                rows, listed = np.append(rows, kept + first), np.append(listed, scores[kept])
            kept, own = best(listed, np.arange(len(rows)), depth), self.population
            own = own if own is None or starts is None or several(starts) is None else own[starts[:-1]]
            size = max(1, total(len(self) if starts is None else len(starts) - 1, own))
            mean = first_sum / size
            deviation = float(np.sqrt(max(second_sum / size - mean * mean, 0.0)))
            answers.append(Candidates(rows[kept], listed[kept], mean, deviation, before, after))
        return answers

    def matching(self, query: Q, *, starts: Rows | None = None, allowed: Mask | None = None) -> Rows:
        """Return the rows (or groups of rows) with a term of the query, in ascending order."""
        found = [np.flatnonzero(scores) + first for first, scores in self._pieces(query, starts)]
        rows = np.concatenate([np.empty(0, np.int64), *found])
        return rows if allowed is None else rows[allowed[rows]]

    def _pieces(self, query: Q, starts: Rows | None) -> Iterator[tuple[int, Vectors]]:
        """Yield the scores of all rows, or groups, in pieces, each with its first row; others than own ones score 0."""
        scores = self._scores(query)
        if self.population is not None:
            scores = np.where(self.population, scores, np.float32(0))
        yield 0, best_of_groups(scores, starts)

    def score(self, query: Q, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the score of each of `rows` (or groups of rows), 0 if no term of the query occurs."""
        found = np.zeros(len(rows), np.float32)
        for first, scores in self._pieces(query, starts):
            here = (first <= rows) & (rows < first + len(scores))
            found[here] = scores[rows[here] - first]
        return found
