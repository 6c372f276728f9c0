"""What the files of a generation hold: records and chunks by row, how they lie in each other, how they are called.

records.jsonl   one line a record: what a hit shows of it
chunks.jsonl    one line a chunk: its text, span, section
offsets.pkl     where each line starts, each record's first chunk; by record its id, the SHA-1 of its content and of
                what it was read from, its line there; by chunk the SHA-1 of the text that was embedded
columns.pkl     what records can be filtered by: the values of their fields, and who has them
graph.pkl       edges between records and what they share, where there are any
tokens.pkl      the token vectors of each chunk, if a reranker compares words
*               the artifact of each retriever, one row a record or a chunk: see `retrievers/`

What is read of them is held to the sums of its blocks first: see `sums.py` and `mapped.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, UsageError, quoted
from retrieve_cli.storage import pickles, sums
from retrieve_cli.storage.manifest import Manifest, digest_fault
from retrieve_cli.storage.mapped import MappedFile
from retrieve_cli.storage.store import Store
from retrieve_cli.storage.tables import Table
from retrieve_cli.storage.vocabulary import Vocabulary
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
_DIGESTS = ("contents", "origins", "texts")
"""Arrays of `offsets.pkl` that queries do not read: they are checked where they are read."""
_LONGEST_INDEX = 12
"""Digits of a chunk's number."""
_FEW = 8
"""Records that are looked up by comparing ids, before a dictionary of all of them is made."""


DIGEST = 20
"""Bytes of a SHA-1."""


@contextmanager
def open_generation(store: Store, generation: str | None = None) -> Iterator[Generation]:
    """Open the current generation, or the one named; it cannot be removed as long as the value is held.

    An error while it is read is the index's fault if one of its files is damaged.

    Raises:
        IndexMissing: nothing was built here yet.
        IndexCorrupt: it is damaged.
        UsageError: there is no generation of that name.
    """
    folder, manifest, hold = store.open(generation)
    with store.reading(manifest.id):
        yield Generation(folder, manifest, hold)


