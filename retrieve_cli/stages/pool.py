"""What several legs know of a query's candidates, gathered once: fusing them another way asks nobody again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Candidates
from retrieve_cli.stages.fusion import Fusion, minmax, reciprocal_rank, zscore
from retrieve_cli.stages.retrieve import Leg

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.stages.fusion import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The union of the legs' candidates for one query, with every leg's account of each of them."""

    rows: Rows
    """(m,) int64, ascending."""
    ranks: NDArray[np.int64]
    """(legs, m) from 1; 0 where the leg did not list it."""
    scores: Floats
    """(legs, m) float64; a leg is asked for its score of what it did not list."""
    lists: Sequence[Candidates]
    """By leg, what it found."""

    def cut(self, depth: int) -> Pool:
        """The pool of the same legs, asked for `depth` candidates at most."""
        ranks = np.where(self.ranks <= depth, self.ranks, 0)
        kept = ranks.any(axis=0)
        lists = [replace(each, rows=each.rows[:depth], scores=each.scores[:depth]) for each in self.lists]
        return Pool(self.rows[kept], ranks[:, kept], self.scores[:, kept], lists)

    def contributions(self, fusion: Fusion) -> Floats:
        """(legs, m): what each leg says of each candidate, on a scale that the legs share; not weighted yet."""
        if fusion.method == "rrf":
            return reciprocal_rank(self.ranks, k=fusion.rrf_k)
        parts = [_normalized(*each, fusion) for each in zip(self.scores, self.lists, strict=True)]
        return np.array(parts).reshape(self.scores.shape)


def gather(legs: Sequence[Leg], queries: Sequence[Any], lists: Sequence[Candidates]) -> Pool:
    """The pool of one query from what each leg found for it; `queries` are what each leg was asked."""
    rows = _union([found.rows for found in lists])
    asked = zip(legs, queries, lists, strict=True)
    return Pool(
        rows=rows,
        ranks=np.array([_ranks(found, rows) for found in lists]),
        scores=np.array([_scores(leg, query, found, rows) for leg, query, found in asked], np.float64),
        lists=lists,
    )


def _normalized(scores: Floats, found: Candidates, fusion: Fusion) -> Floats:
    if fusion.normalization == "zscore":
        return zscore(scores, mean=found.mean, deviation=found.deviation)
    listed = found.scores.astype(np.float64)
    if not len(listed):
        return np.zeros_like(scores)
    if fusion.normalization == "minmax":
        return minmax(scores, low=float(listed.min()), high=float(listed.max()))
    return zscore(scores, mean=float(listed.mean()), deviation=float(listed.std()))


def _union(lists: Sequence[Rows]) -> Rows:
    """The different rows of all lists in ascending order. (numpy.unique would import numpy.ma: a tenth of a query.)"""
    rows = np.sort(np.concatenate(lists))
    return rows[np.concatenate([[True], rows[1:] != rows[:-1]])] if len(rows) else rows


def _ranks(found: Candidates, rows: Rows) -> NDArray[np.int64]:
    """Rank from 1 of each of `rows` in the leg's list, 0 where it is not listed."""
    ranks = np.zeros(len(rows), np.int64)
    ranks[np.searchsorted(rows, found.rows)] = np.arange(1, len(found.rows) + 1)
    return ranks


def _scores(leg: Leg, query: Any, found: Candidates, rows: Rows) -> Floats:
    """The leg's score of each of `rows`: from its list where it is there, asked for where it is not."""
    scores = np.full(len(rows), np.nan)
    scores[np.searchsorted(rows, found.rows)] = found.scores
    missing = np.isnan(scores)
    if missing.any():
        scores[missing] = leg.score(query, rows[missing])
    return scores
