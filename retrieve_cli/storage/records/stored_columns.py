"""`columns.pkl` of one segment: the distinct values of each field, in order of their canonical form, each with its
rows.

The values of all fields are in one vocabulary, in order of field, canonical form and text. Opening reads none of the
arrays but their lengths; each part is checked when it is read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
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
_SMALL = 4096
"""Values of a field, or values of all its rows, up to which they are kept in memory; of a larger one as many canonical
forms are, because a bisection begins with the same ones every time."""
_FEW = 32
"""Numbers that are compared one by one: NumPy takes longer for so few."""
DTYPES = {
    "names": "|u1",
    "name_ends": "<i8",
    "text": "|u1",
    "ends": "<i8",
    "value_starts": "<i8",
    "number_starts": "<i8",
    "numbered": "<i4",
    "numbers": "<f8",
    "row_starts": "<i8",
    "rows": "<i4",
    "owners": "<i4",
    "values": "<i4",
}
COMPARISONS: Mapping[str, Callable[..., Any]] = {
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
            self.arrays: dict[str, NDArray[Any]] = {name: stored[name] for name in DTYPES}
            is_sound = self._length >= 0 and _fits(self.arrays)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"columns.pkl is incomplete ({quoted(error)})", hint=HINT) from error
        if not is_sound:
            raise IndexCorrupt("the arrays of columns.pkl do not fit each other", hint=HINT)
        self.vocabulary = Vocabulary(stored["text"], stored["ends"])
        self._fields: dict[str, StoredField] = {}

    def __len__(self) -> int:
        """Number of rows."""
        return self._length

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The stored names of fields, in order, and their numbers."""
        words = Vocabulary(self.arrays["names"], self.arrays["name_ends"])
        return {words[number]: number for number in range(len(words))}

    @property
    def fields(self) -> Iterator[tuple[str, StoredField]]:
        """The fields by their stored names, in order. Raises: IndexCorrupt."""
        return ((name, StoredField(self, name, number)) for name, number in self.numbers.items())

    def field(self, name: str) -> StoredField | None:
        """Return a field by its stored name; None if no row has it. Raises: IndexCorrupt."""
        if name not in self._fields and name in self.numbers:
            self._fields[name] = StoredField(self, name, self.numbers[name])
        return self._fields.get(name)


