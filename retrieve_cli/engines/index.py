"""Indexes in engines as one generation reads them: lists of the best rows, and the contents of those that are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates
from retrieve_cli.contracts.engines import (
    BATCH_ROWS,
    MOST_HITS,
    MOST_QUERIES,
    Engine,
    EngineQuery,
    Equal,
    Filter,
    Found,
    RowHit,
)
from retrieve_cli.errors import IndexCorrupt, RetrieveError

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Json, Mask, Rows, Unit, Vectors

Q = TypeVar("Q")
_NAMED = 1000
"""Rows or records up to which a search names those that it may find."""
_SLACK = 2
"""Rows that are requested for each record at most: the best rows may be of few records."""
_AT_ONCE = 16
"""Requests that wait for servers at the same time."""
_KEPT = 2000
"""Rows whose contents are kept in memory."""


class RowIds(NamedTuple):
    """Rows of a generation by their ids."""

    chunk_id: Callable[[int], str]
    record_id: Callable[[int], str]
    row: Callable[[str], int | None]
    """Return the row of a chunk; None if the generation does not have it, or no longer."""
    starts: Rows
    """(records + 1,) first chunk of each record."""


class HeldCollection:
    """A collection of an engine. The engine is asked at the first use; threads may share it."""

    def __init__(self, name: str, engine: Callable[[], Engine], ids: RowIds, find: Callable[[], str]) -> None:
        """`find` returns the collection: another one after all rows were sent again."""
        self.name = name
        self._find = find
        self._collection = find()
        self.ids = ids
        self.marker = ""
        """Generation that the engine held at the last search."""
        self._engine = engine

    def search(
        self, queries: Sequence[EngineQuery], where: Filter | None, k: int, *, contents: bool = False
    ) -> list[Sequence[RowHit]]:
        """Return the hits of each query."""
        found: list[Sequence[RowHit]] = []
        for first in range(0, len(queries), MOST_QUERIES):
            some = queries[first : first + MOST_QUERIES]
            answer = self._answer(some, where, min(k, MOST_HITS), contents=contents)
            self.marker = answer.marker
            found += answer.hits
        return found

    def _answer(self, queries: Sequence[EngineQuery], where: Filter | None, k: int, *, contents: bool) -> Found:
        try:
            return self._engine().search(self._collection, queries, where, k, contents=contents)
        except IndexCorrupt:
            former, self._collection = self._collection, self._find()
            if self._collection == former:
                raise
            return self._engine().search(self._collection, queries, where, k, contents=contents)

    def contents(self, rows: Sequence[int]) -> dict[int, tuple[Json, Json]]:
        """Return record and chunk of chunk rows that the engine has, in one round trip for each few hundred."""
        found: dict[int, tuple[Json, Json]] = {}
        for first in range(0, len(rows), BATCH_ROWS):
            ids = {self.ids.chunk_id(row): row for row in rows[first : first + BATCH_ROWS]}
            (hits,) = self.search([("", None)], Equal("id", list(ids)), len(ids), contents=True)
            found |= {ids[hit.id]: _stored(hit, self.name) for hit in hits if hit.id in ids}
        return found


def _stored(hit: RowHit, name: str) -> tuple[Json, Json]:
    try:
        record, chunk = json.loads(hit.stored)
        return record, {**chunk, "text": hit.text}
    except (ValueError, TypeError, RecursionError) as error:
        raise IndexCorrupt(f"{name} has other contents than were sent", hint="retrieve engines push --again") from error


class Search:
    """A query on its way to an engine, and its hits, or its failure, once it was sent."""

    def __init__(self, collection: HeldCollection, query: EngineQuery, where: Filter | None, k: int) -> None:
        self.collection, self.query, self.where, self.k = collection, query, where, k
        self.found: Sequence[RowHit] | RetrieveError = ()

    def hits(self) -> Sequence[RowHit]:
        """Return the hits. Raises: RetrieveError: the search failed."""
        if isinstance(self.found, RetrieveError):
            raise self.found
        return self.found


class EngineBatch:
    """Searches that are sent together: those with one filter in one request to each server."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, str], list[Search]] = {}

    def add(self, search: Search) -> Search:
        """Add a search; return it."""
        self._groups.setdefault((id(search.collection), repr(search.where)), []).append(search)
        return search

    def send(self) -> None:
        """Send all searches, those to different servers at the same time. Failures are raised for their hits."""
        groups, self._groups = list(self._groups.values()), {}
        if len(groups) == 1:
            _send(groups[0])
        elif groups:
            from concurrent.futures import ThreadPoolExecutor  # not needed for a single request

            with ThreadPoolExecutor(min(len(groups), _AT_ONCE)) as threads:
                list(threads.map(_send, groups))


def _send(together: Sequence[Search]) -> None:
    """Send searches of one collection with one filter."""
    first, k = together[0], max(search.k for search in together)
    found: Sequence[Sequence[RowHit] | RetrieveError]
    try:
        found = first.collection.search([search.query for search in together], first.where, k)
    except RetrieveError as error:
        found = [error] * len(together)
    for search, hits in zip(together, found, strict=True):
        search.found = hits if isinstance(hits, RetrieveError) else hits[: search.k]


