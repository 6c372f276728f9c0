"""Documents that are added to an index one at a time, and removed: the same for the command line, HTTP and MCP.

    add -> validated as a line of a catalog, or a file of a known format -> inbox, on the disk -> sync -> a generation

The documents of a caller that has a tenant are the tenant's: their ids begin with its name and a colon, which is added
if it is missing. So tenants may use the same ids, no change of one meets a document of another, and nothing tells one
tenant of the ids of others.

Files that are sent as documents: their names, formats and metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

from retrieve_cli.api import contents
from retrieve_cli.api.live import Sequences
from retrieve_cli.assemble.documents import reader_of
from retrieve_cli.assemble.sources import inbox_entry, read_document
from retrieve_cli.contracts import HEAD, Json, Record
from retrieve_cli.contracts.terms import tenants
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import Conflict, NotFound, RetrieveError, UsageError, printable, quoted, shortened
from retrieve_cli.storage.inbox import LARGEST_FILE, Change, Inbox
from retrieve_cli.untrusted.foreign_json import is_deeper

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.api.live import LiveIndex
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import DocumentReader
    from retrieve_cli.storage.inbox import InboxEntry, StoredFile, Upload
    from retrieve_cli.storage.store import Store


MOST = 10_000
"""Documents of one call."""
Progress = Literal["queued", "processing", "processed", "rejected"]


class Status(NamedTuple):
    """State of a document on its way into the index."""

    id: str | None
    """Its id in the index; None if it was rejected before it had one."""
    sequence: int
    """Number of its last change; 0 if it was rejected at once."""
    status: Progress
    reason: str = ""
    """Reason for which it was rejected."""

    def to_json(self) -> dict[str, Json]:
        number = {"sequence": self.sequence} if self.sequence else {}
        return {"id": self.id, "status": self.status, **number, **({"reason": self.reason} if self.reason else {})}


class Receipt(NamedTuple):
    """Acknowledged changes: they are on the disk."""

    sequence: int
    """Number of the change that the index must include for all of them; 0 if nothing was stored."""
    documents: Sequence[Status]

    @property
    def rejected(self) -> list[Status]:
        """The documents that were not stored."""
        return [status for status in self.documents if status.status == "rejected"]

    def __repr__(self) -> str:
        rejected = f", {len(self.rejected):,} rejected" if self.rejected else ""
        return f"Receipt(sequence={self.sequence}, {count(len(self.documents), 'document')}{rejected})"


class Documents:
    """The documents of an index that were added one at a time. Threads may share one."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._reader = reader_of(settings)
        self.inbox = Inbox(store.path)
        self.sequences = Sequences(store)

    # ------------------------------------------------------------------------------------------ changes

    def add(self, documents: Sequence[bytes | Json], *, tenant: str | None) -> Receipt:
        """Store documents, each an object of JSON or the bytes of one; a later one replaces an earlier one of its id.

        One that could not be a line of a catalog is rejected with the reason, and the others are stored.

        Raises:
            UsageError: there are no documents, or too many.
            Locked, RetrieveError: nothing could be stored.
        """
        if not 0 < len(documents) <= MOST:
            raise UsageError(f"{len(documents):,} documents were sent", hint=f"send 1 to {MOST:,} at a time")
        return self.store_all([self.change(document, tenant) for document in documents], tenant)

    def add_files(
        self, uploads: Sequence[Upload], *, name: str | None, metadata: str | None, tenant: str | None
    ) -> Receipt:
        """Store files as documents. Their ids are their names; `name` names a single
        file. `metadata`, a JSON object, applies to each file.

        A file in no known format is rejected with the reason, and the others are stored; one that turns out to be
        damaged is rejected by the sync.

        Raises:
            UsageError: there are no files, or several with one `name`, or the metadata is invalid.
            Locked, RetrieveError: nothing could be stored.
        """
        if not uploads:
            raise UsageError("no file was sent", hint="curl -F file=@paper.pdf URL/documents")
        if name is not None and len(uploads) > 1:
            raise UsageError("`id` is the id of one file, and several were sent", hint="send each in its own request")
        given = read_metadata(metadata, tenant=tenant)
        changes = [file_change(upload, name, given, reader=self._reader, tenant=tenant) for upload in uploads]
        seen: set[str] = set()
        for place, change in enumerate(changes):
            if isinstance(change, Change):
                if change.id in seen:
                    changes[place] = "another file of this request has the same name; send it on its own with an `id`"
                seen.add(change.id)
        return self.store_all(changes, tenant)

    def store_all(self, wanted: Sequence[Change | str], tenant: str | None) -> Receipt:
        """Store changes, and report those that are rejected with their reasons."""
        outcomes = iter(self.inbox.write(changes) if (changes := [c for c in wanted if isinstance(c, Change)]) else ())
        statuses = []
        for change in wanted:
            if isinstance(change, str):
                statuses.append(Status(None, 0, "rejected", change))
                continue
            name, outcome = self._prefix + change.id, next(outcomes)
            if outcome.kind == "taken":
                statuses.append(Status(name, 0, "rejected", "its id is not available"))
            else:
                statuses.append(Status(name, outcome.sequence, "queued"))
        last = max((status.sequence for status in statuses), default=0)
        return Receipt(last, self.settled(statuses, tenant=tenant))

    def remove(self, *record_ids: str, tenant: str | None, index: Index | None) -> Receipt:
        """Remove documents: all of them at once or, after an error, none.

        Raises:
            NotFound: the caller has no document with one of the ids.
            Conflict: a record comes from another source.
        """
        changes: dict[str, Change] = {}
        for record_id in (self._id_of(name, tenant, index) for name in record_ids):
            entries = (self.inbox.changes().entry(name) for name in self._names(record_id, tenant))
            own = next((entry for entry in entries if entry is not None and tenant in (None, entry.tenant)), None)
            if own is None:
                _, record = self._record(record_id, tenant, index)
                if record is None or record["source"] == self.sequences.name():
                    raise contents.no_record(record_id)
                origin = quoted(record["source"])
                message = f"the record {quoted(record_id)} was not added as a document: it comes from {origin}"
                raise Conflict(message, hint="remove it there, then sync")
            changes[own.id] = Change(own.id, tenant, None)
        outcomes = zip(changes, self.inbox.write(list(changes.values())), strict=True)
        statuses = [Status(self._prefix + name, outcome.sequence, "queued") for name, outcome in outcomes]
        last = max((status.sequence for status in statuses), default=0)
        return Receipt(last, self.settled(statuses, tenant=tenant))

    # ------------------------------------------------------------------------------------------- states

    def state(self, record_id: str, *, tenant: str | None, index: Index | None) -> dict[str, Json]:
        """Return the record of an id in the index, the document that was added, and its status.

        Raises:
            NotFound: the caller has neither.
        """
        record_id = self._id_of(record_id, tenant, index)
        entry = self._entry(record_id, tenant)
        name, record = self._record(record_id, tenant, index)
        if entry is None:
            if record is None or record["source"] == self.sequences.name():  # removed, and not synced yet
                raise contents.no_record(record_id)
            return {"id": name, "status": "processed", "source": record["source"], "record": record}
        import orjson

        (status,) = self.settled([Status(self._prefix + entry.id, entry.sequence, "queued")], tenant=tenant)
        added = {"added": entry.at, "document": orjson.loads(entry.document)}
        if entry.file is not None:
            added["file"] = entry.file.to_json()
        source = self.sequences.name() or inbox_entry(self._settings, None).name
        return {**status.to_json(), "source": source, **added, "record": record}

    def original(self, record_id: str, *, tenant: str | None) -> tuple[StoredFile, IO[bytes]]:
        """Return the file that was sent as a document, open for reading.

        Raises:
            NotFound: the caller does not have the document, or it was not sent as a file.
            IndexCorrupt: it has changed since it was sent.
        """
        entry = self._entry(record_id, tenant)
        if entry is None or entry.file is None:
            raise no_file(record_id)
        return entry.file, self.inbox.changes().file(entry.file)

    def settled(self, statuses: Sequence[Status], *, tenant: str | None, processing: int = 0) -> list[Status]:
        """Return the current statuses; a sync of all changes up to `processing` is under way."""
        included, reasons = self.sequences.included(), self.sequences.rejections()
        return [
            status
            if not status.sequence
            else _settled(status, reasons.get(status.sequence), tenant)
            if status.sequence <= included
            else status._replace(status="processing" if status.sequence <= processing else "queued")
            for status in statuses
        ]

    @property
    def _prefix(self) -> str:
        """The beginning of ids that the configuration gives to the inbox."""
        return inbox_entry(self._settings, None).id_prefix

    def change(self, document: bytes | Json, tenant: str | None) -> Change | str:
        """Return the change that stores a document, or the reason why it is rejected."""
        import orjson

        try:
            line = document if isinstance(document, bytes) else orjson.dumps(document)
        except TypeError as error:
            return "it is nested too deeply" if "ecursion" in str(error) else f"it is not JSON ({error})"
        record = read_document(line, self._settings, tenant=tenant)
        return record if isinstance(record, str) else Change(own_id(record.id, tenant), tenant, line)

    def _names(self, record_id: str, tenant: str | None) -> Iterator[str]:
        if self._prefix and record_id.startswith(self._prefix):
            yield own_id(record_id.removeprefix(self._prefix), tenant)
        yield own_id(record_id, tenant)

    def _entry(self, record_id: str, tenant: str | None) -> InboxEntry | None:
        """Return the document of an id, if it exists for the caller."""
        for name in dict.fromkeys([*self._names(record_id, tenant), record_id.removeprefix(self._prefix)]):
            entry = self.inbox.changes().entry(name)
            if entry is not None and (tenant is None or tenant in self._owners(entry)):
                return entry
        return None

    def _owners(self, entry: InboxEntry) -> frozenset[str]:
        if entry.file is None:
            record = read_document(entry.document, self._settings, tenant=entry.tenant)
            return tenants.of(record.metadata) if isinstance(record, Record) else frozenset()
        import orjson

        metadata = orjson.loads(entry.document).get("metadata")
        named = tenants.of(metadata) if isinstance(metadata, dict) else frozenset()
        return named if entry.tenant is None else frozenset((entry.tenant,))

    def _id_of(self, name: str, tenant: str | None, index: Index | None) -> str:
        """Return the id of the document or record of this id, or else of this unique name."""
        record = None if self._entry(name, tenant) else self._record(name, tenant, index)[1]
        return name if record is None else str(record["id"])

    def _record(self, record_id: str, tenant: str | None, index: Index | None) -> tuple[str, dict[str, Json] | None]:
        """Return the id of a record in the index, and the record, if it exists for the caller."""
        if index is not None:
            for name in dict.fromkeys([*(self._prefix + name for name in self._names(record_id, tenant)), record_id]):
                try:
                    return name, contents.record(index, name, tenant=tenant)
                except NotFound:
                    continue
        return record_id, None


