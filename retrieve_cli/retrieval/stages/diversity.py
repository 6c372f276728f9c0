"""Stages that keep a ranking from repeating itself: caps, and maximal marginal relevance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from retrieve_cli.contracts import Evidence, Hit, Json, Kind, Ranking
from retrieve_cli.frozen import Described, Frozen, replace
from retrieve_cli.retrieval.stages.fusion import minmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Vectors

    Floats = NDArray[np.float64]


class Cap(Described):
    """At most `most` hits of one kind; a hit without a kind (None) is not counted and never cut."""

    apart: ClassVar = ("kind_of",)
    name: str
    most: int
    kind_of: Callable[[Hit], Hashable]

    def __str__(self) -> str:
        return f"{self.name} {self.most}"


def per_source(most: int) -> Cap:
    """At most so many hits of one record."""
    return Cap("per_source", most, lambda hit: hit.record)


def per_group(most: int, groups: NDArray[np.int32]) -> Cap:
    """At most so many hits of one group; `groups` (records,) is -1 for a record that has none."""

    def group(hit: Hit) -> int | None:
        number = int(groups[hit.record])
        return number if number >= 0 else None

    return Cap("per_group", most, group)


def capped(hits: Iterable[Hit], caps: Sequence[Cap], *, keep: int) -> tuple[list[Hit], list[dict[str, Json]]]:
    """The first `keep` hits, in their order, that fill no cap, and which were passed over before that, and why."""
    counts: Counter[tuple[int, Hashable]] = Counter()
    kept: list[Hit] = []
    cut: list[dict[str, Json]] = []
    for rank, hit in enumerate(hits, 1):
        if len(kept) == keep:
            break
        kinds = [(at, kind) for at, cap in enumerate(caps) if (kind := cap.kind_of(hit)) is not None]
        full = next((caps[at] for at, kind in kinds if counts[at, kind] >= caps[at].most), None)
        if full is not None:
            cut.append({"id": hit.id, "why": str(full), "rank": rank})
            continue
        counts.update(kinds)
        kept.append(hit)
    return kept, cut


def with_cut_hits(trace: Mapping[str, Json], cut: Sequence[Json]) -> dict[str, Json]:
    """Return the trace with the hits that caps have cut, those that earlier ones cut included."""
    before = trace.get("diversity", {})
    return {**trace, "diversity": {**before, "cut": [*before.get("cut", ()), *cut]}}


class Limit(Frozen):
    """The stage that passes on the first `keep` hits that fill no cap; it changes neither order nor scores."""

    caps: tuple[Cap, ...]
    keep: int
    kind: ClassVar[Kind] = "cut"
    rescores: ClassVar[bool] = False

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._limit(ranking) for ranking in rankings]

    def _limit(self, ranking: Ranking) -> Ranking:
        kept, cut = capped(ranking.hits, self.caps, keep=self.keep)
        return Ranking(ranking.query, tuple(kept), with_cut_hits(ranking.trace, cut))

    def __str__(self) -> str:
        return f"limit({', '.join(map(str, self.caps))})"


class Mmr(Described):
    """Maximal marginal relevance: hits that resemble an earlier hit move down (Carbonell, Goldstein 1998).

    A hit's score loses a penalty, (1 - l) / l of the range of all scores for a similarity of 1. Times l this is the
    paper's measure but for the scale, so that the order is the paper's order, scores descend with it and keep their
    meaning, and `trade_off` 1 changes nothing. The evidence `mmr` holds the rank and the score before, the similarity
    (`normalized`) and the penalty for a similarity of 1 (`weight`), and so still adds up.
    """

    apart: ClassVar = ("vectors_of",)
    vectors_of: Callable[[Rows], Vectors]
    """Chunk rows to (n, dim) float32 unit vectors."""
    trade_off: float
    """The paper's lambda, above 0 and up to 1, all relevance."""
    keep: int
    """Number of hits that are chosen from those that come in."""
    kind: ClassVar[Kind] = "cut"
    rescores: ClassVar[bool] = True

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._diversify(ranking) for ranking in rankings]

    def _diversify(self, ranking: Ranking) -> Ranking:
        if not ranking.hits:
            return ranking
        scores = np.array([hit.score for hit in ranking.hits], np.float64)
        low, high = float(scores.min()), float(scores.max())
        vectors = self.vectors_of(np.array([hit.row for hit in ranking.hits], np.int64)).astype(np.float64)
        relevance = minmax(scores, low=low, high=high)
        chosen, alike = marginal(relevance, vectors, trade_off=self.trade_off, keep=self.keep)
        penalty = (1.0 - self.trade_off) / self.trade_off * (high - low)
        # What rounds must not let a score rise from one place to the next.
        lowered = np.minimum.accumulate(scores[chosen] - penalty * alike).tolist()
        moved = [
            replace(hit, score=score, evidence=(*hit.evidence, Evidence("mmr", at + 1, hit.score, like, 0.0 - penalty)))
            for at, like, score in zip(chosen.tolist(), alike.tolist(), lowered, strict=True)
            for hit in [ranking.hits[at]]
        ]
        return Ranking.again(ranking.query, moved, trace=ranking.trace)

    def __str__(self) -> str:
        return f"mmr({self.trade_off:g})"


def marginal(relevance: Floats, vectors: Floats, *, trade_off: float, keep: int) -> tuple[Rows, Floats]:
    """Places of the `keep` hits that maximal marginal relevance chooses, in turn, and the similarity of each to the
    hits chosen before it.

    Each is the one of highest l * relevance - (1 - l) * similarity, of equal ones the first; similarity is the inner
    product with the most similar hit that was chosen, and 0 for the first hit or a negative product.
    """
    alike = np.zeros(len(relevance))
    free = np.ones(len(relevance), np.bool_)
    places: list[int] = []
    likeness: list[float] = []
    for _ in range(min(keep, len(relevance))):
        worth = np.where(free, trade_off * relevance - (1.0 - trade_off) * alike, -np.inf)
        best = int(np.argmax(worth))
        places.append(best)
        likeness.append(float(alike[best]))
        free[best] = False
        alike = np.maximum(alike, np.einsum("ij,j->i", vectors, vectors[best]))
    return np.array(places, np.int64), np.array(likeness)
