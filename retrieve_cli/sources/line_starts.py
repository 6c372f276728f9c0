"""Where each line of a catalog starts, kept in the cache: a query looks there instead of reading the whole file.

One file a catalog: blocks of 4 KiB, each 511 little-endian 64-bit words and their CRC-32, so that looking up a line
reads two of them. The first block holds the marks of the catalog that was read and its number of lines; each of the
others holds where 511 lines start, the last of them again in the next block, so that a line's end stands beside its
start. They are a place to look at, no proof: what is found there is held to its digest. They may be lost.
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
from retrieve_cli.storage.marks import marks_of
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDER = "lines"
"""Their folder within the cache."""
_MAGIC = 0x315354524154534C
_WORDS = 511
_BLOCK = 8 * (_WORDS + 1)
_AT_ONCE = 8 * files.MB


class LineStarts:
    """Where the lines of one catalog started when it was last looked at."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unwritten: tuple[tuple[int, ...], NDArray[np.int64]] | None = None

    def marks(self) -> tuple[int, ...] | None:
        """Return the marks of the file that they were read from; None if there are none, or damaged ones."""
        if self._unwritten:
            return self._unwritten[0]
        header = self._block(0)
        return None if header is None or header[0] != _MAGIC else tuple(header[1:6])

    def span(self, line: int) -> tuple[int, int] | None:
        """Return where a line, counted from 1, starts and where the next one does; None if that is not known."""
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
        """Read where the lines of a catalog start, and keep that; where it cannot be written, in memory.

        Raises:
            OSError: the catalog cannot be read, or this cannot be written.
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
        """The words of a block; None if it is absent or damaged."""
        try:
            with files.open_regular(self._path) as file:
                block = os.pread(file.fileno(), _BLOCK, number * _BLOCK)
        except OSError:
            return None
        if len(block) != _BLOCK or block != _sealed(block[:-8]):
            return None
        return tuple(memoryview(block[:-8]).cast("q"))


def prune(folder: Path, needed: Iterable[str]) -> None:
    """Remove all in a folder of line starts but those of the names that are needed. Raises: OSError."""
    with suppress(FileNotFoundError):
        for path in set(folder.iterdir()) - {folder / name for name in needed}:
            path.unlink(missing_ok=True)


def _starts(file: BufferedReader) -> NDArray[np.int64]:
    """Where each line of a file starts, (lines + 1,) int64, the last one where the file ends."""
    import numpy as np

    found, size = [np.zeros(1, np.int64)], 0
    while piece := file.read(_AT_ONCE):
        found.append(np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n")) + (size + 1))
        size += len(piece)
    starts = np.concatenate(found)
    return starts if starts[-1] == size else np.append(starts, size)


def _sealed(words: bytes) -> bytes:
    """Words with their CRC-32 behind them."""
    return words + zlib.crc32(words).to_bytes(8, "little")
