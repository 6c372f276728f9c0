"""The stage that follows edges from the first hits: to matches that rank too low, and to records that a query implies
and does not name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from retrieve_cli.contracts import Evidence, Hit, Kind, Ranking
from retrieve_cli.frozen import Described, replace
from retrieve_cli.retrieval.stages.boost import floor_of
from retrieve_cli.retrieval.stages.masks import first_chunks
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask

_PART = 8
"""A retriever's first hits support a record only within this part of the records that may be found: a retriever of
vectors lists every record of a small catalog, and being on that list means nothing."""


class LinkedRecord(Described):
    """A record that a walk from the first hits led to."""

    apart: ClassVar = ("path",)
    record: int
    score: float
    """From 0 to 1, the score of the best hit."""
    path: Callable[[], str]
    """Returns the steps that lead to it, for people: few of the records that a walk finds are shown."""


class Support(NamedTuple):
    """Support of a hit by retrievers: one of them ranks it among its first ones."""

    retrievers: tuple[str, ...]
    rank: int
    """The last rank on a retriever's list that counts, in a catalog that is large enough."""

    def among(self, records: int) -> Support:
        """Return the support of hits that were found among so many records."""
        return self._replace(rank=min(self.rank, records // _PART))

    def holds_for(self, hit: Hit) -> bool:
        """Return True if a retriever supports the hit."""
        return any(
            why.rank is not None and why.rank <= self.rank and why.source in self.retrievers for why in hit.evidence
        )


class Expand(Described):
    """Lays scores of paths on the scale of the ranking: `floor + (top - floor) * score`, where the floor is the score
    at a rank, and gives each record the better of this score and its own. If all hits have the same score, the range is
    this score.

    So a linked record never ranks above its hit, and hits far from the top lead nowhere. The stage follows the
    reranker, which would demote records whose text does not match.

    With `support`, nothing is added and only hits that a retriever supports are raised: a match that the first hits
    link to is likelier right, but a link alone never displaces a match. Records that the results link to and that are
    not among them are related records, listed apart (`linked`).
    """

    apart: ClassVar = ("walk", "layout")
    walk: Callable[[Sequence[tuple[int, float]], Mask | None], list[LinkedRecord]]
    """From records with scores from 0 to 1 to the records they lead to by way of visible records, if only some are;
    best first."""
    layout: ChunkLayout
    seeds: int
    """Hits that start the walk."""
    floor: int
    """The rank whose score is where scores of paths begin."""
    depth: int
    how: object = None
    """Other settings that decide where the walk leads; only compared."""
    support: Support | None = None
    """Support that a hit needs to be raised; None: any hit is, and new ones are added."""
    related: int = 0
    """The most related records that are listed apart."""
    kind: ClassVar[Kind] = "expand"
    rescores: ClassVar[bool] = True

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._expand(ranking) for ranking in rankings]

    def linked(self, ranking: Ranking) -> tuple[Hit, ...]:
        """Return the records that the results of a query link to and that are not among them, best first.

        The walk starts from the first results, and scores lie on their scale. Filters hold.
        """
        hits = ranking.hits
        if not hits or not self.related:
            return ()
        floor = floor_of([hit.score for hit in hits])
        span = max(hit.score for hit in hits) - floor
        shown = {hit.record for hit in hits}
        found = self._walked(ranking, self._seeds(hits, floor, span))
        others = (each for record, each in found.items() if record not in shown)  # a walk finds the best first
        return tuple(self._new(each, floor, span, ranking.query.chunks) for each in islice(others, self.related))

    def _expand(self, ranking: Ranking) -> Ranking:
        hits = ranking.hits
        if not hits:
            return ranking
        top = hits[0].score
        span = top - hits[min(self.floor, len(hits)) - 1].score or abs(top) or 1.0
        floor = top - span
        seeds = self._seeds(hits, floor, span)
        found = self._walked(ranking, seeds)
        known = {hit.record for hit in hits}
        support, allowed = self.support, ranking.query.records
        if support is not None:
            support = support.among(len(self.layout.starts) - 1 if allowed is None else int(allowed.sum()))
        raised = [
            self._raised(hit, found.get(hit.record), floor, span) if support is None or support.holds_for(hit) else hit
            for hit in hits
        ]
        added = [] if support else [each for record, each in found.items() if record not in known]
        new = [self._new(each, floor, span, ranking.query.chunks) for each in added]
        count = len(new) + sum(after is not before for after, before in zip(raised, hits, strict=True))
        trace = {**ranking.trace, "expansion": {"seeds": len(seeds), "found": len(found), "raised": count}}
        return Ranking.again(ranking.query, [*raised, *new], trace=trace)

    def _seeds(self, hits: Sequence[Hit], floor: float, span: float) -> dict[int, float]:
        """The records of the first hits, each with its share of the range of scores."""
        best: dict[int, float] = {}
        for hit in hits[: self.seeds]:
            best.setdefault(hit.record, (hit.score - floor) / span)
        return best

    def _walked(self, ranking: Ranking, seeds: Mapping[int, float]) -> dict[int, LinkedRecord]:
        """By record, what the seeds lead to of all that may be found."""
        allowed = ranking.query.records
        found = self.walk(list(seeds.items()), ranking.query.visible)
        return {each.record: each for each in found if allowed is None or allowed[each.record]}

    def _raised(self, hit: Hit, found: LinkedRecord | None, floor: float, span: float) -> Hit:
        """A hit with the score of the path to it, where that is better than its own."""
        if found is None or (score := floor + span * found.score) <= hit.score:
            return hit
        why = Evidence("graph", None, found.score, score - hit.score, 1.0)
        return replace(hit, score=score, evidence=(*hit.evidence, why), path=found.path())

    def _new(self, found: LinkedRecord, floor: float, span: float, chunks: Mask | None) -> Hit:
        (row,) = first_chunks(self.layout.starts, np.array([found.record]), chunks).tolist()
        score = floor + span * found.score
        why = Evidence("graph", None, found.score, score, 1.0)
        return Hit(self.layout.chunk_id(row), row, found.record, score, (why,), path=found.path())

    def __str__(self) -> str:
        return f"expand({self.seeds} seeds, {self.depth} steps{', append' if self.support else ''})"
