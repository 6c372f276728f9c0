"""Account of one index for one query: of the records, or the chunks, that a ranking is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates, Index, Matching, Q_contra
from retrieve_cli.retrieval.stages.masks import best_chunks, best_scores, first_chunks, members, with_rows

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors
    from retrieve_cli.contracts.engines import AnyOf

Q = TypeVar("Q")


class RankedIndex(Protocol[Q_contra]):
    """A retriever's index, and the unit of the ranking over it."""

    @property
    def index(self) -> Index[Q_contra]: ...

    @property
    def starts(self) -> Rows:
        """(records + 1,) first chunk row of each record, then the number of chunks."""

    @property
    def groups(self) -> Rows | None:
        """The same, if chunks are searched and records wanted."""

    @property
    def spreads(self) -> bool:
        """True if records are found and chunks are wanted."""

    @property
    def waits(self) -> bool:
        """True if the index waits for a server most of the time."""


class IndexAccount(Generic[Q]):
    """One index's account of one query."""

    __slots__ = ("_allowed", "_chunks", "_conditions", "_query", "_retrieval", "candidates")

    def __init__(
        self,
        retrieval: RankedIndex[Q],
        query: Q,
        candidates: Candidates,
        allowed: Mask | None = None,
        conditions: Sequence[AnyOf] | None = None,
        *,
        chunks: Mask | None = None,
    ) -> None:
        """`allowed` masks the rows or groups of the index that may be found, None: all; `conditions` express the same
        for an engine. `chunks` masks the chunks by which records may be found; None: all."""
        self._retrieval = retrieval
        self._query = query
        self._allowed = allowed
        self._chunks = chunks
        self._conditions = conditions
        self.candidates = candidates

    @property
    def waits(self) -> bool:
        return self._retrieval.waits

    def matched(self) -> Rows:
        index, retrieval = self._retrieval.index, self._retrieval
        if not isinstance(index, Matching):
            return self.candidates.rows
        if self._chunks is not None and retrieval.groups is not None:
            return with_rows(retrieval.groups, index.matching(self._query, allowed=self._chunks))
        said: dict[str, Any] = {} if self._conditions is None else {"conditions": self._conditions}
        rows = index.matching(self._query, starts=retrieval.groups, allowed=self._allowed, **said)
        return members(retrieval.starts, rows, self._chunks)[0] if retrieval.spreads else rows

    def score(self, rows: Rows) -> Vectors:
        retrieval = self._retrieval
        if self._chunks is not None and retrieval.groups is not None:
            return best_scores(retrieval.index, self._query, retrieval.groups, rows, chunks=self._chunks)
        rows = np.searchsorted(retrieval.starts, rows, side="right") - 1 if retrieval.spreads else rows
        return retrieval.index.score(self._query, rows, starts=retrieval.groups)

    def best_chunks(self, records: Rows) -> Rows:
        index, starts = self._retrieval.index, self._retrieval.starts
        if index.unit == "record" or bool(np.all(starts[records + 1] - starts[records] == 1)):
            return first_chunks(starts, records, self._chunks)
        return best_chunks(index, self._query, starts, records, chunks=self._chunks)
