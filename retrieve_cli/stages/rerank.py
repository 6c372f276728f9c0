"""The stage that reads the first hits again, query and text together, and puts them in a better order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from retrieve_cli.contracts import Hit, Query, Ranking, Reranked
from retrieve_cli.stages.fusion import zscore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


_SAME = 1e-9
"""Scores closer than this share of the largest are equal."""


class Reader(Protocol):
    """What reads hits again."""

    @property
    def name(self) -> str: ...

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        """(n,) scores, higher is better."""


class Rerank:
    """Mixes what a reranker says of the first hits with what retrieval said, on retrieval's scale.

    The reranker's scores become z-scores over the hits that it read, laid on the mean and the deviation of their
    retrieval scores: so `interpolate` 0 leaves every score as it was, 1 takes the reranker's order alone, and a score
    still means what it meant before. Hits that were not read follow those that were, in the order they had.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        depth: int,
        keep: int,
        interpolate: float,
        min_score: float | None = None,
    ) -> None:
        """`depth` hits are read and `keep` handed on, of those that were read only such as have the reader's
        `min_score` where there is one."""
        self._reader = reader
        self._depth = depth
        self._keep = keep
        self._interpolate = interpolate
        self._min_score = min_score

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._rerank(ranking) for ranking in rankings]

    def _rerank(self, ranking: Ranking) -> Ranking:
        read, rest = ranking.hits[: self._depth], ranking.hits[self._depth :]
        if not read:
            return ranking
        scores = np.asarray(self._reader.read(ranking.query, read), np.float64)
        mixed = mix(np.array([hit.score for hit in read]), scores, self._interpolate)
        moved = [
            replace(hit, score=float(score), reranked=Reranked(self._reader.name, rank, hit.score, float(own)))
            for rank, (hit, score, own) in enumerate(zip(read, mixed, scores, strict=True), 1)
        ]
        if self._min_score is None:
            drop = max(0.0, rest[0].score - float(mixed.min())) if rest else 0.0
            moved += [replace(hit, score=hit.score - drop) for hit in rest]
        else:
            moved = [hit for hit, own in zip(moved, scores, strict=True) if own >= self._min_score]
        return Ranking.again(ranking.query, moved).first(self._keep)

    def __str__(self) -> str:
        return f"{self._reader.name}@{self._depth}"


def mix(retrieved: Floats, read: Floats, interpolate: float) -> Floats:
    """(n,) retrieval scores and (n,) reranker scores to (n,) on the scale of the former.

    (1 - i) r + i (mean r + deviation r * z(reranker)): where either has no deviation, the other decides.
    """
    if interpolate == 0:
        return retrieved
    spread, deviation = float(retrieved.std()) or 1.0, float(read.std())
    if deviation <= _SAME * float(np.abs(read).max()):
        deviation = 0.0  # the mean of equal numbers rounds past them
    laid = float(retrieved.mean()) + spread * zscore(read, mean=float(read.mean()), deviation=deviation)
    return (1.0 - interpolate) * retrieved + interpolate * laid
