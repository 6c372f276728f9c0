"""The stage that makes hits worth more, or less, by what their records and chunks are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from retrieve_cli.contracts import Evidence, Hit, Kind, Ranking
from retrieve_cli.frozen import Described, Frozen, replace

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask


class Boosted(Described):
    """Records and chunks that one boost holds for."""

    apart: ClassVar = ("records", "chunks")
    written: str
    """The boost in the user's form: `section=Results:1.2`."""
    factor: float
    records: Mask
    """(records,) bool"""
    chunks: Mask | None = None
    """(chunks,) bool, if it is of chunks."""

    def holds_for(self, hit: Hit) -> bool:
        """Return True if the hit's chunk, or else its record, is such a one."""
        return bool(self.records[hit.record] if self.chunks is None else self.chunks[hit.row])


class Boost(Frozen):
    """Multiplies how far a hit's score rises above the floor of its list by the factors of all boosts that hold for it:

        floor + factor * (score - floor),  floor = lowest - (highest - lowest) / n   for n hits.

    Scores of a fusion may be negative: a bare product would lower those. The floor lies below every hit, so that a
    factor above 1 raises each hit that it holds for, and a factor below 1 lowers it, but not below records outside the
    list. If all hits have the same score, the range is this score. The evidence `boost` holds the rank and the score
    before, the score's height above the floor (`normalized`) and the factor less 1 (`weight`), whose product is the
    added score.
    """

    boosts: tuple[Boosted, ...]
    kind: ClassVar[Kind] = "boost"
    rescores: ClassVar[bool] = True

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._boost(ranking) for ranking in rankings]

    def _boost(self, ranking: Ranking) -> Ranking:
        if not ranking.hits:
            return ranking
        floor = floor_of([hit.score for hit in ranking.hits])
        moved = [self._moved(hit, rank, floor) for rank, hit in enumerate(ranking.hits, 1)]
        count = sum(after is not before for after, before in zip(moved, ranking.hits, strict=True))
        trace = {**ranking.trace, "boost": {"floor": floor, "boosted": count}}
        return Ranking.again(ranking.query, moved, trace=trace)

    def _moved(self, hit: Hit, rank: int, floor: float) -> Hit:
        factor = 1.0
        for boost in self.boosts:
            factor *= boost.factor if boost.holds_for(hit) else 1.0
        if factor == 1.0:
            return hit
        why = Evidence("boost", rank, hit.score, hit.score - floor, factor - 1.0)
        return replace(hit, score=floor + factor * (hit.score - floor), evidence=(*hit.evidence, why))

    def __str__(self) -> str:
        return f"boost({', '.join(boost.written for boost in self.boosts)})"


def floor_of(scores: Sequence[float]) -> float:
    """Return a score below all of these, by the share of their range that one of them takes."""
    lowest, highest = min(scores), max(scores)
    return lowest - ((highest - lowest) or abs(highest) or 1.0) / len(scores)
