"""The inbox: documents that were added one at a time, or sent as files, in `inbox.db` beside the index.

Each change has a number, one above the last: the sequence. A later document of an id replaces the
earlier one. The state after the last change is the source that builds and syncs read. A document
is stored with its SHA-1, because the inbox is its only copy. Any number of processes may write,
one at a time. A file that no document names any more is removed by the next publication: until
then, the current generation shows pages of it.
"""

from __future__ import annotations

import hashlib
import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.storage import database
from retrieve_cli.storage.lock import now
from retrieve_cli.storage.manifest import Count, Manifest, Sha1, canonical
from retrieve_cli.untrusted.files import LINE

if TYPE_CHECKING:
    from sqlite3 import Blob, Connection

KIND = "inbox"
LARGEST_FILE = 900 << 20
"""Bytes of a file: SQLite stores values below 1,000,000,000 bytes."""
Kind = Literal["added", "replaced", "unchanged", "removed", "missing", "taken"]


class StoredFile(Frozen, forbid_unknown_fields=True):
    """The file of a document in the inbox, as its entry names it."""

    name: Annotated[str, Meta(min_length=1, max_length=1000)]
    """Name that its sender gave it, without folders."""
    sha1: Sha1
    size: Count

    def to_json(self) -> dict[str, Json]:
        return asdict(self)

    @classmethod
    def of(cls, value: Json) -> StoredFile | None:
        """Return the file that the metadata of a record describe; None if they describe none."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError:
            return None


class Upload:
    """A file that was received, open for reading."""

    def __init__(self, content: IO[bytes], name: str) -> None:
        self.content, self.name = content, name
        content.seek(0)
        self._sha1 = _sha1_of(content)
        self.size = content.tell()

    def head(self, length: int) -> bytes:
        """Return the first bytes."""
        self.content.seek(0)
        return self.content.read(length)

    @property
    def stored(self) -> StoredFile:
        """The file as an entry names it."""
        return StoredFile(self.name, self._sha1, self.size)


class Change(NamedTuple):
    """One change of the inbox that is asked for."""

    id: str
    tenant: str | None
    """Tenant that asks for it; None: one that may change the documents of all."""
    document: bytes | None
    """The document as JSON; None removes it."""
    upload: Upload | None = None
    """The file that is the document; `document` then describes it."""


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
    def of(cls, row: Sequence[Any]) -> InboxEntry:
        """Return the document of a row, which may come from anybody. Raises: ValueError: it is damaged."""
        *values, name, file, size, sha1 = row
        stored = None if file is None else {"name": name, "sha1": file, "size": size}
        try:
            entry = msgspec.convert([*values, stored], cls)
            msgspec.json.decode(entry.document, type=dict)
        except (msgspec.MsgspecError, TypeError, RecursionError) as error:
            raise ValueError(str(error)) from error
        if entry.sha1 != sha1:
            raise ValueError("it has another SHA-1")
        return entry

    @property
    def row(self) -> tuple[object, ...]:
        """The values of the table's columns."""
        file = (self.file.name, self.file.sha1, self.file.size) if self.file else (None, None, None)
        return *self[:5], *file, self.sha1

    @property
    def sha1(self) -> str:
        """SHA-1 of all parts."""
        head = canonical([*self[:4], self.file.to_json() if self.file else None])
        return hashlib.sha1(head + self.document, usedforsecurity=False).hexdigest()

    @property
    def content(self) -> tuple[object, ...]:
        """Everything but the number and the time."""
        return self.id, self.tenant, self.document, self.file


