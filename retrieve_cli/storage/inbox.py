"""The inbox: documents that were added one at a time, kept beside the index until a sync.

    artifacts/inbox.db        the documents, see database.py
    artifacts/inbox/files/    documents that were sent as files, see inbox_files.py

Each change has a number, one above the last: the sequence. A later document of an id replaces the
earlier one. The state after the last change is the source that builds and syncs read. A document
is stored with its SHA-1, because the inbox is its only copy. Any number of processes may write,
one at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.storage import database, durable, inbox_files
from retrieve_cli.storage.inbox_files import StoredFile, Upload
from retrieve_cli.storage.lock import now
from retrieve_cli.storage.manifest import Manifest, canonical
from retrieve_cli.untrusted.files import LINE

if TYPE_CHECKING:
    from sqlite3 import Connection

KIND = "inbox"
FOLDER = "inbox"
Kind = Literal["added", "replaced", "unchanged", "removed", "missing", "taken"]


class Change(NamedTuple):
    """One change of the inbox that is asked for."""

    id: str
    tenant: str | None
    """Tenant that asks for it; None: one that may change the documents of all."""
    document: bytes | None
    """The document as JSON; None removes it."""
    upload: Upload | None = None
    """The file that is the document, complete on the disk; `document` then describes it."""


class InboxOutcome(NamedTuple):
    """The effect of a change."""

    kind: Kind
    """`missing`: the tenant has no document of this id; `taken`: the id is of another owner."""
    sequence: int = 0
    """Number of the change that made the state; 0 if nothing was changed."""


class InboxEntry(NamedTuple):
    """A document of the inbox."""

    sequence: int
    id: str
    tenant: str | None
    at: str
    """Time of the change."""
    document: bytes
    """The document as JSON; of a file, the metadata from its sender."""
    file: StoredFile | None = None
    """The file that is the document."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> InboxEntry | None:
        """Return the document of a row, which may come from anybody; None if it is damaged."""
        sequence, name, tenant, at, document, file, sha1 = row
        texts = isinstance(name, str) and isinstance(at, str) and isinstance(tenant, str | None)
        if not (texts and isinstance(document, bytes) and isinstance(sequence, int)):
            return None
        stored = None if file is None else StoredFile.of(_object(file))
        entry = cls(sequence, name, tenant, at, document, stored)
        sound = sha1 == entry.sha1 and (stored is None) == (file is None)
        return entry if sound and _object(document) is not None else None

    @property
    def row(self) -> tuple[object, ...]:
        """The values of the table's columns."""
        file = json.dumps(self.file.to_json()) if self.file else None
        return *self[:5], file, self.sha1

    @property
    def sha1(self) -> str:
        """SHA-1 of all parts."""
        head = canonical([*self[:4], list(self.file or ())])
        return hashlib.sha1(head + self.document, usedforsecurity=False).hexdigest()

    @property
    def content(self) -> tuple[object, ...]:
        """Everything but the number and the time."""
        return self.id, self.tenant, self.document, self.file


class InboxSnapshot:
    """The documents of one moment, or those that changed after a number, in the order of their numbers."""

    def __init__(self, path: Path, connection: Connection | None, *, after: int = 0) -> None:
        self._path, self._connection, self._after = path, connection, after
        self.sequence = _last(path, connection) if connection else 0
        """Number of the last change that is included."""

    def __len__(self) -> int:
        if self._connection is None:
            return 0
        query = "SELECT count(*) FROM documents WHERE sequence > ?"
        (number,) = self._connection.execute(query, (self._after,)).fetchone()
        return int(number)

    def __iter__(self) -> Iterator[InboxEntry]:
        """Yield the documents. Raises: IndexCorrupt: one is damaged."""
        if self._connection is not None:
            with database.translated(self._path):
                yield from _entries(self._path, self._connection, "WHERE sequence > ?", self._after)

    @property
    def removed(self) -> list[str]:
        """Ids of the documents that were removed after the number."""
        if self._connection is None:
            return []
        query = "SELECT id FROM removed WHERE sequence > ? ORDER BY sequence"
        with database.translated(self._path):
            return [str(name) for (name,) in self._connection.execute(query, (self._after,))]

    def entry(self, name: str) -> InboxEntry | None:
        """Return the document of an id, None without one. Raises: IndexCorrupt: it is damaged."""
        return _find(self._path, self._connection, name)

    def __del__(self) -> None:
        if self._connection is not None:
            self._connection.close()


