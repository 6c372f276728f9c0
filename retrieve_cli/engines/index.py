"""Indexes in engines as one generation reads them: lists of the best rows, and the contents of those that are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates, TermWeights
from retrieve_cli.contracts.engines import (
    BATCH_ROWS,
    MOST_HITS,
    MOST_QUERIES,
    Engine,
    EngineQuery,
    Equal,
    Filter,
    RowHit,
)
from retrieve_cli.errors import IndexCorrupt, RetrieveError
from retrieve_cli.storage import engine_record

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Json, Mask, Rows, Unit
    from retrieve_cli.storage.engine_record import EngineCollection
    from retrieve_cli.storage.generation import Generation

    _Group = tuple["HeldCollection", Filter | None, list[tuple[EngineQuery, int, Future[Sequence[RowHit]]]]]

Q = TypeVar("Q")
_NAMED = 1000
"""Rows or records up to which a search names those that it may find."""
_SLACK = 2
"""Rows that are requested for each record at most: the best rows may be of few records."""
_AT_ONCE = 16
"""Requests that wait for servers at the same time."""
_KEPT = 2000
"""Rows whose contents are kept in memory."""
_PUSH = "send the index: retrieve engines push"


class HeldCollection:
    """A collection of an engine with the rows of a generation. Threads may share it."""

    def __init__(self, name: str, engine: Callable[[], Engine], generation: Generation) -> None:
        """`engine` is called at the first search."""
        self.name = name
        self.generation = generation
        self.marker = ""
        """Generation that the engine held at the last search."""
        self._engine = engine
        self._collection = ""

    def expect(self, retriever: str) -> None:
        """Raises: IndexCorrupt: the index of a retriever was not sent to the engine."""
        if retriever not in self._find().retrievers:
            message = f"the {retriever} index of generation {self.generation.id} was not sent to {self.name}"
            raise IndexCorrupt(message, hint=_PUSH)

    def _find(self) -> EngineCollection:
        held = engine_record.find(self.generation.folder, self.name)
        if held is None:
            raise IndexCorrupt(f"generation {self.generation.id} was not sent to {self.name}", hint=_PUSH)
        return held

    def search(
        self, queries: Sequence[EngineQuery], where: Filter | None, k: int, *, contents: bool = False
    ) -> list[Sequence[RowHit]]:
        """Return the hits of each query."""
        try:
            self._collection = self._collection or self._find().name
            return self._hits(queries, where, min(k, MOST_HITS), contents=contents)
        except IndexCorrupt:  # another collection may have replaced it
            self._collection = self._find().name
            return self._hits(queries, where, min(k, MOST_HITS), contents=contents)

    def _hits(
        self, queries: Sequence[EngineQuery], where: Filter | None, k: int, *, contents: bool
    ) -> list[Sequence[RowHit]]:
        hits: list[Sequence[RowHit]] = []
        for first in range(0, len(queries), MOST_QUERIES):
            some = queries[first : first + MOST_QUERIES]
            answer = self._engine().search(self._collection, some, where, k, contents=contents)
            self.marker = answer.marker
            hits += answer.hits
        return hits

    def contents(self, rows: Sequence[int]) -> dict[int, tuple[Json, Json]]:
        """Return record and chunk of chunk rows that the engine has, in one round trip for each few hundred."""
        stored: dict[int, tuple[Json, Json]] = {}
        for first in range(0, len(rows), BATCH_ROWS):
            ids = {self.generation.chunk_id(row): row for row in rows[first : first + BATCH_ROWS]}
            (hits,) = self.search([("", None)], Equal("id", list(ids)), len(ids), contents=True)
            stored |= {ids[hit.id]: _stored(hit, self.name) for hit in hits if hit.id in ids}
        return stored


def _stored(hit: RowHit, name: str) -> tuple[Json, Json]:
    try:
        record, chunk = json.loads(hit.stored)
        return record, {**chunk, "text": hit.text}
    except (ValueError, TypeError, RecursionError) as error:
        raise IndexCorrupt(f"{name} has other contents than were sent", hint="retrieve engines push --again") from error


class EngineBatch:
    """Searches that are sent together: those with one filter in one request to each server."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, str], _Group] = {}

    def add(
        self, collection: HeldCollection, query: EngineQuery, where: Filter | None, k: int
    ) -> Future[Sequence[RowHit]]:
        """Add a search; return its hits to come, or its failure."""
        answer: Future[Sequence[RowHit]] = Future()
        if isinstance(query[1], TermWeights) and not len(query[1].terms):
            answer.set_result(())
            return answer
        group = self._groups.setdefault((id(collection), repr(where)), (collection, where, []))
        group[2].append((query, k, answer))
        return answer

    def send(self) -> None:
        """Send all searches, those to different servers at the same time."""
        groups, self._groups = list(self._groups.values()), {}
        if len(groups) == 1:
            _send(groups[0])
        elif groups:
            with ThreadPoolExecutor(min(len(groups), _AT_ONCE)) as threads:
                list(threads.map(_send, groups))


