"""Reader of a generation's files: records and chunks by row, their order and their ids.

records.jsonl   one line per record: the fields that a hit shows
chunks.jsonl    one line per chunk: its text, span, section
offsets.pkl     start of each line, first chunk of each record; by record the id, the SHA-1 of its content and of its
                input, the line of the input; by chunk the SHA-1 of the embedded text
columns.pkl     values of the fields by which records can be filtered, with the records that have them
graph.pkl       edges between records and shared values, if there are any
tokens.pkl      token vectors of each chunk, if a reranker compares words
*               artifact of each retriever, one row per record or chunk: see `retrievers/`

Sizes are checked when a generation is opened, the form of a file when it is read; SHA-1 by `inspect verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, UsageError, quoted
from retrieve_cli.storage import pickles
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.mapped import MappedFile
from retrieve_cli.storage.store import Store
from retrieve_cli.storage.tables import JsonlTable
from retrieve_cli.storage.vocabulary import RecordIds, Vocabulary, rises
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows
    from retrieve_cli.storage.lock import Hold

T = TypeVar("T")

RECORDS, CHUNKS, OFFSETS = "records.jsonl", "chunks.jsonl", "offsets.pkl"
TOKENS, GRAPH = "tokens.pkl", "graph.pkl"

_RECORD_KEYS = frozenset(
    "id name description url license keywords group supporting_data metadata fields kind source line sha1".split()
)
CHUNK_KEYS = frozenset("id doc_id index text section header source start end start_line end_line tokens".split())
_LONGEST_INDEX = 12
"""Maximum digits of a chunk's number."""
_HINT = "retrieve inspect verify"
DIGEST = 20
"""Bytes of a SHA-1."""


@contextmanager
def open_generation(store: Store, generation: str | None = None) -> Iterator[Generation]:
    """Open the current generation, or the one named; it cannot be removed while the value is in use.

    If an unexpected error occurs inside the context and a file is damaged, IndexCorrupt is raised instead.

    Raises:
        IndexMissing: no index was built here yet.
        IndexCorrupt: the generation is damaged.
        UsageError: there is no generation of that name.
    """
    folder, manifest, hold = store.open(generation)
    with store.reading(manifest.id):
        yield Generation(folder, manifest, hold)


def open_unpublished(folder: Path, manifest: Manifest) -> Generation:
    """Open a generation in a separate folder that is not published yet. Raises: IndexCorrupt."""
    return Generation(folder, manifest)


