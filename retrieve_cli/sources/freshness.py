"""Whether a hit still says what its source says: a look at the files, at almost no cost while nothing has changed.

A hit from a folder is held to the digest of its own file. A catalog is held to its size and times; only if those differ
are the lines of the hits read, each on its own: what a look costs does not grow with the catalog. What was learned of a
file is held as long as its marks stay; threads may share a source.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from threading import RLock

from retrieve_cli.contracts import Freshness, Json
from retrieve_cli.sources.digests import BOM, file_digest, line_digest
from retrieve_cli.sources.line_starts import LineStarts
from retrieve_cli.storage.marks import marks_of, settled
from retrieve_cli.untrusted import files

_SMALL = 256 * 1024
"""Bytes of a catalog that is read whole where its marks differ: that takes less than 5 ms."""
_AROUND = 32 * 1024
"""Bytes before and after the place of a line within which it is looked for in a larger catalog."""
_UNSETTLED_S = 0.1
"""How long that is held which was learned of a file that was written a moment ago."""
_MOST = 10_000
"""Files of a folder, or lines of a catalog, of which is remembered what they held."""


@dataclass(slots=True)
class _Learned:
    """What a look at one state of a file told."""

    marks: tuple[int, ...]
    until: float
    """By the monotonic clock."""
    digest: bytes = b""
    """That of a document."""
    scanned: bool = False
    """Whether its lines were counted."""
    lines: set[bytes] | None = None
    """Digests of the lines of a small catalog."""
    content: Sequence[bytes] = ()
    ids: set[str] | None = None
    verdicts: dict[bytes, Freshness] = field(default_factory=dict)

    @classmethod
    def of(cls, status: os.stat_result) -> _Learned:
        """Nothing yet."""
        for_good = settled(status.st_mtime_ns, status.st_ctime_ns)
        return cls(marks_of(status), float("inf") if for_good else time.monotonic() + _UNSETTLED_S)

    def holds(self, status: os.stat_result) -> bool:
        """Return True if it is still that state."""
        return self.marks == marks_of(status) and time.monotonic() < self.until


class Unwatched:
    """`contracts.Watched` of a source that only a plug-in can read: a query does not look at it, a sync does."""

    def stale(self) -> str:
        """Nothing that is known."""
        return ""

    def grown(self) -> str:
        """Nothing that is known."""
        return ""

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:  # noqa: ARG002  as promised
        """As it was when it was built."""
        return "fresh"

    def remember(self) -> None:
        """Nothing: there is no look."""


@dataclass(slots=True)
class WatchedFolder:
    """`contracts.Watched` of a folder of documents."""

    path: Path
    id_prefix: str
    max_mb: float
    """A larger file is not what was read."""
    suffixes: Collection[str]
    """Of the files that count."""
    folders: Mapping[str, Json] = field(default_factory=dict)
    """Marks of its folders when it was built."""
    _seen: dict[str, _Learned] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def stale(self) -> str:
        """The number of folders in which files came or went."""
        from retrieve_cli.sources.folder_marks import changed_folders

        changed = changed_folders(self.path, self.folders, self.suffixes)
        if changed and not self.path.is_dir():
            return "its folder is gone"
        return f"{changed} folder{'s' * (changed != 1)} changed" if changed else ""

    def grown(self) -> str:
        """The same: a file that came has no hit."""
        return self.stale()

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:
        """By the record's own file, which is read once as long as its marks stay."""
        with self._lock:
            try:
                now = self._digest(str(record["source"]))
            except (FileNotFoundError, NotADirectoryError):
                return "deleted"
            except OSError:  # it is there and cannot be read: not what was read then
                return "changed"
        return "fresh" if now == digest else "changed"

    def file_of(self, record: Mapping[str, Json]) -> str:
        """Return the path of the record's file."""
        return str(self.path / str(record["source"]))

    def remember(self) -> None:
        """Nothing: a look at a document is cheap."""

    def _digest(self, source: str) -> bytes:
        status = (self.path / source).stat()
        known = self._seen.get(source)
        if known is None or not known.holds(status):
            known = _Learned.of(status)
            content = files.read_bytes(self.path / source, limit=int(self.max_mb * files.MB))
            known.digest = file_digest(source, self.id_prefix, content)
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen[source] = known
        return known.digest


