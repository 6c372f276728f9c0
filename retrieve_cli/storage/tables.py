"""Rows of JSON in a JSONL file, written as a stream and fetched by row without reading the file."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.durable import PIECE
from retrieve_cli.storage.mapped import MappedFile

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows

_AT_ONCE, _HELD = PIECE, 16 << 20
"""Bytes that are copied at a time, and that are held in memory."""


class TableWriter:
    """Appends rows and keeps where each one starts; `offsets` has one entry more than there are rows."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self.offsets = array("q", [0])

    def append(self, row: Json) -> None:
        """Writes one row as a line of UTF-8 JSON."""
        self.copy(encoded(row))

    def copy(self, line: bytes) -> None:
        """Writes one row that is encoded already."""
        self._file.write(line)
        self.offsets.append(self.offsets[-1] + len(line))

    def copy_rows(self, lines: bytes, offsets: Rows) -> None:
        """Writes rows that are encoded already, one behind the other; `offsets` say where they start in some file."""
        self._file.write(lines)
        moved = offsets[1:] + (self.offsets[-1] - int(offsets[0]))
        self.offsets.frombytes(moved.astype(np.int64, copy=False).tobytes())

    def close(self) -> None:
        self._file.close()


def encoded(row: Json) -> bytes:
    """A row as a line of UTF-8 JSON."""
    import orjson

    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


class Table:
    """A JSONL file under its offsets, mapped into memory; every row has at least the given keys."""

    def __init__(self, file: Path | MappedFile, offsets: Rows, *, keys: Collection[str] = ()) -> None:
        """Raises: IndexCorrupt where the file is absent or its length is not what the offsets say."""
        self._path = path = file.path if isinstance(file, MappedFile) else file
        self._keys = frozenset(keys)
        self._offsets = offsets
        try:
            self._file = MappedFile.of(file)
        except OSError as error:
            raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint="retrieve inspect verify") from error
        if len(offsets) == 0 or int(offsets[-1]) != len(self._file):
            raise IndexCorrupt(f"{path} does not have the length its offsets say", hint="retrieve inspect verify")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> dict[str, Json]:
        return self._parsed(row, self.raw(row))

    def rows(self, first: int, end: int) -> list[dict[str, Json]]:
        """The rows from `first` up to but not `end`, by a single read: they lie one behind the other."""
        if not 0 <= first <= end <= len(self):
            raise IndexError(f"rows {first} to {end} of {len(self)}")
        block = self._bytes(first, end)
        bounds = (self._offsets[first : end + 1] - self._offsets[first]).tolist()
        lines = enumerate(pairwise(bounds), first)
        return [self._parsed(row, block[start:stop]) for row, (start, stop) in lines]

    def _parsed(self, row: int, line: bytes) -> dict[str, Json]:
        import orjson

        try:
            value = orjson.loads(line)
        except ValueError as error:
            raise IndexCorrupt(
                f"row {row} of {self._path} is damaged ({error})", hint="retrieve inspect verify"
            ) from error
        if not isinstance(value, dict) or not self._keys <= value.keys():
            raise IndexCorrupt(
                f"row {row} of {self._path} is not an object with the keys of its kind", hint="retrieve inspect verify"
            )
        return value

    def raw(self, row: int) -> bytes:
        """The row's line as it stands in the file."""
        return self._bytes(row, row + 1)

    def raw_rows(self, rows: range) -> Iterator[tuple[bytes, Rows]]:
        """Yield the lines of rows as they stand in the file, some at a time, and where they start and end there."""
        at, done = rows.start, 0
        while at < rows.stop:
            limit = int(self._offsets[at]) + _AT_ONCE
            end = max(at + 1, int(np.searchsorted(self._offsets[at : rows.stop + 1], limit, side="right")) - 1 + at)
            yield self._bytes(at, end), self._offsets[at : end + 1]
            done += int(self._offsets[end] - self._offsets[at])
            if done > _HELD or end == rows.stop:
                self._file.release()
                done = 0
            at = end

    def _bytes(self, first: int, end: int) -> bytes:
        """What is read from the file; nothing else reads it."""
        start, stop = int(self._offsets[first]), int(self._offsets[end])
        self._file.check(start, stop)
        return self._file.data[start:stop].tobytes()

    def __iter__(self) -> Iterator[dict[str, Json]]:
        return (self[row] for row in range(len(self)))
