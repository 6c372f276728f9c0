"""Hybrid ranking repeated in process, with given means and deviations of the retrievers' scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.retrieval.retrievers.selection import best, best_of_groups, spread
from retrieve_cli.retrieval.stages.fusion import zscore

if TYPE_CHECKING:
    from benchmarks.statistics_layouts import Layout
    from retrieve_cli.contracts import Rows, TermWeights, Unit, Vectors

DEPTH, LISTED = 200, 10
WEIGHTS = (0.65, 0.35)
"""Of vectors and of terms: the defaults."""
_GAINS = 1.0 / np.log2(np.arange(2, LISTED + 2))
Spread = tuple[float, float]


class Pool(NamedTuple):
    """Candidates of a query with both scores, (m,) each."""

    rows: Rows
    vectors: Vectors
    terms: Vectors


class Loss(NamedTuple):
    """Difference that estimated means and deviations make."""

    ndcg: float
    """Mean nDCG@10 with those from all rows."""
    change: float
    same: float
    """Share of queries with the same ten results in the same order."""
    vectors: float
    terms: float
    """Root mean square of the relative error of the deviation."""


class Truth:
    """Candidates of all queries, with mean and deviation from all rows."""

    def __init__(self, layout: Layout, unit: Unit) -> None:
        self.layout = layout
        self._owners = np.repeat(np.arange(len(layout.starts) - 1), np.diff(layout.starts))
        self._chunks = unit == "chunk"
        self.pools: list[Pool] = []
        self.of_vectors: list[Spread] = []
        self.of_terms: list[Spread] = []
        for query, terms in zip(layout.queries, layout.terms, strict=True):
            near, shared = layout.vectors @ query, scores_of(layout, terms)
            if not self._chunks:
                near = best_of_groups(near, layout.starts)
                shared = best_of_groups(shared, layout.starts if layout.unit == "chunk" else None)
            self.of_vectors.append(spread(near, len(near)))
            self.of_terms.append(spread(shared, len(shared)))
            if self._chunks and layout.unit == "record":
                shared = shared[self._owners]
            listed = best(near, np.arange(len(near)), DEPTH), best(shared, np.flatnonzero(shared), DEPTH)
            rows = np.union1d(*listed)
            self.pools.append(Pool(rows, near[rows], shared[rows]))

    def ranked(self, query: int, of_vectors: Spread, of_terms: Spread) -> Rows:
        """Return the candidates in the order of their fused scores, equal ones by row."""
        pool, fused = self.pools[query], 0.0
        for weight, scores, (mean, deviation) in zip(WEIGHTS, pool[1:], (of_vectors, of_terms), strict=True):
            fused = fused + weight * zscore(scores.astype(np.float64), mean=mean, deviation=deviation)
        return pool.rows[np.lexsort((pool.rows, -np.asarray(fused)))]

    def ndcg(self, query: int, rows: Rows) -> float:
        """Return nDCG@10; a record has the place of its first chunk."""
        if self._chunks:
            records = self._owners[rows]
            rows = records[np.sort(np.unique(records, return_index=True)[1])]
        gains = np.array([self.layout.relevant[query].get(row, 0.0) for row in rows[:LISTED].tolist()])
        ideal = np.array(self.layout.ideal[query][:LISTED])
        return float((gains * _GAINS[: len(gains)]).sum() / (ideal * _GAINS[: len(ideal)]).sum()) if len(ideal) else 0.0


def scores_of(layout: Layout, query: TermWeights) -> Vectors:
    """Return the score of every row of the inverted file."""
    scores = np.zeros(layout.table.length, np.float32)
    for term, weight in zip(query.terms.tolist(), query.weights, strict=True):
        column = slice(int(layout.table.starts[term]), int(layout.table.starts[term + 1]))
        scores[layout.table.rows[column]] += layout.table.values[column] * weight
    return scores


def loss(truth: Truth, of_vectors: Sequence[Spread], of_terms: Sequence[Spread]) -> Loss:
    """Return what changes with other means and deviations, one of each retriever for each query."""
    numbers = range(len(truth.pools))
    before = [truth.ranked(*each) for each in zip(numbers, truth.of_vectors, truth.of_terms, strict=True)]
    after = [truth.ranked(*each) for each in zip(numbers, of_vectors, of_terms, strict=True)]
    ndcg, other = (np.mean([truth.ndcg(*each) for each in enumerate(ranked)]) for ranked in (before, after))
    same = np.mean([bool((a[:LISTED] == b[:LISTED]).all()) for a, b in zip(before, after, strict=True)])
    vectors, terms = error(truth.of_vectors, of_vectors), error(truth.of_terms, of_terms)
    return Loss(float(ndcg), float(other - ndcg), float(same), vectors, terms)


def error(exact: Sequence[Spread], estimated: Sequence[Spread]) -> float:
    """Return the root mean square of the relative error of deviations that are not 0."""
    ratios = [other[1] / one[1] - 1.0 for one, other in zip(exact, estimated, strict=True) if one[1] > 0]
    return float(np.sqrt(np.mean(np.square(ratios)))) if ratios else 0.0


def independent(layout: Layout, *, grouped: bool) -> list[Spread]:
    """Return mean and deviation from sums of each term alone, as if terms were independent."""
    table = layout.table
    owners = np.repeat(np.arange(len(layout.starts) - 1), np.diff(layout.starts))
    grouped = grouped and layout.unit == "chunk"
    count = len(layout.starts) - 1 if grouped else table.length
    found = []
    for query in layout.terms:
        mean = square = 0.0
        for term, weight in zip(query.terms.tolist(), query.weights.tolist(), strict=True):
            column = slice(int(table.starts[term]), int(table.starts[term + 1]))
            parts = weight * table.values[column].astype(np.float64)
            if grouped:
                of_rows = owners[table.rows[column]]
                parts = np.maximum.reduceat(parts, np.flatnonzero(np.diff(of_rows, prepend=-1)))
            mean += parts.sum() / count
            square += np.square(parts).sum() / count - (parts.sum() / count) ** 2
        found.append((float(mean), float(np.sqrt(max(square, 0.0)))))
    return found
