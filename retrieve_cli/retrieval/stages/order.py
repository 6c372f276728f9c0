"""Lists in an order that no score decides: all records that may be found, and matching records by a field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from retrieve_cli.contracts import NAMED, Evidence, Kind, Ranking, Stage, Unit
from retrieve_cli.frozen import Described, Frozen, replace
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout, hits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Hit, Mask, Query, Rows


class Listed(Frozen, eq=False):
    """Rows that a query without words may find."""

    found: Rows

    def matched(self) -> int:
        return len(self.found)

    def rows(self) -> Rows:
        return self.found

    considered = matched


class Enumerate(Described):
    """Records (or chunks) that may be found, all of them, in the order of their ids with a score of 0."""

    apart: ClassVar = ("layout", "lowest")
    layout: ChunkLayout
    lowest: Callable[..., Rows]
    """Function that returns the rows that come first in the order of ids."""
    unit: Unit
    keep: int
    kind: ClassVar[Kind] = "retrieve"
    rescores: ClassVar[bool] = False

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._listed(ranking.query) for ranking in rankings]

    def _listed(self, query: Query) -> Ranking:
        starts = self.layout.starts
        chunks = np.ones(int(starts[-1]), np.bool_) if query.chunks is None else query.chunks
        if query.records is not None:
            chunks = chunks & np.repeat(query.records, np.diff(starts))
        rows = chunks.nonzero()[0]
        found = rows
        if self.unit == "record":
            found, firsts = np.unique(self.layout.record_of(rows), return_index=True)
            rows = rows[firsts]
        rows = self.lowest(rows, self.keep, unit="chunk")
        listed = hits(self.layout, rows, [0.0] * len(rows), [()] * len(rows))
        return replace(Ranking.again(query, listed), matches=Listed(found))

    def __str__(self) -> str:
        return "list"


class NamesFirst(Described):
    """Puts the records that a query lists by their names before all others, in its order."""

    apart: ClassVar = ("layout",)
    layout: ChunkLayout
    kind: ClassVar[Kind] = "boost"
    rescores: ClassVar[bool] = True

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._lifted(ranking) for ranking in rankings]

    def _lifted(self, ranking: Ranking) -> Ranking:
        scores = [hit.score for hit in ranking.hits] or [0.0]
        step = (max(scores) - min(scores)) / len(scores) or 1.0
        best = {hit.record: hit for hit in reversed(ranking.hits)}
        listed = list(ranking.hits)
        for place, row in enumerate(reversed(ranking.query.named), 1):
            hit = best.get(row) or self._unlisted(ranking.query, row)
            score = max(scores) + place * step
            why = Evidence(NAMED, None, hit.score, score - hit.score, 1.0)
            listed = [other for other in listed if other.id != hit.id]
            listed.append(replace(hit, score=score, evidence=(*hit.evidence, why)))
        return Ranking.again(ranking.query, listed, trace=ranking.trace)

    def _unlisted(self, query: Query, record: int) -> Hit:
        """Return a hit for a record that no retriever listed, by the first chunk that it may be found by."""
        rows = np.arange(*self.layout.starts[record : record + 2])
        rows = rows if query.chunks is None else rows[query.chunks[rows]]
        return hits(self.layout, rows[:1], [0.0], [()])[0]

    def __str__(self) -> str:
        return "names"


class Sort(Described):
    """Order of matching records by a field; of equal ones, the order of `first`. Records without it come last.

    `first` is asked for what matches, and then block by block for the records at the front of the order, so that it is
    exact however many records match.
    """

    apart: ClassVar = ("places", "layout")
    first: Stage
    """The stage that retrieves, which passes on at least `depth` hits."""
    after: tuple[Stage, ...]
    """Stages that rescore or drop its hits."""
    written: str
    """The field, with `:desc` if the greatest value comes first."""
    places: NDArray[np.float64]
    """(records,) float64: the place of each record in the order; infinite without the field."""
    layout: ChunkLayout
    unit: Unit
    depth: int
    keep: int
    rescores: ClassVar[bool] = False

    @property
    def kind(self) -> Kind:
        return self.first.kind

    @property
    def inner(self) -> Stage:
        return self.first

    def wrapping(self, edit: Callable[[Stage], Stage]) -> Sort:
        return replace(self, first=edit(self.first))

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [self._sort(ranking) for ranking in self.first(rankings)]

    def _sort(self, ranking: Ranking) -> Ranking:
        found: list[Hit] = []
        for records in self._blocks(ranking):
            if len(found) >= self.keep:
                break
            ranked = [Ranking(replace(ranking.query, records=records, conditions=None))]
            for stage in (self.first, *self.after):
                ranked = stage(ranked)
            found += sorted(ranked[0].hits, key=lambda hit: self.places[hit.record])
        kept = tuple(found[: self.keep])
        return Ranking(ranking.query, kept, ranking.trace, ranking.matches)

    def _blocks(self, ranking: Ranking) -> Iterator[Mask]:
        """Yield masks of matching records, (records,) bool, in their order: at most `depth` rows, or all of a place."""
        if ranking.matches is None:  # a language model tells nothing but its choice
            records = np.array([hit.record for hit in ranking.hits], np.int64)
        else:
            rows = ranking.matches.rows()
            records = rows if self.unit == "record" else self.layout.record_of(rows)
        records = records[np.argsort(self.places[records], kind="stable")]
        places, start = self.places[records], 0
        while start < len(records):
            end = min(start + self.depth, len(records))
            if end < len(records):
                tie = int(np.searchsorted(places, places[end], side="left"))
                end = tie if tie > start else int(np.searchsorted(places, places[end], side="right"))
            block = np.zeros(len(self.places), np.bool_)
            block[records[start:end]] = True
            yield block
            start = end

    def __str__(self) -> str:
        return f"{' > '.join(map(str, (self.first, *self.after)))} > sort({self.written})"
