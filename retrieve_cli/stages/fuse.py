"""The stage that asks several legs and makes one ranking of their candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Candidates, Evidence, Ranking
from retrieve_cli.stages.fusion import Method, Normalization, minmax, reciprocal_rank, weighted_sum, zscore
from retrieve_cli.stages.retrieve import Leg, hits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Floats = NDArray[np.float64]


class Fuse:
    """Weighted sum or reciprocal rank fusion over the union of the legs' candidates.

    In a weighted sum a candidate that one leg did not list is not worth zero there: the leg is asked for its score.
    """

    def __init__(
        self,
        legs: Sequence[Leg],
        *,
        weights: Sequence[float],
        method: Method,
        normalization: Normalization,
        rrf_k: float,
    ) -> None:
        """`weights` go with `legs`. Reciprocal ranks are weighted only by being listed, as the paper has it."""
        self.legs = tuple(legs)
        self._weights = np.array(weights, np.float64) if method == "weighted" else np.ones(len(legs))
        self._method = method
        self._normalization = normalization
        self._rrf_k = rrf_k

    @property
    def method(self) -> str:
        """The formula, for people and for the JSON answer."""
        return f"rrf(k={self._rrf_k:g})" if self._method == "rrf" else f"weighted({self._normalization})"

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        texts = [ranking.query.text for ranking in rankings]
        prepared = [leg.prepare(texts) for leg in self.legs]
        found = [leg.find(queries) for leg, queries in zip(self.legs, prepared, strict=True)]
        return [
            self._fuse(ranking, queries, answers)
            for ranking, queries, answers in zip(
                rankings, zip(*prepared, strict=True), zip(*found, strict=True), strict=True
            )
        ]

    def _fuse(self, ranking: Ranking, queries: Sequence[Any], answers: Sequence[Candidates]) -> Ranking:
        rows = _union([answer.rows for answer in answers])
        ranks = np.array([_ranks(answer, rows) for answer in answers])
        asked = zip(self.legs, queries, answers, strict=True)
        scores = np.array([_scores(leg, query, answer, rows) for leg, query, answer in asked], np.float64)
        parts = np.array([self._normalize(*each) for each in zip(scores, ranks, answers, strict=True)])
        fused = weighted_sum(parts, self._weights)
        evidence = [
            tuple(
                Evidence(leg.name, int(rank) or None, float(score), float(part), float(weight))
                for leg, rank, score, part, weight in zip(
                    self.legs, ranks[:, at], scores[:, at], parts[:, at], self._weights, strict=True
                )
            )
            for at in range(len(rows))
        ]
        chunks = self._best_chunks(queries, rows)
        return Ranking.of(ranking.query, hits(self.legs[0].layout, chunks, fused.tolist(), evidence))

    def _normalize(self, scores: Floats, ranks: NDArray[np.int64], answer: Candidates) -> Floats:
        if self._method == "rrf":
            return reciprocal_rank(ranks, k=self._rrf_k)
        if self._normalization == "zscore":
            return zscore(scores, mean=answer.mean, deviation=answer.deviation)
        listed = answer.scores.astype(np.float64)
        if not len(listed):
            return np.zeros_like(scores)
        if self._normalization == "minmax":
            return minmax(scores, low=float(listed.min()), high=float(listed.max()))
        return zscore(scores, mean=float(listed.mean()), deviation=float(listed.std()))

    def _best_chunks(self, queries: Sequence[Any], rows: Rows) -> Rows:
        """The chunk that stands for each record: the choice of the first leg that knows chunks."""
        if self.legs[0].unit == "chunk":
            return rows
        at = next((at for at, leg in enumerate(self.legs) if leg.index.unit == "chunk"), 0)
        return self.legs[at].best_chunks(queries[at], rows)

    def __str__(self) -> str:
        return f"fuse({', '.join(map(str, self.legs))})"


def _union(lists: Sequence[Rows]) -> Rows:
    """The different rows of all lists in ascending order. (numpy.unique would import numpy.ma: a tenth of a query.)"""
    rows = np.sort(np.concatenate(lists))
    return rows[np.concatenate([[True], rows[1:] != rows[:-1]])] if len(rows) else rows


def _ranks(answer: Candidates, rows: Rows) -> NDArray[np.int64]:
    """Rank from 1 of each of `rows` in the leg's list, 0 where it is not listed."""
    ranks = np.zeros(len(rows), np.int64)
    ranks[np.searchsorted(rows, answer.rows)] = np.arange(1, len(answer.rows) + 1)
    return ranks


def _scores(leg: Leg, query: Any, answer: Candidates, rows: Rows) -> Floats:
    """The leg's score of each of `rows`: from its list where it is there, asked for where it is not."""
    scores = np.full(len(rows), np.nan)
    scores[np.searchsorted(rows, answer.rows)] = answer.scores
    missing = np.isnan(scores)
    if missing.any():
        scores[missing] = leg.score(query, rows[missing])
    return scores
