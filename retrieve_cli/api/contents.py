"""Contents of an open index for a caller: records, chunks and texts. Records of another tenant do not exist for it.

Pictures of pages for a caller: a record that another tenant has does not exist for it.

Fields of the records of an open index, with example values: what a caller may filter by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.canonical import is_date
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.contracts.terms.tenants import KEYS
from retrieve_cli.contracts.tools import DIGEST
from retrieve_cli.errors import BadDocument, NotFound, UsageError, printable, quoted
from retrieve_cli.output.plain_text import significant
from retrieve_cli.search import pictures
from retrieve_cli.search.access import of_tenant_or_none
from retrieve_cli.search.places import place_of, together
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.storage.records.rows import shown_row
from retrieve_cli.storage.records.suggestions import common_values

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.contracts.layout import Place
    from retrieve_cli.storage.records.column import Column
    from retrieve_cli.storage.records.view import RecordView


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
        if (row := of_tenant_or_none(generation, tenant).row_of(record_id)) is None:
            raise no_record(record_id)
        return views.record(generation, generation.record_id(row))


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
        if (row := of_tenant_or_none(generation, tenant).row_of(record_id)) is None:
            raise no_record(record_id)
        start, end = int(generation.starts[row]), int(generation.starts[row + 1])
        shown = range(min(start + first, end), min(start + first + limit, end))
        rows = [shown_row(generation.chunks[place]) for place in shown]
        return Chunks(shown_row(generation.records[row]), rows, end - start)


def records(
    index: Index, *, filters: Sequence[str] = (), limit: int = 20, after: str | None = None, tenant: str | None = None
) -> RecordPage:
    """Return the records that pass every filter, in the order of the index, from behind the cursor `after`.

    Raises:
        UsageError: a filter cannot be read or names an unknown field, or the cursor is not one.
    """
    from retrieve_cli.search.conditions import allowed_by

    digits = "0" if after is None else after.removeprefix("r")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
        raise UsageError(f"{quoted(after)} is not a cursor", hint="take it from the answer before: `next`")
    first = int(digits)
    with index.reading() as generation:
        allowed = allowed_by(of_tenant_or_none(generation, tenant), filters)
        rows = generation.in_order(allowed)
        shown = [shown_row(generation.records[row]) for row in rows[first : first + limit]]
        # The place among the records of the list: a row of the index would count the records of others.
        following = f"r{first + limit}" if first + limit < len(rows) else None
        return RecordPage(shown, len(rows), following)


def no_record(record_id: str) -> NotFound:
    """Return the error for an id that does not exist for a caller."""
    return NotFound(f"there is no record {quoted(record_id)}", hint="list them: GET /documents")


class Passage(NamedTuple):
    """The text of a record."""

    record: Mapping[str, Json]
    text: str
    """Its whole text."""
    start: int
    """Beginning of the chunk that was asked for; 0 for a record."""
    end: int
    """Its end."""
    chunks: Sequence[tuple[int, int, Place | None]] = ()
    """Beginning and end in `text` of each chunk of the record, and its place without boxes."""

    def place(self, start: int, end: int) -> Place | None:
        """Return the pages of `text[start:end]`, to the chunk; None if the record has no layout."""
        shown = (place for begin, stop, place in self.chunks if begin < end and stop > start)
        return reduce(together, shown, None)


def passage_of(index: Index, name: str, *, tenant: str | None = None) -> Passage:
    """Return the text of a record, by its id or by the id of one of its chunks.

    Raises:
        NotFound: the caller has neither; the hint names the nearest record that the caller has.
    """
    with index.reading() as generation:
        row, chunk = _find(of_tenant_or_none(generation, tenant), name)
        first, end = (int(place) for place in generation.starts[row : row + 2])
        rows = [generation.chunks[at] for at in range(first, end)]
        text, places = _joined(rows)
        start, stop = (0, len(text)) if chunk is None else places[chunk - first]
        found = zip(places, map(place_of, rows), strict=True)
        chunks = [(*at, place and place._replace(boxes=())) for at, place in found]
        return Passage(generation.records[row], text, start, stop, chunks)


def _find(view: RecordView, name: str) -> tuple[int, int | None]:
    """Return the row of a record, and the row of a chunk if the id names a chunk."""
    try:
        return view.find_record(name), None
    except UsageError as error:
        try:
            chunk = view.find_chunk(name)
        except UsageError:
            raise NotFound(error.message, hint=error.hint if error.hint.startswith("did you") else "") from None
        return view.find_record(name.rpartition("#")[0]), chunk


def _joined(chunks: list[dict[str, Json]]) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of chunks, which may overlap, and where each of them begins and ends in it. Of what lies between
    two of them, all of it white space, only the extent is known."""
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    size = done = 0
    for chunk in chunks:
        start, text = int(chunk["start"]), str(chunk["text"])
        shared = min(max(done - start, 0), len(text))
        between = "\n" * min(max(start - done, 0), 2) if parts else ""
        parts += [between, text[shared:]]
        size += len(between) + len(text) - shared
        places.append((size - len(text), size))
        done = max(done, int(chunk["end"]))
    return "".join(parts), places


