"""Promises of engines: databases and search servers in which the indexes of a generation live instead of in files.

An engine holds complete generations side by side. Rows of a retriever's index are called a part, with vectors or with
term weights. The program asks an engine for a bounded number of the best rows of a part, with their scores; all else is
read from the files of the index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.contracts.values import Card, Unit

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Vectors

    EngineQuery: TypeAlias = Vectors | TermWeights


class Part(NamedTuple):
    """Rows of one retriever's index."""

    name: str
    """Name of the retriever: lower-case letters, digits and `_`."""
    unit: Unit
    rows: int
    dim: int | None = None
    """Numbers of a vector; None if rows are term weights."""


class Label(NamedTuple):
    """Description of a row, by which it can be filtered, and for people who look into the engine."""

    id: str
    """Chunk id, or record id if rows are records."""
    doc_id: str
    """Record id."""
    title: str = ""
    text: str = ""
    section: str = ""
    tenant: str | None = None
    fields: Mapping[str, Sequence[str]] = {}
    """Values of the fields by which records are filtered. Names and values may be any text."""


class Batch(NamedTuple):
    """Some rows of a part."""

    rows: Rows
    """(n,) int64 row numbers, ascending."""
    labels: Sequence[Label]
    vectors: Vectors | None = None
    """(n, dim) float32, if the part has vectors."""
    weights: Sequence[TermWeights] = ()
    """Term weights of each row, if it has those. A row may have none, or weights below 0."""


class AnyOf(NamedTuple):
    """Condition on a row: one of its values in a field is one of these, to the letter."""

    field: str
    """A key of `Label.fields`."""
    values: Sequence[str]
    negated: bool = False
    """True if no value of the row may be one of these; rows without the field satisfy that."""


class Within(NamedTuple):
    """Rows that a search may find: those listed, or if none are listed those that satisfy all conditions."""

    rows: Rows | None = None
    """(m,) int64 row numbers, ascending; at most `Capabilities.most_rows`."""
    conditions: Sequence[AnyOf] = ()


class Capabilities(NamedTuple):
    """Abilities of an engine."""

    most_rows: int
    """Rows that a search can be restricted to by their numbers."""
    terms: bool = True
    """True if it can hold parts with term weights."""


class Staged(NamedTuple):
    """A generation in an engine."""

    generation: str
    complete: bool
    """False if it was not finished: its sender was killed, or is still at work."""
    live: bool
    """True if it is the one that was published last."""


class Collection(Protocol):
    """The rows of a part in an engine."""

    def nearest(self, query: EngineQuery, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        """Return rows with the highest scores, and these, best first; there may be fewer than `limit`, and some may not
        be the best.

        The score of a vector is the inner product; of term weights, the sum over shared terms of both weights' product,
        of rows that share a term. The engine computes it by its own means, in its own precision.
        """


class EngineGeneration(Protocol):
    """A complete generation in an engine, open for queries from any thread. Connections belong to the engine."""

    def count(self, part: str) -> int:
        """Return the number of rows that a part has now, counted by the server. Raises: IndexCorrupt: it is gone."""

    def collection(self, part: str) -> Collection:
        """Return the rows of a part. Raises: IndexCorrupt: it has no part with this name."""


class Staging(Protocol):
    """A generation on its way into an engine. Nothing of it is visible to queries before `Engine.publish`."""

    def put(self, part: str, batch: Batch) -> None:
        """Store rows, each of them once."""

    def finish(self) -> None:
        """Build the engine's indexes, count the rows, and mark the generation as complete.

        Raises:
            IndexCorrupt: rows are missing.
        """


class Engine(Protocol):
    """A database or search server. The constructor does not connect.

    Every method may raise Unavailable: the server cannot be reached, does not answer in time, rejects the credential,
    or is too old, or its client package is not installed.
    """

    @property
    def name(self) -> str:
        """Name in the configuration."""

    @property
    def card(self) -> Card:
        """Parameters that decide which candidates it finds: type of numbers, quantisation, parameters of its index."""

    @property
    def capabilities(self) -> Capabilities: ...

    def stage(self, generation: str, parts: Sequence[Part]) -> Staging:
        """Begin to store a generation, an id of 12 hex digits. What the engine has of it is dropped first."""

    def publish(self, generation: str) -> None:
        """Let the engine's alias, by which others find the current generation, name this one; in one step.

        Raises:
            IndexCorrupt: there is no complete generation of that id.
        """

    def live(self) -> str | None:
        """Return the generation that the alias names; None without an alias."""

    def generations(self) -> Sequence[Staged]:
        """Return all generations, complete or not, in order of id."""

    def drop(self, generation: str) -> None:
        """Remove a generation and everything that belongs to it, including an alias to it; a missing generation is no
        error."""

    def open(self, generation: str) -> EngineGeneration:
        """Open a generation for queries.

        Raises:
            IndexCorrupt: there is no complete generation of that id.
        """

    def describe(self) -> Mapping[str, str]:
        """Return facts for people: version of the server, of extensions, address without secrets."""

    def problems(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used, or used well, each with the edit or command that fixes it."""

    def close(self) -> None:
        """Close connections."""