@dataclass
class WatchedCatalog:
    """`contracts.Watched` of a file of JSON Lines, or of the last answer of an endpoint.

    A file with the marks it was built with is fresh. Of any other, a hit is held to its own line, by the SHA-1:

    - up to 256 KB, wherever that line stands now: `fresh` if it is there, `changed` if another line has the hit's id,
      `deleted` if none has;
    - of a larger file, where that line stood, the same moved by as many bytes as the file has grown, and 32 KB around
      either: `fresh` if it is there, else `changed`, because nobody looks whether it is elsewhere, or nowhere.

    The records of a graph in JSON-LD are lines in this sense, and `changed` in a larger file. `deleted` without a look
    if there is no such file, `changed` if there is one that cannot be read.
    """

    path: Path
    name: str
    id_prefix: str
    stamp: Json
    """Marks of the file when it was built."""
    id_paths: Sequence[str]
    """Where an id may stand in a line, as the fields of the catalog were configured."""
    starts: LineStarts
    """Where its lines started."""
    _learned: _Learned | None = None
    _lock: RLock = field(default_factory=RLock)

    def stale(self) -> str:
        """True if its file has other marks: one that was only touched has, until the next sync."""
        try:
            return "" if self.stamp == _stamp(self.path.stat()) else "its file changed"
        except OSError:
            return "its file is gone"

    def grown(self) -> str:
        """Nothing: it would have to be read."""
        return ""

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:
        """Return how the record's line looks now."""
        try:
            status = self.path.stat()
            if self.stamp == _stamp(status):
                return "fresh"
            with self._lock:
                if self._learned is None or not self._learned.holds(status):
                    self._learned = _Learned.of(status)
                verdicts = self._learned.verdicts
                if digest not in verdicts:
                    if len(verdicts) >= _MOST:
                        verdicts.clear()
                    verdicts[digest] = self._compared(record, digest, self._learned)
                return verdicts[digest]
        except (FileNotFoundError, NotADirectoryError):
            return "deleted"
        except OSError:
            return "changed"

    def remember(self) -> None:
        """Keep where the lines of a larger catalog start, if it is as it was built and that is not known yet.

        Raises:
            OSError: it cannot be read, or that cannot be written.
        """
        status = self.path.stat()
        if status.st_size > _SMALL and self.stamp == _stamp(status) and self.starts.marks() != marks_of(status):
            self.starts.keep(self.path)

    def _compared(self, record: Mapping[str, Json], digest: bytes, learned: _Learned) -> Freshness:
        with files.open_regular(self.path) as file:
            if os.fstat(file.fileno()).st_size > _SMALL:
                return "fresh" if self._stands(file, record["line"], digest, learned) else "changed"
            if learned.lines is None:
                learned.content = _lines(file.read(_SMALL + 1).removeprefix(BOM))
                learned.lines = set(map(line_digest(self.name, self.id_prefix), learned.content))
        if digest in learned.lines:
            return "fresh"
        if learned.ids is None:
            learned.ids = _ids(learned.content, self.id_paths)
        return "changed" if str(record["id"]).removeprefix(self.id_prefix) in learned.ids else "deleted"

    def _stands(self, file: BufferedReader, line: Json, digest: bytes, learned: _Learned) -> bool:
        """Whether a line of that digest stands where line number `line` stood, or near."""
        span = self._span(line, learned) if isinstance(line, int) else None
        if span is None:
            return False
        start, end = span
        size = os.fstat(file.fileno()).st_size
        grown = size - self.stamp[0] if isinstance(self.stamp, list) and self.stamp else 0
        of = line_digest(self.name, self.id_prefix)
        places = dict.fromkeys((start, max(start + grown, 0)))
        windows = [_Window(file, place, length=end - start, size=size) for place in places]
        if any(of(window.line) == digest for window in windows if window.line is not None):
            return True
        return any(of(each) == digest for window in windows for each in window.lines())

    def _span(self, line: int, learned: _Learned) -> tuple[int, int] | None:
        """Where a line stood when the catalog was built; if that was never noted, where it stands now."""
        noted, span = self.starts.marks(), self.starts.span(line)
        right = noted is not None and (list(noted[2:]) == self.stamp or noted == learned.marks)
        if (right and span is not None) or learned.scanned:
            return span
        learned.scanned = True
        with suppress(OSError):
            self.starts.keep(self.path)
        return self.starts.span(line)


class _Window:
    """What stands in a file around the place of a line."""

    def __init__(self, file: BufferedReader, start: int, *, length: int, size: int) -> None:
        first = min(max(start - _AROUND, 0), size)
        read = os.pread(file.fileno(), start + length + _AROUND - first, first)
        mark = len(BOM) if first == 0 and read.startswith(BOM) else 0
        self._ends = first + len(read) >= size
        self._read, self._begins = read[mark:], first == 0
        self._place, self._length = max(start - first - mark, 0), length

    @property
    def line(self) -> bytes | None:
        """The line that starts at the place itself; None if none does."""
        before = self._read[self._place - 1 : self._place] if self._place else b"\n" if self._begins else b""
        end = self._read.find(b"\n", self._place)
        if before != b"\n" or (end < 0 and not self._ends):
            return None
        return self._read[self._place : end if end >= 0 else None]

    def lines(self) -> Iterable[bytes]:
        """Lines of about the same length around it: a byte order mark or an end of line may have come or gone."""
        lines = self._read.split(b"\n")
        whole = lines[0 if self._begins else 1 : None if self._ends else -1]
        return (line for line in whole if abs(len(line) + 1 - self._length) <= len(BOM) + 1)


def _ids(lines: Iterable[bytes], id_paths: Sequence[str]) -> set[str]:
    import orjson  # as `fields`: only a catalog that has changed is read

    from retrieve_cli.sources.fields import id_of

    found = set()
    for line in lines:
        with suppress(ValueError):
            item = orjson.loads(line)
            if isinstance(item, Mapping):
                found.add(id_of(item, id_paths))
    return found


def _lines(content: bytes) -> Sequence[bytes]:
    """The lines of a catalog, those of its records in the place of a graph of them."""
    if b'"@' not in content:
        return content.split(b"\n")
    from retrieve_cli.sources.linked_catalog import lines_of

    return lines_of(content)


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
