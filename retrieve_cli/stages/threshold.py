"""The stage that drops hits which are not good enough, by their score or by their distance from the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from retrieve_cli.contracts import Hit, Kind, Ranking


@dataclass(frozen=True, slots=True)
class Threshold:
    """Keeps hits of at least `min_score`, of at least the similarity `grade`, within `max_distance` of the query.

    Similarity is the score of a retriever of `similar`, a cosine where the encoder normalises; distance is 1 less that.
    A hit that none of these says anything of cannot pass a test of it.
    """

    min_score: float | None = None
    grade: float | None = None
    max_distance: float | None = None
    similar: tuple[str, ...] = ()
    kind: ClassVar[Kind] = "cut"
    rescores: ClassVar[bool] = False

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._cut(ranking) for ranking in rankings]

    def _cut(self, ranking: Ranking) -> Ranking:
        failed = [self._fails(hit) for hit in ranking.hits]
        kept = tuple(hit for hit, why in zip(ranking.hits, failed, strict=True) if why is None)
        cut = Counter(f"{why} {getattr(self, why):g}" for why in failed if why is not None)
        return Ranking(ranking.query, kept, {**ranking.trace, "threshold": {"kept": len(kept), "cut": dict(cut)}})

    def _fails(self, hit: Hit) -> str | None:
        """The test that a hit does not pass."""
        if self.min_score is not None and hit.score < self.min_score:
            return "min_score"
        nearest = None if self.max_distance is None else 1.0 - self.max_distance
        for name, least in (("grade", self.grade), ("max_distance", nearest)):
            if least is not None:
                similarity = next((each.score for each in hit.evidence if each.source in self.similar), None)
                if similarity is None or similarity < least:
                    return name
        return None

    def __str__(self) -> str:
        tests = ((name, getattr(self, name)) for name in ("min_score", "grade", "max_distance"))
        return f"threshold({', '.join(f'{name}={value:g}' for name, value in tests if value is not None)})"
