"""Columns by which records can be filtered: the fields of all segments, and the rows that satisfy a condition.

Facets of chunks are columns of the same form, with a row for each chunk.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.errors import IndexCorrupt, UsageError, printable, quoted
from retrieve_cli.storage import pickles
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.records.column import Column
from retrieve_cli.storage.records.record_values import FIELDS, HIDDEN, OMITTED, known_as
from retrieve_cli.storage.records.stored_columns import HINT, StoredColumns, StoredField
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.contracts.values import Unit
    from retrieve_cli.storage.segment import Segment


FILE = "columns.pkl"
CARD = 4
"""Version of the rules for values of a record; part of the recipe, raised if they change."""
_LISTED = 40
"""Fields that an error lists."""


class Columns:
    """The columns of an index: rows that satisfy a condition, and the values of fields."""

    def __init__(self, segments: Sequence[StoredColumns], visible: Mask | None = None) -> None:
        """`segments` has the columns of each segment in order, `visible` (n,) bool masks the rows; None: all."""
        self._segments = segments
        self._length = sum(map(len, segments))
        self.visible = visible
        self._columns: dict[str, Column] = {}

    def within(self, visible: Mask | None) -> Columns:
        """Return the columns of the `visible` rows, (n,) bool, as if no other rows existed; None: of all.

        Fields and values of other rows only are not found, counted or suggested.
        """
        if visible is None:
            return self
        return Columns(self._segments, visible if self.visible is None else self.visible & visible)

    def __len__(self) -> int:
        """Number of rows."""
        return self._length

    @property
    def fields(self) -> list[str]:
        """The fields for which any visible row has a value, in order."""
        return [name for name in self._names if self._has(name)]

    @cached_property
    def _names(self) -> list[str]:
        """The stored names of fields that requests may name, in order."""
        return sorted({name for stored in self._segments for name in stored.names} - HIDDEN)

    def select(self, field: str, operator: str, values: Sequence[str], *, globs: Collection[str] = frozenset()) -> Mask:
        """Return the rows that satisfy a condition, (n,) bool: any value of the field has the relation to any of
        `values`. `!=` is true if `=` is false, also for rows without the field.

        Values are equal if their canonical forms are (`contracts/canonical.py`), a dimension also as a number (3 is
        3D); `2024-01` is any date of that month, `5..10` any number from 5 to 10. Values that are in `globs` are
        patterns: `*` and `?` match anything, in paths anything but a slash, which takes `**`.

        Raises:
            UsageError: no row has the field, or a comparison needs numbers or dates and the field has none.
        """
        if operator == "!=":
            return ~self.select(field, "=", values, globs=globs)
        column = self.find(field)
        if operator != "=" and not column.is_ordered:
            hint = f"compare its text: {field}=value"
            message = f"the field {quoted(field)} has no numbers or dates to compare by {operator}"
            raise UsageError(message, hint=hint)
        return column.select(operator, values, globs)

    def having(self, field: str, value: str) -> Mask:
        """Return the rows that have exactly this value, (n,) bool. Raises: UsageError for an unknown field."""
        marked = np.zeros(self._length, np.bool_)
        marked[self.find(field).rows_spelled(value)] = True
        return marked

    def column(self, field: str) -> Column | None:
        """Return a field by any of its names, also by the last part of its path if only one field ends so; None if no
        row has it."""
        name = known_as(field)
        inner = name.removeprefix("metadata.")
        candidates = [name] if known_as(inner) in FIELDS else [name, inner]
        named = [known for known in candidates if known not in HIDDEN and self._has(known)]
        if named or name in FIELDS:
            return self.stored(named[0]) if named else None
        folded = name.casefold()
        alike = [known for known in self._names if known.casefold() == folded and self._has(known)]
        ending = f".{folded}"
        alike = alike or [known for known in self._names if known.casefold().endswith(ending) and self._has(known)]
        return self.stored(alike[0]) if len(alike) == 1 else None

    def find(self, field: str) -> Column:
        """Return a field as `column` does; without values if records may have it and none of these has.

        Raises:
            UsageError: no record has, or may have, such a field.
        """
        column, name = self.column(field), known_as(field)
        if column is None and name not in FIELDS:
            names = self.fields
            near = nearest(name, names)
            more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            listed = f"fields: {', '.join(names[:_LISTED])}{more}"
            hint = printable(f"did you mean `{near}`? {listed}" if near else listed)
            raise UsageError(f"no record has a field {quoted(field)}", hint=hint)
        return self.stored(name) if column is None else column

    def of_record(self, row: int) -> dict[str, list[str]]:
        """Return the values of a row by the stored names of fields, in the order of the row."""
        values = {name: self.stored(name).values_of(row) for name in self._names}
        return {name: texts for name, texts in values.items() if texts}

    @property
    def omitted(self) -> dict[str, int]:
        """By field, the number of records with skipped values: long texts, long lists, objects in lists."""
        column = self.stored(OMITTED)
        return {name: len(column.rows_spelled(name)) for name in column.texts()}

    def stored(self, name: str) -> Column:
        """Return a field by its stored name, also a hidden one; without values if no visible row has it."""
        if name not in self._columns:
            fields: list[tuple[StoredField, int]] = []
            first = 0
            for stored in self._segments:
                field = stored.field(name)
                if field is not None:
                    fields.append((field, first))
                first += len(stored)
            self._columns[name] = Column(name, fields, length=self._length, visible=self.visible)
        return self._columns[name]

    def _has(self, name: str) -> bool:
        return self.stored(name).is_there


def columns_of(generation: Generation) -> Columns:
    """Return the columns of the records of a generation, also of dead ones.

    Raises:
        IndexCorrupt: a file is damaged.
    """
    return generation.once(_open)


def _open(generation: Generation) -> Columns:
    return Columns([stored_columns(segment, FILE, "record") for segment in generation.segments])


def stored_columns(segment: Segment, name: str, unit: Unit) -> StoredColumns:
    """Return the columns in a file of a segment, of its records or chunks.

    Raises:
        IndexCorrupt: it is damaged, or has another number of rows.
    """
    columns = StoredColumns(pickles.load(segment.file(name)))
    if len(columns) != segment.count(unit):
        message = f"{name} has {len(columns)} rows for {segment.count(unit)} {unit}s"
        raise IndexCorrupt(message, hint=HINT)
    segment.expect(name, len(columns))
    return columns
