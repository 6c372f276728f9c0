"""The stage that leaves out hits which are not good enough, by their score or by their distance from the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from retrieve_cli.contracts import Hit, Ranking

_DENSE = "dense"


class Threshold:
    """Keeps hits of at least `min_score`, of at least the similarity `grade`, within `max_distance` of the query.

    Similarity is the dense leg's own score, a cosine where the encoder normalises; distance is 1 less that. A hit
    that the dense leg says nothing of cannot pass a test of it.
    """

    def __init__(
        self, *, min_score: float | None = None, grade: float | None = None, max_distance: float | None = None
    ) -> None:
        self._least = min_score
        tests = {"grade": grade, "max_distance": None if max_distance is None else 1.0 - max_distance}
        self._similar = {name: least for name, least in tests.items() if least is not None}
        self._shown = {
            name: value
            for name, value in (("min_score", min_score), ("grade", grade), ("max_distance", max_distance))
            if value is not None
        }

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._cut(ranking) for ranking in rankings]

    def _cut(self, ranking: Ranking) -> Ranking:
        failed = [self._fails(hit) for hit in ranking.hits]
        kept = tuple(hit for hit, why in zip(ranking.hits, failed, strict=True) if why is None)
        cut = Counter(f"{why} {self._shown[why]:g}" for why in failed if why is not None)
        return Ranking(ranking.query, kept, {**ranking.trace, "threshold": {"kept": len(kept), "cut": dict(cut)}})

    def _fails(self, hit: Hit) -> str | None:
        """The test that a hit does not pass."""
        if self._least is not None and hit.score < self._least:
            return "min_score"
        for name, least in self._similar.items():
            similarity = next((evidence.score for evidence in hit.evidence if evidence.leg == _DENSE), None)
            if similarity is None or similarity < least:
                return name
        return None

    def __str__(self) -> str:
        return f"threshold({', '.join(f'{name}={value:g}' for name, value in self._shown.items())})"
