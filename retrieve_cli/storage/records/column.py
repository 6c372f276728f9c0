"""A field of the rows of an index: its distinct values over all segments, and the rows that have them.

Values are numbered from 0, one segment after the other, in each in order of canonical form and text: a value that
several segments have has several numbers. Only a list of all values decodes all of them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts.canonical import canonical, displayed, period_of
from retrieve_cli.storage.records.stored_columns import StoredField

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Terms

_BLOCK = 1024
"""Values that are read together where few of them may be needed."""
_ROWS = 1 << 16
"""Rows that are looked at together for one that is visible."""


class ColumnPart(NamedTuple):
    """A field of one segment."""

    field: StoredField
    first: int
    """Row of the segment's first row in the index."""


class Column:
    """A field as the visible rows have it: values of other rows alone do not exist."""

    def __init__(self, name: str, parts: Sequence[ColumnPart], *, length: int, visible: Mask | None = None) -> None:
        """`visible` is (length,) bool; None: all rows are."""
        self.name = name
        self.parts = parts
        self._length = length
        self._visible = visible
        sizes = [len(part.field) for part in parts]
        self._starts = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        """Number of the first value of each part, then the number of all."""

    def within(self, visible: Mask) -> Column:
        """Return the field of some of its visible rows, (n,) bool."""
        both = visible if self._visible is None else self._visible & visible
        return Column(self.name, self.parts, length=self._length, visible=both)

    @property
    def is_there(self) -> bool:
        """True if a visible row has a value."""
        if self._visible is None:
            return self._starts[-1] > 0
        for field, first in self.parts:
            rows = field.rows(0, len(field))
            for start in range(0, len(rows), _ROWS):
                if self._visible[first + rows[start : start + _ROWS]].any():
                    return True
        return False

    # ---------------------------------------------------------------------------------- values by their numbers

    def text(self, value: int) -> str:
        """Return a value as written."""
        number = int(np.searchsorted(self._starts, value, side="right")) - 1
        return self.parts[number].field.text(value - self._starts[number])

    def equal(self, values: Sequence[str], globs: Collection[str]) -> Mask:
        """Return the values that are equal to any of `values`, or match it if it is in `globs`; (v,) bool."""
        return self._flags(lambda field: field.equal(values, globs))

    def compared(self, operator: str, values: Sequence[str]) -> Mask:
        """Return the values that are numbers or dates in the relation to any of `values`; (v,) bool.

        Raises:
            UsageError: one of these is neither.
        """
        return self._flags(lambda field: field.compared(operator, values))

    def _flags(self, mark: Callable[[StoredField], Mask]) -> Mask:
        return np.concatenate([self._shown(part, mark(part.field)) for part in self.parts])

    def _shown(self, part: ColumnPart, flags: Mask) -> Mask:
        """Return marked values without those that no visible row has."""
        marked = np.flatnonzero(flags)
        if self._visible is None or not len(marked):
            return flags
        low, high = int(marked[0]), int(marked[-1]) + 1
        flags[low:high] &= self._counts(part, low, high) > 0
        return flags

    def _counts(self, part: ColumnPart, low: int, high: int) -> Rows:
        """Return the number of visible rows of some values of a part."""
        starts = part.field.starts(low, high)
        if self._visible is None or low == high:
            return np.diff(starts)
        shown = self._visible[part.first + part.field.rows(low, high)]
        return np.add.reduceat(shown, starts[:-1], dtype=np.int64)

    def mask(self, flags: Mask) -> Mask:
        """Return the visible rows that have one of the marked values, (n,) bool."""
        mask = np.zeros(self._length, np.bool_)
        for number, part in enumerate(self.parts):
            marked = flags[self._starts[number] : self._starts[number + 1]]
            values = np.flatnonzero(marked)
            if len(values):
                low, high = int(values[0]), int(values[-1]) + 1
                kept = np.repeat(marked[low:high], np.diff(part.field.starts(low, high)))
                mask[part.first + part.field.rows(low, high)[kept]] = True
        return mask if self._visible is None else mask & self._visible

    @property
    def is_ordered(self) -> bool:
        """True if a value of it is a number or a date."""
        if len(self.numbers):
            return True
        dates = np.zeros(self._starts[-1], np.bool_)
        for number, part in enumerate(self.parts):
            part.field.mark_dates(">=", "0000", dates[self._starts[number] : self._starts[number + 1]])
        return bool(self.mask(dates).any())

    @cached_property
    def counts_by_value(self) -> Rows:
        """(v,) the number of visible rows of each value."""
        return np.concatenate([self._counts(part, 0, len(part.field)) for part in self.parts])

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The values that are numbers."""
        found = []
        for part in self.parts:
            shown = np.zeros(len(part.field), np.bool_)
            shown[part.field.numbered] = True
            found.append(part.field.numbers[self._shown(part, shown)[part.field.numbered]])
        return np.concatenate(found)

    @property
    def is_numeric(self) -> bool:
        """True if all values are numbers."""
        return len(self.numbers) == np.count_nonzero(self.counts_by_value)

    # -------------------------------------------------------------------------------------------- rows of a value

    def rows_of(self, form: str) -> Rows:
        """Return the rows with a value of a canonical form, ascending."""
        return self._rows(lambda field: field.find(form))

    def rows_spelled(self, text: str) -> Rows:
        """Return the rows with a value that is written exactly like this, ascending."""
        return self._rows(lambda field: field.spelled(text))

    def rows_by_spelling(self, form: str) -> dict[str, Rows]:
        """Return the rows with a value of a canonical form, ascending, by the value as written."""
        found: dict[str, list[Rows]] = {}
        for field, first in self.parts:
            for value in field.find(form):
                rows = first + field.rows(value, value + 1).astype(np.int64)
                rows = rows if self._visible is None else rows[self._visible[rows]]
                if len(rows):
                    found.setdefault(field.text(value), []).append(rows)
        return {text: rows[0] if len(rows) == 1 else np.concatenate(rows) for text, rows in found.items()}

    def records_with(self, value: str) -> list[int]:
        """Return the rows with a value in any spelling, ascending."""
        rows: list[int] = self.rows_of(canonical(value)).tolist()
        return rows

    def _rows(self, find: Callable[[StoredField], range]) -> Rows:
        found: list[Rows] = []
        for field, first in self.parts:
            values = find(field)
            if values:
                rows = field.rows(values.start, values.stop)
                found.append(first + (rows if len(values) == 1 else np.unique(rows)).astype(np.int64))
        every: Rows = np.concatenate(found) if found else np.empty(0, np.int64)
        return every if self._visible is None else every[self._visible[every]]

    @cached_property
    def rows(self) -> Rows:
        """The visible rows that have a value, ascending."""
        mask = self.mask(np.ones(self._starts[-1], np.bool_))
        return np.flatnonzero(mask)

    # ------------------------------------------------------------------------------------------- values of a row

    def values_of(self, row: int) -> list[str]:
        """Return the values of a row, in its order."""
        if self._visible is not None and not self._visible[row]:
            return []
        for field, first in self.parts:
            if first <= row < first + field.length:
                return [field.text(value) for value in field.values_of(row - first)]
        return []

    def pairs(self, rows: range) -> Iterator[tuple[int, str]]:
        """Yield each value of some adjacent rows with its row, in order of rows."""
        for field, first in self.parts:
            own = range(max(rows.start - first, 0), min(rows.stop - first, field.length))
            if own.start < own.stop:
                for row, value in zip(*(array.tolist() for array in field.values_in(own)), strict=True):
                    if self._visible is None or self._visible[first + row]:
                        yield first + row, field.text(value)

    # ------------------------------------------------------------------------------------------------- all values

    def postings(self) -> Iterator[tuple[list[str], Rows, Terms]]:
        """Yield for each segment its values as written, then each visible row, ascending, with the place of its value
        among these."""
        for field, first in self.parts:
            rows, values = field.values_in(range(field.length))
            shown = slice(None) if self._visible is None else self._visible[first + rows]
            yield field.texts(0, len(field)), first + rows[shown].astype(np.int64), values[shown]

    def texts(self, start: str | None = None, *, descending: bool = False) -> Iterator[str]:
        """Yield the distinct values in order of canonical form and text, read as far as needed: from the
        canonical form `start` on, or backwards from it if `descending`."""
        streams = [self._texts(part, start, descending=descending) for part in self.parts]
        merged = streams[0] if len(streams) == 1 else heapq.merge(*streams, reverse=descending)
        for (_, text), _ in groupby(merged):
            yield text

    def _texts(self, part: ColumnPart, start: str | None, *, descending: bool) -> Iterator[tuple[str, str]]:
        size = len(part.field)
        if descending:
            end = size if start is None else part.field.place(start)
            spans = ((max(stop - _BLOCK, 0), stop) for stop in range(end, 0, -_BLOCK))
        else:
            first = 0 if start is None else part.field.place(start)
            spans = ((low, min(low + _BLOCK, size)) for low in range(first, size, _BLOCK))
        step = -1 if descending else 1
        for low, high in spans:
            shown = (self._counts(part, low, high) > 0).tolist()
            texts = part.field.texts(low, high)
            yield from (
                (canonical(text), text) for text, is_shown in zip(texts[::step], shown[::step], strict=True) if is_shown
            )

    def has_more_than(self, count: int) -> bool:
        """Return True if there are more distinct values than so many."""
        return next(islice(self.texts(), count, None), None) is not None

    def spelling(self, value: str) -> str:
        """Return a value, given in any case, as a record spells it, the alphabetically first of several spellings."""
        return min(self.spellings(canonical(value)), default=value)

    def spellings(self, form: str) -> dict[str, int]:
        """Return the values of a canonical form as written, each with the number of its rows."""
        return {text: len(rows) for text, rows in self.rows_by_spelling(form).items()}

    def counts(self) -> dict[str, int]:
        """Return the number of rows with each value, most frequent first.

        Equal values are one, in the most frequent spelling; a number is printed in its canonical form.
        """
        by_text: Counter[str] = Counter()
        for value in np.flatnonzero(self.counts_by_value).tolist():
            by_text[self.text(value)] += int(self.counts_by_value[value])
        spellings: dict[str, list[tuple[int, str]]] = {}
        for text, count in by_text.items():
            spellings.setdefault(canonical(text), []).append((-count, text))
        merged = [(sum(count for count, _ in same), form, displayed(min(same)[1])) for form, same in spellings.items()]
        return {text: -count for count, _, text in sorted(merged)}

    def most_frequent(self, most: int) -> tuple[list[tuple[str, int]], int]:
        """Return the `most` frequent values as written, with the number of their rows, and the number of all values; of
        equally frequent ones the first in order."""
        firsts, totals = self._distinct()
        there = totals > 0
        firsts, totals = firsts[there], totals[there]
        top: list[tuple[int, str, str]] = []
        for number in range(len(self.parts)):
            inside = slice(*np.searchsorted(firsts, self._starts[number : number + 2]).tolist())
            for place in _largest(totals[inside], most):
                text = self.text(int(firsts[inside][place]))
                top.append((-int(totals[inside][place]), canonical(text), text))
        return [(text, -count) for count, _, text in sorted(top)[:most]], len(firsts)

    def _distinct(self) -> tuple[Rows, Rows]:
        """Return the first number of each distinct value, ascending, and the number of its rows."""
        if len(self.parts) == 1:
            return np.arange(self._starts[-1]), self.counts_by_value
        hashes = np.concatenate([part.field.hashes() for part in self.parts])
        _, firsts, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        totals = np.bincount(inverse, self.counts_by_value, len(firsts)).astype(np.int64)
        order = np.argsort(firsts)
        return firsts[order], totals[order]

    def places(self, *, descending: bool) -> NDArray[np.float64]:
        """Return the place of each row in the order of its least value, or if `descending` of its greatest, (n,)
        float64: numbers first, equal values at one place, infinite without a value. Of years, months and days together,
        the forms are in the order of time."""
        values = np.flatnonzero(self.counts_by_value)
        forms = [canonical(self.text(value)) for value in values.tolist()]
        ranks = {form: rank for rank, form in enumerate(sorted(set(forms)))}
        order = np.zeros(self._starts[-1])
        order[values] = [ranks[form] + len(self.numbers) for form in forms]
        if any(period_of(form) is None for form in forms):
            for number, part in enumerate(self.parts):
                ordered = np.searchsorted(np.unique(self.numbers), part.field.numbers)
                order[self._starts[number] + part.field.numbered] = ordered
        order = -order if descending else order
        places = np.full(self._length, np.inf)
        for number, part in enumerate(self.parts):
            own = order[self._starts[number] : self._starts[number + 1]]
            counts = np.diff(part.field.starts(0, len(own)))
            np.minimum.at(places, part.first + part.field.rows(0, len(own)), np.repeat(own, counts))
        if self._visible is not None:
            places[~self._visible] = np.inf
        return places

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


def _largest(totals: Rows, most: int) -> list[int]:
    """Return the places of the largest numbers; of equal ones the first."""
    if len(totals) <= most:
        return list(range(len(totals)))
    least = -int(np.partition(-totals, most - 1)[most - 1])
    above = np.flatnonzero(totals > least)
    return [*above.tolist(), *np.flatnonzero(totals == least)[: most - len(above)].tolist()]