class EngineIndex(Generic[Q]):
    """A `contracts.RemoteIndex` of a retriever. Failures of the engine pass through unchanged."""

    unit: Unit = "chunk"

    def __init__(
        self,
        name: str,
        collection: HeldCollection,
        form: Callable[[Q], Any],
        *,
        lists_all: bool,
        local: Callable[[], Any],
    ) -> None:
        """`form` turns a query into one that the engine takes. `lists_all`: every row has a score, as vectors do;
        `local` opens the index in the local files."""
        self._name, self._collection, self._form = name, collection, form
        self._lists_all, self._local = lists_all, local
        self._ids = collection.ids

    def __len__(self) -> int:
        return int(self._ids.starts[-1])

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
            search = batch.add(Search(self._collection, (self._name, self._form(query)), where, k))
            answers.append(partial(self._candidates, search, depth, starts, mask, seen, among))
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
        of_chunks = starts is None or chunks is not None
        names = list(map(self._ids.chunk_id if of_chunks else self._ids.record_id, passing.tolist()))
        return Equal("id" if of_chunks else "record", names), k

    def _candidates(
        self,
        search: Search,
        depth: int,
        starts: Rows | None,
        allowed: Mask | None,
        visible: Mask | None,
        chunks: Mask | None,
    ) -> Candidates:
        known = [(row, hit) for hit in search.hits() if (row := self._ids.row(hit.id)) is not None]
        best = np.array([row for row, _ in known], np.int64)
        scores = np.array([hit.score for _, hit in known], np.float32)
        units = best if starts is None else np.searchsorted(starts, best, side="right") - 1
        names = [hit.id if starts is None else hit.id.rpartition("#")[0] for _, hit in known]
        rounded = np.round(-scores.astype(np.float64), 6).tolist()
        chosen: dict[int, int] = {}
        for *_, place in sorted(zip(rounded, names, best.tolist(), range(len(best)), strict=True)):
            unit = int(units[place])
            if (allowed is None or allowed[unit]) and (chunks is None or chunks[best[place]]):
                chosen.setdefault(unit, place)
        order = list(chosen.values())[:depth]
        listed = scores[order]
        total = len(self) if starts is None else len(starts) - 1
        seen = total if visible is None else int(visible.sum())
        is_cut = self._lists_all or len(search.hits()) >= search.k
        after = seen if allowed is None else int(allowed.sum())
        mean, deviation = _statistics(listed, len(order) if is_cut else after)
        before, after = (seen, after) if self._lists_all else (len(order), len(order))
        floor = float(listed.min()) if order and is_cut else 0.0
        return Candidates(units[order], listed, mean, deviation, before, after, best=best[order], floor=floor)


def _statistics(listed: Vectors, count: int) -> tuple[float, float]:
    """Return mean and deviation of the scores of so many rows: those that are not listed score 0. If a list was cut
    off, its own are known, and a row that is not listed scores at most as the last one."""
    if not count:
        return 0.0, 0.0
    scores = listed.astype(np.float64)
    mean = float(scores.sum()) / count
    return mean, max(float((scores**2).sum()) / count - mean**2, 0.0) ** 0.5


class EngineRows:
    """Reader of the rows of tables: those that were announced come from collections, from the first that has them;
    others come from the local files, if these are here."""

    def __init__(self, collections: Sequence[HeldCollection]) -> None:
        self._collections = collections
        self._rows: dict[tuple[Unit, int], Json] = {}

    def prefetch(self, rows: Sequence[int]) -> None:
        """Read chunk rows, and their records, together."""
        self._fetched(rows)

    def read(self, unit: Unit, rows: range, local: Callable[[], list[dict[str, Json]]]) -> list[dict[str, Json]]:
        """Return copies of adjacent rows."""
        known = self._rows
        if not all((unit, row) in known for row in rows):
            try:
                return local()
            except IndexCorrupt:
                starts = self._collections[0].ids.starts
                known = self._fetched(list(rows) if unit == "chunk" else starts[rows.start : rows.stop].tolist())
                if not all((unit, row) in known for row in rows):
                    raise
        return [dict(known[unit, row]) for row in rows]

    def _fetched(self, rows: Sequence[int]) -> dict[tuple[Unit, int], Json]:
        """Return rows that were read already, and these."""
        known = dict(self._rows) if len(self._rows) < _KEPT else {}
        missing = [row for row in dict.fromkeys(rows) if ("chunk", row) not in known]
        for collection in self._collections if missing else ():
            with suppress(RetrieveError):  # which the searches report
                for row, (record, chunk) in collection.contents(missing).items():
                    owner = int(np.searchsorted(collection.ids.starts, row, side="right")) - 1
                    known["record", owner], known["chunk", row] = record, chunk
                missing = [row for row in missing if ("chunk", row) not in known]
                if not missing:
                    break
        self._rows = known
        return known
