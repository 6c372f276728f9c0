"""A file of an attached generation: its blocks are in an engine, and come to this machine when they are first read.

The local file has the size of the whole and holes where blocks are missing. A block that does not have its sum is
fetched and written into its place, so that another process finds it there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np

from retrieve_cli.errors import IndexCorrupt, RetrieveError
from retrieve_cli.storage.mapped import BLOCK, MappedFile, block_sums

if TYPE_CHECKING:
    from retrieve_cli.storage.mapped import Bytes, Sums

ATTACHED = "attached.json"
"""File beside the manifest of a generation whose files are in an engine; it names the engine."""
Blocks = Callable[[str, int], bytes]
"""Function that returns a block of a file of a generation by its number. Raises: IndexCorrupt, Unavailable."""


class RemoteFile(MappedFile):
    """A file of which missing blocks are fetched before they are read."""

    def __init__(self, path: Path, sums: Sums, fetch_block: Callable[[int], bytes]) -> None:
        """`sums` are the sums of its blocks; `fetch_block` returns a block by its number.

        Raises:
            OSError: the local file cannot be written.
        """
        super().__init__(path, sums, lambda: f"{path.name} in the engine is not the file that was sent")
        self._own_sums = sums
        self._fetch_block = fetch_block
        self._file = os.open(path, os.O_WRONLY)
        finalize(self, os.close, self._file)

    def _verify(self, start: int, stop: int, data: Bytes) -> None:  # noqa: ARG002  it was read before the fetch
        """Fetch missing blocks, then verify all of them."""
        for number in range(start, min(stop, len(self._own_sums))):
            first = number * BLOCK
            if not (block_sums(self.data[first : first + BLOCK]) == self._own_sums[number]).all():
                self._write(first, self._fetch_block(number))
        super()._verify(start, stop, self.data[start * BLOCK : stop * BLOCK])

    def _write(self, first: int, block: bytes) -> None:
        """Write a block into its place. Raises: IndexCorrupt: it has another size; RetrieveError: the disk is full."""
        if len(block) != min(BLOCK, len(self.data) - first):
            message = f"a block of {self.path.name} in the engine has {len(block)} bytes"
            raise IndexCorrupt(message, hint="send the index again: retrieve engines push")
        try:
            os.pwrite(self._file, np.frombuffer(block, np.uint8).data, first)
        except OSError as error:
            raise RetrieveError(f"cannot write {self.path}: {error.strerror}", hint="free disk space") from error
