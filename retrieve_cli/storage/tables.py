"""Rows of JSON in a JSONL file, written as a stream and read by row."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.durable import PIECE
from retrieve_cli.storage.mapped import MappedFile

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows

_HINT = "retrieve inspect verify"


class TableWriter:
    """Writer of rows and their offsets; `offsets` has one entry more than there are rows."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self.offsets = array("q", [0])

    def extend(self, rows: Iterable[Json]) -> None:
        """Write rows as lines of UTF-8 JSON."""
        import orjson

        lines = [orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows]
        self._file.write(b"".join(lines))
        self.offsets.extend(islice(accumulate(map(len, lines), initial=self.offsets[-1]), 1, None))

    def copy_rows(self, lines: bytes, offsets: Rows) -> None:
        """Write contiguous rows that are already encoded; `offsets` are their starts in some file."""
        self._file.write(lines)
        moved = offsets[1:] + (self.offsets[-1] - int(offsets[0]))
        self.offsets.frombytes(moved.astype(np.int64, copy=False).tobytes())

    def close(self) -> None:
        self._file.close()


class JsonlTable:
    """A JSONL file with its offsets, mapped into memory; every row has at least the given keys."""

    def __init__(self, file: MappedFile, offsets: Rows, *, keys: Collection[str] = ()) -> None:
        """Raises: IndexCorrupt if its length differs from the offsets."""
        self._path, self._file = file.path, file
        self._keys = frozenset(keys)
        self._offsets = offsets
        if len(offsets) == 0 or int(offsets[-1]) != len(self._file):
            raise IndexCorrupt(f"the length of {file.path} does not match its offsets", hint=_HINT)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> dict[str, Json]:
        return self.rows(row, row + 1)[0]

    def rows(self, first: int, end: int) -> list[dict[str, Json]]:
        """Return the rows from `first` up to but not `end`, which are contiguous, by a single read."""
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
            raise IndexCorrupt(f"row {row} of {self._path} is damaged ({error})", hint=_HINT) from error
        if not isinstance(value, dict) or not self._keys <= value.keys():
            raise IndexCorrupt(f"row {row} of {self._path} is not an object with the keys of its kind", hint=_HINT)
        return value

    def raw_rows(self, rows: range) -> Iterator[tuple[bytes, Rows]]:
        """Yield unparsed lines of rows, some at a time, with their starts and ends in the file."""
        first = rows.start
        while first < rows.stop:
            limit = int(self._offsets[first]) + PIECE
            fitting = int(np.searchsorted(self._offsets[first : rows.stop + 1], limit, side="right")) - 1
            end = max(first + 1, fitting + first)
            yield self._bytes(first, end), self._offsets[first : end + 1]
            self._file.release()
            first = end

    def _bytes(self, first: int, end: int) -> bytes:
        """Return the bytes of rows; all reading of the file goes through here."""
        return self._file.data[int(self._offsets[first]) : int(self._offsets[end])].tobytes()
