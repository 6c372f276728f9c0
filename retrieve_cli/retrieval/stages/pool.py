"""Scores and ranks of a query's candidates by each retriever, gathered once: another fusion runs no retriever again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.stages.fusion import Fusion, minmax, reciprocal_rank, zscore
from retrieve_cli.retrieval.stages.retrieve import Account

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.retrieval.stages.fusion import Floats

T = TypeVar("T")


class CandidatePool(Frozen, eq=False):
    """The union of the retrievers' candidates for one query, with each retriever's rank and score of each candidate."""

    rows: Rows
    """(m,) int64, ascending."""
    ranks: NDArray[np.int64]
    """(retrievers, m) from 1; 0 if the retriever did not list it."""
    scores: Floats
    """(retrievers, m) float64; a retriever also scores the candidates that it did not list."""
    lists: Sequence[Candidates]
    """The candidates of each retriever."""

    def contributions(self, fusion: Fusion) -> Floats:
        """Return each retriever's score of each candidate, (retrievers, m), on one scale and not yet weighted."""
        if fusion.method == "rrf":
            return reciprocal_rank(self.ranks, k=fusion.rrf_k)
        parts = [_normalized(*each, fusion) for each in zip(self.scores, self.lists, strict=True)]
        return np.array(parts).reshape(self.scores.shape)


def gather(accounts: Sequence[Account]) -> CandidatePool:
    """Return the pool of one query from each retriever's account of it; those that wait for a server do so at the same
    time."""
    lists = [account.candidates for account in accounts]
    rows = _union([found.rows for found in lists])
    asked = [partial(_scores, account, rows) for account in accounts]
    scores = side_by_side(asked, threads=sum(account.waits for account in accounts))
    return CandidatePool(
        rows=rows,
        ranks=np.array([_ranks(found, rows) for found in lists]),
        scores=np.array(scores, np.float64),
        lists=lists,
    )


def side_by_side(calls: Sequence[Callable[[], T]], *, threads: int) -> list[T]:
    """Return the results of calls in their order. On several threads they wait for servers at the same time."""
    if min(threads, len(calls)) < 2:
        return [call() for call in calls]
    from concurrent.futures import ThreadPoolExecutor  # local files do without it

    with ThreadPoolExecutor(min(threads, len(calls))) as workers:
        return [begun.result() for begun in [workers.submit(call) for call in calls]]


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
    """Rank from 1 of each of `rows` in the retriever's list, 0 if it is not listed."""
    ranks = np.zeros(len(rows), np.int64)
    ranks[np.searchsorted(rows, found.rows)] = np.arange(1, len(found.rows) + 1)
    return ranks


def _scores(account: Account, rows: Rows) -> Floats:
    """The retriever's score of each of `rows`: from its list if it is there, asked for if it is not."""
    scores = np.full(len(rows), np.nan)
    scores[np.searchsorted(rows, account.candidates.rows)] = account.candidates.scores
    missing = np.isnan(scores)
    if missing.any():
        scores[missing] = account.score(rows[missing])
    return scores
