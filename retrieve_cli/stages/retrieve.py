"""The stage that asks one retriever: its index, how a query is put to it, and how many candidates it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates, Evidence, Hit, Index, Json, Kind, Matching, Ranking, Unit
from retrieve_cli.errors import STEP_FAILURES, RetrieveError, Unavailable
from retrieve_cli.frozen import dataclass
from retrieve_cli.stages.fusion import highest
from retrieve_cli.stages.index_account import IndexAccount
from retrieve_cli.stages.masks import best_records, filters_of, members
from retrieve_cli.stages.matches import Found

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors

Q = TypeVar("Q")

Tally = Literal["after", "listed", "singly"]
"""The matches of a retriever are all candidates that a filter lets through, those on its list, or to be counted."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The chunks of each record, and their ids."""

    starts: Rows
    """(records + 1,) first chunk row of each record, then the number of chunks."""
    chunk_id: Callable[[int], str]

    def record_of(self, rows: Rows) -> Rows:
        """The record row of each chunk row."""
        return np.searchsorted(self.starts, rows, side="right") - 1


class NotAsked(Unavailable):
    """A retriever could not be asked; `why` is the error to raise if it is needed."""

    def __init__(self, retriever: str, why: RetrieveError) -> None:
        super().__init__(why.message, hint=why.hint)
        self.retriever = retriever
        self.why = why


class Account(Protocol):
    """One retriever's account of one query."""

    @property
    def candidates(self) -> Candidates:
        """Its candidates: records or chunks, whichever are ranked."""

    def score(self, rows: Rows) -> Vectors:
        """Return its score for each of some records or chunks, listed or not."""

    def best_chunks(self, records: Rows) -> Rows:
        """Return the chunk row that it likes best in each record, of those that may be found; the first one of them if
        it only knows records."""

    def matched(self) -> Rows:
        """Return the records or chunks that share a term with the query; of a retriever that compares no terms, those
        on its list."""


class Retrieval(Protocol):
    """A retriever asked to some depth, whatever it is asked with."""

    @property
    def name(self) -> str: ...

    @property
    def depth(self) -> int: ...

    @property
    def unit(self) -> Unit:
        """Records or chunks, whichever are ranked."""

    @property
    def row_unit(self) -> Unit:
        """The unit of a row of its index."""

    @property
    def layout(self) -> Layout: ...

    @property
    def waits(self) -> bool:
        """True if it waits for a server most of the time, so that others may run meanwhile."""

    @property
    def tally(self) -> Tally:
        """Way in which the records or chunks that it matches are counted."""

    def ask(
        self,
        texts: Sequence[str],
        within: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
        chunks: Sequence[Mask | None] | None = None,
    ) -> Sequence[Account]:
        """Return the account of each query; `within` says by query which records may be found, `visible` which exist,
        `chunks` by which chunks a record may be found.

        Raises:
            NotAsked: its model or server is not available.
        """

    def at_depth(self, depth: int) -> Retrieval:
        """Return the same retriever asked to another depth."""


