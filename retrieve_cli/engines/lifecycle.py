"""Life cycle of a generation in an engine, over the primitives of a driver.

A generation has a record and rows of its parts. What every engine does with them is here, for a driver that stores and
finds them; `collections.py` adds their order for servers without transactions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from retrieve_cli.contracts.engines import Batch, Capabilities, Label, Part, Staged
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import TermCollection, VectorCollection
    from retrieve_cli.contracts.values import Card, Rows

PUSH = "run: retrieve engines push"


class GenerationRecord(NamedTuple):
    """Record of a generation, as the engine keeps it."""

    generation: str
    card: Card
    parts: Sequence[Part]
    complete: bool = False
    notes: Mapping[str, Any] = {}
    """Counts of rows that the driver needs for its searches."""


class LifeCycle(ABC):
    """An engine: its life cycle, and the primitives that a driver adds."""

    name: ClassVar[str]
    """Name in the configuration."""
    product: ClassVar[str]
    """Name of the server for people."""
    per_query: ClassVar[Sequence[str]] = ()
    """Keys of the card that may change without sending the rows again."""

    @property
    @abstractmethod
    def card(self) -> Card:
        """Parameters that decide which candidates it finds."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Abilities of the engine."""

    def stage(self, generation: str, parts: Sequence[Part]) -> LifeStaging:
        """Begin to store a generation, or go on with one that is there, unless it was made in another way."""
        wanted = GenerationRecord(generation, dict(self.card), list(parts))
        self.begin(wanted)
        return LifeStaging(self, wanted)

    @abstractmethod
    def begin(self, wanted: GenerationRecord) -> None:
        """Create the missing parts of a generation, after dropping one that was made with other settings."""

    def publish(self, generation: str) -> None:
        """Let the alias name this generation, in one step. Raises: IndexCorrupt: there is no complete one."""
        self.set_alias(self.complete(generation))

    @abstractmethod
    def live(self) -> str | None:
        """Return the generation that the alias names; None if there is no alias."""

    @abstractmethod
    def generations(self) -> Sequence[Staged]:
        """Return all generations, complete or not, in order of id."""

    @abstractmethod
    def drop(self, generation: str) -> None:
        """Remove a generation and all that belongs to it; does nothing if it does not exist."""

    def open(self, generation: str) -> OpenGeneration:
        """Open a generation for queries. Raises: IndexCorrupt: there is no complete one."""
        return OpenGeneration(self, self.complete(generation))

    def snapshot(self, generation: str, place: str) -> str:
        """Let the server write a snapshot. Raises: UsageError: it makes none, or not to such a place."""
        raise UsageError(f"{self.product} makes no snapshots of {generation} to {quoted(place)}")

    @abstractmethod
    def describe(self) -> Mapping[str, str]:
        """Return facts for people."""

    def problems(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used, or used well, each with its fix."""
        try:
            return list(self.faults())
        except Unavailable as error:
            return [(error.message, error.hint)]

    @abstractmethod
    def close(self) -> None:
        """Close connections."""

    def complete(self, generation: str) -> GenerationRecord:
        """Return the record of a complete generation. Raises: IndexCorrupt: it does not exist or is incomplete."""
        record = self.record(generation)
        if record is None or not record.complete:
            raise IndexCorrupt(f"{self.product} has no complete generation {generation}", hint=PUSH)
        return record

    # Primitives of records and of the alias.

    @abstractmethod
    def record(self, generation: str) -> GenerationRecord | None:
        """Return the record of a generation; None if it does not exist. Raises: IndexCorrupt: it cannot be read."""

    @abstractmethod
    def put_record(self, record: GenerationRecord) -> None:
        """Store the record of a generation durably; one that is there is replaced."""

    @abstractmethod
    def set_alias(self, record: GenerationRecord) -> None:
        """Let the alias name a generation, in one step."""

    @abstractmethod
    def faults(self) -> Sequence[tuple[str, str]]:
        """Return problems of a server that can be reached."""

    # Primitives of rows.

    @abstractmethod
    def put_rows(self, record: GenerationRecord, part: Part, batch: Batch) -> None:
        """Store rows of a part; those that are there are replaced."""

    def copy_rows(
        self,
        record: GenerationRecord,  # noqa: ARG002
        part: Part,  # noqa: ARG002
        older: str,  # noqa: ARG002
        rows: tuple[Rows, Rows, Sequence[Label]],  # noqa: ARG002
    ) -> None:
        """Store rows with the contents of another generation's rows. Raises: UsageError: the engine cannot."""
        raise UsageError(f"{self.product} does not copy rows between generations", hint="send the rows")

    @abstractmethod
    def settle(self, record: GenerationRecord) -> None:
        """Wait until all that was stored is durable, visible to queries, and indexed."""

    @abstractmethod
    def count(self, record: GenerationRecord, part: Part) -> int:
        """Return the number of rows of a part. Raises: IndexCorrupt: its collection is gone."""

    def notes(self, record: GenerationRecord) -> Mapping[str, Any]:  # noqa: ARG002
        """Return what searches must know of the rows, counted when all are there."""
        return {}

    @abstractmethod
    def vectors(self, record: GenerationRecord, part: Part) -> VectorCollection:
        """Return the nearest rows and stored vectors of a part with vectors."""

    def terms(self, record: GenerationRecord, part: Part) -> TermCollection:
        """Return the nearest rows of a part with term weights. Raises: UsageError: the engine holds none."""
        raise UsageError(f"{self.product} holds no term weights ({part.name} of {record.generation})")


class LifeStaging:
    """A generation on its way into an engine; connections belong to the engine."""

    def __init__(self, engine: LifeCycle, record: GenerationRecord) -> None:
        self._engine, self._record = engine, record
        self._parts = {part.name: part for part in record.parts}

    def put(self, part: str, batch: Batch) -> None:
        """Store rows; a row that is there already is replaced."""
        self._engine.put_rows(self._record, self._part(part), batch)

    def copy(self, part: str, older: str, rows: Rows, older_rows: Rows, labels: Sequence[Label]) -> None:
        """Store rows with the contents of another generation's rows, if the engine copies."""
        self._engine.copy_rows(self._record, self._part(part), older, (rows, older_rows, labels))

    def finish(self) -> None:
        """Wait for indexes, count the rows, and mark the generation as complete.

        Raises:
            IndexCorrupt: rows are missing.
        """
        engine, record = self._engine, self._record
        engine.settle(record)
        for part in record.parts:
            if (count := engine.count(record, part)) != part.rows:
                message = f"{engine.product} has {count:,} rows of {part.name}, not {part.rows:,}"
                raise IndexCorrupt(message, hint="run `retrieve engines push`, which sends the missing rows")
        engine.put_record(record._replace(complete=True, notes=engine.notes(record)))

    def close(self) -> None:
        """Do nothing: the connections belong to the engine."""

    def _part(self, name: str) -> Part:
        if name not in self._parts:
            raise UsageError(f"the generation was staged without a part {quoted(name)}", hint="stage it with all parts")
        return self._parts[name]


class OpenGeneration:
    """A complete generation, open for queries from any thread; connections belong to the engine."""

    def __init__(self, engine: LifeCycle, record: GenerationRecord) -> None:
        self._engine, self._record, self._generation = engine, record, record.generation
        self._parts = {part.name: part for part in record.parts}

    def count(self, part: str) -> int:
        """Return the number of rows of a part, counted now."""
        return self._engine.count(self._record, self._part(part))

    def vectors(self, part: str) -> VectorCollection:
        """Return a part with vectors. Raises: IndexCorrupt: it has no part with this name."""
        return self._engine.vectors(self._record, self._part(part, with_vectors=True))

    def terms(self, part: str) -> TermCollection:
        """Return a part with term weights. Raises: IndexCorrupt: it has no part with this name."""
        return self._engine.terms(self._record, self._part(part, with_vectors=False))

    def close(self) -> None:
        """Do nothing: the connections belong to the engine."""

    def _part(self, name: str, *, with_vectors: bool | None = None) -> Part:
        part = self._parts.get(name)
        if part is None or with_vectors not in (None, part.dim is not None):
            kind = "rows" if part is None else "vectors" if with_vectors else "term weights"
            message = f"generation {self._generation} in {self._engine.product} has no {kind} of {name}"
            raise IndexCorrupt(message, hint=PUSH)
        return part
