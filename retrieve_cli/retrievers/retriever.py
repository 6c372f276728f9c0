"""A first-stage retriever: one value, registered once.

A new one is a file beside this one and a line in config/plugins.py, or a package of its own with an entry point in
the group `retrieve.plugins`. Modes, fusion weights, file names, what a deadline drops first, recipe sections, ablations
and tuning are derived from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from retrieve_cli.contracts import (
    Analyzer,
    Card,
    Chunk,
    Encoder,
    Index,
    Json,
    Package,
    Record,
    SparseEncoder,
    TermWeights,
)
from retrieve_cli.errors import UsageError

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Vectors
    from retrieve_cli.storage.generation import Generation

Q = TypeVar("Q")


class Form(Generic[Q]):
    """The form in which an index is asked."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


TEXT: Form[str] = Form("text")
VECTOR: Form[Vectors] = Form("vector")
"""Of the encoder that the index was built with."""
TERMS: Form[TermWeights] = Form("terms")
"""Of the sparse encoder that the index was built with."""


class Building(Protocol):
    """The parts of a build that its retrievers use."""

    @property
    def settings(self) -> Settings: ...

    @property
    def kinds(self) -> Collection[str]:
        """Kinds of the sources: `catalog`, `docs`."""

    @property
    def encoder(self) -> Encoder | None: ...

    @property
    def sparse(self) -> SparseEncoder | None: ...


class Passages(Protocol):
    """The chunks of the generation that is being written, in row order, and what the encoders made of them."""

    @property
    def texts(self) -> Sequence[bytes]:
        """The SHA-1 of each chunk's embedded text, 20 bytes."""

    def vectors(self) -> Iterable[Vectors]:
        """Return the vectors of all chunks in blocks, (m, dim) float32 each."""

    def terms(self, key: bytes) -> TermWeights:
        """Return the term weights of the text with this SHA-1."""


class IndexWriter(Protocol):
    """Fills and writes one artifact. Records come one by one: new ones (`add`) or those of an older generation."""

    def reuse(self, older: Generation) -> None:
        """Take rows from the artifact of this generation from now on."""

    def add(self, record: Record, chunks: Sequence[Chunk]) -> None:
        """Append the rows of a record."""

    def keep(self, record: int) -> None:
        """Append the rows that a record of the older generation has."""

    def write(self, path: Path, passages: Passages) -> int:
        """Write the artifact; return its number of rows."""


@runtime_checkable
class RangeWriter(Protocol):
    """An `IndexWriter` that keeps many records of the older generation at once."""

    def keep_all(self, records: range) -> None:
        """Append the rows that records which lie together in the older generation have."""


@runtime_checkable
class CompanionWriter(Protocol):
    """An `IndexWriter` that writes more files, which its index reads along with the artifact."""

    def companions(self, rows: int) -> Sequence[str]:
        """Return the names of the files that so many rows have beside them."""


class Retriever(ABC, Generic[Q]):
    """A first-stage retriever."""

    name: ClassVar[str]
    file: ClassVar[str]
    """Its artifact within a generation."""
    form: Form[Q]
    weight: ClassVar[float] = 0.35
    """In a weighted fusion, unless `fusion.weights` says otherwise."""
    cost: ClassVar[tuple[float, float]] = (0.0, 0.0)
    """Seconds before any were measured: the first time in a process, and for each further query. A deadline drops the
    costliest first; one that costs nothing always runs."""
    similarity: ClassVar[bool] = False
    """True if its score is a cosine, which `search.grade` and `search.max_distance` test."""
    packages: ClassVar[tuple[Package, ...]] = ()
    by_text: ClassVar[bool] = False
    """True if its rows follow from the texts of chunks alone, so that no record is read again for it."""
    relaxes: ClassVar[bool] = True
    """True if it may find more for a query of fewer words."""
    tunable: ClassVar[Mapping[str, Sequence[float]]] = {}
    """Keys of its configuration section that change its scores and not its rows, and the values that tuning tries."""

    @abstractmethod
    def card(self, building: Building) -> Card | None:
        """Return all that changes its answers, for the recipe; None if it is not built."""

    @abstractmethod
    def writer(self, building: Building) -> IndexWriter:
        """Return what fills its artifact."""

    @abstractmethod
    def open(self, generation: Generation, settings: Settings) -> Index[Q]:
        """Open its artifact.

        Raises:
            IndexCorrupt: it is damaged, or disagrees with the rest of the generation.
        """

    def keeps(self, before: Card, after: Card) -> bool:
        """Whether rows of an artifact with the card `before` can be kept under `after`."""
        return before == after

    def required(self, settings: Settings) -> bool:
        """Whether a search without it is an error."""
        return False

    def configured(self, settings: Settings) -> bool:
        """Return True if a build under these settings is to have it."""
        return True

    def depth(self, settings: Settings) -> int | None:
        """Return how many candidates it is asked for; None: as many as all others."""
        return None

    def analyzer(self, index: Index[Q]) -> Analyzer | None:
        """Return what reads text into the terms that it compares, if it compares terms."""
        return None

    def varies(self, key: str) -> bool:
        """Whether a key of its section changes its scores and not its rows, so that `varied` takes it."""
        return key in self.tunable

    def varied(self, index: Index[Q], card: Card, changes: Mapping[str, Json]) -> Index[Q]:
        """Return the index that a build with `changes` in its section would have given; in memory.

        Raises:
            UsageError: that takes a build.
        """
        keys = ", ".join(f"{self.name}.{key}" for key in changes)
        raise UsageError(f"{keys} takes another build", hint="build another index with it and name its folder")

    def plain(self, generation: Generation) -> Index[Q] | None:
        """Return its index with all fields of a record weighing the same; None if they do, or if that takes a build."""
        return None


def keys_of(card: Card, keys: Iterable[str]) -> dict[str, Json]:
    """Return the values of some keys of a card."""
    return {key: card[key] for key in keys}
