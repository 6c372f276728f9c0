"""Life cycle of a generation in an engine, over the primitives of a driver.

A generation has a record and rows of its parts. What every engine does with them is here, for a driver that stores and
finds them; `collections.py` adds their order for servers without transactions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from retrieve_cli.contracts.engines import Batch, Capabilities, Part, Staged
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import Collection
    from retrieve_cli.contracts.values import Card

PUSH = "run: retrieve engines push"


class GenerationRecord(NamedTuple):
    """Record of a generation, as the engine keeps it."""

    generation: str
    parts: Sequence[Part]
    complete: bool = False


class LifeCycle(ABC):
    """An engine: its life cycle, and the primitives that a driver adds."""

    name: ClassVar[str]
    """Name in the configuration."""
    product: ClassVar[str]
    """Name of the server for people."""

    @property
    @abstractmethod
    def card(self) -> Card:
        """Parameters that decide which candidates it finds."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Abilities of the engine."""

    def stage(self, generation: str, parts: Sequence[Part]) -> LifeStaging:
        """Begin to store a generation; one that is there is dropped first."""
        wanted = GenerationRecord(generation, list(parts))
        self.begin(wanted)
        return LifeStaging(self, wanted)

    @abstractmethod
    def begin(self, wanted: GenerationRecord) -> None:
        """Create a generation without rows, after dropping one of its id."""

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
        """Store rows of a part."""

    @abstractmethod
    def settle(self, record: GenerationRecord) -> None:
        """Wait until all that was stored is durable, visible to queries, and indexed."""

    @abstractmethod
    def count(self, record: GenerationRecord, part: Part) -> int:
        """Return the number of rows of a part. Raises: IndexCorrupt: its collection is gone."""

    @abstractmethod
    def collection(self, record: GenerationRecord, part: Part) -> Collection:
        """Return the rows of a part, for searches."""


class LifeStaging:
    """A generation on its way into an engine; connections belong to the engine."""

    def __init__(self, engine: LifeCycle, record: GenerationRecord) -> None:
        self._engine, self._record = engine, record
        self._parts = {part.name: part for part in record.parts}

    def put(self, part: str, batch: Batch) -> None:
        """Store rows."""
        self._engine.put_rows(self._record, self._part(part), batch)

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
                raise IndexCorrupt(message, hint="send all rows again: retrieve engines push")
        engine.put_record(record._replace(complete=True))

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

    def collection(self, part: str) -> Collection:
        """Return the rows of a part. Raises: IndexCorrupt: it has no part with this name."""
        return self._engine.collection(self._record, self._part(part))

    def _part(self, name: str) -> Part:
        if name not in self._parts:
            message = f"generation {self._generation} in {self._engine.product} has no rows of {name}"
            raise IndexCorrupt(message, hint=PUSH)
        return self._parts[name]