@dataclass(frozen=True, slots=True)
class IndexRetrieval(Generic[Q]):
    """A retriever's index as a pipeline sees it: it speaks of records or chunks, whichever the ranking is made of."""

    name: str
    index: Index[Q] = field(compare=False, repr=False)
    prepare: Callable[[Sequence[str]], Sequence[Q]] = field(compare=False, repr=False)
    """Query texts to what the index takes: vectors, term weights, or the texts themselves."""
    layout: Layout = field(compare=False, repr=False)
    unit: Unit
    depth: int
    waits: bool = field(default=False, compare=False)

    @property
    def row_unit(self) -> Unit:
        return self.index.unit

    def ask(
        self,
        texts: Sequence[str],
        within: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
        chunks: Sequence[Mask | None] | None = None,
    ) -> list[IndexAccount[Q]]:
        """Return the account of each query. `before` and `after` count what the index finds: records, if it only
        knows those."""
        try:
            queries = self.prepare(texts)
        except NotAsked:
            raise
        except STEP_FAILURES as error:
            raise NotAsked(self.name, error) from error
        if chunks is None:
            return self._accounts(queries, within, visible)
        none = [None] * len(queries)
        return [
            self._accounts([query], [mask], None if seen is None else [seen])[0]
            if only is None
            else self._account(query, mask, seen, only)
            for query, mask, seen, only in zip(queries, within or none, visible or none, chunks, strict=True)
        ]

    def _accounts(
        self, queries: Sequence[Q], within: Sequence[Mask | None] | None, visible: Sequence[Mask | None] | None
    ) -> list[IndexAccount[Q]]:
        allowed = None if within is None else self._allowed(within)
        counted = {} if visible is None else {"visible": self._allowed(visible)}
        found = self.index.search(queries, depth=self.depth, starts=self.groups, allowed=allowed, **counted)
        listed = [self._as_chunks(candidates) for candidates in found] if self.spreads else found
        masks = [None] * len(queries) if allowed is None else allowed
        return [IndexAccount(self, *each) for each in zip(queries, listed, masks, strict=True)]

    def _account(self, query: Q, records: Mask | None, visible: Mask | None, chunks: Mask) -> IndexAccount[Q]:
        """The account of a query that only some chunks may be found for."""
        starts = self.layout.starts
        if records is not None:
            chunks = chunks & np.repeat(records, np.diff(starts))  # group routing lets fewer records through
        among = np.logical_or.reduceat(chunks, starts[:-1])
        if self.groups is not None:
            found = best_records(
                self.index, query, starts, depth=self.depth, records=among, chunks=chunks, visible=visible
            )
            return IndexAccount(self, query, found, among, chunks=chunks)
        allowed = [among if self.index.unit == "record" else chunks]
        counted: dict[str, Any] = {} if visible is None else {"visible": self._allowed([visible])}
        (found,) = self.index.search([query], depth=self.depth, allowed=allowed, **counted)
        listed = self._as_chunks(found, chunks) if self.spreads else found
        return IndexAccount(self, query, listed, allowed[0], chunks=chunks)

    def at_depth(self, depth: int) -> IndexRetrieval[Q]:
        return replace(self, depth=depth)

    @property
    def starts(self) -> Rows:
        """(records + 1,) first chunk row of each record, then the number of chunks."""
        return self.layout.starts

    @property
    def groups(self) -> Rows | None:
        """The first row of each record, if chunks are searched and records wanted."""
        return self.layout.starts if (self.index.unit, self.unit) == ("chunk", "record") else None

    @property
    def spreads(self) -> bool:
        """True if records are found and chunks are wanted: each chunk then has its record's score."""
        return (self.index.unit, self.unit) == ("record", "chunk")

    @property
    def tally(self) -> Tally:
        if not isinstance(self.index, Matching):
            return "listed"
        return "singly" if self.spreads else "after"

    def _allowed(self, within: Sequence[Mask | None]) -> Sequence[Mask | None]:
        """Masks of records as masks of what the index finds: rows or groups."""
        if self.unit == "record" or self.index.unit == "record":
            return within
        # The queries of a batch often share one mask, and as many copies of it as queries would fill the memory.
        sizes = np.diff(self.layout.starts)
        different = {id(mask): mask for mask in within if mask is not None}
        of_chunks = {key: np.repeat(mask, sizes) for key, mask in different.items()}
        return [of_chunks.get(id(mask)) for mask in within]

    def _as_chunks(self, candidates: Candidates, chunks: Mask | None = None) -> Candidates:
        rows, owners = members(self.layout.starts, candidates.rows, chunks)
        return replace(candidates, rows=rows[: self.depth], scores=candidates.scores[owners][: self.depth])

    def __str__(self) -> str:
        return f"{self.name}@{self.depth}"


@dataclass(frozen=True, slots=True)
class Retrieve:
    """The stage that ranks by one retriever alone; `keep` hits are passed on."""

    retrieval: Retrieval
    keep: int
    kind: ClassVar[Kind] = "retrieve"
    rescores: ClassVar[bool] = False

    @property
    def retrievals(self) -> tuple[Retrieval, ...]:
        return (self.retrieval,)

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        texts = [ranking.query.text for ranking in rankings]
        found = self.retrieval.ask(texts, *filters_of(rankings))
        return [self._rank(*each) for each in zip(rankings, found, strict=True)]

    def _rank(self, ranking: Ranking, account: Account) -> Ranking:
        retrieval, found = self.retrieval, account.candidates
        kept = highest(found.scores.astype(np.float64), self.keep)
        scores = [float(score) for score in found.scores[kept]]
        evidence = [
            (Evidence(source=retrieval.name, rank=rank, score=score, normalized=score, weight=1.0),)
            for rank, score in enumerate(scores, 1)
        ]
        rows = found.rows[kept]
        chunks = account.best_chunks(rows) if retrieval.unit == "record" else rows
        ranked = Ranking.of(
            ranking.query,
            hits(retrieval.layout, chunks, scores, evidence),
            trace=traced(ranking, {retrieval.name: found}),
        )
        known = found.after if retrieval.tally == "after" else None
        return replace(ranked.first(self.keep), matches=Found((account,), known))

    def __str__(self) -> str:
        return str(self.retrieval)


def traced(ranking: Ranking, found: Mapping[str, Candidates]) -> Mapping[str, Json]:
    """Return the trace of a ranking; with a filter, what that left of each retriever's candidates."""
    if ranking.query.records is None:
        return ranking.trace
    counts = {
        name: {"candidates_before_filter": each.before, "candidates_after_filter": each.after}
        for name, each in found.items()
    }
    return {**ranking.trace, "filter": counts}


def hits(layout: Layout, rows: Rows, scores: Sequence[float], evidence: Sequence[tuple[Evidence, ...]]) -> list[Hit]:
    """Hits for chunk rows with their scores and evidence."""
    records = layout.record_of(rows)
    return [
        Hit(id=layout.chunk_id(row), row=row, record=record, score=score, evidence=why)
        for row, record, score, why in zip(rows.tolist(), records.tolist(), scores, evidence, strict=True)
    ]
