"""Fields of the records of an open index, with example values: what a caller may filter by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.api.contents import visible_to
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms.tenants import KEYS
from retrieve_cli.errors import UsageError
from retrieve_cli.search.access import columns_seen
from retrieve_cli.storage.records.suggestions import common_values

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.storage.records.column import Column


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

    @property
    def telling(self) -> bool:
        """True if records share values: examples of a field that differs by record tell little."""
        return bool(self.values) and (not self.others or self.values[0][1] > 1)

    def to_json(self) -> dict[str, Json]:
        """Return the field as programs read it."""
        numbers = {} if self.least is None else {"min": self.least, "max": self.most}
        values = [{"value": value, "records": records} for value, records in self.values]
        return {"field": self.field, "records": self.records, "values": values, "others": self.others, **numbers}


def fields_of(
    index: Index, *, tenant: str | None = None, names: Sequence[str] = (), examples: int = 5
) -> list[FieldValues]:
    """Return the fields that records of the caller have, most frequent first; or only the named fields, in their order.

    Raises:
        UsageError: no record of the caller has a field of that name; the hint has the nearest.
    """
    with index.reading() as generation:
        try:
            columns = columns_seen(generation, visible_to(generation, tenant))
        except UsageError:
            if names:
                raise
            return []
        if names:
            for name in names:
                columns.counts(name)  # raises for an unknown field, with the nearest one
            found = [columns.column(name) for name in names]
            return [_field(column, examples) for column in found if column is not None]
        known = [column for name in columns.fields if name not in KEYS and (column := columns.column(name)) is not None]
        return sorted((_field(column, examples) for column in known), key=lambda field: (-field.records, field.field))


def _field(column: Column, examples: int) -> FieldValues:
    import numpy as np

    values, others = common_values(column, examples)
    numbers = column.numbers
    least, most = (float(numbers.min()), float(numbers.max())) if len(numbers) else (None, None)
    return FieldValues(column.name, len(np.unique(column.records)), values, others, least, most)


def records_of(index: Index, tenant: str | None) -> int:
    """Return the number of records that a caller has."""
    visible = visible_to(index.opened.generation, tenant)
    return len(index) if visible is None else int(visible.sum())
