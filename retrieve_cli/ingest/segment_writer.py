"""Writer of the tables of a segment: records and chunks by row, their offsets, and the columns to filter by.

Records come some at a time (`add`), or all at once from the segments of a generation (`take`): the same records in
the same order give the same bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts import Chunk, Record
from retrieve_cli.storage import pickles
from retrieve_cli.storage.key_rows import DigestList
from retrieve_cli.storage.manifest import text_key
from retrieve_cli.storage.records import sections
from retrieve_cli.storage.records.columns import FILE as COLUMNS, stored_columns
from retrieve_cli.storage.records.columns_writer import ColumnsWriter
from retrieve_cli.storage.records.record_values import values_of
from retrieve_cli.storage.records.rows import chunk_rows, content_of, record_row
from retrieve_cli.storage.segment import CHUNKS, OFFSETS, RECORDS
from retrieve_cli.storage.tables import TableWriter
from retrieve_cli.storage.vocabulary import TextBuffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.segment import Segment


class NewRecord(NamedTuple):
    """A record on its way into a segment."""

    record: Record
    chunks: Sequence[Chunk]
    """At least one."""
    origin: bytes
    """SHA-1 of its item."""


class SegmentWriter:
    """Writes the tables of a segment into a folder."""

    def __init__(self, folder: Path, *, with_facets: bool = False) -> None:
        """`with_facets`: chunks have columns of their facets."""
        self._folder = folder
        self._facets = ColumnsWriter() if with_facets else None
        self._columns = ColumnsWriter()
        self._records = TableWriter(folder / RECORDS)
        self._chunks = TableWriter(folder / CHUNKS)
        self._starts = array("q", [0])
        self._lines = array("q")
        self._ids = TextBuffer()
        self._contents, self._origins = DigestList(), DigestList()
        self.texts = DigestList()
        """By chunk, the SHA-1 of the text that is embedded."""

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def starts(self) -> Rows:
        """(records + 1,) the first chunk of each record, then the number of chunks."""
        return np.array(self._starts, np.int64)

    @property
    def contents(self) -> NDArray[np.uint8]:
        """(records, 20) the SHA-1 of each record's content."""
        return self._contents.array

    def id(self, row: int) -> str:
        """Return the id of a record."""
        return self._ids[row : row + 1][0].decode()

    def line(self, row: int) -> int:
        """Return the line of a record."""
        return self._lines[row]

    def add(self, new: Sequence[NewRecord]) -> list[bytes]:
        """Write records and their chunks; return the SHA-1 of each chunk's embedded text."""
        contents = [content_of(record) for record, _, _ in new]
        rows = [record_row(record, content) for (record, _, _), content in zip(new, contents, strict=True)]
        self._records.extend(rows)
        for row in rows:
            self._columns.add(values_of(row))
        self._chunks.extend(row for record, chunks, _ in new for row in chunk_rows(record, chunks))
        if self._facets is not None:
            for _, chunks, _ in new:
                for chunk in chunks:
                    self._facets.add(sections.facet_values(chunk.facets or {}))
        texts = [text_key(chunk.embedded) for _, chunks, _ in new for chunk in chunks]
        self.texts.extend(texts)
        self._contents.extend(content.digest for content in contents)
        self._origins.extend(origin for _, _, origin in new)
        for record, chunks, _ in new:
            self._ids.append(record.id.encode())
            self._lines.append(record.line)
            self._starts.append(self._starts[-1] + len(chunks))
        return texts

    def take(self, generation: Generation, order: Rows) -> None:
        """Write the records `order` (n,) of a generation, in this order."""
        chunks = spans(generation.starts, order)
        for segment, first, end in runs(generation, order):
            self._ids.extend(segment.ids, range(first, end))
            for block, offsets in segment.records.raw_rows(range(first, end)):
                self._records.copy_rows(block, offsets)
            own = range(int(segment.starts[first]), int(segment.starts[end]))
            for block, offsets in segment.chunks.raw_rows(own):
                self._chunks.copy_rows(block, offsets)
        self._contents.extend_array(generation.contents[order])
        self._origins.extend_array(generation.origins[order])
        self.texts.extend_array(generation.texts[chunks])
        self._lines.frombytes(generation.lines[order].astype(np.int64).tobytes())
        counts = np.cumsum(np.diff(generation.starts)[order])
        self._starts.frombytes(counts.astype(np.int64).tobytes())
        new_records = places(len(generation.records), order)
        new_chunks = places(len(generation.chunks), chunks)
        for segment, records, own_chunks in segments_with(generation, new_records):
            self._columns.take(stored_columns(segment, COLUMNS, "record"), new_records[records])
            if self._facets is not None:
                self._facets.take(stored_columns(segment, sections.FACETS_FILE, "chunk"), new_chunks[own_chunks])

    def close(self) -> None:
        """Close the tables, finished or not."""
        try:
            self._records.close()
        finally:
            self._chunks.close()

    def finish(self) -> dict[str, int]:
        """Close the tables and write their offsets and columns; return the rows of each table."""
        self.close()
        offsets = {
            "records": np.array(self._records.offsets, np.int64),
            "chunks": np.array(self._chunks.offsets, np.int64),
            "starts": self.starts,
            "ids": np.frombuffer(self._ids.text, np.uint8),
            "id_ends": self._ids.ends,
            "ranks": _ranks(self._ids[:]),
            "lines": np.array(self._lines, np.int64),
            "contents": self.contents,
            "origins": self._origins.array,
            "texts": self.texts.array,
        }
        pickles.dump(offsets, self._folder / OFFSETS)
        self._columns.write(self._folder / COLUMNS)
        rows = {RECORDS: len(self), COLUMNS: len(self), CHUNKS: self._starts[-1]}
        if self._facets is None:
            return rows
        self._facets.write(self._folder / sections.FACETS_FILE)
        return {**rows, sections.FACETS_FILE: self._starts[-1]}


