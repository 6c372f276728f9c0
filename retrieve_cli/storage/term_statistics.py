"""Mean and deviation of a query's scores with all rows of term weights, without reading these again.

Sums and sums of squares by term give the mean exactly, and the variance if terms were independent. They are not: words
of a query tend to occur together, and the deviation would be up to a third too low. So the scores of a fixed sample of
rows give the factor by which the variance exceeds the variance of independent terms with the same sums; the sums are
counted in the sample as well, so that most of its error is corrected: a ratio estimate (Cochran 1977, "Sampling
Techniques").

If rows are grouped, such as the chunks of records, the same is done with the best row of a group: a term's weight in a
group is its highest one, and the best score of a group at most the sum over terms.

Term weights of a fixed sample of rows, from which the dependence between terms is estimated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts import Json, TermWeights
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.bitmap import SAMPLE_ROWS, SampledGroups, sampled_groups, several, variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Terms, Vectors
    from retrieve_cli.storage.postings import PostingTable

    Floats = NDArray[np.float64]

_MOST_TERMS = 1 << 18
"""Terms whose sums are stored, those in most rows first; others count as one of their average."""
_HINT = "build again: retrieve build"


class Sums(Frozen, eq=False):
    """Sums of weights and of their squares over all rows, or of the highest weights over all groups, by term."""

    count: int
    """Rows, or groups."""
    first: Vectors
    """(terms + 1,) float32; the last one is for a term that is not stored."""
    second: Vectors

    def spread(self, places: Rows, weights: Floats) -> tuple[float, float]:
        """Return mean and variance of a query's scores for independent terms."""
        means = self.first[places].astype(np.float64) / self.count
        variances = np.maximum(self.second[places].astype(np.float64) / self.count - means * means, 0.0)
        return float((weights * means).sum()), float((weights * weights * variances).sum())


