"""What the files of a generation hold: records and chunks by row, how they lie in each other, how they are called.

records.jsonl   one line a record: what a hit shows of it
chunks.jsonl    one line a chunk: its text, span, section
offsets.pkl     where each line starts, each record's first chunk, the record ids
dense.faiss     one row a chunk
bm25.pkl        one row a record or a chunk
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli import pickles
from retrieve_cli.contracts import Chunk, Json, Record
from retrieve_cli.errors import IndexCorrupt, UsageError
from retrieve_cli.manifest import Manifest, sha1
from retrieve_cli.tables import Table, TableWriter

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows

RECORDS, CHUNKS, OFFSETS, DENSE, BM25 = "records.jsonl", "chunks.jsonl", "offsets.pkl", "dense.faiss", "bm25.pkl"

_RECORD_KEYS = frozenset(
    "id name description url license keywords group supporting_data metadata fields kind source line sha1".split()
)
_CHUNK_KEYS = frozenset("id doc_id index text section header source start end start_line end_line tokens".split())
_LONGEST_INDEX = 12
"""Digits of a chunk's number."""
_DESCRIPTION = 4000
"""Characters of a description kept for display; the whole of it is in the chunks."""


class GenerationWriter:
    """Writes the tables of a generation as records and their chunks come."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records = TableWriter(folder / RECORDS)
        self._chunks = TableWriter(folder / CHUNKS)
        self._starts = array("q", [0])
        self._ids: list[bytes] = []
        self._digests: list[tuple[str, str]] = []

    @property
    def digest(self) -> str:
        """SHA-1 of the records' ids and digests in the order of the ids, whatever order they came in."""
        return sha1(sorted(self._digests))

    def append(self, record: Record, chunks: Sequence[Chunk]) -> None:
        """Writes a record and its chunks, of which there is at least one."""
        row = _record_row(record)
        self._records.append(row)
        for chunk in chunks:
            self._chunks.append(_chunk_row(record, chunk))
        self._starts.append(self._starts[-1] + len(chunks))
        self._ids.append(record.id.encode())
        self._digests.append((record.id, row["sha1"]))

    def close(self) -> None:
        """Closes the tables, finished or not."""
        self._records.close()
        self._chunks.close()

    def finish(self) -> dict[str, int]:
        """Closes the tables and writes their offsets; returns the rows of each table."""
        import numpy as np

        self.close()
        offsets = {
            "records": np.array(self._records.offsets, np.int64),
            "chunks": np.array(self._chunks.offsets, np.int64),
            "starts": np.array(self._starts, np.int64),
            "ids": np.frombuffer(b"".join(self._ids), np.uint8),
            "id_ends": np.cumsum([0, *map(len, self._ids)], dtype=np.int64),
        }
        pickles.dump(offsets, self._folder / OFFSETS)
        return {RECORDS: len(self._ids), CHUNKS: self._starts[-1]}


class Generation:
    """The tables of a generation, mapped into memory."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Raises: IndexCorrupt where a table is damaged or the tables disagree."""
        self.folder = folder
        self.manifest = manifest
        offsets = pickles.load(folder / OFFSETS)
        try:
            self.records = Table(folder / RECORDS, offsets["records"], keys=_RECORD_KEYS)
            self.chunks = Table(folder / CHUNKS, offsets["chunks"], keys=_CHUNK_KEYS)
            self.starts: Rows = offsets["starts"]
            self._ids: bytes = offsets["ids"].tobytes()
            self._id_ends: Rows = offsets["id_ends"]
        except (KeyError, TypeError, AttributeError) as error:
            raise IndexCorrupt(
                f"{folder / OFFSETS} is incomplete ({error!r})", hint="retrieve inspect verify"
            ) from error
        records, chunks = len(self.records), len(self.chunks)
        if (
            len(self.starts) != records + 1
            or len(self._id_ends) != records + 1
            or not _rises(self.starts, chunks, 1)
            or not _rises(self._id_ends, len(self._ids), 0)
            or not _rises(offsets["records"], int(offsets["records"][-1]), 1)
            or not _rises(offsets["chunks"], int(offsets["chunks"][-1]), 1)
        ):
            raise IndexCorrupt(f"the tables of {folder} disagree about their rows", hint="retrieve inspect verify")

    def expect(self, name: str, rows: int) -> None:
        """Holds a file's rows to what the manifest says. Raises: IndexCorrupt where it says otherwise or nothing."""
        entry = self.manifest.files.get(name)
        if entry is None or entry.rows != rows:
            said = "nothing" if entry is None else entry.rows
            raise IndexCorrupt(f"{name} has {rows} rows; the manifest says {said}", hint="build again: retrieve build")

    def record_id(self, record: int) -> str:
        return self._ids[self._id_ends[record] : self._id_ends[record + 1]].decode()

    def chunk_id(self, row: int) -> str:
        """The id of a chunk row, without reading the chunk."""
        import numpy as np

        record = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.record_id(record)}#{row - int(self.starts[record])}"

    def find_record(self, record_id: str) -> int:
        """The row of a record.

        Raises:
            UsageError: no record has that id; names the nearest one.
        """
        row = self._rows.get(record_id)
        if row is None:
            from difflib import get_close_matches

            near = get_close_matches(record_id, self._rows, n=1, cutoff=0.4)
            hint = f"did you mean `{near[0]}`?" if near else "list them: retrieve inspect records"
            raise UsageError(f"there is no record {record_id!r} in the index", hint=hint)
        return row

    def find_chunk(self, chunk_id: str) -> int:
        """The row of a chunk.

        Raises:
            UsageError: no chunk has that id.
        """
        record_id, _, index = chunk_id.rpartition("#")
        if not record_id or not (index.isascii() and index.isdecimal()) or len(index) > _LONGEST_INDEX:
            raise UsageError(
                f"{chunk_id!r} is no chunk id", hint="a chunk id is a record id, `#` and a number: scan.md#0"
            )
        record = self.find_record(record_id)
        first, end = int(self.starts[record]), int(self.starts[record + 1])
        if int(index) >= end - first:
            raise UsageError(
                f"{record_id!r} has {end - first} chunks, from #0 on", hint=f"retrieve inspect record {record_id}"
            )
        return first + int(index)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {self.record_id(row): row for row in range(len(self.records))}


def _rises(ends: Rows, last: int, least: int) -> bool:
    """Whether `ends` go from 0 to `last` in steps of at least `least`."""
    steps = ends[1:] - ends[:-1]
    return bool(ends[0] == 0 and ends[-1] == last and (not len(steps) or steps.min() >= least))


def _record_row(record: Record) -> dict[str, Json]:
    """A record as it is kept; its whole text is in its chunks. The digest covers its content, not where it stood."""
    content = {
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "url": record.url,
        "license": record.license,
        "keywords": list(record.keywords),
        "group": record.group,
        "supporting_data": dict(record.supporting_data),
        "metadata": dict(record.metadata),
        "fields": {field.name: field.weight for field in record.fields},
        "kind": record.kind,
    }
    digest = sha1([content, record.text, [field.text for field in record.fields]])
    description = record.description[:_DESCRIPTION]
    return {**content, "description": description, "source": record.source, "line": record.line, "sha1": digest}


def _chunk_row(record: Record, chunk: Chunk) -> dict[str, Json]:
    return {
        "id": chunk.id,
        "doc_id": chunk.doc_id,
        "index": chunk.index,
        "text": chunk.text,
        "section": chunk.section,
        "header": chunk.header,
        "source": record.source,
        "start": chunk.start,
        "end": chunk.end,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "tokens": chunk.tokens,
    }
