"""Term weights of a fixed sample of rows, from which the dependence between terms is estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.sampled_groups import SampledGroups, variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Terms, TermWeights, Vectors

    Floats = NDArray[np.float64]

_MOST_POSTINGS = 1 << 20
"""Postings of a sample at most, of 8 bytes each."""


_NONE = np.empty(0, np.int64)


class TermColumns(NamedTuple):
    """Postings: term, row and weight of each."""

    terms: Rows
    """(p,) int64."""
    rows: Rows
    """(p,) int64."""
    weights: Vectors
    """(p,) float32."""


class TermSample(Frozen, eq=False):
    """Postings of sampled rows, by term and then by row."""

    begins: Rows
    """(groups + 1,) int64 place of each group's first row, then the number of rows."""
    terms: Terms
    """(t,) int32 terms of the sample, ascending."""
    starts: Rows
    """(t + 1,) int64 first posting of each term, then the number of postings."""
    rows: NDArray[np.int32]
    """(p,) int32 row in the sample, by posting."""
    weights: Vectors
    """(p,) float32."""

    def factors(self, query: TermWeights, *, grouped: bool) -> tuple[float, float]:
        """Return the mean and the variance of the scores, divided by those for independent terms; 1 if the sample has
        none of the terms. If grouped, a group has its best score, and the highest weight of each term."""
        begins = self.begins if grouped else np.arange(int(self.begins[-1]) + 1)
        count, owners = len(begins) - 1, np.repeat(np.arange(len(begins) - 1), np.diff(begins))
        scores = np.zeros(len(owners))
        mean = square = 0.0
        for term, weight in zip(query.terms.tolist(), query.weights.astype(np.float64).tolist(), strict=True):
            rows, parts = self._column(term)
            scores[rows] += weight * parts
            of_groups = weight * _highest(parts, owners[rows], begins)
            mine = float(of_groups.sum()) / count
            mean += mine
            square += float(np.square(of_groups).sum()) / count - mine * mine
        best = np.maximum.reduceat(scores, begins[:-1])
        found = variance(best)
        return float(best.sum()) / count / mean if mean > 0 else 1.0, found / square if square > 0 else 1.0

    def _column(self, term: int) -> tuple[NDArray[np.int32], Floats]:
        place = int(np.searchsorted(self.terms, term))
        if place == len(self.terms) or self.terms[place] != term:
            return self.rows[:0], np.empty(0)
        span = slice(int(self.starts[place]), int(self.starts[place + 1]))
        return self.rows[span], self.weights[span].astype(np.float64)

    @property
    def sound(self) -> bool:
        """True if the arrays fit each other, so that no query reads outside of them."""
        if len(self.starts) != len(self.terms) + 1 or (len(self.begins) < 2 and len(self.rows)):
            return False
        ends = self.starts[0] == 0 and self.starts[-1] == len(self.rows) == len(self.weights) and self.begins[0] == 0
        rises = (np.diff(self.starts) > 0).all() and (np.diff(self.begins) > 0).all()
        inside = not len(self.rows) or 0 <= self.rows.min() <= self.rows.max() < self.begins[-1]
        return bool(ends and rises and inside)


def highest_by_term(columns: TermColumns, starts: Rows) -> tuple[Rows, Floats]:
    """Return the term and the highest weight for each group and term that have postings, by term and then by group.

    A row without the term has weight 0, which is higher than one below 0.
    """
    owners = np.searchsorted(starts, columns.rows, side="right") - 1
    ends = np.flatnonzero(np.diff(columns.terms)) + 1
    terms = columns.terms[_first(owners, ends)]
    return terms, _highest(columns.weights.astype(np.float64), owners, starts, ends)


def _highest(weights: Floats, owners: Rows, starts: Rows, terms: Rows = _NONE) -> Floats:
    """Return the highest weight of each group with postings; `owners` has the group of each posting, `terms` the place
    at which each further term begins."""
    if not len(owners):
        return weights
    first = _first(owners, terms)
    groups = owners[first]
    whole = np.diff(np.append(first, len(owners))) == starts[groups + 1] - starts[groups]
    found = np.maximum.reduceat(weights, first)
    return np.where(whole, found, np.maximum(found, 0.0))


def _first(owners: Rows, terms: Rows) -> Rows:
    """Return the place of the first posting of each group and term."""
    new = np.append(True, np.diff(owners) != 0)[: len(owners)]
    new[terms] = True
    return np.flatnonzero(new)


def term_sample(chosen: SampledGroups, columns: TermColumns) -> TermSample:
    """Return the sample from the postings of its rows, by term, then by row; rows of `columns` are places in `chosen`.

    If there are too many postings, only every second group of it is kept, or every fourth …
    """
    begins = chosen.begins
    while len(columns.terms) > _MOST_POSTINGS and len(begins) > 2:
        sizes = np.diff(begins)
        of_rows = np.repeat(np.arange(len(sizes)) % 2 == 0, sizes)
        numbers = np.cumsum(of_rows) - 1
        begins = np.append(0, np.cumsum(sizes[::2]))
        left = of_rows[columns.rows]
        columns = TermColumns(columns.terms[left], numbers[columns.rows[left]], columns.weights[left])
    first = np.flatnonzero(np.diff(columns.terms, prepend=-1))
    starts = np.append(first, len(columns.terms))
    terms = columns.terms[first].astype(np.int32)
    return TermSample(begins, terms, starts, columns.rows.astype(np.int32), columns.weights)
