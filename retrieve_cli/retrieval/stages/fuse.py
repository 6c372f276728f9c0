"""The stage that asks several retrievers and makes one ranking of their candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from retrieve_cli.contracts import Evidence, Kind, Query, Ranking
from retrieve_cli.frozen import Described, replace
from retrieve_cli.retrieval.stages.fusion import Fusion, highest, weighted_sum
from retrieve_cli.retrieval.stages.matches import CountedMatches
from retrieve_cli.retrieval.stages.pool import CandidatePool, gather, side_by_side
from retrieve_cli.retrieval.stages.retrieve import Account, Retrieval, hits, traced

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows

_AT_ONCE = 16
"""Queries of a batch that wait for a server at the same time."""


class Fuse(Described):
    """Weighted sum or reciprocal rank fusion over the union of the retrievers' candidates; `keep` hits are passed on.

    In a weighted sum a candidate that one retriever did not list is not worth zero there: its score is asked for.
    """

    apart: ClassVar = ("gather",)
    retrievals: tuple[Retrieval, ...]
    fusion: Fusion
    keep: int
    gather: Callable[[Sequence[Account]], CandidatePool] = gather
    """Makes one pool of the retrievers' accounts of a query."""
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

        with ThreadPoolExecutor(len(waiting)) as threads:
            begun = {each.name: threads.submit(each.ask, queries) for each in waiting}
            found = {each.name: each.ask(queries) for each in self.retrievals if not each.waits}
            return [found[each.name] if each.name in found else begun[each.name].result() for each in self.retrievals]

    def _fuse(self, ranking: Ranking, accounts: Sequence[Account]) -> Ranking:
        pool = self.gather(accounts)
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
        return accounts[at].best_chunks(rows)

    def __str__(self) -> str:
        return f"fuse({', '.join(map(str, self.retrievals))})"
