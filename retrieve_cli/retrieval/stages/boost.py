"""The stage that makes hits worth more, or less, by what their records and chunks are."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, ClassVar

from retrieve_cli.contracts import Evidence, Hit, Kind, Ranking
from retrieve_cli.frozen import Described, Frozen, replace

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.storage.records.column import Column


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

    def factor_of(self, hit: Hit) -> float:
        """Return the factor if the hit's chunk, or else its record, is such a one; else 1."""
        holds = self.records[hit.record] if self.chunks is None else self.chunks[hit.row]
        return self.factor if holds else 1.0


class Recent(Described):
    """Records by date: a factor of 1 + weight * 2^(-age / half_life), age counted from `newest`; 1 without a date."""

    apart: ClassVar = ("column",)
    written: str
    """The field, the half-life and the weight."""
    weight: float
    half_life: float
    """Days."""
    newest: int
    """Day from which age is counted, as proleptic Gregorian ordinal."""
    column: Column
    """The values of the field."""

    def factor_of(self, hit: Hit) -> float:
        """Return the factor of the hit's record, by the latest of its dates."""
        days = [day for text in self.column.values_of(hit.record) if (day := day_of(text)) is not None]
        if not days:
            return 1.0
        return 1.0 + self.weight * math.exp2(-max(self.newest - max(days), 0) / self.half_life)


def day_of(text: str) -> int | None:
    """Return the day of a date or a time in ISO 8601 as proleptic Gregorian ordinal: its first one if the text names a
    year or a month. None if it does not begin with a date."""
    match = _DATE.match(text)
    try:
        return date(*(int(part or 1) for part in match.groups())).toordinal() if match else None
    except ValueError:  # February has 30 days nowhere
        return None


_DATE = re.compile(r"\s*([12][0-9]{3})(?:-([01][0-9])(?:-([0-3][0-9])(?=$|[T\s]))?)?(?=$|[T\s])")


class Boost(Frozen):
    """Multiplies how far a hit's score rises above the floor of its list by the factors of all boosts that hold for it:

        floor + factor * (score - floor),  floor = lowest - (highest - lowest) / n   for n hits.

    Scores of a fusion may be negative: a bare product would lower those. The floor lies below every hit, so that a
    factor above 1 raises each hit that it holds for, and a factor below 1 lowers it, but not below records outside the
    list. If all hits have the same score, the range is this score. The evidence holds the rank and the score
    before, the score's height above the floor (`normalized`) and the factor less 1 (`weight`), whose product is the
    added score.
    """

    boosts: tuple[Boosted | Recent, ...]
    name: str = "boost"
    """Source of the evidence."""
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
        trace = {**ranking.trace, self.name: {"floor": floor, "boosted": count}}
        return Ranking.again(ranking.query, moved, trace=trace)

    def _moved(self, hit: Hit, rank: int, floor: float) -> Hit:
        factor = 1.0
        for boost in self.boosts:
            factor *= boost.factor_of(hit)
        if factor == 1.0:
            return hit
        why = Evidence(self.name, rank, hit.score, hit.score - floor, factor - 1.0)
        return replace(hit, score=floor + factor * (hit.score - floor), evidence=(*hit.evidence, why))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(boost.written for boost in self.boosts)})"


def floor_of(scores: Sequence[float]) -> float:
    """Return a score below all of these, by the share of their range that one of them takes."""
    lowest, highest = min(scores), max(scores)
    return lowest - ((highest - lowest) or abs(highest) or 1.0) / len(scores)
