"""`columns.pkl` of one segment: the distinct values of each field, in order of their canonical form, each with its
rows.

The values of all fields are in one vocabulary, in order of field, canonical form and text. Opening checks the lengths
of the arrays; their parts for a field are checked when it is first read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.canonical import (
    canonical,
    dates_from,
    folded,
    is_date,
    meanings,
    period_of,
    range_of,
)
from retrieve_cli.errors import IndexCorrupt, UsageError, quoted
from retrieve_cli.storage.records.record_values import PATHS, number_of
from retrieve_cli.storage.vocabulary import Vocabulary, rises

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Terms

HINT = "retrieve inspect verify"
_REMEMBERED = 4096
"""Canonical forms of a field that are kept in memory: a bisection begins with the same ones every time."""
DTYPES = {
    "value_starts": "<i8",
    "text": "|u1",
    "ends": "<i8",
    "row_starts": "<i8",
    "rows": "<i4",
    "values": "<i4",
    "numbered": "<i4",
    "numbers": "<f8",
}
_COMPARISONS: Mapping[str, Callable[..., Any]] = {
    ">=": np.greater_equal,
    "<=": np.less_equal,
    ">": np.greater,
    "<": np.less,
}


class StoredColumns:
    """The columns of one segment."""

    def __init__(self, stored: Mapping[str, Json]) -> None:
        """`stored` is the content of the file, as `ColumnsWriter` writes it.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        try:
            self._length = int(stored["length"])
            self.names: list[str] = list(map(str, stored["names"]))
            """The stored names of fields, in order."""
            self._numbers = {name: number for number, name in enumerate(self.names)}
            self.arrays: dict[str, NDArray[Any]] = {name: stored[name] for name in DTYPES}
            is_sound = _fits(self.names, self.arrays)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"columns.pkl is incomplete ({quoted(error)})", hint=HINT) from error
        if not is_sound:
            raise IndexCorrupt("the arrays of columns.pkl do not fit each other", hint=HINT)
        self._fields: dict[str, StoredField] = {}

    def __len__(self) -> int:
        """Number of rows."""
        return self._length

    def field(self, name: str) -> StoredField | None:
        """Return a field by its stored name; None if no row has it. Raises: IndexCorrupt."""
        if name not in self._fields and name in self._numbers:
            self._fields[name] = StoredField(self, name, self._numbers[name])
        return self._fields.get(name)


