"""The stage that drops hits which are not good enough, by their score or by their distance from the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import ClassVar

from retrieve_cli.contracts import Hit, Kind, Ranking
from retrieve_cli.frozen import Described, replace


class Threshold(Described):
    """Keeps hits of at least `min_score`, of at least the similarity `grade`, within `max_distance` of the query.

    Similarity is the score of a retriever of `similar`, a cosine where the encoder normalises; distance is 1 less that.
    A hit without such a score fails. `grade` is for hits that no reranker scored: of others the reranker decides.

    If fewer than `min_results` are left, the best of those follow that are not similar enough; none comes back that
    is below `min_score`. They keep their scores and places, with the reason why they would have been cut.
    """

    apart: ClassVar = ("k",)
    min_score: float | str | None = None
    """Least score, or the least share of the first one, `60%`: none is dropped if that one is not above 0."""
    grade: float | None = None
    max_distance: float | None = None
    similar: tuple[str, ...] = ()
    min_results: int = 0
    k: int = 10
    """Hits that are shown: of those cut, the trace lists the ones that would be among them, or above the last."""
    kind: ClassVar[Kind] = "cut"
    rescores: ClassVar[bool] = False

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._cut(ranking) for ranking in rankings]

    def _cut(self, ranking: Ranking) -> Ranking:
        least = self._least(ranking)
        failed = [self._fails(hit, least) for hit in ranking.hits]
        passed = failed.count(None)
        far = [at for at, why in enumerate(failed) if why in ("grade", "max_distance")]
        back = frozenset(far[: max(self.min_results - passed, 0)])
        kept = tuple(
            hit if why is None else replace(hit, topped_up=f"it fails {self._test(why)}")
            for at, (hit, why) in enumerate(zip(ranking.hits, failed, strict=True))
            if why is None or at in back
        )
        cut = Counter(self._test(why) for at, why in enumerate(failed) if why is not None and at not in back)
        shown = [at for at, why in enumerate(failed) if why is None or at in back][: self.k]
        # The cut hits above the last one that is shown, or among the first `k`.
        end = shown[-1] + 1 if len(shown) == self.k else max(self.k, shown[-1] + 1 if shown else 0)
        listed = [
            {"id": hit.id, "rank": at + 1, "score": hit.score, "why": self._test(why)}
            for at, (hit, why) in enumerate(zip(ranking.hits[:end], failed[:end], strict=True))
            if why is not None and at not in back
        ]
        account = {"kept": passed, "cut": dict(cut), **({"topped_up": len(back)} if back else {}), "hits": listed}
        similarities = () if passed else map(self._similarity, ranking.hits)
        if (best := max((each for each in similarities if each is not None), default=None)) is not None:
            account["most_similar"] = best
        return Ranking(ranking.query, kept, {**ranking.trace, "threshold": account})

    def _test(self, name: str) -> str:
        value = getattr(self, name)
        return f"{name} {value}" if isinstance(value, str) else f"{name} {value:g}"

    def _least(self, ranking: Ranking) -> float:
        """The least score of a hit that is kept."""
        if not isinstance(self.min_score, str):
            return -inf if self.min_score is None else self.min_score
        first = ranking.hits[0].score if ranking.hits else 0.0
        return first * float(self.min_score.removesuffix("%")) / 100 if first > 0 else -inf

    def _fails(self, hit: Hit, least_score: float) -> str | None:
        """The test that a hit does not pass."""
        if hit.score < least_score:
            return "min_score"
        nearest = None if self.max_distance is None else 1.0 - self.max_distance
        grade = self.grade if hit.reranked is None else None
        for name, least in (("grade", grade), ("max_distance", nearest)):
            similarity = None if least is None else self._similarity(hit)
            if least is not None and (similarity is None or similarity < least):
                return name
        return None

    def _similarity(self, hit: Hit) -> float | None:
        """The similarity of a hit; None if no retriever of `similar` scored it."""
        return next((each.score for each in hit.evidence if each.source in self.similar), None)

    def __str__(self) -> str:
        tests = ((name, getattr(self, name)) for name in ("min_score", "grade", "max_distance"))
        written = [self._test(name).replace(" ", "=") for name, value in tests if value is not None]
        return f"threshold({', '.join([*written, *([f'min_results={self.min_results}'] if self.min_results else [])])})"
