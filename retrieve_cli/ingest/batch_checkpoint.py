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
from typing import Generic, TypeVar

from retrieve_cli.contracts.progress import Task

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
        """Results in these files."""

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
        """Count all texts of the batch as done, also those that did not come one by one."""
        self._task.reach(self._before + count)

    def _keep(self) -> None:
        if self._results:
            self.files += self._write(list(self._results), list(self._results.values()))
            self.kept += len(self._results)
            self._results = {}
            self._written = time.monotonic()
