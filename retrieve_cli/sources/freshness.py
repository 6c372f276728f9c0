"""Freshness of a hit: check its source at query time, at almost no cost while the source is unchanged.

A hit from a folder is compared by the digest of its file. A catalog is compared by size and times; only if these
differ are the lines of the hits read, each separately, so the cost of a check does not grow with the catalog. Results
are cached until the marks of the file change. Threads may share a source.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Card, DocumentFile, Freshness, Json
from retrieve_cli.errors import RetrieveError
from retrieve_cli.frozen import replace
from retrieve_cli.sources.catalogs.line_starts import LineStarts
from retrieve_cli.sources.digests import BOM, document_digest, line_digest, sidecar_of
from retrieve_cli.storage.durable import marks_of, settled
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.sources.catalogs.catalog import CatalogReading
    from retrieve_cli.sources.catalogs.tables import TableLayout
    from retrieve_cli.sources.folders.ignore_rules import IgnoreRules

_SMALL = 256 * 1024
"""Catalogs up to this many bytes are read whole if their marks differ, in less than 5 ms."""
_TABLE, _ROWS = 8 * files.MB, 100_000
"""The same of CSV and arrays of JSON, whose rows are not lines: 0.2 s a MB; and the rows of any table."""
_AROUND = 32 * 1024
"""Bytes before and after the former place of a line that are searched for it in a larger catalog."""
_UNSETTLED_S = 0.1
"""Seconds to cache the result for a file that was written a moment ago."""
_MOST = 10_000
"""Maximum number of cached files of a folder, or lines of a catalog."""


@dataclass(slots=True)
class _FileState:
    """Results of checking one state of a file."""

    marks: tuple[int, ...]
    until: float
    """Expiry on the monotonic clock."""
    digest: bytes = b""
    """SHA-1 of a document."""
    scanned: bool = False
    """True if the lines of the file were scanned."""
    lines: set[bytes] | None = None
    """Digests of the lines of a small catalog."""
    ids: Collection[str] = ()
    verdicts: dict[bytes, Freshness] = field(default_factory=dict)

    @classmethod
    def of(cls, status: os.stat_result) -> _FileState:
        """Return a state without results."""
        for_good = settled(status.st_mtime_ns, status.st_ctime_ns)
        return cls(marks_of(status), float("inf") if for_good else time.monotonic() + _UNSETTLED_S)

    def holds(self, status: os.stat_result) -> bool:
        """Return True if the file is still in that state."""
        return self.marks == marks_of(status) and time.monotonic() < self.until


class Unwatched:
    """`contracts.Watched` of a source that only a plug-in can read, with nothing to cache: queries do not check it."""

    def stale(self) -> str:
        """Return an empty string: unknown."""
        return ""

    def grown(self) -> str:
        """Return an empty string: unknown."""
        return ""

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:  # noqa: ARG002  as promised
        """Return "fresh": assume the state of the build."""
        return "fresh"

    def remember(self) -> None:
        """Do nothing: there is nothing to cache."""


@dataclass(slots=True)
class WatchedFolder(Unwatched):
    """`contracts.Watched` of a folder of documents."""

    path: Path
    id_prefix: str
    max_mb: float
    """Maximum size of a file; a larger one counts as changed."""
    suffixes: Callable[[], Collection[str]]
    """Returns the suffixes of the files that count; needed only if a folder has changed."""
    rules: Callable[[], IgnoreRules]
    """Returns the rules by which files do not count; likewise."""
    cards: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """Parsers of the build, by format."""
    folders: Mapping[str, Json] = field(default_factory=dict)
    """Marks of its folders at build time."""
    _seen: dict[str, _FileState] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def stale(self) -> str:
        """Return the number of folders in which files were added or removed, in words; empty if none."""
        from retrieve_cli.sources.folders.folder_marks import changed_folders

        changed = changed_folders(self.path, self.folders, self.suffixes, self.rules)
        if changed and not self.path.is_dir():
            return "its folder is gone"
        return f"{changed} folder{'s' * (changed != 1)} changed" if changed else ""

    def grown(self) -> str:
        """Return the same as `stale`: an added file has no hit that could reveal it."""
        return self.stale()

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:
        """Compare the digest of the record's own file, which is read once until its marks change."""
        with self._lock:
            try:
                now = self._digest(str(record["source"]), self.cards.get(str(record["kind"]), {}))
            except (FileNotFoundError, NotADirectoryError):
                return "deleted"
            except OSError:  # the file exists but is unreadable: not the state of the build
                return "changed"
        return "fresh" if now == digest else "changed"

    def file_of(self, record: Mapping[str, Json]) -> str:
        """Return the path of the record's file."""
        return str(self.path / str(record["source"]))

    def original(self, record: Mapping[str, Json], digest: bytes) -> DocumentFile | None:
        """Return the record's own file if its content is the same as in the build. Raises: OSError."""
        source, card = str(record["source"]), self.cards.get(str(record["kind"]), {})
        place = self.path / source
        sha1, sidecar = files.sha1_of(place, limit=self._limit), sidecar_of(place, card)
        same = document_digest(source, self.id_prefix, card, sha1, sidecar) == digest
        return DocumentFile(place, sha1, sidecar) if same else None

    @property
    def _limit(self) -> int:
        return int(self.max_mb * files.MB)

    def _digest(self, source: str, card: Card) -> bytes:
        """Return the digest of a file, which the parser of that card has read."""
        place = self.path / source
        state, status = self._seen.get(source), place.stat()
        if state is None or not state.holds(status):
            state = _FileState.of(status)
            state.digest = files.sha1_of(place, limit=self._limit)
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen[source] = state
        return document_digest(source, self.id_prefix, card, state.digest, sidecar_of(place, card))


