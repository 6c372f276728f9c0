"""A file of an index, mapped into memory."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.untrusted.files import open_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]


class MappedFile:
    """A regular file, mapped into memory. Threads may share one."""

    def __init__(self, path: Path) -> None:
        """Map the whole file.

        Raises:
            OSError: the file cannot be read, or is not a regular file.
        """
        self.path = path
        with open_regular(path) as file:
            size = file.seek(0, 2)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
        self.memory = memoryview(b"" if self._map is None else self._map)
        self.data: Bytes = np.frombuffer(self.memory, np.uint8)

    @classmethod
    def of(cls, file: Path | MappedFile) -> MappedFile:
        """Return the file, mapped if it is only a path. Raises: OSError."""
        return file if isinstance(file, MappedFile) else cls(file)

    def __len__(self) -> int:
        return len(self.data)

    def advise_random_reads(self) -> None:
        """Ask the system not to read ahead: by default it reads megabytes around a page, for a row of a kilobyte."""
        if self._map is not None and hasattr(mmap, "MADV_RANDOM"):
            self._map.madvise(mmap.MADV_RANDOM)

    def release(self) -> None:
        """Free the memory of the mapped pages; later access reads them again, usually from the page cache.

        For files of gigabytes that a sync copies from end to end: texts, vectors and tokens of a million records.
        """
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