_RULES = 1
"""Version of the drawing."""


class PictureRequest(NamedTuple):
    """A picture that is asked for."""

    record_id: str
    chunk: int | None
    """Number of the chunk that is marked."""
    page: int | None
    """Number of the page, from 1; None: the first one of the chunk."""


def picture_tag(index: Index, wanted: PictureRequest, *, tenant: str | None) -> str:
    """Return a text that changes with the picture.

    Raises:
        NotFound: the caller has no record with that id.
    """
    with index.reading() as generation:
        row = of_tenant_or_none(generation, tenant).row_of(wanted.record_id)
        if row is None:
            raise no_record(wanted.record_id)
        return sha1([_RULES, generation.id, generation.origin(row).hex(), *wanted])


def picture(index: Index, wanted: PictureRequest, *, tenant: str | None) -> bytes:
    """Return the PNG of one page of a document, with the words of a chunk marked.

    Raises:
        NotFound: the caller has no record with that id, or the record does not have that chunk or page.
        Conflict: its file is gone or has changed since the build.
        Unavailable: a package is missing.
    """
    with index.reading() as generation:
        row = of_tenant_or_none(generation, tenant).row_of(wanted.record_id)
        if row is None:
            raise no_record(wanted.record_id)
        chunk: dict[str, Json] | None = None
        if wanted.chunk is not None:
            start, end = int(generation.starts[row]), int(generation.starts[row + 1])
            if not 0 <= wanted.chunk < end - start:
                raise NotFound(f"{quoted(wanted.record_id)} has no chunk {wanted.chunk}", hint="chunks count from 0")
            chunk = generation.chunks[start + wanted.chunk]
        elif wanted.page is None:
            raise UsageError("neither a page nor a chunk is given", hint="?page=12, or ?chunk=3")
        pages = [wanted.page] if wanted.page is not None else pictures.pages_of(chunk or {})[:1]
        try:
            return pictures.passage(index.opened, row, chunk, pages=pages)
        except BadDocument as error:
            raise NotFound(f"{quoted(wanted.record_id)}: {error.message}", hint=error.hint) from error


class FieldValues(NamedTuple):
    """A field, and values that records have."""

    field: str
    records: int
    """Number of records that have any."""
    values: Sequence[tuple[str, int]]
    """The most frequent ones, each with its number of records."""
    others: int
    """Number of other values."""
    least: float | None = None
    most: float | None = None
    """The least and the greatest of the values that are numbers; None if none is."""
    type: str = "text"
    """`number` or `date` if every value is one; else `text`."""
    share: float = 0.0
    """Share of the records that have any."""

    @property
    def telling(self) -> bool:
        """True if records share values: examples of a field that differs by record tell little."""
        return bool(self.values) and (not self.others or self.values[0][1] > 1)

    def to_json(self) -> dict[str, Json]:
        """Return the field as programs read it."""
        numbers = {} if self.least is None else {"min": self.least, "max": self.most}
        values = [{"value": value, "records": records} for value, records in self.values]
        found = {"field": self.field, "type": self.type, "records": self.records, "share": round(self.share, 4)}
        return {**found, "values": values, "others": self.others, **numbers}

    def line(self) -> str:
        """Return the field on one line: its records, its values with theirs."""
        numbers = (
            "" if self.type != "number" else f"{significant(self.least or 0.0)} to {significant(self.most or 0.0)}; "
        )
        values = ", ".join(f"{value} ({records})" for value, records in self.values)
        others = f" and {self.others} more" if self.others else ""
        return printable(f"{self.field} ({count(self.records, 'record')}): {numbers}{values}{others}")


def fields_of(
    index: Index, *, tenant: str | None = None, names: Sequence[str] = (), examples: int = 5
) -> list[FieldValues]:
    """Return the fields that records of the caller have, most frequent first; or only the named fields, in their order.

    Raises:
        UsageError: no record of the caller has a field of that name; the hint has the nearest.
    """
    with index.reading() as generation:
        view = of_tenant_or_none(generation, tenant)
        columns = view.columns
        if names:
            columns_named = [columns.find(name) for name in names]
            return [_field(view, column, examples) for column in columns_named if column.is_there]
        known = [
            column
            for name in columns.fields
            if name not in (*KEYS, DIGEST) and (column := columns.column(name)) is not None
        ]
        fields = (_field(view, column, examples) for column in known)
        return sorted(fields, key=lambda field: (-field.records, field.field))


def _field(view: RecordView, column: Column, examples: int) -> FieldValues:
    records = len(column.rows)
    kind = "number" if column.is_numeric else "text"
    if all(map(is_date, column.texts())):
        kind = "date"
    values, others = common_values(column, examples)
    numbers = column.numbers
    least, most = (float(numbers.min()), float(numbers.max())) if len(numbers) else (None, None)
    return FieldValues(column.name, records, values, others, least, most, kind, records / view.size)
