"""Writer of the tables of a generation: records and chunks by row, their offsets, and the columns to filter by."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Chunk, Record
from retrieve_cli.storage import pickles
from retrieve_cli.storage.generation import CHUNKS, OFFSETS, RECORDS
from retrieve_cli.storage.key_rows import DigestList
from retrieve_cli.storage.manifest import text_key
from retrieve_cli.storage.records import sections
from retrieve_cli.storage.records.columns import FILE as COLUMNS, Columns
from retrieve_cli.storage.records.columns_writer import ColumnsWriter
from retrieve_cli.storage.records.record_values import values_of
from retrieve_cli.storage.records.rows import chunk_rows, record_row
from retrieve_cli.storage.records.stored_columns import StoredColumns
from retrieve_cli.storage.tables import TableWriter
from retrieve_cli.storage.vocabulary import TextBuffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

_LISTED = 65_536
"""Records serialised at a time."""


class GenerationWriter:
    """Writes the tables of a generation as records and their chunks come, new or from an older generation."""

    def __init__(self, folder: Path, *, with_facets: bool = False) -> None:
        """`with_facets`: chunks have columns of their facets."""
        self._folder = folder
        self._facets = ColumnsWriter() if with_facets else None
        self._records = TableWriter(folder / RECORDS)
        self._chunks = TableWriter(folder / CHUNKS)
        self._starts = array("q", [0])
        self._lines = array("q")
        self._ids = TextBuffer()
        self._contents = DigestList()
        self._origins = DigestList()
        self.texts = DigestList()
        """By chunk, the SHA-1 of the text that is embedded."""
        self._older = array("i")
        self._columns = ColumnsWriter()

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def starts(self) -> Rows:
        """(records + 1,) the first chunk of each record, then the number of chunks."""
        return np.array(self._starts, np.int64)

    @property
    def older_texts(self) -> Rows:
        """By chunk, its row in the older generation, -1 if it is not kept from there."""
        return np.array(self._older, np.int64)

    def id(self, row: int) -> str:
        """Return the id of a record."""
        return self._ids[row : row + 1][0].decode()

    def line(self, row: int) -> int:
        """Return the line of a record."""
        return self._lines[row]

    def digest(self, first: int = 0) -> str:
        """Return the SHA-1 of ids and contents of the records from row `first` on, in any order."""
        import orjson  # spells it as `manifest.canonical` does, at a fraction of the time

        names = self._ids[first:]
        contents = self._contents.array[first:].tobytes().hex()
        order = sorted(range(len(names)), key=names.__getitem__)
        hashed = hashlib.sha1(b"[", usedforsecurity=False)
        for start in range(0, len(order), _LISTED):
            some = order[start : start + _LISTED]
            listed = orjson.dumps([[names[row].decode(), contents[40 * row : 40 * row + 40]] for row in some])
            hashed.update(b"," * bool(start) + listed[1:-1])
        hashed.update(b"]")
        return hashed.hexdigest()

    def append(
        self, record: Record, chunks: Sequence[Chunk], origin: bytes, *, content: bytes | None = None
    ) -> list[bytes]:
        """Write a record, whose `origin` is the SHA-1 of the item it was read from, and its chunks: at least one.
        Return the SHA-1 of each chunk's embedded text. `content` is the SHA-1 of the record's content, if known."""
        row = record_row(record, content=content)
        self._records.append(row)
        self._columns.add(values_of(row))
        for chunk, stored in zip(chunks, chunk_rows(record, chunks), strict=True):
            self._chunks.append(stored)
            if self._facets is not None:
                self._facets.add(sections.facet_values(chunk.facets))
        texts = [text_key(chunk.embedded) for chunk in chunks]
        for text in texts:
            self.texts.append(text)
        self._older.extend([-1] * len(texts))
        self._ids.append(record.id.encode())
        self._contents.append(bytes.fromhex(row["sha1"]))
        self._origins.append(origin)
        self._lines.append(record.line)
        self._starts.append(self._starts[-1] + len(chunks))
        return texts

    def close(self) -> None:
        """Close the tables, finished or not."""
        try:
            self._records.close()
        finally:
            self._chunks.close()

    def finish(self) -> dict[str, int]:
        """Close the tables and write their offsets; return the rows of each table."""
        self.close()
        offsets = {
            "records": np.array(self._records.offsets, np.int64),
            "chunks": np.array(self._chunks.offsets, np.int64),
            "starts": self.starts,
            "ids": np.frombuffer(self._ids.text, np.uint8),
            "id_ends": self._ids.ends,
            "ranks": ranks_of(self._ids[:]),
            "lines": np.array(self._lines, np.int64),
            "contents": self._contents.array,
            "origins": self._origins.array,
            "texts": self.texts.array,
        }
        pickles.dump(offsets, self._folder / OFFSETS)
        self._columns.write(self._folder / COLUMNS)
        self._columns = ColumnsWriter()
        rows = {RECORDS: len(self._ids), COLUMNS: len(self._ids), CHUNKS: self._starts[-1]}
        if self._facets is None:
            return rows
        self._facets.write(self._folder / sections.FACETS_FILE)
        self._facets = None
        return {**rows, sections.FACETS_FILE: self._starts[-1]}


def ranks_of(ids: Sequence[bytes]) -> NDArray[np.int32]:
    """Return the place of each id in their order, (n,) int32."""
    ranks = np.empty(len(ids), np.int32)
    ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids), dtype=np.int32)
    return ranks


def written_columns(folder: Path) -> Columns:
    """Return the columns of a generation that is being written, its tables finished."""
    return Columns([StoredColumns(pickles.load(folder / COLUMNS))])