class InboxSnapshot:
    """The documents of one moment, or those that changed after a number, in the order of their numbers.

    Reading raises: IndexCorrupt: the file is damaged.
    """

    def __init__(self, path: Path, connection: Connection | None, *, after: int = 0) -> None:
        """Without a connection there are no documents."""
        self._path, self._connection, self._after = path, connection, after
        last = self._rows("SELECT max(sequence) FROM documents")
        self.sequence = next((int(number) for (number,) in last if number is not None), 0)
        """Number of the last change that is included."""

    def __len__(self) -> int:
        query = "SELECT count(*) FROM documents WHERE sequence > ? AND document NOT NULL"
        counted = self._rows(query, self._after)
        return next((int(number) for (number,) in counted), 0)

    def __iter__(self) -> Iterator[InboxEntry]:
        return self._entries("sequence > ?", self._after)

    @property
    def removed(self) -> list[str]:
        """Ids of the documents that were removed after the number."""
        query = "SELECT id FROM documents WHERE sequence > ? AND document IS NULL ORDER BY sequence"
        return [str(name) for (name,) in self._rows(query, self._after)]

    def entry(self, name: str) -> InboxEntry | None:
        """Return the document of an id, None without one."""
        return next(self._entries("id = ?", name), None)

    def file_head(self, file: StoredFile, length: int) -> bytes:
        """Return the first bytes of the file of a document."""
        with self._blob(file) as blob:
            return blob.read(length)

    def file(self, file: StoredFile) -> IO[bytes]:
        """Return a copy of the file of a document, open for reading, which is removed when it is closed. Raises:
        IndexCorrupt: its bytes are not those that were sent."""
        from tempfile import NamedTemporaryFile  # a query does without it

        copy = NamedTemporaryFile(prefix="retrieve-")  # noqa: SIM115  the caller closes it
        with self._blob(file) as blob:
            shutil.copyfileobj(blob, copy)
        copy.seek(0)
        if _sha1_of(copy) != file.sha1:
            copy.close()
            raise database.damaged(self._path, f"{file.sha1} ({quoted(file.name)}) differs from the sent file")
        copy.seek(0)
        return copy

    def _blob(self, file: StoredFile) -> Blob:
        """Return the content of a file. Raises: IndexCorrupt: it is missing."""
        rows = self._rows("SELECT rowid FROM files WHERE sha1 = ?", file.sha1)
        row = next((number for (number,) in rows), None)
        if row is None or self._connection is None:
            raise database.damaged(self._path, f"the file {file.sha1} ({quoted(file.name)}) is missing")
        with database.translated(self._path):
            return self._connection.blobopen("files", "content", row, readonly=True)

    def holds(self, sequence: int) -> bool:
        """Return True if a document has this number."""
        return any(True for _ in self._entries("sequence = ?", sequence))

    def expect_integrity(self) -> None:
        """Check the pages of the file."""
        for (state,) in self._rows("PRAGMA integrity_check(1)"):
            if state != "ok":
                raise database.damaged(self._path, str(state))

    def _entries(self, where: str, value: str | int) -> Iterator[InboxEntry]:
        query = f"SELECT * FROM documents WHERE {where} AND document NOT NULL ORDER BY sequence"  # noqa: S608  ours
        for row in self._rows(query, value):
            try:
                yield InboxEntry.of(row)
            except ValueError as error:
                raise database.damaged(self._path, f"the document {row[1]!r} is damaged ({error})") from error

    def _rows(self, query: str, *values: str | int) -> Iterator[Sequence[Any]]:
        if self._connection is not None:
            with database.translated(self._path):
                yield from self._connection.execute(query, values)


