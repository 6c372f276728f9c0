"""Offsets of the lines of a catalog, cached so that a query can seek to a line instead of reading the whole file.

One file per catalog: the CRC-32 of the rest, the marks of the catalog, and the offset of each line and of the end,
64-bit words, little-endian. The offsets are only hints: the digest of the line decides. The file may be deleted.
"""

from __future__ import annotations

import os
import zlib
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
_MARKS = 5
_AT_ONCE = 8 * files.MB


class LineStarts:
    """Offsets of the lines of one catalog at the last scan."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._words: NDArray[np.int64] | None = None

    def marks(self) -> tuple[int, ...] | None:
        """Return the marks of the scanned file; None if it has no marks or the file is damaged."""
        words = self._loaded()
        return None if words is None else tuple(map(int, words[:_MARKS]))

    def span(self, line: int) -> tuple[int, int] | None:
        """Return the start of a line, counted from 1, and of the next one; None if unknown."""
        words, place = self._loaded(), _MARKS + line - 1
        if words is None or not _MARKS <= place < len(words) - 1:
            return None
        start, end = map(int, words[place : place + 2])
        return (start, end) if 0 <= start <= end <= start + files.LINE else None

    def keep(self, catalog: Path) -> None:
        """Scan a catalog and store the offsets of its lines; keep them in memory if they cannot be written.

        Raises:
            OSError: the catalog cannot be read, or the offsets cannot be written.
        """
        import numpy as np

        with files.open_regular(catalog) as file:
            marks = marks_of(os.fstat(file.fileno()))
            starts = _starts(file)
            if marks_of(os.fstat(file.fileno())) != marks:
                return
        self._words = np.concatenate([np.array(marks, np.int64), starts])
        content = self._words.astype("<i8").tobytes()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        durable.replace_later(self._path, zlib.crc32(content).to_bytes(8, "little") + content)

    def _loaded(self) -> NDArray[np.int64] | None:
        """Return marks and offsets; None if the file is missing or damaged."""
        import numpy as np

        if self._words is None:
            with suppress(OSError), files.open_regular(self._path) as file:
                seal, content = file.read(8), file.read()
                if seal == zlib.crc32(content).to_bytes(8, "little") and not len(content) % 8:
                    self._words = np.frombuffer(content, "<i8")
        return self._words


def _starts(file: BufferedReader) -> NDArray[np.int64]:
    """Return the offset of each line of a file, (lines + 1,) int64; the last one is the size of the file."""
    import numpy as np

    offsets, size = [np.zeros(1, np.int64)], 0
    while piece := file.read(_AT_ONCE):
        offsets.append(np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n")) + (size + 1))
        size += len(piece)
    starts = np.concatenate(offsets)
    return starts if starts[-1] == size else np.append(starts, size)
