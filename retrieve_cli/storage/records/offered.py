"""Fields that are worth offering as facets: many records have them, and they have few values, which records share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.contracts.terms.tenants import TENANT

if TYPE_CHECKING:
    from retrieve_cli.storage.records.columns import Columns

MOST_VALUES = 100
"""Distinct values of a field that can be chosen from."""
_SPELLINGS = 4
"""Times as many stored spellings may there be as values; a field with more is not read at all."""
_LEAST_COVERED = 0.1
"""Share of the records that have the field."""
_LEAST_SHARED = 3
"""Records per value, on average: below this, values are names rather than kinds."""
_MOST_NUMBERS = 12
"""Distinct values of a field of numbers: above this, they are measurements."""
_NOT_OFFERED = frozenset({"id", "name", "path", "source", TENANT})
"""Fields that tell records, files or tenants apart."""


class _Field(NamedTuple):
    name: str
    records: int
    counts: dict[str, int]


def offered(columns: Columns, *, most: int = 8) -> list[str]:
    """Return the fields to offer as facets, those that the most records have first.

    Of fields with the same values in the same numbers, such as a field of a record and the metadata that it was read
    from, the one with the shortest name is offered. Values that no visible record has do not count.
    """
    fields = [field for name in columns.fields if (field := _field(columns, name)) is not None]
    fields.sort(key=lambda field: (len(field.name), field.name))
    distinct: list[_Field] = []
    for field in fields:
        if all(field.counts != other.counts for other in distinct):
            distinct.append(field)
    distinct.sort(key=lambda field: (-field.records, len(field.counts), field.name))
    return [field.name for field in distinct[:most]]


def _field(columns: Columns, name: str) -> _Field | None:
    """Return a field with its counts; None if it is not to be offered."""
    if name in _NOT_OFFERED or columns.distinct(name) > _SPELLINGS * MOST_VALUES:
        return None
    column = columns.column(name)
    if column is None:
        return None
    counts, numbers = column.counts(), len(column.numbered)
    records = len(set(column.records.tolist()))
    few = 2 <= len(counts) <= MOST_VALUES and not (numbers > _MOST_NUMBERS and 2 * numbers > len(counts))
    total = len(columns) if columns.visible is None else int(columns.visible.sum())
    shared = records >= _LEAST_SHARED * len(counts) and records >= _LEAST_COVERED * total
    return _Field(name, records, counts) if few and shared else None
