"""Freshness of a hit: check its source at query time, at almost no cost while the source is unchanged.

A hit from a folder is compared by the digest of its file. A catalog is compared by size and times; only if these
differ is it read, once, line by line. Results are cached until the marks of the file change. Threads may share a
source.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Card, DocumentFile, Freshness, Json
from retrieve_cli.errors import RetrieveError
from retrieve_cli.sources.digests import WHITE, document_digest, line_digest, sidecar_of
from retrieve_cli.storage.durable import marks_of, settled
from retrieve_cli.storage.key_rows import DigestList, KeyRows, as_keys
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.sources.catalogs.catalog import CatalogReading
    from retrieve_cli.sources.catalogs.tables import TableLayout
    from retrieve_cli.sources.folders.ignore_rules import IgnoreRules

_SMALL, _LINES = 256 * 1024, 64 * files.MB
"""Bytes of a catalog of which the ids are read as well if its marks differ, and of the largest that is read: the lines
of 64 MB are hashed in 0.2 s."""
_TABLE, _ROWS = 8 * files.MB, 100_000
"""Bytes of CSV and arrays of JSON that are read, whose rows are not lines: 0.2 s a MB; and the rows of any table."""
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
    lines: KeyRows | None = None
    """Digests of the lines of a catalog."""
    ids: Collection[str] | None = None
    """Ids of the records of a small catalog."""

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
    """`contracts.Watched` of a file of JSON Lines, a table, or the last answer of an endpoint.

    A file with the marks of the build is fresh. In any other file, the SHA-1 of the hit's own line decides: `fresh` if
    there is such a line, else `changed`. Of a catalog up to 256 KB, and of a table up to 8 MB, also the ids are read:
    `deleted` if no record has the hit's id. Without reading: `changed` if the file is larger than 64 MB, or a table
    larger than 8 MB, or cannot be read; `deleted` if it does not exist.
    """

    path: Path
    name: str
    id_prefix: str
    stamp: Json
    """Marks of the file at build time."""
    rules: str
    """Digest of the rules by which it was read then."""
    reading: Callable[[], CatalogReading]
    """Returns these rules."""
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
                state = self._state
                if state is None or not state.holds(status):
                    state = self._state = _FileState.of(status)
                return self._compared(record, digest, state)
        except (FileNotFoundError, NotADirectoryError):
            return "deleted"
        except (OSError, RetrieveError):
            return "changed"

    def _compared(self, record: Mapping[str, Json], digest: bytes, state: _FileState) -> Freshness:
        if state.lines is None:
            state.lines = KeyRows(as_keys([]))
            state.lines, state.ids = self._contents()
        if state.lines.row(digest) >= 0:
            return "fresh"
        if state.ids is None or str(record["id"]).removeprefix(self.id_prefix) in state.ids:
            return "changed"
        return "deleted"

    def _contents(self) -> tuple[KeyRows, Collection[str] | None]:
        """Return the digests of all lines, and of a small catalog the ids; nothing of a large one.

        Raises:
            OSError, RetrieveError: it cannot be read.
        """
        from retrieve_cli.sources.catalogs.catalog import catalog_rows, ids_of
        from retrieve_cli.sources.catalogs.tables import table_of

        size, table = self.path.stat().st_size, table_of(self.path)
        if size > (_LINES if table is None else _TABLE if table.kind in ("csv", "json") else _SMALL):
            return KeyRows(as_keys([])), None
        begun, digests, ids = line_digest(self.name, self.id_prefix, self.rules), DigestList(), set[str]()
        reading = None if table is None and size > _SMALL else self.reading()
        for number, row in enumerate(catalog_rows(self.path, self.layout())):
            if isinstance(row, str) or row[2]:
                continue
            digest = begun.copy()
            digest.update(row[1].strip(WHITE))
            digests.extend([digest.digest()])
            if reading is not None:
                ids.update(ids_of(row[1], reading))
            if table is not None and number >= _ROWS:
                raise OSError(self.path)
        return KeyRows(digests.array), None if reading is None else ids