@dataclass
class WatchedCatalog(Unwatched):
    """`contracts.Watched` of a file of JSON Lines, or of the last answer of an endpoint.

    A file with the marks of the build is fresh. In any other file, the SHA-1 of the hit's own line decides:

    - up to 256 KB, the line may be anywhere: `fresh` if it exists, `changed` if another line has the hit's id,
      `deleted` if none has;
    - in a larger file of lines, it is searched at its former place, at that place moved by the growth of the file, and
      within 32 KB of either: `fresh` if it is there, else `changed`, because the rest of the file is not read.

    The records of a JSON-LD graph and the rows of a table count as lines in a small file (CSV and arrays of JSON: up to
    8 MB), and as `changed` in a larger one. Without reading:
    `deleted` if the file does not exist, `changed` if it cannot be read.
    """

    path: Path
    name: str
    id_prefix: str
    stamp: Json
    """Marks of the file at build time."""
    starts: LineStarts
    """Offsets of its lines at build time."""
    reading: Callable[[], CatalogReading]
    """Returns the rules with which the build read it."""
    layout: Callable[[], TableLayout]
    """Returns the layout of tables, as configured."""
    _state: _FileState | None = None
    _lock: RLock = field(default_factory=RLock)

    def stale(self) -> str:
        """Return the change if the file has other marks; a file that was only touched counts until the next sync."""
        try:
            return "" if self.stamp == list(marks_of(self.path.stat())[2:]) else "its file changed"
        except OSError:
            return "its file is gone"

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:
        """Return the freshness of the record's line."""
        try:
            status = self.path.stat()
            if self.stamp == list(marks_of(status)[2:]):
                return "fresh"
            with self._lock:
                if self._state is None or not self._state.holds(status):
                    self._state = _FileState.of(status)
                verdicts = self._state.verdicts
                if digest not in verdicts:
                    if len(verdicts) >= _MOST:
                        verdicts.clear()
                    verdicts[digest] = self._compared(record, digest, self._state)
                return verdicts[digest]
        except (FileNotFoundError, NotADirectoryError):
            return "deleted"
        except OSError:
            return "changed"

    def remember(self) -> None:
        """Store the offsets of the lines of a larger catalog, if it is unchanged and they are not stored yet.

        Raises:
            OSError: the catalog cannot be read, or the offsets cannot be written.
        """
        status = self.path.stat()
        unchanged = status.st_size > _SMALL and self.stamp == list(marks_of(status)[2:])
        if unchanged and self.starts.marks() != marks_of(status) and not _kind(self.path):
            self.starts.keep(self.path)

    def _compared(self, record: Mapping[str, Json], digest: bytes, state: _FileState) -> Freshness:
        with files.open_regular(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            kind = _kind(self.path) if size > _SMALL else ""
            if size > (_TABLE if kind in ("csv", "json") else _SMALL):
                is_there = not kind and self._has_line(file, record["line"], digest, state)
                return "fresh" if is_there else "changed"
            if state.lines is None:
                forms = self._forms(_rows(self.path, self.layout()))
                state.lines = set(map(line_digest(self.name, self.id_prefix), forms))
                state.ids = _ids(forms, self.reading().fields.spellings["id"])
        if digest in state.lines:
            return "fresh"
        return "changed" if str(record["id"]).removeprefix(self.id_prefix) in state.ids else "deleted"

    def _has_line(self, file: BufferedReader, line: Json, wanted: bytes, state: _FileState) -> bool:
        """Return True if a line with that digest is at, or near, the former place of line number `line`."""
        span = self._span(line, state) if isinstance(line, int) else None
        if span is None:
            return False
        start, end = span
        size = os.fstat(file.fileno()).st_size
        grown = size - self.stamp[0] if isinstance(self.stamp, list) and self.stamp else 0
        digest = line_digest(self.name, self.id_prefix)
        places = dict.fromkeys((start, max(start + grown, 0)))
        windows = (_lines_around(file, place, length=end - start, size=size) for place in places)
        return any(wanted in map(digest, self._forms(lines)) for lines in windows)

    def _forms(self, lines: Iterable[bytes]) -> list[bytes]:
        """Return lines as the build read them; each also without its key, which it may share."""
        reading = self.reading()
        unkeyed = replace(reading, key=None)
        return [form for line in lines for form in {reading.form(line), unkeyed.form(line)}]

    def _span(self, line: int, state: _FileState) -> tuple[int, int] | None:
        """Return the place of a line at build time or, if it was not stored then, its place now."""
        marks, span = self.starts.marks(), self.starts.span(line)
        valid = marks is not None and (list(marks[2:]) == self.stamp or marks == state.marks)
        if (valid and span is not None) or state.scanned:
            return span
        state.scanned = True
        with suppress(OSError):
            self.starts.keep(self.path)
        return self.starts.span(line)


def _lines_around(file: BufferedReader, start: int, *, length: int, size: int) -> Iterable[bytes]:
    """Return the lines around a place that have about the same length: a byte order mark or an end of line may have
    been added or removed."""
    first = min(max(start - _AROUND, 0), size)
    read = os.pread(file.fileno(), start + length + _AROUND - first, first)
    ends = first + len(read) >= size
    lines = (read.removeprefix(BOM) if first == 0 else read).split(b"\n")
    whole = lines[0 if first == 0 else 1 : None if ends else -1]
    return (line for line in whole if abs(len(line) + 1 - length) <= len(BOM) + 1)


def _ids(lines: Iterable[bytes], id_paths: Sequence[str]) -> set[str]:
    import orjson  # here, like `fields`: only needed for a changed catalog

    from retrieve_cli.sources.fields import id_of

    ids = set()
    for line in lines:
        with suppress(ValueError):
            item = orjson.loads(line)
            if isinstance(item, Mapping):
                ids.add(id_of(item, id_paths))
    return ids


def _kind(path: Path) -> str:
    """Return the kind of the table in a file; empty if it is not a table."""
    from retrieve_cli.sources.catalogs.tables import table_of

    try:
        table = table_of(path)
    except RetrieveError:
        return "damaged"
    return table.kind if table is not None else ""


def _rows(path: Path, layout: TableLayout) -> list[bytes]:
    """Return the lines of a catalog and the rows of a table. Raises: OSError: it is unreadable or has too many."""
    from retrieve_cli.sources.catalogs.catalog import catalog_rows
    from retrieve_cli.sources.catalogs.tables import Row

    try:
        rows = [row.line for row in islice(catalog_rows(path, layout), _ROWS) if isinstance(row, Row)]
    except RetrieveError as error:
        raise OSError(error.message) from error
    if len(rows) == _ROWS:
        raise OSError(path)
    return rows
