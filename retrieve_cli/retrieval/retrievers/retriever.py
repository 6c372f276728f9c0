"""Interface of a first-stage retriever: one value, registered once.

A new retriever is a file in this package and a line in config/plugins.py, or a separate package with an entry point in
the group `retrieve.plugins`. Modes, fusion weights, file names, the dropping order under a deadline, recipe sections,
ablations and tuning are derived from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from retrieve_cli.contracts import Analyzer, Card, Chunk, Encoder, Index, Package, Passages, Record

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Rows, SparseEncoder, Spelling, TermWeights, Vectors
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.segment import Segment

Q = TypeVar("Q")


class QueryForm(Generic[Q]):
    """Form of the query that an index takes."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


TEXT: QueryForm[str] = QueryForm("text")
VECTOR: QueryForm[Vectors] = QueryForm("vector")
"""Vector from the encoder that the index was built with."""
TERMS: QueryForm[TermWeights] = QueryForm("terms")
"""Term weights from the sparse encoder that the index was built with."""


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


class IndexWriter(Protocol):
    """Writer of one artifact: records come one by one, or whole segments are merged."""

    def add(self, record: Record, chunks: Sequence[Chunk]) -> None:
        """Append the rows of a record."""

    def take(self, segment: Segment, records: Rows, chunks: Rows) -> None:
        """Copy rows of a segment: `records` has the new row of each of its records, -1 for those that are dropped;
        `chunks` likewise. The rows of all segments that are taken are numbered from 0."""

    def write(self, path: Path, passages: Passages) -> int:
        """Write the artifact; return its number of rows."""


class Retriever(ABC, Generic[Q]):
    """A first-stage retriever."""

    name: ClassVar[str]
    file: ClassVar[str]
    """File name of its artifact within a generation."""
    form: QueryForm[Q]
    weight: ClassVar[float] = 0.35
    """Weight in a weighted fusion, unless `fusion.weights` sets another."""
    similarity: ClassVar[bool] = False
    """True if its score is a cosine, to which `search.grade` and `search.max_distance` apply."""
    packages: ClassVar[tuple[Package, ...]] = ()
    role: ClassVar[str] = ""
    """Key of `engines` in the configuration that names the place of its index; empty if that is always a file."""
    relaxes: ClassVar[bool] = True
    """True if it may return more for a query with fewer words."""
    tunable: ClassVar[Mapping[str, Sequence[float]]] = {}
    """Keys of its configuration section that change its scores but not its rows, with the values that tuning tries."""

    @abstractmethod
    def card(self, building: Building) -> Card | None:
        """Return everything that changes its answers, for the recipe; None if it is not built."""

    @abstractmethod
    def writer(self, building: Building) -> IndexWriter:
        """Return the writer of its artifact."""

    @abstractmethod
    def open(self, generation: Generation, settings: Settings) -> Index[Q]:
        """Open its artifact. Raises: IndexCorrupt: it is damaged, or disagrees with the rest of the generation."""

    def required(self, settings: Settings) -> bool:
        """Return True if a search without it is an error."""
        return False

    def configured(self, settings: Settings) -> bool:
        """Return True if a build with these settings includes it."""
        return True

    def analyzer(self, index: Index[Q]) -> Analyzer | None:
        """Return the analyzer of its terms, if it compares terms."""
        return None

    def languages(self, index: Index[Q]) -> Mapping[str, int]:
        """Return the number of rows by the code of their language, if the index knows it."""
        return {}

    def spelling(self, index: Index[Q], generation: Generation, *, is_word: Callable[[str], bool]) -> Spelling | None:
        """Return corrections by the words of its index, if it has words. `is_word` tells if a word that no
        record has is spelled right."""
        return None

    def varies(self, key: str) -> bool:
        """Return True if a key of its section changes its scores but not its rows."""
        return key in self.tunable

    def plain(self, generation: Generation, settings: Settings) -> Index[Q] | None:
        """Return its index with equal weights for all fields; None if they are equal, or if that requires a build."""
        return None
