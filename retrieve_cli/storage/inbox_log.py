"""The log of the inbox: an append-only file of JSON Lines, read forward from where the last reading ended.

    {"inbox":2,"sequence":0,"log":"1f2e3d4c",…}                                           header
    {"sequence":1,"at":"2026-01-31T12:00:00Z","id":"a","tenant":null,"document":{…},…}    a document
    {"sequence":2,"at":"2026-01-31T12:00:05Z","id":"a","tenant":null,…}                   a tombstone
    {"sequence":3,…,"file":{"name":"b.pdf","sha1":"…","size":9},"document":{…},…}         a file, see inbox_files.py

Each line ends with `"after":"…","sum":"…"`: the sum of the line before it, and its own, 64 bits of BLAKE2b over
everything before it. The log is the only copy of its documents: a line that does not fit its sum or the line before it
stops readers and writers, and only `retrieve doctor --repair` sets it aside. A line without its line feed
was never acknowledged: it is ignored, the next writer removes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.inbox_files import StoredFile
from retrieve_cli.storage.lock import now
from retrieve_cli.untrusted.files import LINE

FORMAT = 2
_LONGEST_HEADER = 200
_AFTER, _SUM, _CLOSE, _HEX = b',"after":"', b',"sum":"', b'"}\n', 16
_SEAL = len(_AFTER) + _HEX + 1 + len(_SUM) + _HEX + len(_CLOSE)
"""Bytes at the end of a line that hold the two sums."""
_FORMER = slice(len(_AFTER) - _SEAL, len(_AFTER) + _HEX - _SEAL)
"""Place in a line of the sum of the line before it."""
REPAIR = "set it aside, and go on with the rest: retrieve doctor --repair"


class LinePlace(NamedTuple):
    """The last entry of an id that has a document."""

    sequence: int
    tenant: str | None
    start: int
    """First byte of its line."""
    length: int
    file: str = ""
    """SHA-1 of the file that is the document; empty if the entry itself is."""


class Damage(NamedTuple):
    """A line of the log that is damaged."""

    line: int
    why: str
    start: int
    length: int
    """Bytes of the line; 0 if it is sound itself, but not the one that followed the line before it."""


class InboxEntry(NamedTuple):
    """A document of the inbox."""

    id: str
    sequence: int
    tenant: str | None
    at: str
    """Time of the entry."""
    document: bytes
    """The document as JSON; of a file, the metadata from its sender."""
    file: StoredFile | None = None
    """The file that is the document."""


class LogState:
    """The documents of a log, by id, in the order of their numbers."""

    def __init__(self, header: bytes, sequence: int) -> None:
        self.header = header
        """First line of the file, by which another one in its place is recognised."""
        self.sequence = sequence
        """Number of the last entry, which a rewritten log may lack."""
        self.end = len(header)
        """Bytes that were read: all complete lines."""
        self.places: dict[str, LinePlace] = {}
        self.entries = 0
        """Entries in the file, with tombstones and replaced ones."""
        self.damaged: list[Damage] = []
        self.last: bytes | None = sum_of(header)
        """Sum of the last line; None if it is not known, because that line is damaged."""
        self._number = 0
        """Number of the last entry that was read."""

    @classmethod
    def begin(cls, file: BinaryIO, path: Path) -> LogState | None:
        """Return the state of a log of which only the header was read; None if it has no complete header yet.

        Raises:
            IndexCorrupt: it is not such a log, or its header is damaged.
        """
        header = read_header(file)
        if header is None:
            return None
        value = _object(header)
        sequence: Json = value.get("sequence")
        if value.get("inbox") != FORMAT or not _is_number(sequence):
            hint = "restore it from a copy, or move it away and add its documents again"
            raise IndexCorrupt(f"{path} is not an inbox", hint=hint)
        if sum_of(header) is None:
            raise IndexCorrupt(f"{path}, line 1: the header is damaged", hint=REPAIR)
        return cls(header, sequence)

    @classmethod
    def without_header(cls, file: BinaryIO) -> LogState:
        """Return the state of a log of which only the first line was read, which is damaged."""
        file.seek(0)
        state = cls(file.readline(LINE), 0)
        state.damaged.append(Damage(1, "the header is damaged", 0, state.end))
        return state

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
                whole = not line.endswith(b"\0") and sum_of(line[:-1] + b"\n") is not None
                if whole and not self.damaged:  # no writer that was killed leaves another byte in place of a line feed
                    self.damaged.append(Damage(self.entries + 2, "its line feed is another byte", start, length))
                return
            self.take(line if len(line) == length else b"", length)

    def expect_sound(self, path: Path) -> None:
        """Raises: IndexCorrupt: lines are damaged."""
        if self.damaged:
            first, more = self.damaged[0], len(self.damaged) - 1
            others = f"; {more} more" if more else ""
            raise IndexCorrupt(f"{path}, line {first.line}: {first.why}{others}", hint=REPAIR)

    def take(self, line: bytes, length: int) -> None:
        """Take in the next line, of which the file has `length` bytes; empty: it is longer than a line may be."""
        start, self.end = self.end, self.end + length
        self.entries += 1
        line_number = self.entries + 1
        own, before = sum_of(line), self.last
        self.last = own
        value = _object(line)
        number: Json = value.get("sequence")
        name: Json = value.get("id")
        tenant: Json = value.get("tenant")
        document = value.get("document")
        file = StoredFile.of(value.get("file"))
        texts = isinstance(name, str) and isinstance(tenant, str | None) and (file is not None or "file" not in value)
        if own is None:
            self.damaged.append(Damage(line_number, "it does not fit its sum", start, length))
            return
        if not _is_number(number) or number <= self._number or not texts or not isinstance(document, dict | None):
            self.damaged.append(Damage(line_number, "it is not an entry that follows the one before it", start, length))
            return
        if before is not None and line[_FORMER] != before:
            self.damaged.append(Damage(line_number, "it did not follow the line before it", start, 0))
        self._number = number
        self.sequence = max(number, self.sequence)
        self.places.pop(name, None)  # a later entry comes last, in the order of numbers
        if document is not None:
            self.places[name] = LinePlace(number, tenant, start, length, file.sha1 if file else "")


class LogSnapshot:
    """The documents of the inbox at one moment; the file stays open, though it may be rewritten meanwhile."""

    def __init__(self, file: BinaryIO | None, state: LogState | None) -> None:
        self.file = file
        """The log, of which the first `end` bytes are these documents."""
        self.end = state.end if state else 0
        self._places = list(state.places.items()) if state else []
        self.sequence = state.sequence if state else 0
        """Number of the last entry that is included."""
        self.files = sorted({place.file for _, place in self._places if place.file})
        """SHA-1 of the documents that were sent as files."""

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[InboxEntry]:
        """Yield the documents in the order of their numbers. Raises: IndexCorrupt: an entry is damaged."""
        if self.file is not None:
            for name, place in self._places:
                yield entry_at(self.file.fileno(), name, place)

    def __del__(self) -> None:
        if self.file is not None:
            self.file.close()


def read_header(file: BinaryIO) -> bytes | None:
    """Return the first line of a log; None if it is not complete."""
    file.seek(0)
    header = file.readline(_LONGEST_HEADER)
    return header if header.endswith(b"\n") or len(header) == _LONGEST_HEADER else None


def header_line(sequence: int) -> bytes:
    """Return the first line of a new log whose next number is above `sequence`; no two are the same."""
    return sealed(b'{"inbox":%d,"sequence":%d,"log":"%s"' % (FORMAT, sequence, os.urandom(8).hex().encode()), None)


def sealed(head: bytes, after: bytes | None) -> bytes:
    """Return a line with its sums, from all of it before them and the sum of the line before it."""
    head += _AFTER + (after or b"0" * _HEX) + b'"'
    return head + _SUM + _digest(head) + _CLOSE


def sum_of(line: bytes) -> bytes | None:
    """Return the sum of a line; None if it has none, or another one than its bytes give."""
    head, found = line[: -len(_SUM) - _HEX - len(_CLOSE)], line[-_HEX - len(_CLOSE) : -len(_CLOSE)]
    return found if line == head + _SUM + found + _CLOSE and _digest(head) == found and len(line) > _SEAL else None


def head_of(line: bytes) -> bytes:
    """Return a line without its sums and its end."""
    return line[:-_SEAL]


def _digest(head: bytes) -> bytes:
    return blake2b(head, digest_size=_HEX // 2).hexdigest().encode()


def normalized(document: bytes) -> bytes:
    """Return a document, which must be JSON, as the log spells it."""
    import orjson

    return orjson.dumps(orjson.loads(document))


def entry_line(
    sequence: int, name: str, tenant: str | None, document: bytes | None, file: StoredFile | None = None
) -> bytes:
    """Return the line of an entry without its sums and its end; without a document it is a tombstone."""
    import orjson

    named = {"file": file.to_json()} if file else {}
    head = orjson.dumps({"sequence": sequence, "at": now(), "id": name, "tenant": tenant, **named})[:-1]
    return head if document is None else head + b',"document":' + document


def line_at(descriptor: int, name: str, place: LinePlace) -> bytes:
    """Return the line in a place of a file. Raises: IndexCorrupt: it is damaged."""
    line = os.pread(descriptor, place.length, place.start)
    if sum_of(line) is None:
        raise IndexCorrupt(f"the document {name!r} of the inbox is damaged", hint=REPAIR)
    return line


def entry_at(descriptor: int, name: str, place: LinePlace) -> InboxEntry:
    """Return the entry in a place of a file. Raises: IndexCorrupt: it is damaged."""
    import orjson

    value = _object(line_at(descriptor, name, place))
    if value.get("id") != name or not isinstance(value.get("document"), dict):
        raise IndexCorrupt(f"the document {name!r} of the inbox is damaged", hint=REPAIR)
    document, file = orjson.dumps(value["document"]), StoredFile.of(value.get("file"))
    return InboxEntry(name, place.sequence, place.tenant, str(value.get("at", "")), document, file)


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
