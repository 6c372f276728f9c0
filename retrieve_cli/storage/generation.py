"""Reader of a generation: its segments one behind the other, less the rows that are dead.

A row of the index is its row in its segment plus the segment's first row. A dead row belongs to a record that was
changed or removed since its segment was written: no request sees it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.storage import dead_rows
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.segment import DEAD, DIGEST, RECORDS, Segment
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Unit
    from retrieve_cli.storage.dead_rows import Remains

T = TypeVar("T")

_LONGEST_INDEX = 12
"""Maximum digits of a chunk's number."""


@contextmanager
def open_generation(store: Store, generation: str | None = None) -> Iterator[Generation]:
    """Open the current generation, or the one named; its folders cannot be removed while the value is in use.

    If an unexpected error occurs inside the context and a file is damaged, IndexCorrupt is raised instead.

    Raises:
        IndexMissing: no index was built here yet.
        IndexCorrupt: the generation is damaged.
        UsageError: there is no generation of that name.
    """
    stored = store.open(generation)
    with store.reading(stored.manifest.id):
        holds = stored.holds
        yield opened(stored.manifest, stored.folders, holds)


def open_unpublished(folder: Path, manifest: Manifest, segments: Sequence[Segment] = ()) -> Generation:
    """Open a generation in a separate folder that is not published yet, behind its older segments.

    Raises: IndexCorrupt.
    """
    folders = [(segment.folder, segment.manifest) for segment in segments]
    return opened(manifest, [*folders, (folder, manifest)])


def opened(manifest: Manifest, folders: Sequence[tuple[Path, Manifest]], holds: Sequence[Any] = ()) -> Generation:
    """Return a generation; `folders` has its older segments in order, and its own folder at the end."""
    segments: list[Segment] = []
    records = chunks = 0
    for folder, added in folders:
        if not added.rows(RECORDS):
            continue  # a generation that only removed records has no segment
        segment = Segment(folder, added, first_record=records, first_chunk=chunks)
        records, chunks = records + segment.record_count, chunks + segment.chunk_count
        segments.append(segment)
    own = folders[-1][0]
    remains = dead_rows.read(own / DEAD, segments) if DEAD in manifest.files else {}
    generation = Generation(manifest, segments, remains=remains, folder=own)
    generation.holds = [*holds]
    return generation


class RowReader(Protocol):
    """Reader of stored rows from elsewhere than the files of segments."""

    def prefetch(self, rows: Sequence[int]) -> None:
        """Read chunk rows, and their records, together: they are needed soon."""

    def read(self, unit: Unit, rows: range, local: Callable[[], list[dict[str, Json]]]) -> list[dict[str, Json]]:
        """Return stored rows; `local` reads them from the files."""


class JsonRows:
    """Rows of JSON of all segments, in order."""

    def __init__(self, segments: Sequence[Segment], unit: Unit, remains: Mapping[str, Remains]) -> None:
        """`remains` tells by the name of a segment how far its lines moved."""
        self._segments = segments
        self._unit = unit
        self._remains = remains
        self._tables = [segment.records if unit == "record" else segment.chunks for segment in segments]
        self._firsts = [segment.first(unit) for segment in segments]
        self._length = sum(map(len, self._tables))
        self.reader: RowReader | None = None
        """Reads rows from elsewhere than the files."""

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> dict[str, Json]:
        return self.rows(row, row + 1)[0]

    def __iter__(self) -> Iterator[dict[str, Json]]:
        return (self[row] for row in range(len(self)))

    def rows(self, first: int, end: int) -> list[dict[str, Json]]:
        """Return the rows of a segment from `first` up to but not `end`, by one read."""
        index = bisect_right(self._firsts, first) - 1
        segment, start = self._segments[index], first - self._firsts[index]
        read = partial(self._tables[index].rows, start, end - self._firsts[index])
        values = read() if self.reader is None else self.reader.read(self._unit, range(first, end), read)
        return [self._placed(segment, row, value) for row, value in enumerate(values, start)]

    def _placed(self, segment: Segment, row: int, value: dict[str, Json]) -> dict[str, Json]:
        """Return a row with its lines in the source, which move with every line that is inserted above."""
        if self._unit == "record":
            sha1 = value.pop("sha1")
            return {**value, "line": self._line(segment, row), "sha1": sha1}
        record = int(np.searchsorted(segment.starts, row, side="right")) - 1
        line = self._line(segment, record)
        return {**value, "start_line": value["start_line"] + line, "end_line": value["end_line"] + line}

    def _line(self, segment: Segment, record: int) -> int:
        remains = self._remains.get(segment.name)
        return int(segment.lines[record]) + (0 if remains is None else remains.shift_of(record))


