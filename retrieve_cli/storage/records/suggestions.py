"""Suggestions from the columns: values and records in place of unknown ones, with a bounded number of comparisons; and
fields that are worth offering as facets, because many records share their few values.

Only what the view of the columns shows is suggested or counted: see `Columns.within`.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from retrieve_cli.storage.records.column import Column
    from retrieve_cli.storage.records.columns import Columns

_AROUND = 2000
"""Values of a field on either side of the given one in the alphabet that are compared with it."""
_COUNTED = 10_000
"""Values of a field of one segment up to which all are counted to find the most frequent ones."""
_SHORTEST_PART = 3
"""Length from which on a part of a value matches it: `apache` for Apache-2.0."""
MOST_VALUES = 100
"""Distinct values of a field that can be chosen from."""
_FIELD_SPELLINGS = 4
"""Times as many stored spellings may there be as values; a field with more is not read at all."""
_LEAST_COVERED = 0.1
"""Share of the records that have the field."""
_LEAST_SHARED = 3
"""Records per value, on average: below this, values are names rather than kinds."""
_MOST_NUMBERS = 12
"""Distinct values of a field of numbers: above this, they are measurements."""
_NOT_OFFERED = frozenset({"id", "name", "path", "source", TENANT})
"""Fields that tell records, files or tenants apart."""


def value_near(column: Column, given: str, *, cutoff: float = 0.5) -> str | None:
    """Return the value of a field that is most like a given text in any case, in its own spelling."""
    texts = _around(column, given)
    near = _nearest(given, texts, cutoff)
    return None if near is None else texts[near]


def record_near(columns: Columns, given: str, *, cutoff: float = 0.5) -> int | None:
    """Return the row of the record whose id or name is most like a given text in any case; of several records with this
    name, the one whose id is the first."""
    ids, names = columns.stored("id"), columns.stored("name")
    by_id, by_name = _around(ids, given), _around(names, given)
    near = _nearest(given, by_name | by_id, cutoff)
    if near is None:
        return None
    rows = ids.rows_spelled(by_id[near]) if near in by_id else names.rows_spelled(by_name[near])
    row: int = min(rows.tolist(), key=ids.values_of)
    return row


def _around(column: Column, given: str) -> dict[str, str]:
    """Return the values of a field near a text in the alphabet, by their canonical form: of few values, all."""
    return {canonical(text): text for text in column.texts_around(canonical(given.strip()), _AROUND)}


def _nearest(given: str, forms: Collection[str], cutoff: float) -> str | None:
    """Return the same text, else the shortest that it is part of, else the one that is most like it."""
    wanted = canonical(given.strip())
    if wanted in forms:
        return wanted
    wholes = [form for form in forms if wanted in form] if len(wanted) >= _SHORTEST_PART else []
    if wholes:
        return min(wholes, key=lambda form: (len(form), form))
    return nearest(wanted, forms, cutoff=cutoff)


def common_values(column: Column, most: int) -> tuple[list[tuple[str, int]], int]:
    """Return the `most` frequent values with their numbers of records, and how many other values there are.

    Equal values are one, in the most frequent spelling; a number is printed in its canonical form. Of very many values,
    only those that are frequent in a segment are counted.
    """
    counts = column.counts(most=_COUNTED)
    values = len(counts) if column.most_values <= _COUNTED else column.distinct
    listed = list(islice(counts.items(), most))
    return listed, values - len(listed)


def offered(columns: Columns, *, most: int = 8) -> list[str]:
    """Return the fields to offer as facets, those that the most records have first.

    Of fields with the same values in the same numbers, such as a field of a record and the metadata that it was read
    from, the one with the shortest name is offered. Values that no visible record has do not count.
    """
    total = len(columns) if columns.visible is None else int(columns.visible.sum())
    fields: dict[str, dict[str, int]] = {}
    for name in sorted(set(columns.fields) - _NOT_OFFERED, key=lambda name: (len(name), name)):
        counts = _shared(columns.stored(name), total)
        if counts and counts not in fields.values():
            fields[name] = counts
    ordered = sorted(fields, key=lambda name: (-len(columns.stored(name).rows), len(fields[name]), name))
    return ordered[:most]


def _shared(column: Column, total: int) -> dict[str, int] | None:
    """Return the values of a field with their numbers of records; None unless many records share few values."""
    if column.most_values > _FIELD_SPELLINGS * MOST_VALUES:
        return None
    counts, records = column.counts(), len(column.rows)
    numbers = len(np.unique(column.numbers))
    few = 2 <= len(counts) <= MOST_VALUES and not (numbers > _MOST_NUMBERS and 2 * numbers > len(counts))
    shared = records >= _LEAST_SHARED * len(counts) and records >= _LEAST_COVERED * total
    return counts if few and shared else None
