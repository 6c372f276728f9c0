"""Results of a batch as workers send them, on their way into a cache: in any order, and not all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieve_cli.contracts.executors import Encoded
from retrieve_cli.contracts.progress import Task
from retrieve_cli.ingest.batch_checkpoint import BatchCheckpoint, VectorBatch
from retrieve_cli.storage.token_table import PackedTokens

if TYPE_CHECKING:
    from retrieve_cli.contracts import TermWeights, Vectors
    from retrieve_cli.storage.cache_parts import Entry
    from retrieve_cli.storage.content_cache import ContentCache


class WorkerResults(Protocol):
    """One form of the texts of a batch."""

    @property
    def kept(self) -> int:
        """Texts that were written."""

    def add(self, places: Sequence[int], results: Sequence[Encoded]) -> None:
        """Take in results, which are soon written."""

    def complete(self) -> None:
        """Write the whole batch in place of its parts; texts without a result have none."""

    def keep(self) -> None:
        """Write the unwritten results: an error or an interruption ends the batch."""


class WorkerVectors:
    """Vectors, and packed tokens if these are kept."""

    def __init__(self, batch: VectorBatch, count: int, *, dim: int) -> None:
        self._batch = batch
        self._vectors = np.zeros((count, dim), np.float32)
        self._there = np.zeros(count, np.bool_)
        self._under_way: BatchCheckpoint[Vectors] = BatchCheckpoint(_uncounted(), batch.put_aside)
        self.kept = 0

    def add(self, places: Sequence[int], results: Sequence[Encoded]) -> None:
        """Take in results, which are soon written."""
        for place, result in zip(places, results, strict=True):
            if result.tokens is not None:
                self._batch.take_packed(place, PackedTokens(*result.tokens))
            if result.vector is not None:
                self._vectors[place] = result.vector
        self._there[list(places)] = True
        self._under_way.add(places, [self._vectors[place] for place in places])

    def complete(self) -> None:
        """Write the whole batch in place of its parts."""
        if not self._there.all():
            self.keep()
            return
        self._batch.keep(self._vectors, instead_of=self._under_way.files)
        self.kept = len(self._there)

    def keep(self) -> None:
        """Write the unwritten results."""
        self._under_way.keep()
        self.kept = self._under_way.kept


class WorkerTerms:
    """Term weights."""

    def __init__(
        self,
        cache: ContentCache,
        keys: Sequence[bytes],
        entries: Callable[[Sequence[TermWeights]], list[Entry]],
    ) -> None:
        """`entries` returns term weights as the cache keeps them."""
        self._cache = cache
        self._keys = keys
        self._entries = entries
        self._weights: dict[int, TermWeights] = {}
        self._under_way: BatchCheckpoint[TermWeights] = BatchCheckpoint(_uncounted(), self._put_aside)
        self.kept = 0

    def add(self, places: Sequence[int], results: Sequence[Encoded]) -> None:
        """Take in results, which are soon written."""
        weights = {place: one.terms for place, one in zip(places, results, strict=True) if one.terms is not None}
        self._weights |= weights
        self._under_way.add(list(weights), list(weights.values()))

    def complete(self) -> None:
        """Write the whole batch in place of its parts."""
        if len(self._weights) < len(self._keys):
            self.keep()
            return
        written = self._cache.append(self._keys, self._entries([self._weights[at] for at in range(len(self._keys))]))
        for file in set(self._under_way.files) - {written}:
            file.unlink(missing_ok=True)
        self.kept = len(self._keys)

    def keep(self) -> None:
        """Write the unwritten results."""
        self._under_way.keep()
        self.kept = self._under_way.kept

    def _put_aside(self, places: Sequence[int], weights: Sequence[TermWeights]) -> list[Path]:
        return [self._cache.put_aside([self._keys[place] for place in places], self._entries(weights))]


def _uncounted() -> Task:
    """Return a task that is not displayed: a text is counted once, in all its forms."""
    return Task("", "")
