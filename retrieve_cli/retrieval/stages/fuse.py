"""The stage that asks several retrievers and makes one ranking of their candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates, Evidence, Kind, Query, Ranking, RemoteIndex
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.retrieval.stages.fusion import (
    CountedMatches,
    Fusion,
    highest,
    minmax,
    reciprocal_rank,
    union,
    weighted_sum,
    zscore,
)
from retrieve_cli.retrieval.stages.masks import listed_chunks
from retrieve_cli.retrieval.stages.retrieve import Account, IndexRetrieval, Retrieval, hits, traced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.retrieval.stages.fusion import Floats

_AT_ONCE = 16
"""Queries of a batch that wait for a server at the same time."""
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
    rows = union([found.rows for found in lists])
    asked = [partial(_scores, account, rows) for account in accounts]
    scores = side_by_side(asked, threads=sum(account.waits for account in accounts))
    ranks = np.zeros((len(lists), len(rows)), np.int64)
    for own, found in zip(ranks, lists, strict=True):
        own[np.searchsorted(rows, found.rows)] = np.arange(1, len(found.rows) + 1)
    return CandidatePool(rows=rows, ranks=ranks, scores=np.array(scores, np.float64), lists=lists)


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


def _scores(account: Account, rows: Rows) -> Floats:
    """The retriever's score of each of `rows`: from its list if it is there, asked for if it is not."""
    scores = np.full(len(rows), np.nan)
    scores[np.searchsorted(rows, account.candidates.rows)] = account.candidates.scores
    missing = np.isnan(scores)
    if missing.any():
        scores[missing] = account.score(rows[missing])
    return scores


class Fuse(Frozen):
    """Weighted sum or reciprocal rank fusion over the union of the retrievers' candidates; `keep` hits are passed on.

    In a weighted sum a candidate that one retriever did not list is not worth zero there: its score is asked for.
    """

    retrievals: tuple[Retrieval, ...]
    fusion: Fusion
    keep: int
    kind: ClassVar[Kind] = "fuse"
    rescores: ClassVar[bool] = False

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        asked = self._ask([ranking.query for ranking in rankings])
        each = [partial(self._fuse, *pair) for pair in zip(rankings, zip(*asked, strict=True), strict=True)]
        return side_by_side(each, threads=_AT_ONCE if any(one.waits for one in self.retrievals) else 1)

    def _ask(self, queries: Sequence[Query]) -> list[Sequence[Account]]:
        """Return the accounts of each retriever. Those that wait for a server wait while the others compute."""
        waiting = [each for each in self.retrievals if each.waits]
        if not waiting or len(self.retrievals) == 1:
            return [each.ask(queries) for each in self.retrievals]
        from concurrent.futures import ThreadPoolExecutor

        joint, joined = None, {}
        for each in waiting:
            if isinstance(each, IndexRetrieval) and isinstance(each.index, RemoteIndex):
                joint, joined[each.name] = each.begin(queries, joint)
        with ThreadPoolExecutor(len(waiting)) as threads:
            sent = threads.submit(joint.send) if joint is not None else None
            begun = {each.name: threads.submit(each.ask, queries) for each in waiting if each.name not in joined}
            found = {each.name: each.ask(queries) for each in self.retrievals if not each.waits}
            if sent is not None:
                sent.result()
            found |= {name: accounts() for name, accounts in joined.items()}
            return [found[each.name] if each.name in found else begun[each.name].result() for each in self.retrievals]

    def _fuse(self, ranking: Ranking, accounts: Sequence[Account]) -> Ranking:
        pool = gather(accounts)
        weights = np.array([self.fusion.weight(each.name) for each in self.retrievals], np.float64)
        parts = pool.contributions(self.fusion)
        fused = weighted_sum(parts, weights)
        kept = highest(fused, self.keep)
        names = [each.name for each in self.retrievals]
        columns = zip(names, pool.ranks[:, kept], pool.scores[:, kept], parts[:, kept], weights.tolist(), strict=True)
        by_retriever = [
            [
                Evidence(name, rank or None, score, part, weight)
                for rank, score, part in zip(ranks.tolist(), scores.tolist(), own.tolist(), strict=True)
            ]
            for name, ranks, scores, own, weight in columns
        ]
        evidence = list(zip(*by_retriever, strict=True))
        chunks = self._best_chunks(accounts, pool.rows[kept])
        found = hits(self.retrievals[0].layout, chunks, fused[kept].tolist(), evidence)
        lists = {each.name: account.candidates for each, account in zip(self.retrievals, accounts, strict=True)}
        ranked = Ranking.of(ranking.query, found, trace=traced(ranking, lists)).first(self.keep)
        return replace(ranked, matches=CountedMatches(tuple(accounts), self._count(pool)))

    def _count(self, pool: CandidatePool) -> int | None:
        """Number of records that match, if the pool tells: all that share a term, if one retriever alone compares
        terms, and those listed by others that share none."""
        tallies = [each.tally for each in self.retrievals]
        if "singly" in tallies or tallies.count("after") != 1:
            return None
        by_terms = tallies.index("after")
        return pool.lists[by_terms].after + int(np.count_nonzero(pool.scores[by_terms] == 0.0))

    def _best_chunks(self, accounts: Sequence[Account], rows: Rows) -> Rows:
        """The chunk that represents each record: the choice of the first retriever that knows chunks."""
        if self.retrievals[0].unit == "chunk":
            return rows
        at = next((at for at, each in enumerate(self.retrievals) if each.row_unit == "chunk"), 0)
        chunks = accounts[at].best_chunks(rows)
        for account in accounts[at + 1 :]:
            listed = listed_chunks(account.candidates, rows)
            unknown = (listed_chunks(accounts[at].candidates, rows) < 0) & (listed >= 0)
            chunks = np.where(unknown & (accounts[at].candidates.best is not None), listed, chunks)
        return chunks

    def __str__(self) -> str:
        return f"fuse({', '.join(map(str, self.retrievals))})"
