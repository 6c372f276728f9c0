"""The log of the inbox: an append-only file of JSON Lines, read forward from where the last reading ended.

    {"inbox":1,"sequence":0,"log":"1f2e3d4c"}                                           header
    {"sequence":1,"at":"2026-01-31T12:00:00Z","id":"a","tenant":null,"document":{…}}    a document
    {"sequence":2,"at":"2026-01-31T12:00:05Z","id":"a","tenant":null}                   a tombstone
    {"sequence":3,…,"file":{"name":"b.pdf","sha1":"…","size":9},"document":{…}}         a file, see inbox_files.py

A line without its line feed was never acknowledged: readers ignore it, and the next writer removes it. A complete line
that is not an entry, or does not rise in its number, is damaged and skipped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.inbox_files import StoredFile
from retrieve_cli.untrusted.files import LINE

FORMAT = 1
_LONGEST_HEADER = 200
_MOST_DAMAGED = 100
"""Damaged lines that are listed."""


class Place(NamedTuple):
    """The last entry of an id that has a document."""

    sequence: int
    tenant: str | None
    start: int
    """First byte of its line."""
    length: int
    file: str = ""
    """SHA-1 of the file that is the document; empty if the entry itself is."""


class Entry(NamedTuple):
    """A document of the inbox."""

    id: str
    sequence: int
    tenant: str | None
    at: str
    """Time of the entry."""
    document: bytes
    """The document as JSON; of a file, what its sender says about it."""
    file: StoredFile | None = None
    """The file that is the document."""


class State:
    """The documents of a log, by id, in the order of their numbers."""

    def __init__(self, header: bytes, sequence: int) -> None:
        self.header = header
        """First line of the file, by which another one in its place is recognised."""
        self.sequence = sequence
        """Number of the last entry, which a rewritten log may lack."""
        self.end = len(header)
        """Bytes that were read: all complete lines."""
        self.places: dict[str, Place] = {}
        self.entries = 0
        """Entries in the file, with tombstones and replaced ones."""
        self.damaged: list[int] = []
        """Numbers of damaged lines."""
        self._lines = 1
        self._last = 0
        """Number of the last line that was read."""

    @classmethod
    def begin(cls, file: BinaryIO, path: Path) -> State | None:
        """Return the state of a log of which only the header was read; None if it has no complete header yet.

        Raises:
            IndexCorrupt: it is not such a log.
        """
        header = read_header(file)
        if header is None:
            return None
        value = _object(header)
        sequence: Json = value.get("sequence")
        if value.get("inbox") != FORMAT or not _is_number(sequence):
            hint = "restore it from a copy, or move it away and add its documents again"
            raise IndexCorrupt(f"{path} is not an inbox of this version", hint=hint)
        return cls(header, sequence)

    def read_on(self, file: BinaryIO, size: int) -> None:
        """Take in the complete lines that were added, up to byte `size`."""
        file.seek(self.end)
        while self.end < size:
            line = file.readline(min(LINE + 1, size - self.end))
            start, length = self.end, len(line)
            while line and not line.endswith(b"\n") and start + length < size:  # longer than a line may be
                line = file.readline(min(LINE + 1, size - start - length))
                length += len(line)
            if not line.endswith(b"\n"):
                return
            self._take(line if len(line) == length else b"", start, length)
            self.end += length

    def _take(self, line: bytes, start: int, length: int) -> None:
        self._lines += 1
        self.entries += 1
        value = _object(line)
        number: Json = value.get("sequence")
        name: Json = value.get("id")
        tenant: Json = value.get("tenant")
        document = value.get("document")
        file = StoredFile.of(value.get("file"))
        texts = isinstance(name, str) and isinstance(tenant, str | None) and (file is not None or "file" not in value)
        if not _is_number(number) or number <= self._last or not texts or not isinstance(document, dict | None):
            if len(self.damaged) < _MOST_DAMAGED:
                self.damaged.append(self._lines)
            return
        self._last = number
        self.sequence = max(number, self.sequence)
        self.places.pop(name, None)  # a later entry comes last, in the order of numbers
        if document is not None:
            self.places[name] = Place(number, tenant, start, length, file.sha1 if file else "")


class Snapshot:
    """The documents of the inbox at one moment; the file stays open, though it may be rewritten meanwhile."""

    def __init__(self, file: BinaryIO | None, state: State | None) -> None:
        self._file = file
        self._places = list(state.places.items()) if state else []
        self.sequence = state.sequence if state else 0
        """Number of the last entry that is included."""
        self.damaged = tuple(state.damaged) if state else ()
        """Numbers of damaged lines, which are skipped."""
        self.has_files = any(place.file for _, place in self._places)
        """True if a document was sent as a file."""

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Entry]:
        """Yield the documents in the order of their numbers."""
        if self._file is None:
            return
        for name, place in self._places:
            if (entry := entry_at(self._file.fileno(), name, place)) is not None:
                yield entry

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()


def read_header(file: BinaryIO) -> bytes | None:
    """Return the first line of a log; None if it is not complete."""
    file.seek(0)
    header = file.readline(_LONGEST_HEADER)
    return header if header.endswith(b"\n") else header if len(header) == _LONGEST_HEADER else None


def header_line(sequence: int) -> bytes:
    """Return the first line of a new log whose next number is above `sequence`; no two are the same."""
    return b'{"inbox":%d,"sequence":%d,"log":"%s"}\n' % (FORMAT, sequence, os.urandom(8).hex().encode())


def normalized(document: bytes) -> bytes:
    """Return a document, which must be JSON, as the log spells it."""
    import orjson

    return orjson.dumps(orjson.loads(document))


def entry_line(
    sequence: int, name: str, tenant: str | None, document: bytes | None, file: StoredFile | None = None
) -> bytes:
    """Return the line of an entry; without a document it is a tombstone."""
    import orjson

    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    named = {"file": file.to_json()} if file else {}
    head = orjson.dumps({"sequence": sequence, "at": at, "id": name, "tenant": tenant, **named})
    return head + b"\n" if document is None else head[:-1] + b',"document":' + document + b"}\n"


def entry_at(descriptor: int, name: str, place: Place) -> Entry | None:
    """Return the entry in a place of a file; None if it is damaged."""
    import orjson

    value = _object(os.pread(descriptor, place.length, place.start))
    if value.get("id") != name or not isinstance(value.get("document"), dict):
        return None
    document, file = orjson.dumps(value["document"]), StoredFile.of(value.get("file"))
    return Entry(name, place.sequence, place.tenant, str(value.get("at", "")), document, file)


def _is_number(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _object(line: bytes) -> Mapping[str, Json]:
    """Return the object of a line; an empty one if it is not one."""
    import orjson

    try:
        value = orjson.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
