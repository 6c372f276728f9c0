"""Promise of an engine: a database or search server that holds the chunks of an index, and searches by its own means.

A collection has the rows of an index of one recipe; an alias names the published collection. Calls are bounded, so that
a driver sends each as one request. They raise Unavailable if the server cannot be reached, rejects a credential or a
request, or answers too late; and IndexCorrupt without the collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from retrieve_cli.contracts.models import TermWeights

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Vectors

EngineQuery: TypeAlias = "tuple[str, Vectors | TermWeights | str | None]"
"""A query for a retriever; ("", None) lists rows in any order. There is at least one term."""
BATCH_ROWS, BATCH_BYTES, MOST_QUERIES, MOST_HITS = 100, 4 << 20, 32, 10_000
"""Limits of a call: rows of an upsert and bytes of their texts, queries of a search, and hits of each query."""


class Schema(NamedTuple):
    """Retrievers of a collection, by name."""

    vectors: Mapping[str, int] = {}  # length of the vectors
    weights: Mapping[str, bool] = {}  # with term weights; True: the engine multiplies each by the idf of its term
    texts: Sequence[str] = ()  # by words: the engine ranks title and text of the rows by its own BM25


class Row(NamedTuple):
    """A chunk. Names and values of fields may be any text."""

    id: str
    record: str
    title: str
    text: str
    section: str = ""
    stored: str = "{}"  # JSON, which a search returns as it is
    tenants: Sequence[str] = ()
    keywords: Mapping[str, Sequence[str]] = {}  # canonical values by field
    numbers: Mapping[str, Sequence[float]] = {}  # those that are numbers
    dates: Mapping[str, Sequence[float]] = {}  # those that are dates, in seconds since 1970 in UTC
    vectors: Mapping[str, Vectors] = {}  # (dim,) float32 of L2 norm 1 by retriever
    weights: Mapping[str, TermWeights] = {}


class Equal(NamedTuple):
    """Rows with one of the values: as id, as record, among the tenants, or among the keywords of a field."""

    key: Literal["id", "record", "tenants", "keywords"]
    values: Sequence[str]
    field: str = ""


class Range(NamedTuple):
    """Rows with a number or date in a field from `low` to `high`, both included; None: no limit."""

    key: Literal["numbers", "dates"]
    field: str
    low: float | None = None
    high: float | None = None


class Combined(NamedTuple):
    """Rows that pass all, any or none of some filters. Without filters: all rows, none, all."""

    how: Literal["all", "any", "none"]
    filters: Sequence[Filter]


Filter: TypeAlias = Equal | Range | Combined


class RowHit(NamedTuple):
    """A row that a search found."""

    id: str
    score: float  # higher is better: of vectors the cosine; 0 without a query
    text: str = ""  # it and `stored` are empty unless the search returns contents
    stored: str = ""


class Found(NamedTuple):
    """Hits of each query, best first, and the marker: the generation that was published last, or empty."""

    hits: Sequence[Sequence[RowHit]]
    marker: str


class Engine(Protocol):
    """A server. The constructor does not connect; threads may share it. Collections have names of 12 hex digits.
    Changes are durable when a method returns. Searches see them after the server's refresh, which `count` waits for."""

    name: str  # in the configuration
    words: Literal["text", "terms", ""]  # BM25 as `Schema.texts`, as `Schema.weights`, or not at all
    sparse: bool  # True if it holds term weights of models
    card: Mapping[str, object]  # parameters of its indexes: if one changes, a new collection is needed

    def create(self, collection: str, schema: Schema) -> None: ...  # empty, without marker; replaces one of this name
    def upsert(self, collection: str, rows: Sequence[Row]) -> None: ...  # each replaces the row of its id as a whole
    def delete(self, collection: str, ids: Sequence[str]) -> None: ...  # at most MOST_HITS; unknown ids are no error
    def search(
        self, collection: str, queries: Sequence[EngineQuery], where: Filter | None, k: int, *, contents: bool = False
    ) -> Found:
        """Return the `k` best rows that pass the filter for each retriever with a query, all in one round trip. Term
        weights are compared by inner product, among rows that share a term."""

    def count(self, collection: str, where: Filter | None = None) -> int: ...  # exact
    def drop(self, collection: str) -> None: ...  # a missing one is no error
    def snapshot(self, collection: str) -> str: ...  # name of a copy that the server keeps; UsageError: not its task
    def published(self) -> str | None: ...  # the collection that the alias names
    def publish(self, collection: str, generation: str) -> None: ...  # sets the marker, and lets the alias name it
    def describe(self) -> Mapping[str, str]: ...  # facts for people: version, address without secrets
    def problems(self) -> Sequence[tuple[str, str]]: ...  # what keeps it from being used well, each with its fix
