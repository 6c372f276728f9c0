"""Asking one leg: an index, how a query is put to it, and how many candidates it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Candidates, Evidence, Hit, Index, Json, Ranking, Unit
from retrieve_cli.stages.fusion import highest

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors


@dataclass(frozen=True, slots=True)
class Layout:
    """How chunks lie in records, and what they are called."""

    starts: Rows
    """(records + 1,) first chunk row of each record, then the number of chunks."""
    chunk_id: Callable[[int], str]

    def record_of(self, rows: Rows) -> Rows:
        """The record row of each chunk row."""
        return np.searchsorted(self.starts, rows, side="right") - 1

    def single(self, records: Rows) -> bool:
        """Whether each of the records has just one chunk."""
        return bool(np.all(self.starts[records + 1] - self.starts[records] == 1))


@dataclass(frozen=True, slots=True)
class Leg:
    """One index as a pipeline sees it: it speaks of records or of chunks, whichever the ranking is made of."""

    name: str
    index: Index
    prepare: Callable[[Sequence[str]], Sequence[Any]]
    """Query texts to what the index takes: vectors for dense, the texts themselves for BM25."""
    layout: Layout
    unit: Unit
    """What is ranked."""
    depth: int

    def find(self, prepared: Sequence[Any], within: Sequence[Mask | None] | None = None) -> list[Candidates]:
        """The leg's `depth` best records or chunks for each query; `within` says by query of which records.

        `before` and `after` count what the index finds: records where it only knows those.
        """
        allowed = None if within is None else self._allowed(within)
        found = self.index.search(prepared, depth=self.depth, starts=self._groups, allowed=allowed)
        return [self._as_chunks(candidates) for candidates in found] if self._spreads else found

    def score(self, query: Any, rows: Rows) -> Vectors:
        """The leg's score for each of the given records or chunks, listed or not."""
        rows = self.layout.record_of(rows) if self._spreads else rows
        return self.index.score(query, rows, starts=self._groups)

    def best_chunks(self, query: Any, records: Rows) -> Rows:
        """The chunk row that this leg likes best in each record; the first one where it only knows records."""
        firsts = self.layout.starts[records]
        if self.index.unit == "record" or self.layout.single(records):
            return firsts
        best = [
            first + int(np.argmax(self.index.score(query, np.arange(first, end))))
            for first, end in zip(firsts, self.layout.starts[records + 1], strict=True)
        ]
        return np.array(best, np.int64)

    @property
    def _groups(self) -> Rows | None:
        return self.layout.starts if (self.index.unit, self.unit) == ("chunk", "record") else None

    def _allowed(self, within: Sequence[Mask | None]) -> Sequence[Mask | None]:
        """Masks of records as masks of what the index finds: rows or groups."""
        if self.unit == "record" or self.index.unit == "record":
            return within
        # The queries of a batch often share one mask, and as many copies of it as queries would fill the memory.
        sizes = np.diff(self.layout.starts)
        different = {id(mask): mask for mask in within if mask is not None}
        of_chunks = {key: np.repeat(mask, sizes) for key, mask in different.items()}
        return [of_chunks.get(id(mask)) for mask in within]

    @property
    def _spreads(self) -> bool:
        """Whether records are found and chunks are wanted: each chunk then has its record's score."""
        return (self.index.unit, self.unit) == ("record", "chunk")

    def _as_chunks(self, candidates: Candidates) -> Candidates:
        starts = self.layout.starts
        sizes = starts[candidates.rows + 1] - starts[candidates.rows]
        rows = [np.arange(starts[record], starts[record + 1]) for record in candidates.rows]
        return replace(
            candidates,
            rows=np.concatenate(rows)[: self.depth] if rows else candidates.rows,
            scores=np.repeat(candidates.scores, sizes)[: self.depth],
        )

    def __str__(self) -> str:
        return f"{self.name}@{self.depth}"


class Retrieve:
    """The stage that ranks by one leg alone."""

    def __init__(self, leg: Leg, *, keep: int) -> None:
        """`keep` is how many hits are handed on."""
        self.leg = leg
        self._keep = keep

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        prepared = self.leg.prepare([ranking.query.text for ranking in rankings])
        found = self.leg.find(prepared, masks(rankings))
        return [self._rank(*each) for each in zip(rankings, prepared, found, strict=True)]

    def _rank(self, ranking: Ranking, query: Any, found: Candidates) -> Ranking:
        leg = self.leg
        kept = highest(found.scores.astype(np.float64), self._keep)
        scores = [float(score) for score in found.scores[kept]]
        evidence = [
            (Evidence(leg=leg.name, rank=rank, score=score, normalized=score, weight=1.0),)
            for rank, score in enumerate(scores, 1)
        ]
        rows = found.rows[kept]
        chunks = leg.best_chunks(query, rows) if leg.unit == "record" else rows
        ranked = hits(leg.layout, chunks, scores, evidence)
        return Ranking.of(ranking.query, ranked, trace=traced(ranking, [leg], [found])).first(self._keep)

    def __str__(self) -> str:
        return str(self.leg)


def masks(rankings: Sequence[Ranking]) -> list[Mask | None] | None:
    """By ranking, the records that may be found for its query; None where all may for every one."""
    found = [ranking.query.records for ranking in rankings]
    return None if all(mask is None for mask in found) else found


def traced(ranking: Ranking, legs: Sequence[Leg], lists: Sequence[Candidates]) -> Mapping[str, Json]:
    """The trace of a ranking, with what its filter left of each leg's candidates where it has one."""
    if ranking.query.records is None:
        return ranking.trace
    counts = {
        leg.name: {"candidates_before_filter": found.before, "candidates_after_filter": found.after}
        for leg, found in zip(legs, lists, strict=True)
    }
    return {**ranking.trace, "filter": counts}


def hits(layout: Layout, rows: Rows, scores: Sequence[float], evidence: Sequence[tuple[Evidence, ...]]) -> list[Hit]:
    """Hits for chunk rows with their scores and evidence."""
    records = layout.record_of(rows)
    return [
        Hit(id=layout.chunk_id(int(row)), row=int(row), record=int(record), score=score, evidence=why)
        for row, record, score, why in zip(rows, records, scores, evidence, strict=True)
    ]