def runs(generation: Generation, order: Rows) -> Iterator[tuple[Segment, int, int]]:
    """Yield stretches of records that are adjacent in a segment: the segment, the first record and the end there."""
    firsts = np.array([segment.first_record for segment in generation.segments])
    owners = np.searchsorted(firsts, order, side="right") - 1
    cuts = np.flatnonzero((np.diff(order) != 1) | (np.diff(owners) != 0)) + 1
    bounds = [0, *cuts.tolist(), len(order)]
    for start, stop in pairwise(bounds):
        if start < stop:
            segment = generation.segments[int(owners[start])]
            first = int(order[start]) - segment.first_record
            yield segment, first, first + stop - start


def spans(starts: Rows, rows: Rows) -> Rows:
    """Return the chunks of some records, one record behind the other."""
    sizes = starts[rows + 1] - starts[rows]
    begins = np.cumsum(sizes) - sizes
    chunks: Rows = np.repeat(starts[rows] - begins, sizes) + np.arange(int(sizes.sum()))
    return chunks


def segments_with(generation: Generation, new_records: Rows) -> Iterator[tuple[Segment, slice, slice]]:
    """Yield the segments of a generation of which some record has a new row, each with its records and chunks."""
    for segment in generation.segments:
        records = slice(segment.first_record, segment.first_record + segment.record_count)
        if (new_records[records] >= 0).any():
            yield segment, records, slice(segment.first_chunk, segment.first_chunk + segment.chunk_count)


def places(length: int, order: Rows) -> Rows:
    """Return for each of `length` rows its place in an order, -1 if it is not there."""
    found = np.full(length, -1, np.int64)
    found[order] = np.arange(len(order))
    return found


def _ranks(ids: Sequence[bytes]) -> NDArray[np.int32]:
    """Return the place of each id in their order, (n,) int32."""
    ranks = np.empty(len(ids), np.int32)
    ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids), dtype=np.int32)
    return ranks
