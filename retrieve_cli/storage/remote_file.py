"""A file of an attached generation: its blocks are in an engine, and come to this machine when they are first read.

The local file has the size of the whole and holes where blocks are missing. Blocks that do not have their sums are
fetched, many in one request, and written into their places, so that another process finds them there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np

from retrieve_cli.contracts.engines import BLOCKS
from retrieve_cli.errors import IndexCorrupt, RetrieveError
from retrieve_cli.storage.mapped import BLOCK, MappedFile, block_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.storage.mapped import Bytes, Sums

ATTACHED = "attached.json"
"""File beside the manifest of a generation whose files are in an engine; it names the engine."""
Blocks = Callable[[str, Sequence[int]], list[bytes]]
"""Function that returns some blocks of a file of a generation by their numbers, at most `BLOCKS`. Raises: IndexCorrupt,
Unavailable."""
_ABREAST = 2
"""Requests that wait for the engine at the same time; with 2 MiB each they bound the memory."""
_PUSH = "send the index again: retrieve engines push"


class RemoteFile(MappedFile):
    """A file of which missing blocks are fetched before they are read.

    Blocks are read and verified beside the map: only what readers touch becomes part of this process's memory.
    """

    def __init__(self, path: Path, sums: Sums, fetch_blocks: Callable[[Sequence[int]], list[bytes]]) -> None:
        """`sums` are the sums of its blocks; `fetch_blocks` returns some blocks by their numbers.

        Raises:
            OSError: the local file cannot be written.
        """
        super().__init__(path, sums)
        self._own_sums = sums
        self._fetch_blocks = fetch_blocks
        self._file = os.open(path, os.O_WRONLY)
        finalize(self, os.close, self._file)

    def copied(self, first: int, end: int) -> bytes:
        """Return the bytes from `first` up to but not `end`, read instead of mapped. Raises: IndexCorrupt."""
        self.check(first, end)
        return self._read(first, end - first).tobytes()

    def check_spans(self, spans: Sequence[tuple[int, int]]) -> None:
        """Verify the blocks of several stretches of the file, and fetch those that are missing together."""
        wanted = np.zeros(len(self._sound), np.bool_)
        for first, end in spans:
            wanted[first // BLOCK : -(-end // BLOCK)] = first < end
        self._verify_each(np.flatnonzero(wanted & ~self._sound))

    def _verify(self, start: int, stop: int, data: Bytes) -> None:  # noqa: ARG002  it was read before the fetch
        self._verify_each(np.arange(start, stop))

    def _verify_each(self, blocks: NDArray[np.int64]) -> None:
        """Verify some blocks, after fetching those that are missing: in a few requests side by side."""
        if len(self._own_sums) != len(self._sound):
            raise self._damaged()
        parts = [blocks[start : start + BLOCKS].tolist() for start in range(0, len(blocks), BLOCKS)]
        if len(parts) < 2:
            for part in parts:
                self._bring(part)
            return
        from concurrent.futures import ThreadPoolExecutor  # not needed for a single request

        with ThreadPoolExecutor(min(_ABREAST, len(parts))) as threads:
            for done in [threads.submit(self._bring, part) for part in parts]:
                done.result()

    def _bring(self, blocks: Sequence[int]) -> None:
        """Fetch the missing ones of at most `BLOCKS` blocks, verify them, and write them into their places.

        Raises:
            IndexCorrupt: a block differs from the sent one.
            RetrieveError: the disk is full.
        """
        missing = [number for number in blocks if not self._fits(number, self._read(number * BLOCK, BLOCK))]
        for number, block in zip(missing, self._fetch_blocks(missing) if missing else (), strict=True):
            if len(block) != min(BLOCK, len(self.data) - number * BLOCK):
                raise IndexCorrupt(f"a block of {self.path.name} in the engine has {len(block)} bytes", hint=_PUSH)
            if not self._fits(number, np.frombuffer(block, np.uint8)):
                raise self._damaged()
            try:
                os.pwrite(self._file, block, number * BLOCK)
            except OSError as error:
                raise RetrieveError(f"cannot write {self.path}: {error.strerror}", hint="free disk space") from error
        self._sound[blocks] = True
        self._settled = bool(self._sound.all())

    def _fits(self, number: int, block: Bytes) -> bool:
        return bool((block_sums(block) == self._own_sums[number]).all())

    def _damaged(self) -> IndexCorrupt:
        hint = "list all damaged files: retrieve inspect verify; then build again: retrieve build"
        return IndexCorrupt(f"{self.path.name} in the engine is not the file that was sent", hint=hint)
