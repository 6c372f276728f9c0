"""Life cycle of a generation in a server without transactions over several collections.

A generation has a collection as its home, with its record, and one for each part. The home is created first and dropped
first: what an interruption leaves has no record, or one that is not complete.

Answers of engines that are JSON of another shape than the server's: an error that names the server.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

from retrieve_cli.contracts.engines import Staged
from retrieve_cli.engines.lifecycle import GenerationRecord, LifeCycle
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted

_GENERATION = re.compile(r"[0-9a-f]{12}")
_PART = re.compile(r"[a-z0-9_]{1,80}")


class Names:
    """Names of the collections of generations, made of the configured one."""

    def __init__(self, prefix: str, separator: str = "_") -> None:
        self.prefix = prefix
        self._separator = separator
        self._ours = re.compile(f"{re.escape(prefix + separator)}([0-9a-f]{{12}})(?:{separator}[a-z0-9_]+)?")

    def home(self, generation: str) -> str:
        """Return the collection with the record of a generation.

        Raises:
            UsageError: it is not the id of a generation.
        """
        if not _GENERATION.fullmatch(generation):
            message = f"{quoted(generation)} is not the id of a generation: 12 hex digits"
            raise UsageError(message, hint="list them: retrieve engines status")
        return f"{self.prefix}{self._separator}{generation}"

    def part(self, generation: str, part: str) -> str:
        """Return the collection with the rows of a part. Raises: UsageError: it cannot be the name of one."""
        if not _PART.fullmatch(part):
            message = f"{quoted(part)} cannot name a part"
            raise UsageError(message, hint="use lower-case letters, digits and `_`, 80 at most")
        return f"{self.home(generation)}{self._separator}{part}"

    def published(self, record: GenerationRecord) -> str:
        """Return the collection that the alias names: the first part with vectors, otherwise the first part."""
        first = sorted(record.parts, key=lambda part: part.dim is None)[:1]
        return self.part(record.generation, first[0].name) if first else self.home(record.generation)

    def owner(self, collection: str) -> str | None:
        """Return the generation to which a collection belongs; None if it is not one of ours."""
        match = self._ours.fullmatch(collection)
        return match[1] if match else None

    def grouped(self, collections: Sequence[str]) -> dict[str, list[str]]:
        """Return our collections by generation, ascending, the home of each first."""
        groups: dict[str, list[str]] = {}
        for name in sorted(collections):  # the home is the beginning of the others' names
            if generation := self.owner(name):
                groups.setdefault(generation, []).append(name)
        return dict(sorted(groups.items()))


class CollectionLifeCycle(LifeCycle):
    """Life cycle in a server without transactions over several collections."""

    def begin(self, wanted: GenerationRecord) -> None:
        """Create the collections of a generation, after dropping what there is of it."""
        self.drop(wanted.generation)
        self.create_home(wanted.generation)
        self.put_record(wanted)
        self.create_parts(wanted)

    def generations(self) -> Sequence[Staged]:
        """Return all generations, complete or not, in order of id."""
        live, staged = self.live(), []
        for generation in self.collections():
            try:
                record = self.record(generation)
            except IndexCorrupt:
                record = None
            complete = record is not None and record.complete
            staged.append(Staged(generation, complete=complete, live=generation == live))
        return staged

    def drop(self, generation: str) -> None:
        """Remove a generation, the alias first if it names it; does nothing if the generation does not exist."""
        collections = self.collections().get(generation, ())
        if collections and self.live() == generation:
            self.drop_alias()
        for collection in collections:
            self.drop_collection(collection)

    @abstractmethod
    def collections(self) -> Mapping[str, Sequence[str]]:
        """Return collections by generation, ascending, the home of each first."""

    @abstractmethod
    def create_home(self, generation: str) -> None:
        """Create the home of a generation."""

    @abstractmethod
    def create_parts(self, record: GenerationRecord) -> None:
        """Create the collections of parts."""

    @abstractmethod
    def drop_collection(self, collection: str) -> None:
        """Remove a collection."""

    @abstractmethod
    def drop_alias(self) -> None:
        """Remove the alias."""


_Kind = TypeVar("_Kind", bound=type)
_MISREAD = (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError, RecursionError)
"""Errors of the reading of such an answer."""


def reading(product: str) -> Callable[[_Kind], _Kind]:
    """Let public methods of a class raise Unavailable for an answer of its `_server` that they cannot read."""

    def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return method(self, *arguments, **options)
            except _MISREAD as error:
                message = f"{product} at {self._server.address} answers as no {product} does: {type(error).__name__}"
                raise Unavailable(message, hint=f"check that this is the address of {product}, and its log") from error

        return call

    def decorate(kind: _Kind) -> _Kind:
        for name, method in list(vars(kind).items()):
            if callable(method) and not name.startswith("_"):
                setattr(kind, name, guarded(method))
        return kind

    return decorate
