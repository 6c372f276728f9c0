"""Suggestions from the columns: values and records in place of unknown ones, with a bounded number of comparisons; and
fields that are worth offering as facets, because many records share their few values.

Only what the view of the columns shows is suggested or counted: see `Columns.within`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from retrieve_cli.contracts.canonical import canonical, displayed
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.storage.records.record_values import number_of
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from retrieve_cli.storage.records.column import Column
    from retrieve_cli.storage.records.columns import Columns

_FEW = 2000
"""Values of a field up to which all are compared; of more, those around the place of the given one in the alphabet."""
_COUNTED = 10_000
"""Values of a field up to which all are counted to find the most frequent ones."""
_SHORTEST_PART = 3
"""Length from which on a part of a value matches it: `apache` for Apache-2.0."""


def value_near(column: Column, given: str, *, cutoff: float = 0.5) -> str | None:
    """Return the value of a field that is most like a given text in any case, in its own spelling."""
    texts = {canonical(text): text for text in _candidates(column, given)}
    near = _nearest(given, texts, cutoff)
    return None if near is None else texts[near]


def common_values(column: Column, most: int) -> tuple[list[tuple[str, int]], int]:
    """Return the `most` frequent values with their numbers of records, and how many other values there are.

    Equal values are one, in the most frequent spelling; a number is printed in its canonical form. Of very many values,
    only those that are frequent in a segment are looked at.
    """
    if not column.has_more_than(_COUNTED):
        counts = column.counts()
        return list(islice(counts.items(), most)), max(len(counts) - most, 0)
    merged: dict[str, tuple[str, int, int]] = {}
    for form in map(canonical, column.frequent(2 * most)):
        sizes = {text: len(rows) for text, rows in column.rows_by_spelling(form).items()}
        spelling = min(sizes, key=lambda text: (-sizes[text], text))
        merged[form] = (displayed(spelling), sum(sizes.values()), len(sizes))
    top = sorted(merged.items(), key=lambda pair: (-pair[1][1], pair[0]))[:most]
    others = column.distinct - sum(spellings for _, (_, _, spellings) in top)
    return [(text, count) for _, (text, count, _) in top], others


def record_near(columns: Columns, given: str, *, cutoff: float = 0.5) -> int | None:
    """Return the row of the record whose id or name is most like a given text in any case; of several records with this
    name, the one whose id is the first."""
    texts: dict[str, tuple[Column, str]] = {}
    for field in ("name", "id"):  # of equal ones, the id counts
        if (column := columns.column(field)) is not None:
            texts |= {canonical(text): (column, text) for text in _candidates(column, given)}
    near = _nearest(given, texts, cutoff)
    if near is None:
        return None
    column, text = texts[near]
    rows: list[int] = column.rows_spelled(text).tolist()
    return min(rows, key=columns.stored("id").values_of)


def _nearest(given: str, folded: Collection[str], cutoff: float) -> str | None:
    """The same text, else the shortest that it is part of, else the one that is most like it."""
    wanted = canonical(given.strip())
    if wanted in folded:
        return wanted
    if len(wanted) >= _SHORTEST_PART:
        whole = min((text for text in folded if wanted in text), key=lambda text: (len(text), text), default=None)
        if whole is not None:
            return whole
    return nearest(wanted, folded, cutoff=cutoff)


def _candidates(column: Column, given: str) -> Sequence[str]:
    """Values of a field: all of a few; of many, those near the given text in the alphabet."""
    if not column.has_more_than(_FEW):
        return list(column.texts())
    return column.texts_around(canonical(given.strip()), _FEW // 2)


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
    if column.has_more_than(_FIELD_SPELLINGS * MOST_VALUES):
        return None
    counts, records = column.counts(), len(column.rows)
    numbers = sum(number_of(column.name, text) is not None for text in column.texts())
    few = 2 <= len(counts) <= MOST_VALUES and not (numbers > _MOST_NUMBERS and 2 * numbers > len(counts))
    shared = records >= _LEAST_SHARED * len(counts) and records >= _LEAST_COVERED * total
    return counts if few and shared else None