class Generation:
    """The tables of a generation, mapped into memory."""

    def __init__(self, folder: Path, manifest: Manifest, hold: Hold | None = None) -> None:
        """`hold` protects the folder from removal as long as this object lives.

        Raises:
            IndexCorrupt: a table is damaged, or the tables disagree.
        """
        self.folder = folder
        self.manifest = manifest
        self._hold = hold
        self._made: dict[object, Any] = {}
        self._making = RLock()
        self._files: dict[str, MappedFile] = {}
        self._at_hand: dict[str, MappedFile] = {}
        offsets = pickles.load(self.file(OFFSETS))
        try:
            self.records = JsonlTable(self.file(RECORDS), offsets["records"], keys=_RECORD_KEYS)
            self.chunks = JsonlTable(self.file(CHUNKS), offsets["chunks"], keys=CHUNK_KEYS)
            self.starts: Rows = offsets["starts"]
            text = offsets["ids"]  # a copy in memory is read faster
            self._ids = RecordIds(text.tobytes(), offsets["id_ends"])
            self.lines: Rows = offsets["lines"]
            self.contents: NDArray[np.uint8] = offsets["contents"]
            """SHA-1 of each record's content, (records, 20)."""
            self.origins: NDArray[np.uint8] = offsets["origins"]
            """SHA-1 of the input of each record, (records, 20)."""
            self.texts: NDArray[np.uint8] = offsets["texts"]
            """SHA-1 of each chunk's embedded text, (chunks, 20)."""
            by_record = (self.lines.shape, self.contents.shape, self.origins.shape)
        except (KeyError, TypeError, AttributeError) as error:
            raise IndexCorrupt(f"{folder / OFFSETS} is incomplete ({quoted(error)})", hint=_HINT) from error
        records, chunks = len(self.records), len(self.chunks)
        if (
            by_record != ((records,), (records, DIGEST), (records, DIGEST))
            or self.texts.shape != (chunks, DIGEST)
            or len(self.starts) != records + 1
            or len(self._ids) != records
            or not rises(self.starts, chunks, least=1)
            or not rises(self._ids.ends, len(self._ids.text), least=0)
            or not rises(offsets["records"], int(offsets["records"][-1]), least=1)
            or not rises(offsets["chunks"], int(offsets["chunks"][-1]), least=1)
        ):
            raise IndexCorrupt(f"the tables of {folder} disagree about their rows", hint=_HINT)

    def advise_random_reads(self) -> None:
        """Announce that rows of the tables are read here and there, as queries do it.

        For 100,000 records, a query from a cold disk then reads 58 MB instead of 213.
        """
        for name in (RECORDS, CHUNKS):
            self.file(name).advise_random_reads()

    @cached_property
    def id(self) -> str:
        """Name of the generation: a digest of its contents."""
        return self.manifest.id

    def release_hold(self) -> None:
        """Allow the folder to be removed."""
        self._hold = None

    def file(self, name: str) -> MappedFile:
        """Return a file of the generation, mapped once.

        Raises:
            IndexCorrupt: the file cannot be read.
        """
        with self._making:
            if name not in self._files:
                mapped = self._at_hand.pop(name, None)
                self._files[name] = self._mapped(name) if mapped is None else mapped
            return self._files[name]

    def map_early(self, name: str) -> None:
        """Map a file that may be read later, even if the folder is removed in the meantime.

        Raises:
            IndexCorrupt: the file cannot be read.
        """
        with self._making:
            if name not in self._files and name not in self._at_hand:
                self._at_hand[name] = self._mapped(name)

    def _mapped(self, name: str) -> MappedFile:
        path = self.folder / name
        try:
            return MappedFile(path)
        except OSError as error:
            raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_HINT) from error

    def expect(self, name: str, rows: int) -> None:
        """Check the number of rows of a file against the manifest.

        Raises:
            IndexCorrupt: the manifest has another number, or lacks the file.
        """
        entry = self.manifest.files.get(name)
        if entry is None or entry.rows != rows:
            message = f"{name} has {rows} rows; the manifest has {'nothing' if entry is None else entry.rows}"
            raise IndexCorrupt(message, hint="build again: retrieve build")

    def origin(self, record: int) -> bytes:
        """Return the SHA-1 of the input of a record."""
        digest: bytes = self.origins[record].tobytes()
        return digest

    def record_id(self, record: int) -> str:
        return self._ids[record]

    def chunk_id(self, row: int) -> str:
        """Return the id of a chunk row, without reading the chunk."""
        if len(self.chunks) == len(self.records):
            return f"{self.record_id(row)}#0"
        record = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.record_id(record)}#{row - int(self.starts[record])}"

    def chunk_texts(self) -> Iterator[str]:
        """Yield the text of each chunk with its header."""
        return (f"{chunk['header']}{chunk['text']}" for chunk in self.chunks)

    def record_texts(self) -> Iterator[str]:
        """Yield the text of each record, assembled from its chunks, which may overlap."""
        for first, end in zip(self.starts[:-1], self.starts[1:], strict=True):
            yield _joined([self.chunks[row] for row in range(int(first), int(end))])

    def record_text(self, row: int) -> str:
        """Return the text of a record, assembled from its chunks."""
        return _joined(self.chunks.rows(int(self.starts[row]), int(self.starts[row + 1])))

    @property
    def ids(self) -> Vocabulary:
        """Ids of the records, in order of rows."""
        return self._ids.vocabulary

    def contents_by_id(self) -> dict[str, bytes]:
        """Return the SHA-1 of the content of every record, by id."""
        return {self.record_id(row): digest.tobytes() for row, digest in enumerate(self.contents)}

    def once(self, make: Callable[[Generation], T]) -> T:
        """Return `make(self)`, called only once for a generation, by the first thread that asks."""
        if make not in self._made:
            with self._making:
                if make not in self._made:
                    self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def find_record(self, record_id: str, *, visible: Mask | None = None) -> int:
        """Return the row of a record; with `visible`, (records,) bool, only among these.

        Raises:
            UsageError: the record does not exist; the hint names the nearest one.
        """
        row = self.row_of(record_id, visible=visible)
        if row is None:
            names = (self.record_id(place) for place in range(len(self.records)) if visible is None or visible[place])
            near = nearest(record_id, names, cutoff=0.4)
            hint = f"did you mean `{near}`?" if near else "list them: retrieve inspect records"
            raise UsageError(f"there is no record {quoted(record_id)} in the index", hint=hint)
        return row

    def row_of(self, record_id: str, *, visible: Mask | None = None) -> int | None:
        """Return the row of a record; with `visible`, only among these; None if the record does not exist.

        Without a record of exactly this id, it is the only one whose id is equal in canonical form.
        """
        row = self._ids.row(record_id)
        if row is not None and (visible is None or visible[row]):
            return row
        alike = [row for row in self._ids.rows_alike(record_id) if visible is None or visible[row]]
        return alike[0] if len(alike) == 1 else None

    def find_chunk(self, chunk_id: str, *, visible: Mask | None = None) -> int:
        """Return the row of a chunk; with `visible`, only of these records.

        Raises:
            UsageError: the chunk does not exist.
        """
        record_id, _, index = chunk_id.rpartition("#")
        if not record_id or not (index.isascii() and index.isdecimal()) or len(index) > _LONGEST_INDEX:
            hint = "a chunk id is a record id, `#` and a number: scan.md#0"
            raise UsageError(f"{quoted(chunk_id)} is not a chunk id", hint=hint)
        record = self.find_record(record_id, visible=visible)
        first, end = int(self.starts[record]), int(self.starts[record + 1])
        if int(index) >= end - first:
            message = f"{quoted(record_id)} has {end - first} chunks, from #0 on"
            raise UsageError(message, hint=f"retrieve inspect record {record_id}")
        return first + int(index)


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
