"""The stage that asks several legs and makes one ranking of their candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Evidence, Ranking
from retrieve_cli.stages.fusion import Fusion, highest, weighted_sum
from retrieve_cli.stages.pool import Pool, gather
from retrieve_cli.stages.retrieve import Leg, hits, masks, traced

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows


class Fuse:
    """Weighted sum or reciprocal rank fusion over the union of the legs' candidates.

    In a weighted sum a candidate that one leg did not list is not worth zero there: the leg is asked for its score.
    """

    def __init__(self, legs: Sequence[Leg], *, fusion: Fusion, keep: int) -> None:
        """`keep` is how many hits are handed on."""
        self.legs = tuple(legs)
        self._fusion = fusion
        self._weights = np.array([fusion.weight(leg.name) for leg in legs], np.float64)
        self._keep = keep

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        gathered = self.gather([ranking.query.text for ranking in rankings], masks(rankings))
        return [self._fuse(ranking, *each) for ranking, each in zip(rankings, gathered, strict=True)]

    def gather(
        self, texts: Sequence[str], within: Sequence[Mask | None] | None = None
    ) -> list[tuple[Sequence[Any], Pool]]:
        """For each query, what each leg was asked, and the pool of what they found; `within`: of which records."""
        prepared = [leg.prepare(texts) for leg in self.legs]
        found = [leg.find(queries, within) for leg, queries in zip(self.legs, prepared, strict=True)]
        asked = zip(zip(*prepared, strict=True), zip(*found, strict=True), strict=True)
        return [(queries, gather(self.legs, queries, lists)) for queries, lists in asked]

    def _fuse(self, ranking: Ranking, queries: Sequence[Any], pool: Pool) -> Ranking:
        parts = pool.contributions(self._fusion)
        fused = weighted_sum(parts, self._weights)
        kept = highest(fused, self._keep)
        evidence = [
            tuple(
                Evidence(leg.name, int(rank) or None, float(score), float(part), float(weight))
                for leg, rank, score, part, weight in zip(
                    self.legs, pool.ranks[:, at], pool.scores[:, at], parts[:, at], self._weights, strict=True
                )
            )
            for at in kept
        ]
        chunks = self._best_chunks(queries, pool.rows[kept])
        found = hits(self.legs[0].layout, chunks, fused[kept].tolist(), evidence)
        return Ranking.of(ranking.query, found, trace=traced(ranking, self.legs, pool.lists)).first(self._keep)

    def _best_chunks(self, queries: Sequence[Any], rows: Rows) -> Rows:
        """The chunk that stands for each record: the choice of the first leg that knows chunks."""
        if self.legs[0].unit == "chunk":
            return rows
        at = next((at for at, leg in enumerate(self.legs) if leg.index.unit == "chunk"), 0)
        return self.legs[at].best_chunks(queries[at], rows)

    def __str__(self) -> str:
        return f"fuse({', '.join(map(str, self.legs))})"