class StoredField(Vocabulary):
    """A field of one segment: its values as written, numbered from 0 in order of canonical form and text."""

    def __init__(self, stored: StoredColumns, name: str, number: int) -> None:
        """Raises: IndexCorrupt: the field is damaged."""
        arrays = stored.arrays
        first, end = arrays["value_starts"][number : number + 2].tolist()
        starts = arrays["row_starts"][first : end + 1]
        pairs = slice(int(starts[0]), int(starts[-1]))
        # Of another type than the array, a bound would have the whole array copied.
        low, high = np.searchsorted(arrays["numbered"], np.array([first, end], np.int32)).tolist()
        super().__init__(arrays["text"], arrays["ends"][first : end + 1])
        self.name = name
        self._forms: dict[int, str] = {}
        self.length = len(stored)
        """Number of rows of the segment."""
        self.starts: Rows = starts - pairs.start
        """(v + 1,) where the rows of each value begin."""
        self.rows: Terms = arrays["rows"][pairs]
        """(p,) the rows of each value, ascending."""
        self.values: Terms = arrays["values"][pairs]
        """(p,) the values of each row, in its order."""
        self.numbered: Terms = arrays["numbered"][low:high] - first
        """(m,) values that are numbers, ascending."""
        self.numbers: NDArray[np.float64] = arrays["numbers"][low:high]
        """(m,) these, as numbers."""
        is_sound = (
            pairs.start >= 0
            and rises(self.starts, len(self.rows), least=1)
            and _within(self.rows, self.length)
            and _within(self.values, len(self))
        )
        if not is_sound:
            raise IndexCorrupt(f"the column {quoted(name)} of columns.pkl is damaged", hint=HINT)

    @cached_property
    def owners(self) -> Terms:
        """(p,) the row of each value in `values`, ascending."""
        return np.sort(self.rows)

    def texts(self, values: Iterable[int]) -> list[str]:
        """Return values as written."""
        return [self[value] for value in values]

    def form(self, value: int) -> str:
        """Return the canonical form of a value."""
        form = self._forms.get(value)
        if form is None:
            form = canonical(self[value])
            if len(self._forms) < _REMEMBERED:
                self._forms[value] = form
        return form

    def start_of(self, form: str) -> int:
        """Return the first value of which the canonical form is not before `form`."""
        return bisect_left(range(len(self)), form, key=self.form)

    def find(self, form: str) -> range:
        """Return the values of a canonical form: its spellings."""
        first = end = self.start_of(form)
        while end < len(self) and self.form(end) == form:
            end += 1
        return range(first, end)

    def rows_of(self, value: int) -> Terms:
        """Return the rows of a value, ascending."""
        return self.rows[self.starts[value] : self.starts[value + 1]]

    def rows_with(self, marked: Mask) -> Terms:
        """Return the rows of the marked values, (v,) bool."""
        return self.rows[np.repeat(marked, np.diff(self.starts))]

    def values_of(self, row: int) -> Terms:
        """Return the values of a row, in its order."""
        bounds = np.array([row, row + 1], np.int32)  # of another type, all rows would be copied
        first, end = np.searchsorted(self.owners, bounds).tolist()
        return self.values[first:end]

    def counts(self, visible: Mask | None) -> Rows:
        """Return the number of rows of each value, of the `visible` ones if given, (v,)."""
        if visible is None:
            return np.diff(self.starts)
        return np.add.reduceat(visible[self.rows], self.starts[:-1], dtype=np.int64)

    def match(self, operator: str, values: Sequence[str], globs: Collection[str] = ()) -> Mask:
        """Return the values that have a relation to any of `values`, or match it if it is in `globs`; (v,) bool.

        Raises:
            UsageError: one of these is not a number or a date, and the operator compares these.
        """
        wanted = np.zeros(len(self), np.bool_)
        for value in values:
            if operator != "=":
                self._mark_compared(operator, value, wanted)
            elif value in globs:
                self._mark_glob(folded(value), wanted)
            else:
                self._mark_equal(value, wanted)
        return wanted

    def _mark_equal(self, value: str, wanted: Mask) -> None:
        for form in meanings(value):
            forms = self.find(form)
            wanted[forms.start : forms.stop] = True
        self._mark_dates("=", value, wanted)
        ends = range_of(value)
        if ends is not None:
            wanted |= self.match(">=", ends[:1]) & self.match("<=", ends[1:])
        number = number_of(self.name, value) if self.name == "dimension" else None
        if number is not None:
            wanted[self.numbered[self.numbers == number]] = True

    def _mark_compared(self, operator: str, value: str, wanted: Mask) -> None:
        number = number_of(self.name, value)
        if number is None and period_of(value) is None:
            message = f"{quoted(value)} is not a number or a date to compare {quoted(self.name)} with"
            raise UsageError(message, hint=f"{self.name}{operator}3 or {self.name}{operator}2024-01-31")
        if number is not None:
            wanted[self.numbered[_COMPARISONS[operator](self.numbers, number)]] = True
        self._mark_dates(operator, value, wanted)

    def _mark_dates(self, operator: str, value: str, wanted: Mask) -> None:
        """Mark the dates that have a relation to a date or a part of one."""
        bounds = dates_from(value, operator)
        if bounds is not None:
            first, end = map(self.start_of, bounds)
            wanted[first:end] |= np.array([is_date(text) for text in self.texts(range(first, end))], np.bool_)

    def _mark_glob(self, glob: str, wanted: Mask) -> None:
        """Mark the values that match a glob; only those with its literal prefix are compared."""
        from retrieve_cli.storage.records.globs import literal_prefix, path_glob, text_glob

        if self.name in PATHS:
            glob = glob.removeprefix("./")
        pattern = path_glob(glob) if self.name in PATHS else text_glob(glob)
        prefix = literal_prefix(glob)
        first = self.start_of(prefix)
        end = bisect_right(range(len(self)), prefix, first, key=lambda value: self.form(value)[: len(prefix)])
        forms = map(canonical, self.texts(range(first, end)))
        wanted[first:end] |= np.array([pattern.fullmatch(form) is not None for form in forms], np.bool_)

    def ordered(self) -> Mask:
        """Return the values that are numbers or dates, (v,) bool."""
        wanted = np.zeros(len(self), np.bool_)
        wanted[self.numbered] = True
        self._mark_dates(">=", "0000", wanted)
        return wanted


def _within(numbers: Terms, limit: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < limit)


def _fits(names: Sequence[str], arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Return True if the arrays have matching types and lengths; their content is checked when a field is read."""
    values = len(arrays["ends"]) - 1
    return (
        all(arrays[name].dtype.str == dtype and arrays[name].ndim == 1 for name, dtype in DTYPES.items())
        and len(arrays["value_starts"]) == len(names) + 1
        and rises(arrays["value_starts"], values, least=0)
        and len(arrays["row_starts"]) == values + 1
        and int(arrays["ends"][-1]) == len(arrays["text"])
        and int(arrays["row_starts"][-1]) == len(arrays["rows"]) == len(arrays["values"])
        and len(arrays["numbered"]) == len(arrays["numbers"])
        and bool((np.diff(arrays["numbered"], prepend=-1, append=values) > 0).all())
    )