def _send(group: _Group) -> None:
    collection, where, searches = group
    try:
        lists = collection.search([query for query, _, _ in searches], where, max(k for _, k, _ in searches))
    except RetrieveError as error:
        for _, _, answer in searches:
            answer.set_exception(error)
        return
    for (_, k, answer), hits in zip(searches, lists, strict=True):
        answer.set_result(hits[:k])


class EngineIndex(Generic[Q]):
    """A `contracts.RemoteIndex` of a retriever. Failures of the engine pass through unchanged."""

    unit: Unit = "chunk"

    def __init__(
        self,
        name: str,
        collection: HeldCollection,
        form: Callable[[Q], Any],
        *,
        every_row: bool,
        local: Callable[[], Any],
    ) -> None:
        """`form` turns a query into one that the engine takes. `every_row`: every row has a score, as vectors do;
        `local` opens the index in the local files."""
        self._name, self._collection, self._form = name, collection, form
        self._every_row, self._local = every_row, local
        self._generation = collection.generation

    def __len__(self) -> int:
        return int(self._generation.starts[-1])

    @property
    def local(self) -> Any:
        """The index in the local files: its vocabulary, its vectors."""
        return self._local()

    def begin(
        self,
        queries: Sequence[Q],
        joint: EngineBatch | None = None,
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
        chunks: Sequence[Mask | None] | None = None,
        conditions: Sequence[Filter | None] | None = None,
    ) -> tuple[EngineBatch, Callable[[], list[Candidates]]]:
        """Add searches to others; return these, and a function for their answer once they are sent.

        Masks hold in any case: hits outside of them are dropped, as are hits that this generation does not have.
        """
        batch = EngineBatch() if joint is None else joint
        none = [None] * len(queries)
        answers = []
        masks = zip(allowed or none, visible or none, chunks or none, conditions or none, strict=True)
        for query, (mask, seen, among, stated) in zip(queries, masks, strict=True):
            where, k = self._bounds(depth, starts, mask, among, stated)
            answer = batch.add(self._collection, (self._name, self._form(query)), where, k)
            answers.append(partial(self._candidates, answer, k, depth, starts, mask, seen, among))
        return batch, lambda: [answer() for answer in answers]

    def _bounds(
        self, depth: int, starts: Rows | None, allowed: Mask | None, chunks: Mask | None, where: Filter | None
    ) -> tuple[Filter | None, int]:
        """Return the filter of a search, and the number of its rows. Allowed rows that no filter expresses are named
        if they are few; otherwise more rows are requested."""
        total = len(self) if starts is None else len(starts) - 1
        k = depth * min(-(-len(self) // max(total, 1)), _SLACK)
        mask = allowed if chunks is None else chunks
        if mask is None or (where is not None and chunks is None):
            return where, k
        passing = np.flatnonzero(mask)
        if len(passing) > _NAMED:
            return where, min(k * len(mask) // len(passing) + depth, MOST_HITS)
        if starts is None or chunks is not None:
            return Equal("id", [self._generation.chunk_id(row) for row in passing.tolist()]), k
        return Equal("record", [self._generation.record_id(row) for row in passing.tolist()]), k

    def _candidates(
        self,
        answer: Future[Sequence[RowHit]],
        k: int,
        depth: int,
        starts: Rows | None,
        allowed: Mask | None,
        visible: Mask | None,
        chunks: Mask | None,
    ) -> Candidates:
        """Return the best units among the hits, each with its best row. Raises: RetrieveError: the search failed."""
        hits, placed = answer.result(), []
        for hit in hits:
            row = self._generation.chunk_row(hit.id)
            if row is None or (chunks is not None and not chunks[row]):
                continue
            unit, name = row, hit.id
            if starts is not None:
                unit, name = int(np.searchsorted(starts, row, side="right")) - 1, hit.id.rpartition("#")[0]
            if allowed is None or allowed[unit]:
                placed.append((round(-hit.score, 6), name, row, unit, hit.score))
        best: dict[int, tuple[int, float]] = {}
        for _, _, row, unit, score in sorted(placed):
            best.setdefault(unit, (row, score))
        units = np.array(list(best)[:depth], np.int64)
        rows = np.array([row for row, _ in best.values()][:depth], np.int64)
        scores = np.array([score for _, score in best.values()][:depth], np.float32)
        total = len(self) if starts is None else len(starts) - 1
        before = total if visible is None else int(visible.sum())
        after = before if allowed is None else int(allowed.sum())
        is_cut = self._every_row or len(hits) >= k
        # Of a list that was cut off the statistics are its own; otherwise rows that are not listed score 0.
        count = max(len(units) if is_cut else after, 1)
        mean = float(scores.sum(dtype=np.float64)) / count
        deviation = max(float(np.square(scores, dtype=np.float64).sum()) / count - mean**2, 0.0) ** 0.5
        if not self._every_row:
            before, after = len(units), len(units)
        floor = float(scores.min()) if len(units) and is_cut else 0.0
        return Candidates(units, scores, mean, deviation, before, after, best=rows, floor=floor)


class EngineRows:
    """Reader of the rows of tables: those that were announced come from collections, from the first that has them;
    others come from the local files, if these are here."""

    def __init__(self, collections: Sequence[HeldCollection]) -> None:
        self._collections = collections
        self._starts = collections[0].generation.starts
        self._rows: dict[tuple[Unit, int], Json] = {}

    def prefetch(self, rows: Sequence[int]) -> None:
        """Read chunk rows, and their records, together."""
        self._rows = self._with(rows)

    def read(self, unit: Unit, rows: range, local: Callable[[], list[dict[str, Json]]]) -> list[dict[str, Json]]:
        """Return copies of adjacent rows."""
        rows_read = self._rows
        if not all((unit, row) in rows_read for row in rows):
            try:
                return local()
            except IndexCorrupt:
                chunks = list(rows) if unit == "chunk" else self._starts[rows.start : rows.stop].tolist()
                self._rows = rows_read = self._with(chunks)
                if not all((unit, row) in rows_read for row in rows):
                    raise
        return [dict(rows_read[unit, row]) for row in rows]

    def _with(self, rows: Sequence[int]) -> dict[tuple[Unit, int], Json]:
        """Return rows that were read already, and these."""
        rows_read = dict(self._rows) if len(self._rows) < _KEPT else {}
        missing = [row for row in dict.fromkeys(rows) if ("chunk", row) not in rows_read]
        for collection in self._collections:
            if not missing:
                break
            with suppress(RetrieveError):  # which the searches report
                for row, (record, chunk) in collection.contents(missing).items():
                    owner = int(np.searchsorted(self._starts, row, side="right")) - 1
                    rows_read["record", owner], rows_read["chunk", row] = record, chunk
                missing = [row for row in missing if ("chunk", row) not in rows_read]
        return rows_read