def index_of(live: LiveIndex) -> Index | None:
    """Return the index that answers; None until an index is open."""
    try:
        return live.index
    except RetrieveError:
        return None


def _settled(status: Status, reason: str | None, tenant: str | None) -> Status:
    """Return the status of a document that a sync has read, given the reason if it was rejected."""
    if reason is None:
        return status._replace(status="processed")
    if tenant is not None and reason.startswith("duplicate id"):
        reason = "its id is not available"  # the reason names the place of a record of somebody else
    return status._replace(status="rejected", reason=reason)


_LONGEST_NAME = 200
_LONGEST_ID = 1000
_DEEPEST = 32
"""Levels of metadata."""


def own_id(name: str, tenant: str | None) -> str:
    """Return the id of a caller's document. The id of a tenant's document begins with the tenant's name and a colon; a
    colon in the tenant's name is escaped."""
    if tenant is None:
        return name
    prefix = tenant.replace("%", "%25").replace(":", "%3A") + ":"
    return name if name.startswith(prefix) else prefix + name


def file_name(given: str) -> str:
    """Return the name of a file that was sent, without folders and characters that no name should have; empty if it has
    none. Its ending stays."""
    name = printable(given.replace("\\", "/").rpartition("/")[2]).strip()
    if name.strip(".") == "":
        return ""
    stem, dot, ending = name.rpartition(".")
    short = dot and len(ending) < 20
    return name if len(name) <= _LONGEST_NAME else f"{stem[:_LONGEST_NAME]}.{ending}" if short else name[:_LONGEST_NAME]


