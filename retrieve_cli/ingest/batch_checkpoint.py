"""A batch of texts while it is encoded: counted as texts are done, and kept so that an interruption loses little.

An encoder that gets thousands of texts at a time sorts them by length, which is much faster than a few at a time. If it
also passes results on as they come (`GradualEncoder`), they are written to the cache every `KEPT` texts, into files
that the complete batch then replaces: a cache has as many files as if nothing had been kept on the way.

Results of a batch as workers send them, on their way into a cache: in any order, and not all at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from retrieve_cli.contracts import TokenVectors
from retrieve_cli.contracts.models import Encoded
from retrieve_cli.contracts.progress import Task
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.token_table import PackedTokens, pack, width_of
from retrieve_cli.storage.vector_cache import TokenCache, VectorCache

if TYPE_CHECKING:
    from retrieve_cli.contracts import TermWeights, Vectors
    from retrieve_cli.storage.content_cache import ContentCache
    from retrieve_cli.storage.key_rows import Entry


KEPT = 256
"""Texts after which results are written."""
_PAUSE = 2.0
"""Seconds between two writes: waiting for the disk costs a fast encoder more than encoding the texts again."""

R = TypeVar("R")


class BatchCheckpoint(Generic[R]):
    """The results of a batch by place, as they come from any thread."""

    def __init__(self, task: Task, write: Callable[[Sequence[int], Sequence[R]], Sequence[Path]]) -> None:
        """`write` puts results into the cache, given their places, and returns the files."""
        self._task = task
        self._write = write
        self._before = task.done
        self._results: dict[int, R] = {}
        self._written = time.monotonic()
        self._lock = Lock()
        self.files: list[Path] = []
        """Files that hold parts of the batch."""
        self.kept = 0
        """Results in these files; all of them once the batch is complete."""

    def add(self, places: Sequence[int], results: Sequence[R]) -> None:
        """Take in the results of texts, which are kept together."""
        with self._lock:
            self._results.update(zip(places, results, strict=True))
            if len(self._results) >= KEPT and time.monotonic() - self._written >= _PAUSE:
                self._keep()
        self._task.advance(len(places))

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Encode the batch in this context: finished results are kept if it fails or is interrupted."""
        try:
            yield
        except BaseException:
            self.keep()
            raise

    def keep(self) -> None:
        """Write the results since the last write, if there is room for them."""
        with self._lock, suppress(OSError):
            self._keep()

    def complete(self, count: int) -> None:
        """Count all texts of the batch as done and kept, also those that did not come one by one."""
        self._task.reach(self._before + count)
        self.kept = count

    def _keep(self) -> None:
        if self._results:
            self.files += self._write(list(self._results), list(self._results.values()))
            self.kept += len(self._results)
            self._results = {}
            self._written = time.monotonic()


class VectorBatch:
    """Takes tokens from any thread. Tokens are written before vectors: a text that has its vector is done."""

    def __init__(self, keys: Sequence[bytes], vectors: VectorCache, tokens: TokenCache | None, *, dim: int) -> None:
        self.tokens = tokens
        self._keys = keys
        self._vectors = vectors
        self._packed: dict[int, PackedTokens] = {}
        self._nothing = PackedTokens(np.empty(0, np.int32), np.empty((0, width_of(dim)), np.uint8))
        """Tokens of a text without a token."""
        digests = as_keys(keys)
        self._without_vector = vectors.lacks(digests)
        self._without_tokens = tokens.lacks(digests) if tokens is not None else np.empty(0, np.int64)

    def take(self, place: int, tokens: TokenVectors) -> None:
        """Take in the tokens of one text."""
        self.take_packed(place, pack(tokens))

    def take_packed(self, place: int, tokens: PackedTokens) -> None:
        """Take in the packed tokens of one text."""
        self._packed[place] = tokens

    def put_aside(self, places: Sequence[int], vectors: Sequence[Vectors]) -> list[Path]:
        """Write the part of the batch that is done; returns the files."""
        done = np.array(places, np.int64)
        files = []
        if self.tokens is not None:
            keys, packed = self._tokens_of(np.intersect1d(done, self._without_tokens))
            files += [self.tokens.put_aside(keys, packed)] if keys else []
        rows = np.flatnonzero(np.isin(done, self._without_vector))
        if len(rows):
            keys = [self._keys[place] for place in done[rows].tolist()]
            files.append(self._vectors.put_aside(keys, np.stack([vectors[row] for row in rows.tolist()])))
        return files

    def keep(self, vectors: Vectors, *, instead_of: Sequence[Path]) -> None:
        """Write the whole batch, (n, dim); files that were put aside before are removed."""
        written = set()
        if self.tokens is not None:
            written.add(self.tokens.append(*self._tokens_of(self._without_tokens)))
        new = self._without_vector
        if len(new):
            written.add(self._vectors.append([self._keys[place] for place in new.tolist()], vectors[new]))
        for file in set(instead_of) - written:
            file.unlink(missing_ok=True)

    def _tokens_of(self, places: np.ndarray) -> tuple[list[bytes], list[PackedTokens]]:
        chosen = places.tolist()
        return [self._keys[place] for place in chosen], [self._packed.get(place, self._nothing) for place in chosen]


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
        self._under_way: BatchCheckpoint[Vectors] = BatchCheckpoint(Task("", ""), batch.put_aside)
        """It has a task that is not displayed: a text is counted once, in all its forms."""
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
        self, cache: ContentCache, keys: Sequence[bytes], entries: Callable[[Sequence[TermWeights]], list[Entry]]
    ) -> None:
        """`entries` returns term weights as the cache keeps them."""
        self._cache = cache
        self._keys = keys
        self._entries = entries
        self._weights: dict[int, TermWeights] = {}
        self._under_way: BatchCheckpoint[TermWeights] = BatchCheckpoint(Task("", ""), self._put_aside)
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
        weights = [self._weights[place] for place in range(len(self._keys))]
        self._cache.append(self._keys, self._entries(weights), instead_of=self._under_way.files)
        self.kept = len(self._keys)

    def keep(self) -> None:
        """Write the unwritten results."""
        self._under_way.keep()
        self.kept = self._under_way.kept

    def _put_aside(self, places: Sequence[int], weights: Sequence[TermWeights]) -> list[Path]:
        return [self._cache.put_aside([self._keys[place] for place in places], self._entries(weights))]