class IdOrder:
    """The order of the ids of rows; chunks of a record are in the order of their numbers."""

    def __init__(self, segments: Sequence[Segment], starts: Rows) -> None:
        self._segments, self._starts = segments, starts

    def __call__(self, rows: Rows, count: int, *, unit: Unit) -> Rows:
        """Return the `count` rows that come first in the order of ids, in this order; chunks of a record by number."""
        if count <= 0:
            return rows[:0]
        records = rows if unit == "record" else np.searchsorted(self._starts, rows, side="right") - 1
        chosen: list[tuple[str, int]] = []
        for segment in self._segments:
            end = segment.first_record + segment.record_count
            mine = np.flatnonzero((records >= segment.first_record) & (records < end))
            ranks = segment.ranks[records[mine] - segment.first_record]
            if count < len(mine):
                near = ranks <= np.partition(ranks, count - 1)[count - 1]
                mine, ranks = mine[near], ranks[near]
            first = mine[np.lexsort((rows[mine], ranks))[:count]]
            if len(self._segments) == 1:
                return rows[first]
            own = records[first] - segment.first_record
            chosen += [(segment.ids[record], row) for record, row in zip(own, rows[first].tolist(), strict=True)]
        return np.array([row for _, row in sorted(chosen)[:count]], np.int64)


class Generation:
    """The tables of a generation, mapped into memory."""

    def __init__(
        self,
        manifest: Manifest,
        segments: Sequence[Segment],
        *,
        remains: Mapping[str, Remains] = {},
        folder: Path = Path(),
    ) -> None:
        """`remains` tells by the name of a segment which of its rows are dead, and how far its lines moved."""
        self.manifest = manifest
        self.id = manifest.id
        self.segments = tuple(segments)
        self.folder = folder
        self.holds: list[Any] = []
        """Protect the folders from removal as long as this object lives."""
        self.remains = remains
        self._made: dict[object, Any] = {}
        self._making = RLock()
        self.records = JsonRows(self.segments, "record", remains)
        self.chunks = JsonRows(self.segments, "chunk", remains)

    @cached_property
    def live(self) -> Mask | None:
        """(records,) bool, True for records that are there; None if no row is dead."""
        if not any(len(remains.dead) for remains in self.remains.values()):
            return None
        live = np.ones(len(self.records), np.bool_)
        for segment in self.segments:
            if (remains := self.remains.get(segment.name)) is not None:
                live[segment.first_record + remains.dead] = False
        live.flags.writeable = False
        return live

    @cached_property
    def live_chunks(self) -> Mask | None:
        """(chunks,) bool, True for chunks of records that are there; None if no row is dead."""
        if self.live is None:
            return None
        live = np.repeat(self.live, np.diff(self.starts))
        live.flags.writeable = False
        return live

    @cached_property
    def size(self) -> int:
        """Number of records that are there."""
        return len(self.records) if self.live is None else int(np.count_nonzero(self.live))

    @cached_property
    def chunk_size(self) -> int:
        """Number of chunks of records that are there."""
        return len(self.chunks) if self.live_chunks is None else int(np.count_nonzero(self.live_chunks))

    @cached_property
    def starts(self) -> Rows:
        """(records + 1,) first chunk of each record, then the number of chunks."""
        if len(self.segments) == 1:
            return self.segments[0].starts
        parts = [segment.starts[:-1] + segment.first_chunk for segment in self.segments]
        return np.append(np.concatenate([np.empty(0, np.int64), *parts]), len(self.chunks))

    @cached_property
    def texts(self) -> NDArray[np.uint8]:
        """SHA-1 of each chunk's embedded text, (chunks, 20)."""
        return self._joined([segment.texts for segment in self.segments])

    @cached_property
    def contents(self) -> NDArray[np.uint8]:
        """SHA-1 of each record's content, (records, 20)."""
        return self._joined([segment.contents for segment in self.segments])

    @cached_property
    def origins(self) -> NDArray[np.uint8]:
        """SHA-1 of the input of each record, (records, 20)."""
        return self._joined([segment.origins for segment in self.segments])

    @staticmethod
    def _joined(parts: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, DIGEST), np.uint8), *parts])

    @cached_property
    def lines(self) -> Rows:
        """(records,) line of the input of each record now."""
        parts = [
            self.remains[segment.name].moved(segment.lines) if segment.name in self.remains else segment.lines
            for segment in self.segments
        ]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])

    def has(self, name: str) -> bool:
        """Return True if its segments have a file of that name."""
        return bool(self.segments) and all(segment.has(name) for segment in self.segments)

    def segment_of(self, row: int, *, unit: Unit = "record") -> Segment:
        """Return the segment of a row."""
        firsts = [segment.first(unit) for segment in self.segments]
        return self.segments[bisect_right(firsts, row) - 1]

    @cached_property
    def source_names(self) -> list[str]:
        """Names of the sources of its rows."""
        return list(dict.fromkeys(name for part in self.segments for name, _ in part.manifest.own_sources))

    @cached_property
    def row_sources(self) -> Rows:
        """(records,) the place of each record's source in `source_names`."""
        numbers = {name: number for number, name in enumerate(self.source_names)}
        pairs = [pair for part in self.segments for pair in part.manifest.own_sources]
        return np.repeat([numbers[name] for name, _ in pairs], [count for _, count in pairs]).astype(np.int64)

    def exact_row(self, record_id: str, *, visible: Mask | None = None) -> int | None:
        """Return the row of the record that has exactly this id, None without one; with `visible`, only of these."""
        visible = self.live if visible is None else visible
        for segment in self.segments:
            row = segment.ids.row(record_id)
            if row is not None and (visible is None or visible[segment.first_record + row]):
                return segment.first_record + row
        return None

    def source_of(self, record: int) -> str:
        """Return the name of the source of a record, as in the manifest."""
        return self.source_names[int(self.row_sources[record])]

    def origin(self, record: int) -> bytes:
        """Return the SHA-1 of the input of a record."""
        segment = self.segment_of(record)
        digest: bytes = segment.origins[record - segment.first_record].tobytes()
        return digest

    def record_id(self, record: int) -> str:
        segment = self.segment_of(record)
        return segment.ids[record - segment.first_record]

    def chunk_id(self, row: int) -> str:
        """Return the id of a chunk row, without reading the chunk."""
        segment = self.segment_of(row, unit="chunk")
        row -= segment.first_chunk
        if segment.chunk_count == segment.record_count:
            return f"{segment.ids[row]}#0"
        record = int(np.searchsorted(segment.starts, row, side="right")) - 1
        return f"{segment.ids[record]}#{row - int(segment.starts[record])}"

    @cached_property
    def lowest(self) -> IdOrder:
        """The order of ids, which does not keep the generation in memory."""
        return IdOrder(self.segments, self.starts)

    def in_order(self, among: Mask | None = None) -> Sequence[int]:
        """Return the records that are there, of those in `among`, in the order of their sources."""
        order = self.once(_ordered)
        return [row for row in order if among[row]] if among is not None else order

    @property
    def is_compact(self) -> bool:
        """True if it has the rows of a fresh build: one segment that it added, in the order of the sources."""
        alone = len(self.segments) == 1 and not self.manifest.segments and not self.remains
        return alone and self.in_order() == list(range(len(self.records)))

    def chunk_row(self, chunk_id: str) -> int | None:
        """Return the row of a chunk that is there; None without one."""
        record_id, _, number = chunk_id.rpartition("#")
        record = self.exact_row(record_id)
        if record is None or not (number.isdecimal() and len(number) <= _LONGEST_INDEX):
            return None
        row = int(self.starts[record]) + int(number)
        return row if row < int(self.starts[record + 1]) else None

    def read_from(self, reader: RowReader) -> None:
        """Let rows be read from elsewhere."""
        self.records.reader = self.chunks.reader = reader

    def prefetch(self, rows: Sequence[int]) -> None:
        """Announce that chunk rows, and their records, are needed soon."""
        if self.chunks.reader is not None:
            self.chunks.reader.prefetch(rows)

    def chunk_text(self, row: int) -> str:
        """Return the text of a chunk with its header."""
        chunk = self.chunks[row]
        return f"{chunk['header']}{chunk['text']}"

    def record_text(self, row: int) -> str:
        """Return the text of a record, assembled from its chunks."""
        return _joined(self.chunks.rows(int(self.starts[row]), int(self.starts[row + 1])))

    def contents_by_id(self) -> dict[str, bytes]:
        """Return the SHA-1 of the content of every record that is there, by id."""
        rows = live_rows(self.live, len(self.records))
        return {self.record_id(row): self.contents[row].tobytes() for row in rows}

    def once(self, make: Callable[[Generation], T]) -> T:
        """Return `make(self)`, called only once for a generation, by the first thread that asks."""
        if make not in self._made:
            with self._making:
                if make not in self._made:
                    self._made[make] = make(self)
        made: T = self._made[make]
        return made


