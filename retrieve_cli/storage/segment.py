"""Reader of a segment: the rows that one generation added, in files that never change.

records.jsonl   one line per record: the fields that a hit shows
chunks.jsonl    one line per chunk: its text, span, section; lines are counted from the line of its record
offsets.pkl     start of each line, first chunk of each record; by record the id, its place in the order of ids, the
                SHA-1 of its content and of its input, the line of the input; by chunk the SHA-1 of the embedded text
columns.pkl     values of the fields by which records can be filtered, with the records that have them
tokens.pkl      token vectors of each chunk, if a reranker compares words
*               artifact of each retriever, one row per record or chunk: see `retrievers/`

Sizes are checked when a generation is opened, the form of a file when it is read; SHA-1 by `inspect verify`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.storage import pickles
from retrieve_cli.storage.mapped import MappedFile
from retrieve_cli.storage.tables import JsonlTable
from retrieve_cli.storage.vocabulary import RecordIds, rises

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Unit
    from retrieve_cli.storage.manifest import Manifest

RECORDS, CHUNKS, OFFSETS = "records.jsonl", "chunks.jsonl", "offsets.pkl"
TOKENS, GRAPH, DEAD = "tokens.pkl", "graph.pkl", "dead.pkl"
DIGEST = 20
"""Bytes of a SHA-1."""
_RECORD_KEYS = frozenset(
    "id name description url license keywords group supporting_data metadata fields kind source sha1".split()
)
CHUNK_KEYS = frozenset("id doc_id index text section header source start end start_line end_line tokens".split())
_HINT = "retrieve inspect verify"


ENGINES = "engines.json"
"""File in the folder of an index that names the collections in engines, see engine_record.py."""


def is_elsewhere(path: Path) -> bool:
    """Return True if a file of texts is missing in a copy of the index, because an engine holds its rows."""
    return path.name in (RECORDS, CHUNKS) and not path.exists() and (path.parents[2] / ENGINES).exists()


class AbsentFile(MappedFile):
    """A file of texts that a copy of the index does not have."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self._size = path, size

    def __len__(self) -> int:
        return self._size

    @property
    def data(self) -> Any:  # type: ignore[override]
        """Raises: IndexCorrupt: the texts are not here."""
        message = f"{self.path} is not in this copy of the index, and the engines do not have the row"
        raise IndexCorrupt(message, hint="set engines.texts: engine, and send all rows: retrieve engines push")

    def advise_random_reads(self) -> None:
        """Do nothing: there is no file."""


class Segment:
    """The tables of a segment, mapped into memory."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        *,
        first_record: int = 0,
        first_chunk: int = 0,
    ) -> None:
        """`manifest` is the manifest of the generation that added it.

        Raises:
            IndexCorrupt: a table is damaged, or the tables disagree.
        """
        self.name = manifest.id
        """Id of the generation that added it."""
        self.folder = folder
        self.manifest = manifest
        self.first_record, self.first_chunk = first_record, first_chunk
        self._opening = RLock()
        self._files: dict[str, MappedFile] = {}
        offsets = pickles.load(self.file(OFFSETS))
        try:
            self.records = JsonlTable(self.file(RECORDS), offsets["records"], keys=_RECORD_KEYS)
            self.chunks = JsonlTable(self.file(CHUNKS), offsets["chunks"], keys=CHUNK_KEYS)
            self.starts: Rows = offsets["starts"]
            """(records + 1,) first chunk of each record."""
            self.ranks: NDArray[np.int32] = offsets["ranks"]
            """(records,) place of each record in the order of ids."""
            self.ids = RecordIds(offsets["ids"], offsets["id_ends"], self.ranks)
            self.lines: Rows = offsets["lines"]
            """(records,) line of the input of each record when the segment was written."""
            self.contents: NDArray[np.uint8] = offsets["contents"]
            """SHA-1 of each record's content, (records, 20)."""
            self.origins: NDArray[np.uint8] = offsets["origins"]
            """SHA-1 of the input of each record, (records, 20)."""
            self.texts: NDArray[np.uint8] = offsets["texts"]
            """SHA-1 of each chunk's embedded text, (chunks, 20)."""
            """SHA-1 of each item of which a part was rejected, (q, 20)."""
            sound = self._sound(offsets)
        except (KeyError, TypeError, AttributeError) as error:
            raise IndexCorrupt(f"{folder / OFFSETS} is incomplete ({quoted(error)})", hint=_HINT) from error
        if not sound:
            raise IndexCorrupt(f"the tables of {folder} disagree about their rows", hint=_HINT)

    def _sound(self, offsets: Mapping[str, Any]) -> bool:
        """Return True if the arrays fit each other."""
        records, chunks = len(self.records), len(self.chunks)
        by_record = (self.lines.shape, self.ranks.shape, self.contents.shape, self.origins.shape)
        return (
            by_record == ((records,), (records,), (records, DIGEST), (records, DIGEST))
            and self.texts.shape == (chunks, DIGEST)
            and len(self.starts) == records + 1
            and len(self.ids) == records
            and rises(self.starts, chunks, least=1)
            and rises(self.ids.ends, len(self.ids.text), least=0)
            and rises(offsets["records"], int(offsets["records"][-1]), least=1)
            and rises(offsets["chunks"], int(offsets["chunks"][-1]), least=1)
        )

    @property
    def record_count(self) -> int:
        return len(self.records)

    @property
    def chunk_count(self) -> int:
        return len(self.chunks)

    def first(self, unit: Unit) -> int:
        """Return the row of its first record, or chunk, in the generation."""
        return self.first_record if unit == "record" else self.first_chunk

    def count(self, unit: Unit) -> int:
        """Return the number of its records, or chunks."""
        return len(self.records if unit == "record" else self.chunks)

    def has(self, name: str) -> bool:
        """Return True if it has a file."""
        return name in self.manifest.files

    def file(self, name: str) -> MappedFile:
        """Return a file, mapped once.

        Raises:
            IndexCorrupt: the file cannot be read.
        """
        with self._opening:
            if name not in self._files:
                path = self.folder / name
                if is_elsewhere(path):
                    return AbsentFile(path, self.manifest.files[name].bytes)
                try:
                    self._files[name] = MappedFile(path)
                except OSError as error:
                    raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
            return self._files[name]

    def expect(self, name: str, rows: int) -> None:
        """Check the number of rows of a file against the manifest.

        Raises:
            IndexCorrupt: the manifest has another number, or lacks the file.
        """
        entry = self.manifest.files.get(name)
        if entry is None or entry.rows != rows:
            message = f"{name} has {rows} rows; the manifest has {'nothing' if entry is None else entry.rows}"
            raise IndexCorrupt(message, hint="build again: retrieve build")

    def advise_random_reads(self) -> None:
        """Announce that rows of the tables are read here and there, as queries do it.

        For 100,000 records, a query from a cold disk then reads 58 MB instead of 213.
        """
        for name in (RECORDS, CHUNKS):
            self.file(name).advise_random_reads()
