"""A retriever without an index: something reads the records that a query may find, and chooses among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from retrieve_cli.contracts import Candidates, Query, Unit
from retrieve_cli.errors import STEP_FAILURES
from retrieve_cli.frozen import Described, replace
from retrieve_cli.retrieval.stages.masks import first_chunks, members
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout, NotAsked, Retrieval, Tally

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors


class Chooser(Protocol):
    """Reads records and chooses among them."""

    def choose(self, query: str, rows: Sequence[int], *, most: int) -> Sequence[int]:
        """Return at most so many of some records, the best first.

        Raises:
            Unavailable: a server is not there.
            ModelFailed: a model gave no usable answer.
        """


class ChoosingRetrieval(Described):
    """Chooser among records, as a pipeline sees it. A record's score is 1 / its rank, of others 0.

    It is shown the records that the query may find, and no others; if those are more than `most_read`, the first ones
    of `shortlist`, and after these the first ones of the catalog.
    """

    apart: ClassVar = ("chooser", "layout", "shortlist", "say", "timed")
    name: str
    chooser: Callable[[], Chooser]
    """Made at the first question."""
    layout: ChunkLayout
    unit: Unit
    depth: int
    most_read: int
    shortlist: Retrieval | None = None
    """Ranks records by a cheap comparison."""
    say: Callable[[str], None] = lambda _: None
    timed: Callable[[], AbstractContextManager[None]] | None = None
    """Measures the time that choosing takes."""
    row_unit: ClassVar[Unit] = "record"
    waits: ClassVar[bool] = True
    tally: ClassVar[Tally] = "listed"

    def ask(self, queries: Sequence[Query]) -> list[ChoiceAccount]:
        """Return the account of each query. `before` and `after` count records."""
        try:
            with nullcontext() if self.timed is None else self.timed():
                return self._accounts(queries)
        except STEP_FAILURES as error:
            raise NotAsked(self.name, error) from error

    def _accounts(self, queries: Sequence[Query]) -> list[ChoiceAccount]:
        chooser, total = self.chooser(), len(self.layout.starts) - 1
        found = []
        for query in queries:
            exists = np.ones(total, np.bool_) if query.visible is None else query.visible
            allowed = exists if query.records is None else exists & query.records
            chosen = [*chooser.choose(query.text, self._read(query, allowed), most=self.depth)]
            counts = (int(np.count_nonzero(exists)), int(np.count_nonzero(allowed)))
            records = total if query.own is None else int(np.count_nonzero(query.own))
            found.append(ChoiceAccount(self, chosen, *counts, chunks=query.chunks, records=records))
        return found

    def _read(self, query: Query, allowed: Mask) -> list[int]:
        """The records that are read for a query, in the order of the catalog."""
        rows = np.flatnonzero(allowed)
        if len(rows) <= self.most_read:
            return rows.tolist()
        near = np.empty(0, np.int64)
        if self.shortlist is not None:
            narrowed = replace(query, records=allowed, visible=None, conditions=None)
            near = self.shortlist.ask([narrowed])[0].candidates.rows
        first = "those that share its words first" if self.shortlist is not None else "the first ones"
        reads = f"{self.name} reads {self.most_read:,} of {len(rows):,} records, {first}"
        self.say(f"{reads}: {self.name}.max_records allows no more")
        read = np.concatenate([near, np.setdiff1d(rows, near)])[: self.most_read]
        return [int(row) for row in np.sort(read)]

    def __str__(self) -> str:
        return f"{self.name}@{self.depth}"


class ChoiceAccount:
    """One query's choice of records."""

    __slots__ = ("_chunks", "_ranks", "_retrieval", "candidates")
    waits = False  # what it chose is here

    def __init__(
        self,
        retrieval: ChoosingRetrieval,
        chosen: Sequence[int],
        before: int,
        after: int,
        *,
        chunks: Mask | None = None,
        records: int,
    ) -> None:
        """`chosen` are rows of records, best first; `before` and `after` are how many there are, and may be found, by
        these `chunks` if only some may be shown. Mean and deviation are over that many `records`."""
        self._retrieval = retrieval
        self._chunks = chunks
        self._ranks = {row: rank for rank, row in enumerate(chosen, 1)}
        starts = retrieval.layout.starts
        rows, scores = np.array(chosen, np.int64), (1.0 / np.arange(1, len(chosen) + 1)).astype(np.float32)
        every = np.concatenate([scores, np.zeros(records - len(scores), np.float32)])
        if retrieval.unit == "chunk":
            rows, owners = members(starts, rows, chunks)
            rows, scores = rows[: retrieval.depth], scores[owners][: retrieval.depth]
        self.candidates = Candidates(rows, scores, float(every.mean()), float(every.std()), before, after)

    def score(self, rows: Rows) -> Vectors:
        retrieval = self._retrieval
        records = retrieval.layout.record_of(rows) if retrieval.unit == "chunk" else rows
        ranks = (self._ranks.get(int(record)) for record in records)
        return np.array([0.0 if rank is None else 1.0 / rank for rank in ranks], np.float32)

    def best_chunks(self, records: Rows) -> Rows:
        """Return the first chunk of each record, among the chunks that may be shown: the chooser compares records, not
        chunks."""
        return first_chunks(self._retrieval.layout.starts, records, self._chunks)

    def matched(self) -> Rows:
        """Return the chosen records: a model compares no terms."""
        return self.candidates.rows