def file_change(
    upload: Upload, name: str | None, metadata: dict[str, Json], *, reader: DocumentReader, tenant: str | None
) -> Change | str:
    """Return the change that stores a file, or the reason why it is rejected."""
    import orjson

    upload.name = file_name(upload.name)
    if not upload.name:
        return "it has no file name"
    if name is not None and (not name.strip() or len(name) > _LONGEST_ID):
        return f"its `id` must have 1 to {_LONGEST_ID} characters"
    if not upload.size:
        return "it is empty"
    kind = reader.format_of(upload.name, upload.head(HEAD))
    if kind is None:
        return f"{shortened(upload.name)} is not a document; formats: {', '.join(reader.formats)}"
    if reason := reader.lacks(kind):
        return reason
    if upload.size > (most := min(reader.max_bytes(kind), LARGEST_FILE)):
        return f"it has {upload.size / 2**20:,.1f} MB; the limit is {most / 2**20:,.0f} MB"
    document = orjson.dumps({"metadata": metadata} if metadata else {})
    return Change(own_id(printable(name or upload.name), tenant), tenant, document, upload)


def read_metadata(given: str | None, *, tenant: str | None) -> dict[str, Json]:
    """Return the metadata that was sent with files.

    Raises:
        UsageError: it is not an object of JSON, is nested too deeply, or names another tenant than the caller's.
    """
    import orjson

    hint = 'metadata={"title": "…", "group": "…"}'
    try:
        value = orjson.loads(given or "{}")
    except ValueError as error:
        raise UsageError(f"`metadata` is not JSON: {error}", hint=hint) from None
    if not isinstance(value, dict):
        raise UsageError("`metadata` must be an object of JSON", hint=hint)
    if is_deeper(value, _DEEPEST):
        raise UsageError(f"`metadata` is nested deeper than {_DEEPEST} levels", hint=hint)
    if "file" in value:
        raise UsageError("`metadata` may not have the key `file`, which describes the file itself", hint=hint)
    if reason := tenants.conflict_in(value):
        raise UsageError(f"`metadata`: {reason}")
    named = tenants.of(value)
    if tenant is not None and not named <= {tenant}:
        other = quoted(min(named - {tenant}))
        raise UsageError(f"`metadata` names the tenant {other}; this credential is for {quoted(tenant)}")
    return value


def no_file(record_id: str) -> NotFound:
    """Return the error for a record without a file that was sent, or one that does not exist for the caller."""
    return NotFound(f"there is no file of {quoted(record_id)}", hint="list the documents: GET /documents")