class StoredField:
    """A field of one segment: its values are numbered from 0, in order of canonical form and text."""

    def __init__(self, stored: StoredColumns, name: str, number: int) -> None:
        arrays = stored.arrays
        first, end = arrays["value_starts"][number : number + 2].tolist()
        low, high = arrays["number_starts"][number : number + 2].tolist()
        self.name = name
        self.vocabulary = stored.vocabulary
        self.length = len(stored)
        """Number of rows of the segment."""
        self._first: int = first
        self._size: int = end - first
        self._starts: Rows = arrays["row_starts"][first : end + 1]
        self._low, self._high = int(self._starts[0]), int(self._starts[-1])
        if not 0 <= self._low <= self._high <= len(arrays["rows"]):
            raise self._damaged()
        self._rows: Terms = arrays["rows"][self._low : self._high]
        self._owners: Terms = arrays["owners"][self._low : self._high]
        self._values: Terms = arrays["values"][self._low : self._high]
        self._numbered: Terms = arrays["numbered"][low:high]
        self._forms: dict[int, str] = {}
        self.numbers: NDArray[np.float64] = arrays["numbers"][low:high]
        """(m,) the values that are numbers, as numbers."""

    def __len__(self) -> int:
        """Number of distinct values."""
        return self._size

    def _damaged(self) -> IndexCorrupt:
        return IndexCorrupt(f"the column {quoted(self.name)} of columns.pkl is damaged", hint=HINT)

    def text(self, value: int) -> str:
        """Return a value as written."""
        return self.vocabulary[self._first + value]

    def raw(self, value: int) -> bytes:
        """Return a value as UTF-8."""
        return self.vocabulary.raw(self._first + value)

    def form(self, value: int) -> str:
        """Return the canonical form of a value."""
        form = self._forms.get(value)
        if form is None:
            form = canonical(self.text(value))
            if len(self._forms) < _SMALL:
                self._forms[value] = form
        return form

    def texts(self, first: int, end: int) -> list[str]:
        """Return the values from `first` up to but not `end` as written."""
        if first == end:
            return []
        return self.vocabulary.texts(range(self._first + first, self._first + end))

    def hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each value, (v,): equal texts have equal ones, also in other segments."""
        return self.vocabulary.hashes(range(self._first, self._first + self._size))

    def place(self, form: str) -> int:
        """Return the first value of which the canonical form is not before `form`."""
        return bisect_left(range(self._size), form, key=self.form)

    def find(self, form: str) -> range:
        """Return the values of a canonical form: its spellings."""
        if self._size <= _SMALL:
            return self._forms_of_few.get(form, range(0))
        first = end = self.place(form)
        while end < self._size and self.form(end) == form:
            end += 1
        return range(first, end)

    @cached_property
    def _forms_of_few(self) -> dict[str, range]:
        ends: dict[str, range] = {}
        for value, form in enumerate(map(canonical, self.texts(0, self._size))):
            ends[form] = range(ends[form].start if form in ends else value, value + 1)
        return ends

    def spelled(self, text: str) -> range:
        """Return the value that is written exactly like this; an empty range if no value is."""
        for value in self.find(canonical(text)):
            if self.text(value) == text:
                return range(value, value + 1)
        return range(0)

    def starts(self, first: int, end: int) -> Rows:
        """Return where the rows of each value from `first` to `end` begin, (end - first + 1,), counted from the first
        of them. Raises: IndexCorrupt."""
        starts: Rows = self._starts[first : end + 1]
        if not (starts[0] >= self._low and starts[-1] <= self._high and (starts[1:] > starts[:-1]).all()):
            raise self._damaged()
        counted: Rows = starts - starts[0]
        return counted

    def rows(self, first: int, end: int) -> Terms:
        """Return the rows of the values from `first` up to but not `end`, ascending for each value.

        Raises:
            IndexCorrupt: a row does not exist.
        """
        low, high = self._starts.item(first) - self._low, self._starts.item(end) - self._low
        if not 0 <= low <= high <= len(self._rows):
            raise self._damaged()
        return self._checked(self._rows[low:high], self.length)

    def values_in(self, rows: range) -> tuple[Terms, Terms]:
        """Return the values of some adjacent rows: the row of each, ascending, and its number, in the order of the row.

        Raises:
            IndexCorrupt: a row or a value does not exist.
        """
        part = slice(0, len(self._owners))
        if rows != range(self.length):
            low, high = np.int32(rows.start), np.int32(rows.stop)  # of another type, all rows would be copied
            part = slice(int(self._owners.searchsorted(low)), int(self._owners.searchsorted(high)))
        return self._checked(self._owners[part], self.length), self._checked(self._values[part], self._size)

    def values_of(self, row: int) -> list[int]:
        """Return the values of a row, in its order. Raises: IndexCorrupt: a value does not exist."""
        if len(self._owners) <= _SMALL:
            return self._values_of_few.get(row, [])
        values: list[int] = self.values_in(range(row, row + 1))[1].tolist()
        return values

    @cached_property
    def _values_of_few(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for row, value in zip(*(array.tolist() for array in self.values_in(range(self.length))), strict=True):
            found.setdefault(row, []).append(value)
        return found

    def _checked(self, numbers: Terms, limit: int) -> Terms:
        if len(numbers) > _FEW:
            least, most = int(numbers.min()), int(numbers.max())
        else:
            listed = numbers.tolist()
            least, most = min(listed, default=0), max(listed, default=0)
        if least < 0 or (most >= limit and len(numbers)):
            raise self._damaged()
        return numbers

    @cached_property
    def numbered(self) -> Terms:
        """(m,) values that are numbers, ascending. Raises: IndexCorrupt."""
        if not (self._numbered[1:] > self._numbered[:-1]).all():
            raise self._damaged()
        return self._checked(self._numbered, self._size)

    def equal(self, values: Sequence[str], globs: Collection[str]) -> Mask:
        """Return the values that are equal to any of `values`, or match it if it is in `globs`; (v,) bool."""
        wanted = np.zeros(self._size, np.bool_)
        for value in values:
            if value in globs:
                self._match(folded(value), wanted)
                continue
            for form in meanings(value):
                forms = self.find(form)
                wanted[forms.start : forms.stop] = True
            self.mark_dates("=", value, wanted)
            if (ends := range_of(value)) is not None:
                low, high = ends
                wanted |= self.compared(">=", [low]) & self.compared("<=", [high])
            if self.name == "dimension" and (number := number_of(self.name, value)) is not None:
                wanted[self.numbered[self.numbers == number]] = True
        return wanted

    def compared(self, operator: str, values: Sequence[str]) -> Mask:
        """Return the values that are numbers or dates in the relation to any of `values`; (v,) bool.

        Raises:
            UsageError: one of these is neither.
        """
        wanted = np.zeros(self._size, np.bool_)
        for value in values:
            number = number_of(self.name, value)
            if number is None and period_of(value) is None:
                message = f"{quoted(value)} is not a number or a date to compare {quoted(self.name)} with"
                raise UsageError(message, hint=f"{self.name}{operator}3 or {self.name}{operator}2024-01-31")
            if number is not None:
                wanted[self.numbered[COMPARISONS[operator](self.numbers, number)]] = True
            self.mark_dates(operator, value, wanted)
        return wanted

    def mark_dates(self, operator: str, value: str, wanted: Mask) -> None:
        """Mark the dates that have a relation to a date or a part of one."""
        bounds = dates_from(value, operator)
        if bounds is not None:
            first, end = map(self.place, bounds)
            wanted[first:end] |= np.fromiter(map(is_date, self.texts(first, end)), np.bool_, max(end - first, 0))

    def _match(self, glob: str, wanted: Mask) -> None:
        """Mark the values that match a glob; only those with its literal prefix are compared."""
        from retrieve_cli.storage.records.globs import literal_prefix, path_glob, text_glob

        if self.name in PATHS:
            glob = glob.removeprefix("./")
        pattern = path_glob(glob) if self.name in PATHS else text_glob(glob)
        prefix = literal_prefix(glob)
        first = self.place(prefix)
        end = bisect_right(range(self._size), prefix, first, key=lambda value: self.form(value)[: len(prefix)])
        forms = map(canonical, self.texts(first, end))
        wanted[first:end] |= np.fromiter((pattern.fullmatch(form) is not None for form in forms), np.bool_, end - first)


def ordered_texts(texts: Sequence[str]) -> tuple[list[str], Rows]:
    """Return the distinct texts in order of canonical form and text, and the place of each text among them."""
    forms = list(map(canonical, texts))
    order = sorted(range(len(texts)), key=texts.__getitem__)
    order.sort(key=forms.__getitem__)  # stable: equal forms stay in order of the text
    ordered = [texts[code] for code in order]
    is_first = [True, *(text != last for last, text in pairwise(ordered))][: len(texts)]
    places = np.empty(len(texts), np.int64)
    places[order] = np.cumsum(is_first) - 1
    return [text for text, first in zip(ordered, is_first, strict=True) if first], places


def _fits(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Return True if the arrays have matching types and lengths; their content is checked when a field is read."""
    fields = len(arrays["name_ends"]) - 1
    return (
        all(arrays[name].dtype.str == dtype and arrays[name].ndim == 1 for name, dtype in DTYPES.items())
        and all(len(arrays[name]) == fields + 1 for name in ("value_starts", "number_starts"))
        and rises(arrays["name_ends"], len(arrays["names"]), least=0)
        and rises(arrays["value_starts"], len(arrays["ends"]) - 1, least=0)
        and rises(arrays["number_starts"], len(arrays["numbered"]), least=0)
        and int(arrays["ends"][0]) == int(arrays["row_starts"][0]) == 0
        and int(arrays["ends"][-1]) == len(arrays["text"])
        and int(arrays["row_starts"][-1]) == len(arrays["rows"]) == len(arrays["owners"]) == len(arrays["values"])
        and len(arrays["row_starts"]) == len(arrays["ends"])
        and len(arrays["numbered"]) == len(arrays["numbers"])
    )
