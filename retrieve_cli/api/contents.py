"""Contents of an open index for a caller: records that another tenant has do not exist for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import NotFound, UsageError, quoted
from retrieve_cli.search.access import of_tenant_or_none
from retrieve_cli.storage.records.rows import shown_row

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.contracts import Mask
    from retrieve_cli.storage.generation import Generation


class RecordPage(NamedTuple):
    """A page of a list of records."""

    records: list[dict[str, Json]]
    total: int
    """Number of records on all pages."""
    following: str | None
    """Cursor of the next page; None after the last one."""


def record(index: Index, record_id: str, *, tenant: str | None) -> dict[str, Json]:
    """Return a record with its text and chunks, as `retrieve inspect record ID --json` prints it.

    Raises:
        NotFound: the caller has no record with that id.
    """
    from retrieve_cli.operations import views

    with index.reading() as generation:
        if generation.row_of(record_id, visible=visible_to(generation, tenant)) is None:
            raise no_record(record_id)
        return views.record(generation, record_id)


class Chunks(NamedTuple):
    """Some chunks of a record, in order."""

    record: dict[str, Json]
    """The stored record."""
    rows: list[dict[str, Json]]
    total: int
    """Number of chunks of the record."""


def chunks(index: Index, record_id: str, *, first: int = 0, limit: int, tenant: str | None) -> Chunks:
    """Return a record and at most `limit` of its chunks with their text, from the one numbered `first` on.

    Raises:
        NotFound: the caller has no record with that id.
    """
    with index.reading() as generation:
        if (row := generation.row_of(record_id, visible=visible_to(generation, tenant))) is None:
            raise no_record(record_id)
        start, end = int(generation.starts[row]), int(generation.starts[row + 1])
        shown = range(min(start + first, end), min(start + first + limit, end))
        return Chunks(
            shown_row(generation.records[row]), [shown_row(generation.chunks[place]) for place in shown], end - start
        )


def records(
    index: Index, *, filters: Sequence[str] = (), limit: int = 20, after: str | None = None, tenant: str | None = None
) -> RecordPage:
    """Return the records that pass every filter, in the order of the index, from behind the cursor `after`.

    Raises:
        UsageError: a filter cannot be read or names an unknown field, or the cursor is not one.
    """
    from retrieve_cli.search.conditions import allowed_by

    first = _place_after(after)
    with index.reading() as generation:
        visible = visible_to(generation, tenant)
        allowed = allowed_by(generation, filters, visible)
        rows = range(len(generation.records)) if allowed is None else allowed.nonzero()[0].tolist()
        shown = [shown_row(generation.records[row]) for row in rows[first : first + limit]]
        # The place among the records of the list: a row of the index would count the records of others.
        following = f"r{first + limit}" if first + limit < len(rows) else None
        return RecordPage(shown, len(rows), following)


def visible_to(generation: Generation, tenant: str | None) -> Mask | None:
    """(records,) bool: the records of a tenant; None: all, without one. No record is visible to an unknown tenant."""
    return None if tenant is None else of_tenant_or_none(generation, tenant)


def no_record(record_id: str) -> NotFound:
    """Return the error for an id that does not exist for a caller."""
    return NotFound(f"there is no record {quoted(record_id)}", hint="list them: GET /documents")


def _place_after(cursor: str | None) -> int:
    if cursor is None:
        return 0
    digits = cursor.removeprefix("r")
    if digits.isascii() and digits.isdigit() and len(digits) < 12:
        return int(digits)
    raise UsageError(f"{quoted(cursor)} is not a cursor", hint="take it from the answer before: `next`")
