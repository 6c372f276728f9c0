"""What the files of a generation hold: records and chunks by row, how they lie in each other, how they are called.

records.jsonl   one line a record: what a hit shows of it
chunks.jsonl    one line a chunk: its text, span, section
offsets.pkl     where each line starts, each record's first chunk; by record its id, the SHA-1 of its content and of
                what it was read from, its line there; by chunk the SHA-1 of the text that was embedded
columns.pkl     what records can be filtered by: the values of their fields, and who has them
graph.pkl       edges between records and what they share, where there are any
dense.faiss     one row a chunk
bm25.pkl        one row a record or a chunk
splade.pkl      one row a chunk, where there is such a leg
tokens.pkl      the token vectors of each chunk, where a reranker compares words
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
from retrieve_cli.manifest import Manifest, sha1, text_key
from retrieve_cli.tables import Table, TableWriter, encoded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.indexes.columns import Columns, ColumnsWriter
    from retrieve_cli.lock import Hold

RECORDS, CHUNKS, OFFSETS, DENSE, BM25 = "records.jsonl", "chunks.jsonl", "offsets.pkl", "dense.faiss", "bm25.pkl"
TOKENS, SPLADE, COLUMNS, GRAPH = "tokens.pkl", "splade.pkl", "columns.pkl", "graph.pkl"
COLUMNS_CARD = 1
"""Which values of a record can be filtered by; part of the recipe, raised where that changes."""

_RECORD_KEYS = frozenset(
    "id name description url license keywords group supporting_data metadata fields kind source line sha1".split()
)
_CHUNK_KEYS = frozenset("id doc_id index text section header source start end start_line end_line tokens".split())
_LONGEST_INDEX = 12
"""Digits of a chunk's number."""
_DESCRIPTION = 4000
"""Characters of a description kept for display; the whole of it is in the chunks."""


DIGEST = 20
"""Bytes of a SHA-1."""


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
        self._columns = _columns_writer()

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
        row = _record_row(record)
        self._records.append(row)
        self._columns.append(row)
        for chunk in chunks:
            self._chunks.append(_chunk_row(record, chunk))
        texts = [text_key(chunk.embedded) for chunk in chunks]
        self._texts += texts
        self._close_record(record.id.encode(), bytes.fromhex(row["sha1"]), origin, record.line, len(chunks))
        return texts

    def keep(self, old: Generation, row: int, *, line: int) -> None:
        """Writes a record of an older generation again, which now stands in another line perhaps."""
        shift = line - int(old.lines[row])
        self._records.copy(_moved(old.records, row, shift, _RECORD_LINES))
        if old.manifest.recipe.get("columns") == COLUMNS_CARD:
            self._columns.keep(old.columns, row)
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
        import numpy as np

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


def _columns_writer() -> ColumnsWriter:
    from retrieve_cli.indexes.columns import ColumnsWriter  # queries without a filter do without it

    return ColumnsWriter()


def columns_of(folder: Path) -> Columns:
    """The columns of a generation that is being written, its tables finished."""
    from retrieve_cli.indexes.columns import Columns

    return Columns(pickles.load(folder / COLUMNS))


def chunk_table(folder: Path) -> Table:
    """The chunks of a generation that is being written, its tables finished."""
    return Table(folder / CHUNKS, pickles.load(folder / OFFSETS)["chunks"], keys=_CHUNK_KEYS)


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
    import numpy as np

    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST)


class Generation:
    """The tables of a generation, mapped into memory."""

    def __init__(self, folder: Path, manifest: Manifest, hold: Hold | None = None) -> None:
        """`hold` keeps the folder from being removed as long as this object lives.

        Raises:
            IndexCorrupt: a table is damaged, or the tables disagree.
        """
        self.folder = folder
        self.manifest = manifest
        self._hold = hold
        offsets = pickles.load(folder / OFFSETS)
        try:
            self.records = Table(folder / RECORDS, offsets["records"], keys=_RECORD_KEYS)
            self.chunks = Table(folder / CHUNKS, offsets["chunks"], keys=_CHUNK_KEYS)
            self.starts: Rows = offsets["starts"]
            self._ids: bytes = offsets["ids"].tobytes()
            self._id_ends: Rows = offsets["id_ends"]
            self.lines: Rows = offsets["lines"]
            self.contents: NDArray[np.uint8] = offsets["contents"]
            self.origins: NDArray[np.uint8] = offsets["origins"]
            self.texts: NDArray[np.uint8] = offsets["texts"]
            by_record = (self.lines.shape, self.contents.shape, self.origins.shape)
        except (KeyError, TypeError, AttributeError) as error:
            raise IndexCorrupt(
                f"{folder / OFFSETS} is incomplete ({error!r})", hint="retrieve inspect verify"
            ) from error
        records, chunks = len(self.records), len(self.chunks)
        if (
            by_record != ((records,), (records, DIGEST), (records, DIGEST))
            or self.texts.shape != (chunks, DIGEST)
            or len(self.starts) != records + 1
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

    def contents_by_id(self) -> dict[str, bytes]:
        """SHA-1 of the content of every record."""
        return {self.record_id(row): digest.tobytes() for row, digest in enumerate(self.contents)}

    @cached_property
    def columns(self) -> Columns:
        """What records can be filtered by.

        Raises:
            IndexCorrupt: the file is damaged.
            UsageError: the index was built before there were filters.
        """
        from retrieve_cli.indexes.columns import Columns

        if COLUMNS not in self.manifest.files:
            raise UsageError("this index has no columns to filter by", hint="bring it up to date: retrieve sync")
        columns = Columns(pickles.load(self.folder / COLUMNS))
        if len(columns) != len(self.records):
            hint = "retrieve inspect verify"
            raise IndexCorrupt(f"{COLUMNS} has {len(columns)} rows for {len(self.records)} records", hint=hint)
        self.expect(COLUMNS, len(columns))
        return columns

    @cached_property
    def rows_by_origin(self) -> dict[bytes, int]:
        """The row of each record by the SHA-1 of what it was read from."""
        return {origin.tobytes(): row for row, origin in enumerate(self.origins)}

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


def content_digest(record: Record) -> bytes:
    """SHA-1 of what a record says, wherever it stands."""
    return bytes.fromhex(sha1([_content(record), record.text, [field.text for field in record.fields]]))


def _content(record: Record) -> dict[str, Json]:
    return {
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


def _record_row(record: Record) -> dict[str, Json]:
    """A record as it is kept; its whole text is in its chunks."""
    place = {"source": record.source, "line": record.line, "sha1": content_digest(record).hex()}
    return {**_content(record), "description": record.description[:_DESCRIPTION], **place}


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
