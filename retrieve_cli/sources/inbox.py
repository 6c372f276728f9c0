"""Documents that were added one at a time: the inbox of an index, read as a catalog of one record per document."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from retrieve_cli.contracts import Item, Json, Notice, Record, Refused, SourceKind
from retrieve_cli.errors import quoted
from retrieve_cli.sources.catalog import read_record
from retrieve_cli.sources.fields import FieldMap
from retrieve_cli.storage.inbox import KIND, Inbox, Snapshot
from retrieve_cli.storage.inbox_log import Entry
from retrieve_cli.storage.manifest import canonical
from retrieve_cli.terms.tenants import KEYS, TENANT, conflict

_EXCERPT = 200
"""Characters of a rejected document that the quarantine file keeps."""


class InboxSource:
    """The documents of an inbox, in the order of their last changes; the line of a record is its number there."""

    kind: SourceKind = "catalog"

    def __init__(self, inbox: Inbox, fields: FieldMap, *, name: str, id_prefix: str) -> None:
        self.name = name
        self._inbox = inbox
        self._fields = fields
        self._id_prefix = id_prefix
        self._snapshot: Snapshot | None = None

    @property
    def card(self) -> Mapping[str, Json]:
        return self._fields.card

    @property
    def origin(self) -> Mapping[str, Json]:
        return {"kind": KIND, "name": self.name, "id_prefix": self._id_prefix}

    def fetch(self) -> None:
        """Take the state of the inbox that this run reads; later changes wait for the next one."""
        self._snapshot = self._inbox.snapshot()

    def stamp(self) -> list[int]:
        """Return the number of the last entry that is included."""
        return [self._taken.sequence]

    def count(self) -> int:
        """Return the number of documents."""
        return len(self._taken)

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """Yield one item per document."""
        for line in self._taken.damaged:
            yield Notice(self.name, f"line {line} of {self._inbox.path} is damaged and skipped")
        prefix = hashlib.sha1(canonical([KIND, self.name, self._id_prefix]), usedforsecurity=False)
        for entry in self._taken:
            digest = prefix.copy()
            digest.update(canonical([entry.id, entry.tenant]))
            digest.update(entry.document)
            yield Item(digest.digest(), self.name, entry.sequence, partial(self._read, entry))

    def _read(self, entry: Entry) -> tuple[Record | Refused]:
        record = document_record(
            entry.document, self._fields, tenant=entry.tenant, source=self.name, number=entry.sequence
        )
        if isinstance(record, str):
            excerpt = entry.document[:_EXCERPT].decode("utf-8", "replace")
            return (Refused(self.name, entry.sequence, record, excerpt),)
        return (replace(record, id=self._id_prefix + entry.id),)

    @property
    def _taken(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = self._inbox.snapshot()
        return self._snapshot


def document_record(
    document: bytes, fields: FieldMap, *, tenant: str | None, source: str = KIND, number: int = 1
) -> Record | str:
    """Return the record of a document as a catalog's line would give it, or the reason why it is rejected.

    A document of a tenant may name that tenant and no other.
    """
    record = read_record(document, fields, source=source, number=number)
    if isinstance(record, str):
        return record
    named = {key: record.metadata.get(key) for key in KEYS}
    if reason := conflict(named):
        return reason
    if tenant is None:
        return record
    if conflict({**named, "credential": tenant}):
        stated = next(value for value in named.values() if value is not None)
        return f"it names the tenant {quoted(stated)}; this credential is for {quoted(tenant)}"
    return replace(record, metadata={**record.metadata, TENANT: tenant})
