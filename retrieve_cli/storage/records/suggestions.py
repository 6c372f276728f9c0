"""Suggestions from the columns: values and records in place of unknown ones, with a bounded number of comparisons; and
fields that are worth offering as facets, because many records share their few values.

Only what the view of the columns shows is suggested or counted: see `Columns.within`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts.canonical import canonical, displayed
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from retrieve_cli.storage.records.column import Column
    from retrieve_cli.storage.records.columns import Columns

_FEW = 2000
"""Values of a field up to which all are compared; of more, those around the place of the given one in the alphabet."""
_SHORTEST_PART = 3
"""Length from which on a part of a value matches it: `apache` for Apache-2.0."""
_SPELLINGS = 64
"""Spellings of one value that are counted together."""


def value_near(column: Column, given: str, *, cutoff: float = 0.5) -> str | None:
    """Return the value of a field that is most like a given text in any case, in its own spelling."""
    texts = {canonical(column.text(value)): value for value in _candidates(column, given)}
    near = _nearest(given, texts, cutoff)
    return None if near is None else column.text(texts[near])


def common_values(column: Column, most: int) -> tuple[list[tuple[str, int]], int]:
    """Return the `most` frequent values with their numbers of records, and how many other values there are.

    Equal values are one, in the most frequent spelling; a number is printed in its canonical form.
    """
    counts = np.bincount(column.values, minlength=len(column))
    wanted = min(2 * most, len(counts))
    top = np.argpartition(-counts, wanted - 1)[:wanted] if wanted else np.empty(0, np.int64)
    listed: dict[str, tuple[str, int]] = {}
    others = int(np.count_nonzero(counts))
    for value in top[np.lexsort((top, -counts[top]))].tolist():
        folded = canonical(column.text(value))
        if counts[value] and folded not in listed and len(listed) < most:
            same = list(_spellings(column, value, folded))
            listed[folded] = (displayed(column.text(value)), int(counts[same].sum()))
            others -= int(np.count_nonzero(counts[same]))
    return sorted(listed.values(), key=lambda pair: (-pair[1], canonical(pair[0]))), others


def record_near(columns: Columns, given: str, *, cutoff: float = 0.5) -> int | None:
    """Return the row of the record whose id or name is most like a given text in any case."""
    texts: dict[str, tuple[Column, int]] = {}
    for field in ("name", "id"):  # of equal ones, the id counts
        if (column := columns.column(field)) is not None:
            texts |= {canonical(column.text(value)): (column, value) for value in _candidates(column, given)}
    near = _nearest(given, texts, cutoff)
    if near is None:
        return None
    column, value = texts[near]
    return int(column.records[np.flatnonzero(column.values == value)[0]])


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


def _candidates(column: Column, given: str) -> Sequence[int]:
    """Values of a field: all of a few; of many, those near the given text in the alphabet."""
    if len(column) <= _FEW:
        return range(len(column))
    place = bisect_left(column.span, canonical(given.strip()), key=column.vocabulary.folded)
    return range(len(column))[max(place - _FEW // 2, 0) : place + _FEW // 2]


def _spellings(column: Column, value: int, folded: str) -> Iterator[int]:
    """A value and its neighbours that are equal to it."""
    yield value
    for step in (-1, 1):
        other = value + step
        while 0 <= other < len(column) and abs(other - value) <= _SPELLINGS and canonical(column.text(other)) == folded:
            yield other
            other += step


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
    if name in _NOT_OFFERED or columns.distinct(name) > _FIELD_SPELLINGS * MOST_VALUES:
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
