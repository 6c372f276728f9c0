"""Score of a record, and the chunk that represents it, if only some chunks may be found.

Account of one index for one query: of the records, or the chunks, that a ranking is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates, Index, Matching, Q_contra
from retrieve_cli.frozen import replace

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors

Q = TypeVar("Q")

_DEEPER = 4
"""By how much more is asked for if the chunks that were listed are of too few records."""


def members(starts: Rows, records: Rows, chunks: Mask | None = None) -> tuple[Rows, Rows]:
    """Return the chunk rows of some records, of those in `chunks`, and the place of the record that each is of."""
    sizes = starts[records + 1] - starts[records]
    begins = np.cumsum(sizes) - sizes
    rows = np.repeat(starts[records] - begins, sizes) + np.arange(int(sizes.sum()))
    owners = np.repeat(np.arange(len(records)), sizes)
    return (rows, owners) if chunks is None else (rows[kept := chunks[rows]], owners[kept])


def one_each(starts: Rows) -> bool:
    """Return True if each record has one chunk. Then `starts`, which may be a mapped file, need not be read: entries
    here and there would load all of it into this process."""
    return int(starts[-1]) == len(starts) - 1


def first_chunks(starts: Rows, records: Rows, chunks: Mask | None) -> Rows:
    """Return the first chunk row of each record, of those in `chunks`, of which each record has one."""
    if one_each(starts):
        return records
    if chunks is None:
        return starts[records]
    rows, owners = members(starts, records, chunks)
    return rows[np.searchsorted(owners, np.arange(len(records)))]


def best_chunks(index: Index[Q], query: Q, starts: Rows, records: Rows, *, chunks: Mask | None) -> Rows:
    """Return the chunk row that an index of chunks likes best in each record, of those in `chunks`; the first of equal
    ones."""
    rows, owners = members(starts, records, chunks)
    order = np.lexsort((rows, -index.score(query, rows), owners))
    return rows[order[np.searchsorted(owners, np.arange(len(records)))]]


def best_scores(index: Index[Q], query: Q, starts: Rows, records: Rows, *, chunks: Mask) -> Vectors:
    """Return the score of each record's best chunk, of those in `chunks`."""
    rows, owners = members(starts, records, chunks)
    scores = np.full(len(records), -np.inf, np.float32)
    np.maximum.at(scores, owners, index.score(query, rows))
    return scores


def with_rows(starts: Rows, rows: Rows) -> Rows:
    """Return the records that have any of these chunk rows, ascending."""
    had = np.zeros(len(starts) - 1, np.bool_)
    had[np.searchsorted(starts, rows, side="right") - 1] = True
    return np.flatnonzero(had)


def best_records(
    index: Index[Any], query: Any, starts: Rows, *, depth: int, records: Mask, chunks: Mask, visible: Mask | None
) -> Candidates:
    """Return the `depth` best records, each with the score of its best chunk in `chunks`, which are chunks of
    `records`.

    The order of the best chunks gives the order of the best records: the search asks for so many chunks that `depth`
    records are among them. Mean and deviation are over the records without the filter, which must not change the
    meaning of a score.
    """
    counted = {} if visible is None else {"visible": [visible]}
    (whole,) = index.search([query], depth=1, starts=starts, allowed=[records], **counted)
    total, asked = int(np.count_nonzero(chunks)), _DEEPER * depth
    while True:
        (found,) = index.search([query], depth=asked, allowed=[chunks])
        owners = np.searchsorted(starts, found.rows, side="right") - 1
        firsts = _firsts(owners)
        if len(found.rows) < asked or (len(firsts) >= depth and found.after == total):
            break
        # An index of words lists few, and only all that it lists tell of how many records they are.
        asked = max(_DEEPER * asked, found.after + 1 if found.after < total else 0)
    after = len(firsts) if len(found.rows) < asked else whole.after
    rows, scores = owners[firsts][:depth], found.scores[firsts][:depth]
    return replace(whole, rows=rows, scores=scores, after=after)


def _firsts(owners: Rows) -> Rows:
    """Return the place of the first occurrence of each owner, ascending. (numpy.unique would import numpy.ma.)"""
    order = np.argsort(owners, kind="stable")
    listed = owners[order]
    return np.sort(order[np.append(True, listed[1:] != listed[:-1])[: len(order)]])


def listed_chunks(candidates: Candidates, records: Rows) -> Rows:
    """Return the best chunk of each record as an engine listed it; -1 for those that it did not list."""
    if candidates.best is None or not len(candidates.rows):
        return np.full(len(records), -1, np.int64)
    order = np.argsort(candidates.rows)
    places = np.minimum(np.searchsorted(candidates.rows[order], records), len(order) - 1)
    chosen = order[places]
    return np.where(candidates.rows[chosen] == records, candidates.best[chosen], -1)


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

    __slots__ = ("_allowed", "_chunks", "_query", "_retrieval", "candidates")

    def __init__(
        self,
        retrieval: RankedIndex[Q],
        query: Q,
        candidates: Candidates,
        allowed: Mask | None = None,
        *,
        chunks: Mask | None = None,
    ) -> None:
        """`allowed` masks the rows or groups of the index that may be found, `chunks` the chunks by which records may
        be found; None: all."""
        self._retrieval = retrieval
        self._query = query
        self._allowed = allowed
        self._chunks = chunks
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
        rows = index.matching(self._query, starts=retrieval.groups, allowed=self._allowed)
        return members(retrieval.starts, rows, self._chunks)[0] if retrieval.spreads else rows

    def score(self, rows: Rows) -> Vectors:
        retrieval = self._retrieval
        if self.candidates.best is not None:  # of an engine, which is not asked again
            return np.full(len(rows), self.candidates.floor, np.float32)
        if self._chunks is not None and retrieval.groups is not None:
            return best_scores(retrieval.index, self._query, retrieval.groups, rows, chunks=self._chunks)
        rows = np.searchsorted(retrieval.starts, rows, side="right") - 1 if retrieval.spreads else rows
        return retrieval.index.score(self._query, rows, starts=retrieval.groups)

    def best_chunks(self, records: Rows) -> Rows:
        index, starts = self._retrieval.index, self._retrieval.starts
        if index.unit == "record" or one_each(starts) or bool(np.all(starts[records + 1] - starts[records] == 1)):
            return first_chunks(starts, records, self._chunks)
        if self.candidates.best is not None:
            listed = listed_chunks(self.candidates, records)
            return np.where(listed < 0, first_chunks(starts, records, self._chunks), listed)
        return best_chunks(index, self._query, starts, records, chunks=self._chunks)