def _ordered(generation: Generation) -> list[int]:
    """Return the records that are there in the order of their sources: by line, files by their path."""
    places = {source.name: number for number, source in enumerate(generation.manifest.sources)}
    folders = {source.name for source in generation.manifest.sources if source.kind == "docs"}
    rows = np.array(live_rows(generation.live, len(generation.records)), np.int64)
    sources = generation.row_sources[rows]
    numbers = np.array([places.get(name, len(places)) for name in generation.source_names], np.int64)[sources]
    order = rows[np.lexsort((rows, generation.lines[rows], numbers))]  # records of one line were added together
    for number, name in enumerate(generation.source_names):
        if name in folders:
            files = generation.row_sources[order] == number
            order[files] = sorted(order[files].tolist(), key=lambda row: generation.record_id(row).split("/"))
    ordered: list[int] = order.tolist()
    return ordered


def live_rows(live: Mask | None, length: int) -> Sequence[int]:
    """Return the rows of a mask in order; all without a mask."""
    return range(length) if live is None else np.flatnonzero(live).tolist()


def _joined(chunks: Sequence[dict[str, Json]]) -> str:
    pieces, done = [], 0
    for chunk in chunks:
        start, end = int(chunk["start"]), int(chunk["end"])
        pieces.append(chunk.get("gap") or " " * (start > done))
        if end > done:
            pieces.append(chunk["text"][max(0, done - start) :])
            done = end
        pieces.append(chunk.get("rest", ""))
    return "".join(pieces)