class TermStatistics:
    """Statistics of rows of term weights; immutable, for use by any thread."""

    def __init__(self, *, terms: Terms, rows: Sums, groups: Sums | None, sample: TermSample) -> None:
        """`terms` are those with sums, (t,) int32 ascending; `groups` is None if each row is a group."""
        self._terms = terms
        self._rows = rows
        self._groups = groups
        self._sample = sample

    def spread(self, query: TermWeights, *, grouped: bool) -> tuple[float, float]:
        """Return mean and standard deviation of the scores of all rows, those without a term of the query included; if
        grouped, of the best score of each group.

        The same query gets the same bits on any processor. Terms that no row has change nothing.
        """
        sums = self._groups if grouped and self._groups is not None else self._rows
        if not len(query.terms) or sums.count == 0:
            return 0.0, 0.0
        places = np.searchsorted(self._terms, query.terms)
        stored = self._terms[np.minimum(places, len(self._terms) - 1)] == query.terms
        mean, square = sums.spread(np.where(stored, places, len(self._terms)), query.weights.astype(np.float64))
        if len(query.terms) == 1:
            return mean, math.sqrt(square)
        grouped = sums is self._groups
        of_mean, of_square = self._sample.factors(query, grouped=grouped)
        return mean * of_mean if grouped else mean, math.sqrt(square * of_square)

    def to_arrays(self) -> dict[str, Json]:
        """Return numbers and arrays for `storage.pickles.dump`; the same rows give the same bytes."""
        stored: dict[str, Json] = {"kind": "terms", "terms": self._terms}
        for name, sums in (("rows", self._rows), ("groups", self._groups)):
            if sums is not None:
                stored |= {f"{name}_count": sums.count, f"{name}_first": sums.first, f"{name}_second": sums.second}
        return stored | {f"sample_{name}": getattr(self._sample, name) for name in _SAMPLE}

    @classmethod
    def of_arrays(cls, stored: Mapping[str, Json]) -> TermStatistics:
        """Return the statistics from the contents of `to_arrays`, without copying arrays.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        try:
            terms = stored["terms"]
            rows = Sums(*(stored[f"rows_{name}"] for name in _SUMS))
            groups = Sums(*(stored[f"groups_{name}"] for name in _SUMS)) if "groups_count" in stored else None
            sample = TermSample(*(stored[f"sample_{name}"] for name in _SAMPLE))
            sums = [each for each in (rows, groups) if each]
            sound = (
                stored["kind"] == "terms"
                and {len(each) for of in sums for each in (of.first, of.second)} == {len(terms) + 1}
                and all(isinstance(each.count, int) and each.count >= 0 for each in sums)
                and sample.sound
            )
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"the statistics of terms are incomplete ({quoted(error)})", hint=_HINT) from error
        if not sound:
            raise IndexCorrupt("the arrays of the statistics of terms do not fit each other", hint=_HINT)
        return cls(terms=terms, rows=rows, groups=groups, sample=sample)


_SUMS = ("count", "first", "second")
_SAMPLE = ("begins", "terms", "starts", "rows", "weights")


def posting_statistics(table: PostingTable, *, starts: Rows | None = None, sample: int = SAMPLE_ROWS) -> TermStatistics:
    """Return the statistics of the rows of an inverted file, from one pass over its postings; at most `sample` of them
    are sampled. `starts` has the first row of each group, then the number of rows; None: each row is a group."""
    collected = _Collected(table.length, several(starts), sample)
    from retrieve_cli.storage.postings import even_cuts  # no query needs it

    for first, last in pairwise(even_cuts(np.diff(table.starts)).tolist()):
        span = slice(int(table.starts[first]), int(table.starts[last]))
        terms = np.repeat(np.arange(first, last), np.diff(table.starts[first : last + 1]))
        collected.add(TermColumns(terms, table.rows[span].astype(np.int64), table.values[span].astype(np.float32)))
    return collected.statistics()


class _Collected:
    """Collector of postings. Sums are added one by one in order of row, for any division into blocks."""

    def __init__(self, length: int, groups: Rows | None, sample: int) -> None:
        self.groups = groups
        self._length = length
        self._counts = np.zeros(0, np.int64)
        self._sums = np.zeros((4, 0))
        """Of weights, of their squares, of the highest weights of groups and of their squares, by term."""
        self._chosen = sampled_groups(np.arange(length + 1) if groups is None else groups, sample)
        self._sampled: list[TermColumns] = []

    def add(self, columns: TermColumns) -> None:
        """Add postings, sorted by term and then by row; of each group all postings of a term, or no posting."""
        terms, rows, weights = columns
        most = int(terms[-1]) + 1 if len(terms) else 0
        if most > len(self._counts):
            more = max(most, 2 * len(self._counts)) - len(self._counts)
            self._counts = np.pad(self._counts, (0, more))
            self._sums = np.pad(self._sums, ((0, 0), (0, more)))
        np.add.at(self._counts, terms, 1)
        self._add(0, terms, weights.astype(np.float64))
        if self.groups is not None:
            self._add(2, *highest_by_term(columns, self.groups))
        places = np.searchsorted(self._chosen.rows, rows)
        kept = np.append(self._chosen.rows, -1)[places] == rows
        self._sampled.append(TermColumns(terms[kept], places[kept], weights[kept]))

    def _add(self, place: int, terms: Rows, weights: Floats) -> None:
        np.add.at(self._sums[place], terms, weights)
        np.add.at(self._sums[place + 1], terms, weights * weights)

    def statistics(self) -> TermStatistics:
        order = np.argsort(-self._counts, kind="stable")[: int(np.count_nonzero(self._counts))]
        kept, rest = np.sort(order[:_MOST_TERMS]), order[_MOST_TERMS:]
        average = self._sums[:, rest].sum(1, keepdims=True) / max(len(rest), 1)
        first, second, *of_groups = np.append(self._sums[:, kept], average, axis=1).astype(np.float32)
        groups = None if self.groups is None else Sums(len(self.groups) - 1, *of_groups)
        rows = Sums(self._length, first, second)
        parts = self._sampled
        of_terms = np.concatenate([np.empty(0, np.int64), *(part.terms for part in parts)])
        of_rows = np.concatenate([np.empty(0, np.int64), *(part.rows for part in parts)])
        weights = np.concatenate([np.empty(0, np.float32), *(part.weights for part in parts)])
        places = np.lexsort((of_rows, of_terms))
        sample = term_sample(self._chosen, TermColumns(of_terms[places], of_rows[places], weights[places]))
        return TermStatistics(terms=kept.astype(np.int32), rows=rows, groups=groups, sample=sample)


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