def unpublished(folder: Path, manifest: Manifest) -> Generation:
    """Open a generation that lies in a folder of its own and is not published yet. Raises: IndexCorrupt."""
    return Generation(folder, manifest)


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
        self._made: dict[object, Any] = {}
        self._making = RLock()
        self._files: dict[str, MappedFile] = {}
        self._at_hand: dict[str, MappedFile] = {}
        self._sparse = False
        self._looked_up = 0
        self._sums = sums.read(folder)
        offsets = pickles.load(self.file(OFFSETS), later=_DIGESTS)
        try:
            self.records = Table(self.file(RECORDS), offsets["records"], keys=_RECORD_KEYS)
            self.chunks = Table(self.file(CHUNKS), offsets["chunks"], keys=CHUNK_KEYS)
            self.starts: Rows = offsets["starts"]
            self._ids: bytes = offsets["ids"].tobytes()
            self._id_ends: Rows = offsets["id_ends"]
            self.lines: Rows = offsets["lines"]
            self._digests = {name: offsets[name] for name in _DIGESTS}
            by_record = (self.lines.shape, offsets["contents"].shape, offsets["origins"].shape)
        except (KeyError, TypeError, AttributeError) as error:
            raise IndexCorrupt(
                f"{folder / OFFSETS} is incomplete ({quoted(error)})", hint="retrieve inspect verify"
            ) from error
        records, chunks = len(self.records), len(self.chunks)
        if (
            by_record != ((records,), (records, DIGEST), (records, DIGEST))
            or offsets["texts"].shape != (chunks, DIGEST)
            or len(self.starts) != records + 1
            or len(self._id_ends) != records + 1
            or not _rises(self.starts, chunks, 1)
            or not _rises(self._id_ends, len(self._ids), 0)
            or not _rises(offsets["records"], int(offsets["records"][-1]), 1)
            or not _rises(offsets["chunks"], int(offsets["chunks"][-1]), 1)
        ):
            raise IndexCorrupt(f"the tables of {folder} disagree about their rows", hint="retrieve inspect verify")

    def read_here_and_there(self) -> None:
        """Expect that a few rows are read of each file, as queries do, and not all of them one after the other."""
        with self._making:
            self._sparse = True
            for file in self._files.values():
                file.read_here_and_there()

    @cached_property
    def id(self) -> str:
        """The name of the generation, a digest of what it is made of."""
        return self.manifest.id

    def let_go(self) -> None:
        """Stop keeping the folder from being removed."""
        self._hold = None

    def file(self, name: str) -> MappedFile:
        """Return a file of the generation, mapped once; who reads it has the blocks checked that are read.

        Raises:
            IndexCorrupt: it cannot be read.
        """
        with self._making:
            if name not in self._files:
                mapped = self._at_hand.pop(name, None)
                self._files[name] = self._mapped(name) if mapped is None else mapped
                if self._sparse:
                    self._files[name].read_here_and_there()
            return self._files[name]

    def have_at_hand(self, name: str) -> None:
        """Map a file that may be read later: it can be, even if somebody removes the folder before.

        Raises:
            IndexCorrupt: it cannot be read.
        """
        with self._making:
            if name not in self._files and name not in self._at_hand:
                self._at_hand[name] = self._mapped(name)

    def _mapped(self, name: str) -> MappedFile:
        path, entry = self.folder / name, self.manifest.files.get(name)
        try:
            if self._sums is None or entry is None:
                return MappedFile(path)
            none = np.empty(0, np.uint64)
            return MappedFile(path, self._sums.get(name, none), partial(digest_fault, path, entry))
        except OSError as error:
            raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint="retrieve inspect verify") from error

    def expect(self, name: str, rows: int) -> None:
        """Holds a file's rows to what the manifest says, and all of it to its sums if it was not opened by `file`.

        Raises:
            IndexCorrupt: the manifest says otherwise or nothing, or the file is damaged.
        """
        if name not in self._files:
            self.file(name).check()
        entry = self.manifest.files.get(name)
        if entry is None or entry.rows != rows:
            said = "nothing" if entry is None else entry.rows
            raise IndexCorrupt(f"{name} has {rows} rows; the manifest says {said}", hint="build again: retrieve build")

    @cached_property
    def contents(self) -> NDArray[np.uint8]:
        """(records, 20) the SHA-1 of each record's content."""
        return self._checked("contents")

    @cached_property
    def origins(self) -> NDArray[np.uint8]:
        """(records, 20) the SHA-1 of what each record was read from."""
        return self._checked("origins")

    @cached_property
    def texts(self) -> NDArray[np.uint8]:
        """(chunks, 20) the SHA-1 of each chunk's embedded text."""
        return self._checked("texts")

    def _checked(self, name: str) -> NDArray[np.uint8]:
        """Digests that a query does not read, held to their sums. Raises: IndexCorrupt."""
        digests: NDArray[np.uint8] = self._digests[name]
        self.file(OFFSETS).check_parts(digests)
        return digests

    def origin(self, record: int) -> bytes:
        """The SHA-1 of what a record was read from."""
        digest: NDArray[np.uint8] = self._digests["origins"][record]
        self.file(OFFSETS).check_parts(digest)
        return digest.tobytes()

    def record_id(self, record: int) -> str:
        return self._ids[self._id_ends[record] : self._id_ends[record + 1]].decode()

    def chunk_id(self, row: int) -> str:
        """The id of a chunk row, without reading the chunk."""
        record = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.record_id(record)}#{row - int(self.starts[record])}"

    def chunk_texts(self) -> Iterator[str]:
        """Yield the text of each chunk with what stands in front of it."""
        return (f"{chunk['header']}{chunk['text']}" for chunk in self.chunks)

    def record_texts(self) -> Iterator[str]:
        """Yield the text of each record, put together from its chunks, which may overlap."""
        for first, end in zip(self.starts[:-1], self.starts[1:], strict=True):
            yield _joined([self.chunks[row] for row in range(int(first), int(end))])

    @property
    def ids(self) -> Vocabulary:
        """The id of each record, in order of rows."""
        return Vocabulary(np.frombuffer(self._ids, np.uint8), self._id_ends)

    def contents_by_id(self) -> dict[str, bytes]:
        """SHA-1 of the content of every record."""
        return {self.record_id(row): digest.tobytes() for row, digest in enumerate(self.contents)}

    def once(self, make: Callable[[Generation], T]) -> T:
        """Return `make(self)`, called once for a generation, whichever threads ask for it."""
        if make not in self._made:
            with self._making:
                if make not in self._made:
                    self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def find_record(self, record_id: str, *, visible: Mask | None = None) -> int:
        """The row of a record, of those that are `visible`, (records,) bool, if only some are.

        Raises:
            UsageError: no such record has that id; names the nearest one.
        """
        row = self._row_of(record_id)
        if row is None or not (visible is None or visible[row]):
            known = (self.record_id(place) for place in range(len(self.records)) if visible is None or visible[place])
            near = nearest(record_id, known, cutoff=0.4)
            hint = f"did you mean `{near}`?" if near else "list them: retrieve inspect records"
            raise UsageError(f"there is no record {quoted(record_id)} in the index", hint=hint)
        return row

    def find_chunk(self, chunk_id: str, *, visible: Mask | None = None) -> int:
        """The row of a chunk, of those of `visible` records, if only some are.

        Raises:
            UsageError: no chunk has that id.
        """
        record_id, _, index = chunk_id.rpartition("#")
        if not record_id or not (index.isascii() and index.isdecimal()) or len(index) > _LONGEST_INDEX:
            raise UsageError(
                f"{quoted(chunk_id)} is no chunk id", hint="a chunk id is a record id, `#` and a number: scan.md#0"
            )
        record = self.find_record(record_id, visible=visible)
        first, end = int(self.starts[record]), int(self.starts[record + 1])
        if int(index) >= end - first:
            raise UsageError(
                f"{quoted(record_id)} has {end - first} chunks, from #0 on", hint=f"retrieve inspect record {record_id}"
            )
        return first + int(index)

    def _row_of(self, record_id: str) -> int | None:
        """The row of a record: the first few ids are compared with all, many are worth a dictionary."""
        self._looked_up += 1
        if self._looked_up > _FEW:
            return self._rows.get(record_id)
        wanted = record_id.encode("utf-8", "surrogatepass")
        ids, ends = np.frombuffer(self._ids, np.uint8), self._id_ends
        rows = np.flatnonzero(ends[1:] - ends[:-1] == len(wanted))
        for place in range(len(wanted), 0, -1):  # ids differ at their ends more often than at their starts
            rows = rows[ids[ends[rows] + (place - 1)] == wanted[place - 1]]
        return int(rows[-1]) if len(rows) else None

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {self.record_id(row): row for row in range(len(self.records))}


def _joined(chunks: list[dict[str, Json]]) -> str:
    pieces, at = [], 0
    for chunk in chunks:
        start, end = int(chunk["start"]), int(chunk["end"])
        if end > at:
            pieces.append(" " * (start > at) + chunk["text"][max(0, at - start) :])
            at = end
    return "".join(pieces)


def _rises(ends: Rows, last: int, least: int) -> bool:
    """Whether `ends` go from 0 to `last` in steps of at least `least`."""
    steps = ends[1:] - ends[:-1]
    return bool(ends[0] == 0 and ends[-1] == last and (not len(steps) or steps.min() >= least))
