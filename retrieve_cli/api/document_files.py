"""Files that are sent as documents: their names, formats and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import tenants
from retrieve_cli.errors import NotFound, UsageError, printable, quoted, shortened
from retrieve_cli.storage.inbox import Change
from retrieve_cli.untrusted.foreign_json import is_deeper

if TYPE_CHECKING:
    from retrieve_cli.contracts import DocumentReader
    from retrieve_cli.storage.inbox_files import Upload
    from retrieve_cli.storage.inbox_log import InboxEntry

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
    kind = reader.format_of(upload.name, upload.head)
    if kind is None:
        return f"{shortened(upload.name)} is not a document; formats: {', '.join(reader.formats)}"
    if reason := reader.lacks(kind):
        return reason
    if upload.size > (most := reader.max_bytes(kind)):
        return f"it has {upload.size / 2**20:,.1f} MB; the limit is {most / 2**20:,.0f} MB"
    document = orjson.dumps({"metadata": metadata} if metadata else {})
    return Change(own_id(printable(name or upload.name), tenant), tenant, document, upload)


def read_metadata(given: bytes | None, *, tenant: str | None) -> dict[str, Json]:
    """Return the metadata that was sent with files.

    Raises:
        UsageError: it is not an object of JSON, is nested too deeply, or names another tenant than the caller's.
    """
    import orjson

    hint = 'metadata={"title": "…", "group": "…"}'
    try:
        value = orjson.loads(given or b"{}")
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


def tenants_of_file(entry: InboxEntry) -> frozenset[str]:
    """Return the tenants that may see a file of the inbox."""
    import orjson

    metadata = orjson.loads(entry.document).get("metadata")
    named = tenants.of(metadata) if isinstance(metadata, dict) else frozenset()
    return named if entry.tenant is None else frozenset((entry.tenant,))


def no_file(record_id: str) -> NotFound:
    """Return the error for a record without a file that was sent, or one that does not exist for the caller."""
    return NotFound(f"there is no file of {quoted(record_id)}", hint="list the documents: GET /documents")
