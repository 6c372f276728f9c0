"""The indexes of a generation's retrievers, opened at their first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.assemble import registry
from retrieve_cli.assemble.trusted import expect_own
from retrieve_cli.contracts import Analyzer, Index
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.segment import CHUNKS, RECORDS

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Mask, Rows

_HINT = "build again: retrieve build"
VECTORS, WEIGHTS = "dense.faiss", "splade.pkl"
"""Artifacts with the vectors and the term weights of chunks."""


class Indexes(Mapping[str, Index[Any]]):
    """The index of each retriever of a generation, opened at its first use.

    Threads may share one. Access to an index raises IndexCorrupt if it is damaged, if its number of rows is wrong, or
    if its retriever is not installed.
    """

    def __init__(
        self, makers: Mapping[str, Callable[[], Index[Any]]], notices: Callable[[], Sequence[str]] = tuple
    ) -> None:
        """`makers` are functions that open the indexes; `notices` returns what a user should know after a search."""
        self._makers = makers
        self.notices = notices
        self._opened: dict[str, Index[Any]] = {}
        self._lock = RLock()

    def __getitem__(self, name: str) -> Index[Any]:
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._makers[name]()
            return self._opened[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def replaced(self, indexes: Mapping[str, Index[Any]]) -> Indexes:
        """Return the same indexes with some of them replaced."""
        same = {name: partial(self.__getitem__, name) for name in self}
        return Indexes({**same, **{name: partial(indexes.__getitem__, name) for name in indexes}}, self.notices)

    def analyzer_of(self, own: Mask | None, starts: Rows) -> Analyzer:
        """Return the analyzer for the languages of some records, (records,) bool; None: all. `starts` has the first
        chunk of each. Raises as `analyzer` does."""
        for index in (getattr(self[name], "local", self[name]) for name in self if own is not None):
            if hasattr(index, "analyzer_of"):
                rows = own if own is None or index.unit == "record" else np.repeat(own, np.diff(starts))
                analyzer: Analyzer = index.analyzer_of(rows)
                return analyzer
        return self.analyzer

    @property
    def analyzer(self) -> Analyzer:
        """The analyzer of the index, which also marks the matched words of a hit.

        Raises:
            IndexCorrupt: no retriever of the index compares terms.
        """
        for name in self:
            if (analyzer := registry.retriever(name).analyzer(self[name])) is not None:
                return analyzer
        raise IndexCorrupt("no retriever of the index compares words", hint=_HINT)


def open_indexes(generation: Generation, settings: Settings) -> Indexes:
    """Return the indexes of a generation, their files mapped into memory, each opened at its first use; those that live
    in engines are asked there.

    Raises:
        IndexCorrupt: a table has not the rows of the manifest, a file is missing, or a retriever is not installed.
    """
    settings.expect_trusted("engines")
    expect_own(generation)
    local = local_indexes(generation, settings)
    if not settings.engines.in_use:
        return local
    from retrieve_cli.assemble.engines import remote_indexes

    remote, notices = remote_indexes(local, generation, settings)
    return Indexes({name: remote.get(name) or partial(local.__getitem__, name) for name in local}, notices)


def local_indexes(generation: Generation, settings: Settings) -> Indexes:
    """Return the indexes in the files of a generation, wherever queries look for them.

    Raises:
        IndexCorrupt: as `open_indexes` does.
    """
    rows = {"record": len(generation.records), "chunk": len(generation.chunks)}
    for segment in generation.segments:
        segment.expect(RECORDS, segment.record_count)
        segment.expect(CHUNKS, segment.chunk_count)
        for file in segment.manifest.files:
            segment.file(file)  # mapped early: it may be removed before it is read

    def opened(name: str) -> Index[Any]:
        retriever = registry.retriever(name)
        index = retriever.open(generation, settings)
        if len(index) != (wanted := rows.get(index.unit)):
            raise IndexCorrupt(f"{retriever.file} has {len(index)} rows for {wanted} {index.unit}s", hint=_HINT)
        for segment in generation.segments:
            segment.expect(retriever.file, segment.count(index.unit))
        return index

    names = registry.ordered(generation.manifest.recipe.retrievers)
    return Indexes({name: partial(opened, name) for name in names})


def similar_names(generation: Generation) -> tuple[str, ...]:
    """Return the retrievers of a generation whose score is a similarity."""
    retrievers = registry.loadable(generation.manifest.recipe.retrievers)
    return tuple(retriever.name for retriever in retrievers if retriever.similarity)


def vectors_of(generation: Generation, indexes: Indexes) -> Callable[[Any], Any]:
    """Return a function that returns the vectors of chunk rows, (n, dim) float32, wherever their index lives."""

    def vectors(rows: Any) -> Any:
        names = similar_names(generation)
        index: Any = indexes[names[0]] if names else None
        index = getattr(index, "local", index)
        return index.vectors(rows) if hasattr(index, "vectors") else stored_vectors(generation, rows)

    return vectors


def stored_vectors(generation: Generation, rows: Any) -> Any:
    """Return the vectors of chunk rows, (n, dim) float32.

    Raises:
        IndexCorrupt: the file is damaged, or missing.
    """
    from retrieve_cli.retrieval.retrievers import dense

    return dense.stored_vectors(generation, rows)


def segment_vectors(segment: Any, rows: Any) -> Any:
    """Return the vectors of chunk rows of a segment, (n, dim) float32. Raises: IndexCorrupt: the file is damaged."""
    from retrieve_cli.retrieval.retrievers import dense

    return dense.stored_by(segment).vectors(rows)


def segment_weights(segment: Any, rows: Any) -> tuple[Any, Any, Any]:
    """Return the term weights of chunk rows of a segment: (n + 1,) the start of each row in the terms and weights.

    Raises:
        IndexCorrupt: the file is damaged, or missing.
    """
    from retrieve_cli.retrieval.retrievers import splade

    return splade.segment_weights(segment, rows)
