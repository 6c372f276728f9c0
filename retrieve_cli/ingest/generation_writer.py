"""Writes the tables of a generation: records and chunks by row, their offsets, and the columns to filter by."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Chunk, Record
from retrieve_cli.records.columns import CARD as COLUMNS_CARD, FILE as COLUMNS, Columns, columns_of
from retrieve_cli.records.columns_writer import ColumnsWriter
from retrieve_cli.records.rows import chunk_row, record_row
from retrieve_cli.storage import pickles
from retrieve_cli.storage.generation import CHUNKS, DIGEST, OFFSETS, RECORDS, Generation
from retrieve_cli.storage.manifest import sha1, text_key
from retrieve_cli.storage.tables import Table, TableWriter, encoded

if TYPE_CHECKING:
    from numpy.typing import NDArray


class GenerationWriter:
    """Writes the tables of a generation as records and their chunks come, anew or from an older generation."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records = TableWriter(folder / RECORDS)
        self._chunks = TableWriter(folder / CHUNKS)
        self._starts = array("q", [0])
        self._lines = array("q")
        self._ids: list[bytes] = []
        self._contents: list[bytes] = []
        self._origins: list[bytes] = []
        self._texts: list[bytes] = []
        self._columns = ColumnsWriter()

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def texts(self) -> list[bytes]:
        """By chunk, the SHA-1 of the text that is embedded."""
        return self._texts

    def contents(self, first: int = 0) -> dict[str, bytes]:
        """SHA-1 of their content by id, of the records from row `first` on."""
        return {name.decode(): digest for name, digest in zip(self._ids[first:], self._contents[first:], strict=True)}

    def digest(self, first: int = 0) -> str:
        """SHA-1 of ids and contents of the records from row `first` on, whatever order they came in."""
        return sha1(sorted([name, digest.hex()] for name, digest in self.contents(first).items()))

    def append(self, record: Record, chunks: Sequence[Chunk], origin: bytes) -> list[bytes]:
        """Writes a record, whose `origin` is the SHA-1 of what it was read from, and its chunks: at least one.

        Returns the SHA-1 of each chunk's embedded text.
        """
        row = record_row(record)
        self._records.append(row)
        self._columns.append(row)
        for chunk in chunks:
            self._chunks.append(chunk_row(record, chunk))
        texts = [text_key(chunk.embedded) for chunk in chunks]
        self._texts += texts
        self._close_record(record.id.encode(), bytes.fromhex(row["sha1"]), origin, record.line, len(chunks))
        return texts

    def keep(self, old: Generation, row: int, *, line: int) -> None:
        """Writes a record of an older generation again, which now stands in another line perhaps."""
        shift = line - int(old.lines[row])
        self._records.copy(_moved(old.records, row, shift, _RECORD_LINES))
        if old.manifest.recipe.columns == COLUMNS_CARD:
            self._columns.keep(columns_of(old), row)
        else:
            self._columns.append(old.records[row])
        first, end = int(old.starts[row]), int(old.starts[row + 1])
        for chunk in range(first, end):
            self._chunks.copy(_moved(old.chunks, chunk, shift, _CHUNK_LINES))
        self._texts += [old.texts[chunk].tobytes() for chunk in range(first, end)]
        content, origin = old.contents[row].tobytes(), old.origins[row].tobytes()
        self._close_record(old.record_id(row).encode(), content, origin, line, end - first)

    def _close_record(self, name: bytes, content: bytes, origin: bytes, line: int, chunks: int) -> None:
        self._ids.append(name)
        self._contents.append(content)
        self._origins.append(origin)
        self._lines.append(line)
        self._starts.append(self._starts[-1] + chunks)

    def close(self) -> None:
        """Closes the tables, finished or not."""
        try:
            self._records.close()
        finally:
            self._chunks.close()

    def finish(self) -> dict[str, int]:
        """Closes the tables and writes their offsets; returns the rows of each table."""
        self.close()
        offsets = {
            "records": np.array(self._records.offsets, np.int64),
            "chunks": np.array(self._chunks.offsets, np.int64),
            "starts": np.array(self._starts, np.int64),
            "ids": np.frombuffer(b"".join(self._ids), np.uint8),
            "id_ends": np.cumsum([0, *map(len, self._ids)], dtype=np.int64),
            "lines": np.array(self._lines, np.int64),
            "contents": _digests(self._contents),
            "origins": _digests(self._origins),
            "texts": _digests(self._texts),
        }
        pickles.dump(offsets, self._folder / OFFSETS)
        pickles.dump(self._columns.finish(), self._folder / COLUMNS)
        return {RECORDS: len(self._ids), COLUMNS: len(self._ids), CHUNKS: self._starts[-1]}


_RECORD_LINES = ("line",)
_CHUNK_LINES = ("start_line", "end_line")
"""Keys of a row that hold a line of the source."""


def _moved(table: Table, row: int, shift: int, keys: Sequence[str]) -> bytes:
    """A row as it is written, its lines moved by `shift`."""
    if not shift:
        return table.raw(row)
    value = table[row]
    return encoded({**value, **{key: value[key] + shift for key in keys}})


def _digests(digests: Sequence[bytes]) -> NDArray[np.uint8]:
    """(n, 20) bytes."""
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST)


def written_columns(folder: Path) -> Columns:
    """Return the columns of a generation that is being written, its tables finished."""
    return Columns(pickles.load(folder / COLUMNS))
