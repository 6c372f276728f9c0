"""A batch of texts while it is encoded: counted as texts are done, and kept so that an interruption loses little.

An encoder that gets thousands of texts at a time sorts them by length, which is much faster than a few at a time. If it
also passes results on as they come (`GradualEncoder`), they are written to the cache every `KEPT` texts, into files
that the complete batch then replaces: a cache has as many files as if nothing had been kept on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from retrieve_cli.contracts import TokenVectors
from retrieve_cli.contracts.progress import Task
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.token_table import PackedTokens, pack, width_of
from retrieve_cli.storage.vector_cache import TokenCache, VectorCache

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

KEPT = 256
"""Texts after which results are written."""
_PAUSE = 2.0
"""Seconds between two writes: waiting for the disk costs a fast encoder more than encoding the texts again."""

R = TypeVar("R")


class BatchCheckpoint(Generic[R]):
    """The results of a batch by place, as they come from any thread."""

    def __init__(
        self, task: Task, texts: Sequence[str], write: Callable[[Sequence[int], Sequence[R]], Sequence[Path]]
    ) -> None:
        """`write` puts results of texts into the cache, given their places, and returns the files."""
        self._task = task
        self._texts = texts
        self._write = write
        self._before = task.done, task.sized
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
        self._task.advance(len(places), size=sum(len(self._texts[place]) for place in places))

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

    def complete(self) -> None:
        """Count all texts of the batch as done and kept, also those that did not come one by one."""
        self.kept = len(self._texts)
        done, sized = self._before
        rest = sum(map(len, self._texts)) - (self._task.sized - sized)
        self._task.advance(self.kept - (self._task.done - done), size=rest)

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
        self._packed[place] = pack(tokens)

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
