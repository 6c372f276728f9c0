"""Indexes in engines as one generation reads them: lists of the best rows, and the contents of those that are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import RLock
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

    def __init__(self, name: str, collection: str, engine: Callable[[], Engine], layout: RowIds) -> None:
        self.name = name
        self.collection = collection
        self.layout = layout
        self.marker = ""
        """Generation that the engine held at the last search."""
        self._engine = engine
        self._contents: dict[int, tuple[Json, Json]] = {}
        self._lock = RLock()

    def search(
        self, queries: Sequence[EngineQuery], where: Filter | None, k: int, *, contents: bool = False
    ) -> list[Sequence[RowHit]]:
        """Return the hits of each query."""
        found: list[Sequence[RowHit]] = []
        for first in range(0, len(queries), MOST_QUERIES):
            some = queries[first : first + MOST_QUERIES]
            answer = self._engine().search(self.collection, some, where, min(k, MOST_HITS), contents=contents)
            self.marker = answer.marker
            found += answer.hits
        return found

    def contents(self, rows: Sequence[int]) -> list[tuple[Json, Json] | None]:
        """Return record and chunk of some chunk rows, in one round trip for each few hundred that were not read yet;
        None for those that the engine does not have."""
        with self._lock:
            known = {row: self._contents[row] for row in rows if row in self._contents}
        missing = [row for row in dict.fromkeys(rows) if row not in known]
        for first in range(0, len(missing), BATCH_ROWS):
            ids = {self.layout.chunk_id(row): row for row in missing[first : first + BATCH_ROWS]}
            (hits,) = self.search([("", None)], Equal("id", list(ids)), len(ids), contents=True)
            known |= {ids[hit.id]: _stored(hit, self.name) for hit in hits if hit.id in ids}
        with self._lock:
            if len(self._contents) + len(missing) > _KEPT:
                self._contents.clear()
            self._contents |= known
        return [known.get(row) for row in rows]


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
        self._hits: Sequence[RowHit] = ()
        self._failure: RetrieveError | None = None

    @property
    def hits(self) -> Sequence[RowHit]:
        """The hits. Raises: RetrieveError: the search failed."""
        if self._failure is not None:
            raise self._failure
        return self._hits

    @staticmethod
    def send(together: Sequence[Search]) -> None:
        """Send searches of one collection with one filter."""
        first = together[0]
        try:
            queries = [search.query for search in together]
            answers = first.collection.search(queries, first.where, max(search.k for search in together))
            for search, hits in zip(together, answers, strict=True):
                search._hits = hits[: search.k]  # noqa: SLF001  of this class
        except RetrieveError as error:
            for search in together:
                search._failure = error  # noqa: SLF001  of this class


class EngineBatch:
    """Searches that are sent together: those with one filter in one request to each server."""

    def __init__(self) -> None:
        self._waiting: list[Search] = []

    def add(self, search: Search) -> Search:
        """Add a search; return it."""
        self._waiting.append(search)
        return search

    def send(self) -> None:
        """Send all searches; those in different servers at the same time. Failures are raised for their hits."""
        groups: dict[tuple[int, str], list[Search]] = {}
        for search in self._waiting:
            groups.setdefault((id(search.collection), repr(search.where)), []).append(search)
        self._waiting = []
        if len(groups) == 1:
            Search.send(next(iter(groups.values())))
        elif groups:
            from concurrent.futures import ThreadPoolExecutor  # not needed for a single request

            with ThreadPoolExecutor(min(len(groups), _AT_ONCE)) as threads:
                list(threads.map(Search.send, groups.values()))


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
        self._lists_all = lists_all
        self._open = local

    def __len__(self) -> int:
        return int(self._collection.layout.starts[-1])

    @property
    def local(self) -> Any:
        """The index in the local files: its vocabulary, its vectors."""
        return self._open()

    def search(self, queries: Sequence[Q], **options: Any) -> list[Candidates]:
        """Return the best rows, or groups, as `begin` does."""
        joint, answer = self.begin(queries, **options)
        joint.send()
        return answer()

    def begin(
        self,
        queries: Sequence[Q],
        joint: EngineBatch | None = None,
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
        conditions: Sequence[Filter | None] | None = None,
    ) -> tuple[EngineBatch, Callable[[], list[Candidates]]]:
        """Add searches to others; return these, and a function for their answer once they are sent.

        Masks hold in any case: hits outside of them are dropped, as are those that this generation does not have.
        """
        batch = EngineBatch() if joint is None else joint
        none = [None] * len(queries)
        answers = []
        for query, mask, seen, stated in zip(
            queries, allowed or none, visible or none, conditions or none, strict=True
        ):
            where, k = self._bounds(depth, starts, mask, stated)
            search = batch.add(Search(self._collection, (self._name, self._form(query)), where, k))
            answers.append(partial(self._candidates, search, depth, starts, mask, seen))
        return batch, lambda: [answer() for answer in answers]

    def score(self, query: Q, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the engine's score for each of `rows`, or groups; 0 for rows that do not match."""
        ids = self._collection.layout.chunk_id if starts is None else self._collection.layout.record_id
        scores = np.zeros(len(rows), np.float32)
        for first in range(0, len(rows), _NAMED):
            some = {ids(row): place for place, row in enumerate(rows[first : first + _NAMED].tolist(), first)}
            where = Equal("id" if starts is None else "record", list(some))
            (hits,) = self._collection.search([(self._name, self._form(query))], where, MOST_HITS)
            for hit in hits:
                place = some.get(hit.id if starts is None else hit.id.rpartition("#")[0])
                if place is not None:
                    scores[place] = max(hit.score, scores[place]) if scores[place] else hit.score
        return scores

    def _bounds(
        self, depth: int, starts: Rows | None, allowed: Mask | None, where: Filter | None
    ) -> tuple[Filter | None, int]:
        """Return the filter of a search, and the number of its rows. Allowed rows that no filter expresses are named
        if they are few; otherwise more rows are requested."""
        total = len(self) if starts is None else len(starts) - 1
        k = depth * min(-(-len(self) // max(total, 1)), _SLACK)
        if allowed is None or where is not None:
            return where, k
        passing = np.flatnonzero(allowed)
        if len(passing) <= _NAMED:
            layout = self._collection.layout
            if starts is None:
                return Equal("id", list(map(layout.chunk_id, passing.tolist()))), k
            return Equal("record", list(map(layout.record_id, passing.tolist()))), k
        return None, min(k * total // len(passing) + depth, MOST_HITS)

    def _candidates(
        self,
        search: Search,
        depth: int,
        starts: Rows | None,
        allowed: Mask | None,
        visible: Mask | None,
    ) -> Candidates:
        layout = self._collection.layout
        known = [(row, hit.score) for hit in search.hits if (row := layout.row(hit.id)) is not None]
        best = np.array([row for row, _ in known], np.int64)
        scores = np.array([score for _, score in known], np.float32)
        units = best if starts is None else np.searchsorted(starts, best, side="right") - 1
        ids = layout.chunk_id if starts is None else layout.record_id
        rounded = np.round(scores.astype(np.float64), 6).tolist()
        chosen: dict[int, int] = {}
        for place in sorted(range(len(best)), key=lambda place: (-rounded[place], ids(int(units[place])), best[place])):
            if allowed is None or allowed[units[place]]:
                chosen.setdefault(int(units[place]), place)
        order = list(chosen.values())[:depth]
        rows, scores, best = units[order], scores[order], best[order]
        mean, deviation = (float(scores.mean()), float(scores.std())) if len(scores) else (0.0, 0.0)
        total = len(self) if starts is None else len(starts) - 1
        before = total if visible is None else int(visible.sum())
        after = total if allowed is None else int(allowed.sum())
        # A row that is not listed scores at most as the last one; without a shared term it scores 0.
        floor = float(scores.min()) if len(scores) and (len(search.hits) >= search.k or self._lists_all) else 0.0
        listed = {} if self._lists_all else {"before": len(rows), "after": len(rows)}
        counted = {"before": before, "after": after, **listed}
        return Candidates(rows, scores, mean, deviation, **counted, best=best, floor=floor)


class EngineRows:
    """Reader of the rows of tables from collections: the first one that has them, or else the local files."""

    def __init__(self, collections: Sequence[HeldCollection]) -> None:
        self._collections = collections

    def prefetch(self, rows: Sequence[int]) -> None:
        """Read chunk rows, and their records, together."""
        self._contents(rows)

    def read(self, unit: Unit, rows: range, local: Callable[[], list[dict[str, Json]]]) -> list[dict[str, Json]]:
        """Return copies of adjacent rows, of a record by its first chunk."""
        starts = self._collections[0].layout.starts
        contents = self._contents(list(rows) if unit == "chunk" else starts[rows.start : rows.stop].tolist())
        return local() if contents is None else [dict(pair[unit == "chunk"]) for pair in contents]

    def _contents(self, rows: Sequence[int]) -> list[tuple[Json, Json]] | None:
        for collection in self._collections:
            with suppress(RetrieveError):  # which the searches report
                found = [pair for pair in collection.contents(rows) if pair is not None]
                if len(found) == len(rows):
                    return found
        return None
