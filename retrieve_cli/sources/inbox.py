"""Documents that were added one at a time: the inbox of an index, read as a catalog of one record per document.

Documents that were sent as files are parsed as the files of a folder are.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.contracts import (
    HEAD,
    DocumentFile,
    DocumentReader,
    Item,
    Json,
    Notice,
    Reading,
    Record,
    Refused,
    SourceKind,
)
from retrieve_cli.contracts.terms.tenants import KEYS, TENANT, conflict
from retrieve_cli.errors import BadDocument, IndexCorrupt, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.sources.catalogs.catalog import CatalogReading, read_record
from retrieve_cli.sources.fields import FieldMap
from retrieve_cli.sources.freshness import Unwatched
from retrieve_cli.sources.parsed_record import parsed_record
from retrieve_cli.storage.inbox import KIND, Inbox, InboxEntry, InboxSnapshot, StoredFile
from retrieve_cli.storage.manifest import canonical

_MARKDOWN, _PLAIN = "text/markdown", "text/plain"
_EXCERPT = 200
"""Characters of a rejected document that the quarantine file keeps."""

FILE = "file"
"""Metadata of a document that was sent as a file: its name, SHA-1 and size."""


class Parsing(NamedTuple):
    """Reading of documents that were sent as files."""

    reader: DocumentReader
    name_weight: float


class InboxSource:
    """The documents of an inbox, in the order of their last changes; the line of a record is its number there."""

    kind: SourceKind = "catalog"

    def __init__(self, inbox: Inbox, fields: FieldMap, *, parsing: Parsing, name: str, id_prefix: str) -> None:
        self.name = name
        self._inbox = inbox
        self._parsing = parsing
        self._fields = fields
        self._id_prefix = id_prefix
        self._snapshot: InboxSnapshot | None = None
        self._documents: bool | None = None

    @property
    def card(self) -> Mapping[str, Json]:
        return self._fields.card

    @property
    def origin(self) -> Mapping[str, Json]:
        return {"kind": KIND, "name": self.name, "id_prefix": self._id_prefix}

    @property
    def kinds(self) -> Sequence[SourceKind]:
        """Kinds of its records: `docs` only if one was sent as a file, or may have a text of several lines."""
        if self._documents is None:
            self._documents = any(entry.file or _lines(entry.document) for entry in self._taken)
        return ("catalog", "docs") if self._documents else ("catalog",)

    def fetch(self) -> None:
        """Take the state of the inbox that this run reads, unless it was needed before; later changes wait for the
        next one."""
        _ = self._taken

    def take_changes(self, after: int) -> Sequence[str]:
        """Take only the documents that changed after a number; return the ids of all records that changed, or went."""
        taken = self._inbox.changes(after)
        self._snapshot, self._documents = taken, None
        return [self._id_prefix + name for name in (*taken.removed, *(entry.id for entry in taken))]

    def holds(self, number: int) -> bool:
        """Return True if a document has this number."""
        return self._inbox.changes().holds(number)

    def stamp(self) -> list[int]:
        """Return the number of the last entry that is included."""
        return [self._taken.sequence]

    def count(self) -> int:
        """Return the number of documents."""
        return len(self._taken)

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """Yield one item per document."""
        prefix = hashlib.sha1(canonical([KIND, self.name, self._id_prefix]), usedforsecurity=False)
        for entry in self._taken:
            digest = prefix.copy()
            digest.update(canonical([entry.id, entry.tenant]))
            digest.update(entry.document)
            if entry.file is None:
                yield Item(digest.digest(), self.name, entry.sequence, partial(self._read, entry))
                continue
            document = _Document(entry, entry.file, self._taken, self._parsing)
            digest.update(canonical(document.card))
            read = partial(self._read_file, document)
            yield Item(digest.digest(), self.name, entry.sequence, read, document.begin)

    def _read(self, entry: InboxEntry) -> tuple[Record | Refused]:
        number, document = entry.sequence, entry.document
        record = document_record(document, self._fields, tenant=entry.tenant, source=self.name, number=number)
        if isinstance(record, str):
            return (Refused(self.name, number, record, document[:_EXCERPT].decode("utf-8", "replace")),)
        return (replace(record, id=self._id_prefix + entry.id),)

    def _read_file(self, document: _Document) -> Iterator[Record | Refused | Notice]:
        """Yield the record of a file, and notices about it."""
        entry = document.entry
        try:
            record = document.record(id_=self._id_prefix + entry.id, source=self.name)
        except BadDocument as error:
            record = f"{error.message}; {error.hint}" if error.hint else error.message
        for notice in document.notices:
            yield Notice(self.name, f"{document.file.name}: {notice}")
        if isinstance(record, str):
            yield Refused(self.name, entry.sequence, record, document.file.name)
        else:
            yield record

    @property
    def _taken(self) -> InboxSnapshot:
        if self._snapshot is None:
            self._snapshot = self._inbox.snapshot()
        return self._snapshot


class _Document:
    """A document that was sent as a file."""

    def __init__(self, entry: InboxEntry, file: StoredFile, inbox: InboxSnapshot, parsing: Parsing) -> None:
        """Raises: IndexCorrupt: its file is missing."""
        self.entry, self.file = entry, file
        self.notices: Sequence[str] = ()
        self._inbox, self._parsing = inbox, parsing
        self._reading: tuple[Reading, DocumentFile] | None = None
        self._kind = parsing.reader.format_of(file.name, inbox.file_head(file, HEAD)) or ""

    @property
    def card(self) -> Json:
        """Everything outside its entry that decides its record."""
        card = dict(self._parsing.reader.card(self._kind)) if self._kind else {}
        return [FILE, self.file.name, self.file.sha1, self._kind, card, self._parsing.name_weight]

    def begin(self) -> None:
        """Begin to parse it, perhaps in another process. Raises: IndexCorrupt: its file is damaged."""
        if self._reading is None and self._kind and not self._parsing.reader.lacks(self._kind):
            copy = _copy_of(self.file, self._inbox)
            self._reading = self._parsing.reader.begin(copy, self._kind, name=self.file.name), copy

    def record(self, *, id_: str, source: str) -> Record | str:
        """Return its record, or the reason why it is rejected. Raises: BadDocument: it cannot be read."""
        self.begin()
        begun, self._reading = self._reading, None
        if begun is None:
            return self._parsing.reader.lacks(self._kind) if self._kind else "it is not a document of a known format"
        parsed = begun[0].result()
        self.notices = parsed.notices
        value, tenant = _item(self.entry.document).get("metadata"), self.entry.tenant
        metadata = value if isinstance(value, dict) else {}
        if reason := of_tenant(metadata, tenant):
            return reason
        owner = {} if tenant is None else {TENANT: tenant}
        whole = replace(parsed, metadata={**parsed.metadata, **metadata, **owner, FILE: self.file.to_json()})
        weight, number = self._parsing.name_weight, self.entry.sequence
        return parsed_record(whole, self.file.name, self._kind, id_=id_, name_weight=weight, source=source, line=number)


def _copy_of(file: StoredFile, inbox: InboxSnapshot) -> DocumentFile:
    """Return a file that was sent, which stays as long as this value. Raises: IndexCorrupt, OSError."""
    copy = inbox.file(file)
    return DocumentFile(Path(copy.name), bytes.fromhex(file.sha1), held=copy)


def document_record(
    document: bytes, fields: FieldMap, *, tenant: str | None, source: str = KIND, number: int = 1
) -> Record | str:
    """Return the record of a document as a catalog's line would give it, or the reason why it is rejected.

    A `text` of several lines is Markdown, unless `media_type` names another format: a document with sections, like a
    file. A document of a tenant may name only that tenant.
    """
    record = read_record(document, CatalogReading(fields), source=source, number=number)
    if isinstance(record, str):
        return record
    if reason := of_tenant(record.metadata, tenant):
        return reason
    media = record.metadata.get("media_type") or _MARKDOWN
    if media not in (_MARKDOWN, _PLAIN):
        return f"its media_type is {quoted(str(media))}; a text is {_MARKDOWN} or {_PLAIN}: send other formats as files"
    if media == _MARKDOWN and _lines(document) and isinstance(text := _item(document).get("text"), str):
        record = replace(record, kind="markdown", text=text.replace("\0", " "), description="")
    return record if tenant is None else replace(record, metadata={**record.metadata, TENANT: tenant})


def _lines(document: bytes) -> bool:
    """Return True if a document may have a text of several lines."""
    return b'"text"' in document and b"\\n" in document


def _item(document: bytes) -> dict[str, Json]:
    import orjson

    value = orjson.loads(document)
    return value if isinstance(value, dict) else {}


def of_tenant(metadata: Mapping[str, Json], tenant: str | None) -> str:
    """Return the reason to reject the document of a tenant with this metadata; empty if it is accepted."""
    named = {key: metadata.get(key) for key in KEYS}
    if (reason := conflict(named)) or tenant is None:
        return reason
    if conflict({**named, "credential": tenant}):
        stated = next(value for value in named.values() if value is not None)
        return f"it names the tenant {quoted(stated)}; this credential is for {quoted(tenant)}"
    return ""


class WatchedInbox(Unwatched):
    """`contracts.Watched` of the inbox in a folder."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def original(self, record: Mapping[str, Json], digest: bytes) -> DocumentFile | None:  # noqa: ARG002  its name is a digest
        """Return a file that was sent. Raises: OSError if it is gone."""
        file = StoredFile.of(record["metadata"].get("file"))
        if file is None:
            return None
        try:
            return _copy_of(file, self._inbox.changes())
        except IndexCorrupt as error:
            raise FileNotFoundError(errno.ENOENT, error.message) from error
