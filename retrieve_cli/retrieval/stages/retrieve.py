"""The stage that asks one retriever: its index, how a query is put to it, and how many candidates it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np

from retrieve_cli.contracts import Evidence, Hit, Index, Joint, Kind, Matching, Ranking, RemoteIndex, Unit, Worded
from retrieve_cli.errors import STEP_FAILURES, RetrieveError, Unavailable
from retrieve_cli.frozen import Described, Frozen, replace
from retrieve_cli.retrieval.stages.fusion import CountedMatches, highest
from retrieve_cli.retrieval.stages.masks import IndexAccount, best_records, members, one_each

if TYPE_CHECKING:
    from retrieve_cli.contracts import Candidates, Json, Mask, Query, Rows, Vectors

Q = TypeVar("Q")

Tally = Literal["after", "listed", "singly"]
"""The matches of a retriever are all candidates that a filter lets through, those on its list, or to be counted."""


class ChunkLayout(Frozen):
    """The chunks of each record, and their ids."""

    starts: Rows
    """(records + 1,) first chunk row of each record, then the number of chunks."""
    chunk_id: Callable[[int], str]

    def record_of(self, rows: Rows) -> Rows:
        """The record row of each chunk row."""
        return rows if one_each(self.starts) else np.searchsorted(self.starts, rows, side="right") - 1


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
        """Its candidates, in the unit of the ranking."""

    @property
    def waits(self) -> bool:
        """True if its retriever waits for a server most of the time."""

    def score(self, rows: Rows) -> Vectors:
        """Return its score for each of some records or chunks, listed or not."""

    def best_chunks(self, records: Rows) -> Rows:
        """Return the chunk row that it likes best in each record, of those that may be found; the first one of them if
        it only knows records."""

    def matched(self) -> Rows:
        """Return the records or chunks that share a term with the query; of a retriever that compares no terms, those
        on its list."""


class Retrieval(Protocol):
    """A retriever with its retrieval depth, for any kind of query."""

    @property
    def name(self) -> str: ...

    @property
    def depth(self) -> int: ...

    @property
    def unit(self) -> Unit:
        """The unit of the ranking: records or chunks."""

    @property
    def row_unit(self) -> Unit:
        """The unit of a row of its index."""

    @property
    def layout(self) -> ChunkLayout: ...

    @property
    def waits(self) -> bool:
        """True if it waits for a server most of the time, so that others may run meanwhile."""

    @property
    def tally(self) -> Tally:
        """Way in which the records or chunks that it matches are counted."""

    def ask(self, queries: Sequence[Query]) -> Sequence[Account]:
        """Return the account of each query. Raises: NotAsked: its model or server is not available."""


class IndexRetrieval(Described, Generic[Q]):
    """A retriever's index as a pipeline sees it: it returns the unit of the ranking, records or chunks."""

    apart: ClassVar = ("index", "prepare", "layout", "waits")
    name: str
    index: Index[Q]
    prepare: Callable[[Sequence[str]], Sequence[Q]]
    """Query texts to what the index takes: vectors, term weights, or the texts themselves."""
    layout: ChunkLayout
    unit: Unit
    depth: int
    waits: bool = False

    @property
    def row_unit(self) -> Unit:
        return self.index.unit

    def ask(self, queries: Sequence[Query]) -> list[IndexAccount[Q]]:
        """Return the account of each query. `before` and `after` count what the index finds: records, if it only
        knows those."""
        if isinstance(self.index, RemoteIndex):
            joint, accounts = self.begin(queries, None)
            joint.send()
            return list(accounts())
        with self._reported():
            return self._asked(self._forms(queries), queries)

    def begin(
        self, queries: Sequence[Query], joint: Joint | None
    ) -> tuple[Joint, Callable[[], Sequence[IndexAccount[Q]]]]:
        """Add searches in an engine to others; return all of them, and a function for the accounts once they are
        sent."""
        with self._reported():
            forms, options = self._forms(queries), self._options(queries)
            if any(query.records is not None for query in queries):
                options["conditions"] = [query.conditions and query.conditions() for query in queries]
            if any(query.chunks is not None for query in queries):
                options["chunks"] = [query.chunks for query in queries]
            assert isinstance(self.index, RemoteIndex)  # noqa: S101  only those begin
            joint, answer = self.index.begin(forms, joint, depth=self.depth, starts=self.groups, **options)

        def accounts() -> Sequence[IndexAccount[Q]]:
            with self._reported():
                return self._accounts_of(forms, answer(), options)

        return joint, accounts

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Raise failures of the retriever as `NotAsked`."""
        try:
            yield
        except NotAsked:
            raise
        except STEP_FAILURES as error:
            raise NotAsked(self.name, error) from error

    def _forms(self, queries: Sequence[Query]) -> Sequence[Q]:
        return self.prepare([Worded.of(query.text, query.beside, self._rows(query.own)) for query in queries])

    def _rows(self, records: Mask | None) -> Mask | None:
        """Return the rows of the index of some records; None: all."""
        if records is None or self.row_unit == "record":
            return records
        return np.repeat(records, np.diff(self.layout.starts))

    def _asked(self, forms: Sequence[Q], queries: Sequence[Query]) -> list[IndexAccount[Q]]:
        if all(query.chunks is None for query in queries):
            return self._accounts(forms, queries)
        return [
            self._accounts([form], [query])[0]
            if query.chunks is None
            else self._account(form, query.records, query.own, query.chunks)
            for form, query in zip(forms, queries, strict=True)
        ]

    def _accounts(self, forms: Sequence[Q], queries: Sequence[Query]) -> list[IndexAccount[Q]]:
        """The accounts of queries that any chunk may be found for."""
        options = self._options(queries)
        found = self.index.search(forms, depth=self.depth, starts=self.groups, **options)
        return self._accounts_of(forms, found, options)

    def _options(self, queries: Sequence[Query]) -> dict[str, Any]:
        """Return what limits the searches of queries."""
        options: dict[str, Any] = {}
        if any(query.records is not None for query in queries):
            options["allowed"] = self._allowed([query.records for query in queries])
        if any(query.own is not None for query in queries):
            options["visible"] = self._allowed([query.own for query in queries])
        return options

    def _accounts_of(
        self, forms: Sequence[Q], found: Sequence[Candidates], options: Mapping[str, Any]
    ) -> list[IndexAccount[Q]]:
        listed = [self._as_chunks(candidates) for candidates in found] if self.spreads else found
        allowed = options.get("allowed", [None] * len(forms))
        return [IndexAccount(self, *each) for each in zip(forms, listed, allowed, strict=True)]

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
        different = {id(mask): mask for mask in within if mask is not None}
        of_chunks = {key: np.repeat(mask, np.diff(self.layout.starts)) for key, mask in different.items()}
        return [of_chunks.get(id(mask)) for mask in within]

    def _as_chunks(self, candidates: Candidates, chunks: Mask | None = None) -> Candidates:
        rows, owners = members(self.layout.starts, candidates.rows, chunks)
        return replace(candidates, rows=rows[: self.depth], scores=candidates.scores[owners][: self.depth])

    def __str__(self) -> str:
        return f"{self.name}@{self.depth}"


class Retrieve(Frozen):
    """The stage that ranks by one retriever alone; `keep` hits are passed on."""

    retrieval: Retrieval
    keep: int
    kind: ClassVar[Kind] = "retrieve"
    rescores: ClassVar[bool] = False

    @property
    def retrievals(self) -> tuple[Retrieval, ...]:
        return (self.retrieval,)

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        found = self.retrieval.ask([ranking.query for ranking in rankings])
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
        listed = hits(retrieval.layout, chunks, scores, evidence)
        ranked = Ranking.of(ranking.query, listed, trace=traced(ranking, {retrieval.name: found}))
        known = found.after if retrieval.tally == "after" else None
        return replace(ranked.first(self.keep), matches=CountedMatches((account,), known))

    def __str__(self) -> str:
        return str(self.retrieval)


def traced(ranking: Ranking, found: Mapping[str, Candidates]) -> Mapping[str, Json]:
    """Return the trace of a ranking; with a filter, what that left of each retriever's candidates."""
    if not ranking.query.narrowed:
        return ranking.trace
    counts = {
        name: {"candidates_before_filter": each.before, "candidates_after_filter": each.after}
        for name, each in found.items()
    }
    return {**ranking.trace, "filter": counts}


def hits(
    layout: ChunkLayout, rows: Rows, scores: Sequence[float], evidence: Sequence[tuple[Evidence, ...]]
) -> list[Hit]:
    """Hits for chunk rows with their scores and evidence."""
    records = layout.record_of(rows)
    return [
        Hit(id=layout.chunk_id(row), row=row, record=record, score=score, evidence=why)
        for row, record, score, why in zip(rows.tolist(), records.tolist(), scores, evidence, strict=True)
    ]
