"""The stage that brings in what the first hits lead to: records that a query implies and does not name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from retrieve_cli.contracts import Evidence, Hit, Kind, Ranking
from retrieve_cli.frozen import dataclass
from retrieve_cli.stages.masks import first_chunks
from retrieve_cli.stages.retrieve import Layout

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask


@dataclass(frozen=True, slots=True)
class Found:
    """A record that a walk from the first hits led to."""

    record: int
    score: float
    """From 0 to 1, that of the best hit."""
    path: str
    """How it was reached, for people."""


@dataclass(frozen=True, slots=True)
class Expand:
    """Lays scores of paths on the scale of the ranking: `floor + (top - floor) * score`, where the floor is the score
    at a rank, and gives each record the better one of that and its own. Where all hits are worth the same, what they
    are worth is the range.

    So what a hit leads to never stands above it, and what is far from the top leads nowhere. The stage follows the
    reranker, which would bury what the text of a record does not say.
    """

    walk: Callable[[Sequence[tuple[int, float]], Mask | None], list[Found]] = field(compare=False, repr=False)
    """Records with scores from 0 to 1 to what they lead to by way of visible records, if only some are."""
    layout: Layout = field(compare=False, repr=False)
    seeds: int
    """Hits that start the walk."""
    floor: int
    """The rank whose score is where scores of paths begin."""
    depth: int
    how: object = None
    """What else decides where the walk leads; compared, and not looked at."""
    kind: ClassVar[Kind] = "expand"
    rescores: ClassVar[bool] = True

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._expand(ranking) for ranking in rankings]

    def _expand(self, ranking: Ranking) -> Ranking:
        hits = ranking.hits
        if not hits:
            return ranking
        top = hits[0].score
        span = top - hits[min(self.floor, len(hits)) - 1].score or abs(top) or 1.0
        floor = top - span
        best: dict[int, float] = {}
        for hit in hits[: self.seeds]:
            best.setdefault(hit.record, (hit.score - floor) / span)
        allowed, chunks = ranking.query.records, ranking.query.chunks
        found = {each.record: each for each in self.walk(list(best.items()), ranking.query.visible)}
        if allowed is not None:
            found = {record: each for record, each in found.items() if allowed[record]}
        known = {hit.record for hit in hits}
        raised = [self._raised(hit, found.get(hit.record), floor, span) for hit in hits]
        new = [self._new(each, floor, span, chunks) for record, each in found.items() if record not in known]
        count = len(new) + sum(after is not before for after, before in zip(raised, hits, strict=True))
        trace = {**ranking.trace, "expansion": {"seeds": len(best), "found": len(found), "raised": count}}
        return Ranking.again(ranking.query, [*raised, *new], trace=trace)

    def _raised(self, hit: Hit, found: Found | None, floor: float, span: float) -> Hit:
        """A hit with the score of the path to it, where that is better than its own."""
        if found is None or (score := floor + span * found.score) <= hit.score:
            return hit
        why = Evidence("graph", None, found.score, score, 1.0)
        return replace(hit, score=score, evidence=(*hit.evidence, why), path=found.path)

    def _new(self, found: Found, floor: float, span: float, chunks: Mask | None) -> Hit:
        (row,) = first_chunks(self.layout.starts, np.array([found.record]), chunks).tolist()
        score = floor + span * found.score
        why = Evidence("graph", None, found.score, score, 1.0)
        return Hit(self.layout.chunk_id(row), row, found.record, score, (why,), path=found.path)

    def __str__(self) -> str:
        return f"expand({self.seeds} seeds, {self.depth} steps)"