class Inbox:
    """The inbox of an artifacts folder. Threads may share one; the constructor creates nothing."""

    def __init__(self, artifacts: Path) -> None:
        self.path = artifacts / database.FILE
        self.folder = artifacts / FOLDER
        """The folder of documents that were sent as files."""

    @property
    def sequence(self) -> int:
        """Number of the last change; 0 if there never was one. Raises: IndexCorrupt."""
        with database.reading(self.path) as connection:
            return _last(self.path, connection) if connection else 0

    def entry(self, name: str) -> InboxEntry | None:
        """Return the document of an id, None without one. Raises: IndexCorrupt: it is damaged."""
        with database.reading(self.path) as connection:
            return _find(self.path, connection, name)

    def holds(self, sequence: int) -> bool:
        """Return True if a document has this number. Raises: IndexCorrupt."""
        with database.reading(self.path) as connection:
            query = "SELECT 1 FROM documents WHERE sequence = ?"
            return connection is not None and connection.execute(query, (sequence,)).fetchone() is not None

    def snapshot(self) -> InboxSnapshot:
        """Return the documents of this moment. Raises: IndexCorrupt: the file is damaged."""
        connection = database.open_to_read(self.path)
        if connection is None:
            return InboxSnapshot(self.path, None)
        with database.translated(self.path):
            snapshot = InboxSnapshot(self.path, connection)
            (state,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if state != "ok":
                raise database.damaged(self.path, str(state))
        return snapshot

    def changes(self, after: int) -> InboxSnapshot:
        """Return the documents of this moment that changed after a number. Raises: IndexCorrupt."""
        connection = database.open_to_read(self.path)
        if connection is None:
            return InboxSnapshot(self.path, None)
        with database.translated(self.path):
            return InboxSnapshot(self.path, connection, after=after)

    def verify(self) -> int:
        """Read every document, and return their number. Raises: IndexCorrupt: one is damaged."""
        return sum(1 for _ in self.snapshot())

    def write(self, changes: Sequence[Change]) -> list[InboxOutcome]:
        """Apply changes in order, and return their effects once they are on the disk.

        Raises:
            Locked: other writers did not let this one in.
            IndexCorrupt: the file is not one of an inbox.
            UsageError: a document is too large.
            RetrieveError: the disk is full, or the folder cannot be written.
        """
        with database.writing(self.path) as connection:
            return [self._apply(connection, change) for change in changes]

    def _apply(self, connection: Connection, change: Change) -> InboxOutcome:
        former = _find(self.path, connection, change.id)
        foreign = former and change.tenant is not None and change.tenant != former.tenant
        if change.document is None and (former is None or foreign):
            return InboxOutcome("missing")
        if foreign:
            return InboxOutcome("taken")
        sequence = _last(self.path, connection) + 1
        if change.document is None:
            connection.execute("DELETE FROM documents WHERE id = ?", (change.id,))
            connection.execute("INSERT OR REPLACE INTO removed VALUES (?, ?)", (change.id, sequence))
            _set_last(connection, sequence)
            return InboxOutcome("removed", sequence)
        owner = former.tenant if former else change.tenant  # a tenant's document stays its own
        document = _normalized(change.id, change.document)
        entry = InboxEntry(sequence, change.id, owner, now(), document)
        if change.upload is not None:
            change.upload.keep()  # a file has its name before a document names it
            entry = entry._replace(file=change.upload.stored)
        if former and entry.content == former.content:
            return InboxOutcome("unchanged", former.sequence)
        _insert(connection, entry)
        _set_last(connection, sequence)
        return InboxOutcome("replaced" if former else "added", sequence)

    def copy_to(self, artifacts: Path) -> Inbox:
        """Return a copy in another folder, without the files. Raises: IndexCorrupt."""
        copy = Inbox(artifacts)
        with database.writing(copy.path) as connection:
            _replace(connection, self.snapshot())
        return copy

    def take_over(self, other: Inbox, *, same: bool) -> None:
        """Take the documents of an inbox that a snapshot had, in place of all, and its files.

        Nothing happens if the other one is empty, or if this one is the `same` at a later moment.

        Raises:
            UsageError: a document would be lost.
            Locked: other writers did not let this one in.
            RetrieveError: the disk is full, or the folder cannot be written.
        """
        theirs = other.snapshot()
        if not theirs.sequence or (same and self.sequence >= theirs.sequence):
            return
        with database.writing(self.path) as connection:
            self._expect_among(theirs, connection)
            for path in inbox_files.sent_files(other.folder):
                durable.make_folder(self.folder / inbox_files.FOLDER)
                path.replace(self.folder / inbox_files.FOLDER / path.name)
                durable.sync(self.folder / inbox_files.FOLDER)
            _replace(connection, theirs)

    def _expect_among(self, theirs: InboxSnapshot, connection: Connection) -> None:
        """Raises: UsageError: another inbox lacks a document of this one, or has another."""
        lost = 0
        for entry in _entries(self.path, connection):
            other = theirs.entry(entry.id)
            lost += other is None or other.content != entry.content
        if lost:
            them = f"{lost} documents" if lost > 1 else "a document"
            message = f"the snapshot lacks {them} of the inbox {self.path}; nothing was restored"
            away = f"or move the inbox away first: mv {self.path} DIR"
            raise UsageError(message, hint=f"restore into another folder: --artifacts DIR; {away}")

    def tidy(self, oldest: int | None) -> None:
        """Remove files that no document and no kept generation needs, and abandoned ones.

        `oldest` is the lowest number that one of the generations includes, None if none includes
        an inbox. Raises: OSError, RetrieveError: a file cannot be removed.
        """
        inbox_files.remove_abandoned(self.folder)
        if oldest is not None and self.path.exists():
            with database.writing(self.path) as connection:
                connection.execute("DELETE FROM removed WHERE sequence <= ?", (oldest,))
        files = inbox_files.sent_files(self.folder)
        if not files or not self.path.exists():
            return  # the documents of a lost inbox may come back
        # No other process writes meanwhile: no file has its name and waits for its document.
        with database.writing(self.path) as connection:
            entries = _entries(self.path, connection, "WHERE file IS NOT NULL")
            named = {entry.file.sha1 for entry in entries if entry.file}
            last = _last(self.path, connection)
            over = "DELETE FROM unused WHERE sha1 = ? AND (? IS NULL OR sequence <= ?)"
            for path in files:
                if path.name in named:
                    continue
                row = (path.name, last)
                connection.execute("INSERT OR IGNORE INTO unused VALUES (?, ?)", row)
                if connection.execute(over, (path.name, oldest, oldest)).rowcount:
                    path.unlink(missing_ok=True)


def _last(path: Path, connection: Connection) -> int:
    """Return the number of the last change. Raises: IndexCorrupt: a document has a higher one."""
    (highest,) = connection.execute("SELECT max(sequence) FROM documents").fetchone()
    row = connection.execute("SELECT value FROM state WHERE name = 'sequence'").fetchone()
    last = row[0] if row else 0
    if not isinstance(last, int) or last < (highest or 0):
        raise database.damaged(path, "the number of its last change is damaged")
    return last


def _set_last(connection: Connection, sequence: int) -> None:
    connection.execute("INSERT OR REPLACE INTO state VALUES ('sequence', ?)", (sequence,))


def _entries(path: Path, connection: Connection, where: str = "", *values: str | int) -> Iterator[InboxEntry]:
    """Yield documents in the order of their numbers. Raises: IndexCorrupt: one is damaged."""
    query = f"SELECT * FROM documents {where} ORDER BY sequence"  # noqa: S608  `where` is ours
    for row in connection.execute(query, values):
        entry = InboxEntry.of(row)
        if entry is None:
            raise database.damaged(path, f"the document {row[1]!r} is damaged")
        yield entry


def _find(path: Path, connection: Connection | None, name: str) -> InboxEntry | None:
    return next(_entries(path, connection, "WHERE id = ?", name), None) if connection else None


def _insert(connection: Connection, entry: InboxEntry) -> None:
    query = "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)"
    connection.execute(query, entry.row)
    connection.execute("DELETE FROM removed WHERE id = ?", (entry.id,))
    if entry.file is not None:
        connection.execute("DELETE FROM unused WHERE sha1 = ?", (entry.file.sha1,))


def _replace(connection: Connection, documents: InboxSnapshot) -> None:
    """Put others in the place of all documents. Raises: IndexCorrupt: one is damaged."""
    connection.execute("DELETE FROM documents")
    for entry in documents:
        _insert(connection, entry)
    _set_last(connection, documents.sequence)


def _object(text: str | bytes) -> Json:
    """Return an object of JSON; None if the text is something else."""
    import orjson

    try:
        value = orjson.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _normalized(name: str, document: bytes) -> bytes:
    """Return a document in the spelling of the inbox. Raises: UsageError: it is too large."""
    import orjson

    text = orjson.dumps(orjson.loads(document))
    if len(text) > LINE:
        size = f"{len(text) / 2**20:,.1f} MB; the limit is {LINE >> 20} MB"
        hint = "send its text as a file, or in parts"
        raise UsageError(f"the document {name!r} has {size}", hint=hint)
    return text


def sequence_of(manifest: Manifest) -> int:
    """Return the number of the last change that a generation includes; 0 without an inbox."""
    stamp = _built(manifest).get("stamp")
    return int(stamp[0]) if stamp else 0


def name_of(manifest: Manifest) -> str | None:
    """Return the name of the inbox among the sources of a generation; None if it is not there."""
    name = _built(manifest).get("origin", {}).get("name")
    return name if isinstance(name, str) else None


def _built(manifest: Manifest) -> Mapping[str, Json]:
    """Return the circumstances of the inbox in a manifest, whose types were checked, if any."""
    sources: Sequence[Mapping[str, Json]] = manifest.built.get("sources", ())
    kinds = ((source.get("origin", {}).get("kind"), source) for source in sources)
    return next((source for kind, source in kinds if kind == KIND), {})