class Inbox:
    """The inbox of an artifacts folder. Threads may share one; the constructor creates nothing."""

    def __init__(self, artifacts: Path) -> None:
        self.path = artifacts / database.FILE

    @property
    def sequence(self) -> int:
        """Number of the last change; 0 if there never was one. Raises: IndexCorrupt."""
        return self.changes().sequence

    def changes(self, after: int = 0) -> InboxSnapshot:
        """Return the documents of this moment that changed after a number. Raises: IndexCorrupt."""
        connection = database.open_to_read(self.path)
        snapshot = InboxSnapshot(self.path, connection, after=after)
        if connection is not None:
            weakref.finalize(snapshot, connection.close)
        return snapshot

    def snapshot(self) -> InboxSnapshot:
        """Return the documents of this moment, from a sound file. Raises: IndexCorrupt."""
        snapshot = self.changes()
        snapshot.expect_integrity()
        return snapshot

    def verify(self) -> int:
        """Read every document and file, and return the number of documents. Raises: IndexCorrupt: one is damaged."""
        snapshot = self.snapshot()
        for entry in snapshot:
            if entry.file:
                snapshot.file(entry.file).close()
        return len(snapshot)

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
        before = InboxSnapshot(self.path, connection)
        former = before.entry(change.id)
        foreign = former and change.tenant is not None and change.tenant != former.tenant
        if change.document is None and (former is None or foreign):
            return InboxOutcome("missing")
        if foreign:
            return InboxOutcome("taken")
        sequence = before.sequence + 1
        if change.document is None:
            _insert_removal(connection, change.id, sequence)
            return InboxOutcome("removed", sequence)
        owner = former.tenant if former else change.tenant  # a tenant's document stays its own
        document = _normalized(change.id, change.document)
        entry = InboxEntry(sequence, change.id, owner, now(), document)
        if change.upload is not None:
            entry = entry._replace(file=change.upload.stored)
            _insert_file(connection, change.upload)
        if former and entry.content == former.content:
            return InboxOutcome("unchanged", former.sequence)
        _insert(connection, entry)
        return InboxOutcome("replaced" if former else "added", sequence)

    def copy_to(self, artifacts: Path) -> Inbox:
        """Return a copy in another folder. Raises: IndexCorrupt."""
        copy = Inbox(artifacts)
        with database.writing(copy.path) as connection:
            _replace(connection, self.snapshot())
        return copy

    def take_over(self, other: Inbox, *, same: bool) -> None:
        """Take the documents of an inbox that a snapshot had, in place of all.

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
            ours = [(entry, theirs.entry(entry.id)) for entry in InboxSnapshot(self.path, connection)]
            lost = sum(1 for own, found in ours if found is None or own.content != found.content)
            if lost:
                them = f"{lost} documents" if lost > 1 else "a document"
                message = f"the snapshot lacks {them} of the inbox {self.path}; nothing was restored"
                away = f"or move the inbox away first: mv {self.path} DIR"
                raise UsageError(message, hint=f"restore into another folder: --artifacts DIR; {away}")
            _replace(connection, theirs)

    def tidy(self, oldest: int | None) -> None:
        """Remove files that no document names, and the removals that every kept generation includes; the last number
        stays.

        `oldest` is the lowest number that one of the generations includes, None if none includes
        an inbox. Raises: OSError, RetrieveError: a file cannot be removed.
        """
        if not self.path.exists():
            return  # the documents of a lost inbox may come back
        named = "SELECT file FROM documents WHERE file NOT NULL"
        with database.writing(self.path) as connection:
            connection.execute(f"DELETE FROM files WHERE sha1 NOT IN ({named})")  # noqa: S608  `named` is ours
            connection.execute(
                "DELETE FROM documents WHERE document IS NULL AND sequence <= ? "
                "AND sequence < (SELECT max(sequence) FROM documents)",
                (oldest or 0,),
            )


def _insert(connection: Connection, entry: InboxEntry) -> None:
    query = "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    connection.execute(query, entry.row)


def _insert_removal(connection: Connection, name: str, sequence: int) -> None:
    """Put a removal in the place of a document: its row without content."""
    connection.execute("INSERT OR REPLACE INTO documents (sequence, id) VALUES (?, ?)", (sequence, name))


def _insert_file(connection: Connection, upload: Upload) -> None:
    """Store the file of a document, piece by piece."""
    query = "INSERT OR REPLACE INTO files VALUES (?, zeroblob(?))"
    row = connection.execute(query, (upload.stored.sha1, upload.size)).lastrowid
    upload.content.seek(0)
    with connection.blobopen("files", "content", row or 0) as blob:
        shutil.copyfileobj(upload.content, blob)


def _sha1_of(content: IO[bytes]) -> str:
    """Return the SHA-1 of the rest of a file, 40 hex digits."""
    digest = hashlib.sha1(usedforsecurity=False)
    for piece in iter(partial(content.read, 1 << 18), b""):
        digest.update(piece)
    return digest.hexdigest()


def _replace(connection: Connection, documents: InboxSnapshot) -> None:
    """Put others in the place of all documents. Raises: IndexCorrupt: one is damaged."""
    connection.execute("DELETE FROM documents")
    for entry in documents:
        _insert(connection, entry)
        if entry.file:
            with documents.file(entry.file) as content:
                _insert_file(connection, Upload(content, entry.file.name))
    if not documents.holds(documents.sequence):  # the last change was a removal
        _insert_removal(connection, "", documents.sequence)


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
