"""A field of the rows of an index: its distinct values over all segments, and the rows that have them.

Each segment has its own values, in order of canonical form and text. Only a list of all values decodes all of them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.canonical import canonical, displayed, period_of
from retrieve_cli.storage.records.stored_columns import StoredField

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Terms

_NO_ROWS = np.empty(0, np.int64)
_BLOCK = 1024
"""Values that are decoded together, as few of them may be needed; rows that are looked at before all others."""


class ColumnPart:
    """A field of one segment, as the visible rows have it."""

    def __init__(self, field: StoredField, first: int, visible: Mask | None) -> None:
        """`first` is the row of the segment's first row in the index, `visible` (n,) bool masks the rows of the index;
        None: all."""
        self.field = field
        self.first = first
        self.visible = None if visible is None else visible[first : first + field.length]

    def rows(self, rows: Terms) -> Rows:
        """Return the visible ones of some rows of the segment, as rows of the index."""
        return self.first + (rows if self.visible is None else rows[self.visible[rows]]).astype(np.int64)

    @cached_property
    def counts(self) -> Rows:
        """(v,) the number of visible rows of each value."""
        return self.field.counts(self.visible)

    @cached_property
    def values(self) -> Rows:
        """The values that a visible row has, ascending."""
        return np.flatnonzero(self.counts)

    def decoded(self, values: Rows) -> Iterator[tuple[str, str]]:
        """Yield the canonical form and the text of some values."""
        for start in range(0, len(values), _BLOCK):
            for text in self.field.texts(values[start : start + _BLOCK].tolist()):
                yield canonical(text), text


class Column:
    """A field as the visible rows have it: values of other rows alone do not exist."""

    def __init__(
        self, name: str, fields: Sequence[tuple[StoredField, int]], *, length: int, visible: Mask | None = None
    ) -> None:
        """`fields` has the field in segments, with the first row of each in the index; `length` is the number of rows
        of the index, `visible` (n,) bool masks these; None: all."""
        self.name = name
        self._fields = fields
        self._length = length
        self._visible = visible
        self._parts = [ColumnPart(field, first, visible) for field, first in fields]

    def within(self, visible: Mask) -> Column:
        """Return the field of some of its visible rows, (n,) bool."""
        both = visible if self._visible is None else self._visible & visible
        return Column(self.name, self._fields, length=self._length, visible=both)

    # ---------------------------------------------------------------------------------------- rows by their values

    @property
    def is_there(self) -> bool:
        """True if a visible row has a value."""
        return any(
            len(part.rows(rows)) > 0
            for part in self._parts
            for rows in (part.field.rows[:_BLOCK], part.field.rows)  # most often one of the first rows has one
        )

    def select(self, operator: str, values: Sequence[str], globs: Collection[str] = ()) -> Mask:
        """Return the visible rows with a value that has the relation to any of `values`, (n,) bool.

        Raises:
            UsageError: one of these is not a number or a date, and the operator compares these.
        """
        return self._with(lambda field: field.match(operator, values, globs))

    def matching(self, operator: str, values: Sequence[str], globs: Collection[str] = ()) -> Iterator[str]:
        """Yield the values that have the relation to any of `values`, as written. Raises as `select` does."""
        for part in self._parts:
            wanted = part.values[part.field.match(operator, values, globs)[part.values]]
            yield from part.field.texts(wanted.tolist())

    @property
    def is_ordered(self) -> bool:
        """True if a value is a number or a date."""
        return bool(self._with(StoredField.ordered).any())

    def _with(self, mark: Callable[[StoredField], Mask]) -> Mask:
        """Return the visible rows that have one of the marked values, (n,) bool."""
        mask = np.zeros(self._length, np.bool_)
        for part in self._parts:
            mask[part.rows(part.field.rows_with(mark(part.field)))] = True
        return mask

    def rows_by_spelling(self, form: str) -> dict[str, Rows]:
        """Return the rows with a value of a canonical form, ascending, by the value as written."""
        spellings: dict[str, list[Rows]] = {}
        for part in self._parts:
            for number in part.field.find(form):
                rows = part.rows(part.field.rows_of(number))
                if len(rows):
                    spellings.setdefault(part.field[number], []).append(rows)
        return {text: np.concatenate(rows) for text, rows in spellings.items()}

    def rows_of(self, form: str) -> Rows:
        """Return the rows with a value of a canonical form, ascending."""
        rows = list(self.rows_by_spelling(form).values())
        return rows[0] if len(rows) == 1 else np.unique(np.concatenate([_NO_ROWS, *rows]))

    def rows_spelled(self, text: str) -> Rows:
        """Return the rows with a value that is written exactly like this, ascending."""
        return self.rows_by_spelling(canonical(text)).get(text, _NO_ROWS)

    @cached_property
    def rows(self) -> Rows:
        """The visible rows that have a value, ascending."""
        return np.flatnonzero(self._with(lambda field: np.ones(len(field), np.bool_)))

    # ---------------------------------------------------------------------------------------- values by their rows

    def values_of(self, row: int) -> list[str]:
        """Return the values of a row, in its order."""
        for part in self._parts:
            own = row - part.first
            if 0 <= own < part.field.length and (part.visible is None or part.visible[own]):
                return part.field.texts(part.field.values_of(own).tolist())
        return []

    def postings(self) -> Iterator[tuple[list[str], Rows, Terms]]:
        """Yield for each segment its values as written, then each visible row, ascending, with the place of its value
        among these."""
        for part in self._parts:
            shown = slice(None) if part.visible is None else part.visible[part.field.owners]
            texts = part.field.texts(range(len(part.field)))
            yield texts, part.rows(part.field.owners), part.field.values[shown]

    # ------------------------------------------------------------------------------------------------- all values

    @property
    def size(self) -> int:
        """Number of values of all visible rows."""
        return sum(int(part.counts.sum()) for part in self._parts)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The values that are numbers."""
        numbers = [part.field.numbers[part.counts[part.field.numbered] > 0] for part in self._parts]
        return np.concatenate([np.empty(0), *numbers])

    @property
    def is_numeric(self) -> bool:
        """True if all values are numbers."""
        return len(self.numbers) == sum(len(part.values) for part in self._parts)

    def texts(self, *, descending: bool = False) -> Iterator[str]:
        """Yield the distinct values in order of canonical form and text, or backwards, read as far as needed."""
        step = -1 if descending else 1
        streams = [part.decoded(part.values[::step]) for part in self._parts]
        for (_, text), _ in groupby(heapq.merge(*streams, reverse=descending)):
            yield text

    def texts_around(self, form: str, most: int) -> list[str]:
        """Return the values around the place of a canonical form, up to `most` before and behind it, in order."""
        before: set[tuple[str, str]] = set()
        behind: set[tuple[str, str]] = set()
        for part in self._parts:
            place = int(np.searchsorted(part.values, part.field.start_of(form)))
            before.update(part.decoded(part.values[max(place - most, 0) : place]))
            behind.update(part.decoded(part.values[place : place + most]))
        return [text for _, text in (*sorted(before)[-most:], *sorted(behind)[:most])]

    @property
    def most_values(self) -> int:
        """Number of the distinct values in the segment that has the most of them."""
        return max((len(part.values) for part in self._parts), default=0)

    @property
    def distinct(self) -> int:
        """Number of distinct values as written."""
        if len(self._parts) == 1:
            return self.most_values
        return len({text for part in self._parts for text in part.field.texts(part.values.tolist())})

    def counts(self, most: int | None = None) -> dict[str, int]:
        """Return the number of rows with each value, most frequent first; with `most`, only of so many values of each
        segment, those that the most of its rows have.

        Equal values are one, in the most frequent spelling; a number is printed in its canonical form.
        """
        by_text: Counter[str] = Counter()
        for part in self._parts:
            values = part.values
            if most is not None and len(values) > most:
                values = values[np.argsort(-part.counts[values], kind="stable")[:most]]
            texts = part.field.texts(values.tolist())
            by_text.update(dict(zip(texts, part.counts[values].tolist(), strict=True)))
        spellings: dict[str, list[tuple[int, str]]] = {}
        for text, count in by_text.items():
            spellings.setdefault(canonical(text), []).append((-count, text))
        merged = [(sum(count for count, _ in same), form, displayed(min(same)[1])) for form, same in spellings.items()]
        return {text: -count for count, _, text in sorted(merged)}

    def places(self, *, descending: bool) -> NDArray[np.float64]:
        """Return the place of each row in the order of its least value, or if `descending` of its greatest, (n,)
        float64: numbers first, equal values at one place, infinite without a value. Of years, months and days together,
        the forms are in the order of time."""
        forms = [[form for form, _ in part.decoded(part.values)] for part in self._parts]
        ranks = {form: rank for rank, form in enumerate(sorted(set().union(*forms)), len(self.numbers))}
        is_time = all(period_of(form) is not None for form in ranks)
        numbers = np.unique(self.numbers)
        places = np.full(self._length, np.inf)
        for part, own in zip(self._parts, forms, strict=True):
            order = np.zeros(len(part.field))
            order[part.values] = [ranks[form] for form in own]
            if not is_time:
                order[part.field.numbered] = np.searchsorted(numbers, part.field.numbers)
            of_rows = np.repeat(-order if descending else order, np.diff(part.field.starts))
            np.minimum.at(places, part.first + part.field.rows, of_rows)
        return places if self._visible is None else np.where(self._visible, places, np.inf)

    def groups(self) -> tuple[Terms, list[str]]:
        """Return (n,) int32 the place of each row's first value among the distinct values, -1 if it has none, and the
        distinct values in order."""
        names = list(self.texts())
        numbers = {text: number for number, text in enumerate(names)}
        groups = np.full(self._length, -1, np.int32)
        for texts, rows, values in self.postings():
            own = np.array([numbers.get(text, -1) for text in texts], np.int32)
            groups[rows[::-1]] = own[values[::-1]]  # of several values, the first is written last
        return groups, names
