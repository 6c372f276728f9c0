"""Offsets of the lines of a catalog, cached so that a query can seek to a line instead of reading the whole file.

One file per catalog: blocks of 4 KiB, each 511 little-endian 64-bit words and their CRC-32, so that looking up a line
reads two of them. The first block holds the marks of the catalog and its number of lines. Each of the others holds the
offsets of 511 lines; the last one is repeated in the next block, so that the end of a line is beside its start. The
offsets are only hints: the digest of the line decides. The file may be deleted at any time.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.storage import durable
from retrieve_cli.storage.durable import marks_of
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDER = "lines"
"""Folder of the offsets within the cache."""
_MAGIC = 0x315354524154534C
_WORDS = 511
_BLOCK = 8 * (_WORDS + 1)
_AT_ONCE = 8 * files.MB


class LineStarts:
    """Offsets of the lines of one catalog at the last scan."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unwritten: tuple[tuple[int, ...], NDArray[np.int64]] | None = None

    def marks(self) -> tuple[int, ...] | None:
        """Return the marks of the scanned file; None if it has no marks or the file is damaged."""
        if self._unwritten:
            return self._unwritten[0]
        header = self._block(0)
        return None if header is None or header[0] != _MAGIC else tuple(header[1:6])

    def span(self, line: int) -> tuple[int, int] | None:
        """Return the start of a line, counted from 1, and of the next one; None if unknown."""
        if self._unwritten:
            start, end = [*map(int, self._unwritten[1][line - 1 : line + 1]), -1, -1][:2]
        else:
            block, place = divmod(line - 1, _WORDS - 1)
            header, starts = self._block(0), self._block(1 + block)
            if header is None or starts is None or header[0] != _MAGIC or not 0 < line <= header[6]:
                return None
            start, end = starts[place : place + 2]
        return (start, end) if 0 <= start <= end <= start + files.LINE else None

    def keep(self, catalog: Path) -> None:
        """Scan a catalog and store the offsets of its lines; keep them in memory if they cannot be written.

        Raises:
            OSError: the catalog cannot be read, or the offsets cannot be written.
        """
        with files.open_regular(catalog) as file:
            marks = marks_of(os.fstat(file.fileno()))
            starts = _starts(file)
            if marks_of(os.fstat(file.fileno())) != marks:
                return
        self._unwritten = marks, starts
        self._write(marks, starts)
        self._unwritten = None

    def _write(self, marks: Sequence[int], starts: NDArray[np.int64]) -> None:
        import numpy as np

        header = np.zeros(_WORDS, "<i8")
        header[:7] = [_MAGIC, *marks, len(starts) - 1]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_name(f".{self._path.name}.{os.getpid()}-{time.time_ns()}")
        try:
            with new.open("xb") as file:
                file.write(_sealed(header.tobytes()))
                for first in range(0, max(len(starts) - 1, 1), _WORDS - 1):
                    words = np.zeros(_WORDS, "<i8")
                    part = starts[first : first + _WORDS]
                    words[: len(part)] = part
                    file.write(_sealed(words.tobytes()))
            durable.sync(new)
            new.replace(self._path)
        finally:
            new.unlink(missing_ok=True)

    def _block(self, number: int) -> tuple[int, ...] | None:
        """Return the words of a block; None if it is missing or damaged."""
        try:
            with files.open_regular(self._path) as file:
                block = os.pread(file.fileno(), _BLOCK, number * _BLOCK)
        except OSError:
            return None
        if len(block) != _BLOCK or block != _sealed(block[:-8]):
            return None
        return tuple(memoryview(block[:-8]).cast("q"))


def prune(folder: Path, needed: Iterable[str]) -> None:
    """Remove the files of a folder of offsets whose names are not needed. Raises: OSError."""
    with suppress(FileNotFoundError):
        for path in set(folder.iterdir()) - {folder / name for name in needed}:
            path.unlink(missing_ok=True)


def _starts(file: BufferedReader) -> NDArray[np.int64]:
    """Return the offset of each line of a file, (lines + 1,) int64; the last one is the size of the file."""
    import numpy as np

    offsets, size = [np.zeros(1, np.int64)], 0
    while piece := file.read(_AT_ONCE):
        offsets.append(np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n")) + (size + 1))
        size += len(piece)
    starts = np.concatenate(offsets)
    return starts if starts[-1] == size else np.append(starts, size)


def _sealed(words: bytes) -> bytes:
    """Append the CRC-32 to words."""
    return words + zlib.crc32(words).to_bytes(8, "little")
