"""Columns by which records can be filtered: the values of each field, and the records that have them.

One vocabulary holds the distinct values of all fields, in order of field, canonical form and value; a posting links
a record to one of its values. Postings are in order of field, record and place in the record. All of it is in a dozen
arrays, for any number of fields: opening reads none of them, and a condition reads only the parts of its field.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, UsageError, printable, quoted
from retrieve_cli.storage import pickles
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.records.column import FIELDS, OMITTED, Column, known_as
from retrieve_cli.storage.vocabulary import Vocabulary
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Terms
    from retrieve_cli.storage.records.column import Flags


FILE = "columns.pkl"
CARD = 3
"""Version of the rules for values of a record; part of the recipe, raised if they change."""
_HINT = "retrieve inspect verify"
_LISTED = 40
"""Fields that an error lists."""
DTYPES = {
    "names": "|u1",
    "name_ends": "<i8",
    "text": "|u1",
    "ends": "<i8",
    "value_starts": "<i8",
    "number_starts": "<i8",
    "numbered": "<i4",
    "numbers": "<f8",
    "posting_starts": "<i8",
    "records": "<i4",
    "values": "<i4",
}


class Columns:
    """`columns.pkl`, opened: records that satisfy a condition, and the values of fields."""

    def __init__(self, stored: Mapping[str, Json]) -> None:
        """Takes what `ColumnsWriter` stored.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        try:
            self._length = int(stored["length"])
            self.arrays: dict[str, NDArray[Any]] = {name: stored[name] for name in DTYPES}
            sound = self._length >= 0 and _fits(self.arrays)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"columns.pkl is incomplete ({quoted(error)})", hint=_HINT) from error
        if not sound:
            raise IndexCorrupt("the arrays of columns.pkl do not fit each other", hint=_HINT)
        self.vocabulary = Vocabulary(stored["text"], stored["ends"])
        self.visible: Flags | None = None
        """(n,) bool: the visible records; None: all."""

    def within(self, visible: Flags) -> Columns:
        """Return the columns of the `visible` records, (n,) bool, as if no other records existed.

        Fields and values of other records only are not found, counted or suggested.
        """
        view = copy(self)
        view.visible = visible
        return view

    def __len__(self) -> int:
        """Number of records."""
        return self._length

    @property
    def fields(self) -> list[str]:
        """The fields for which any visible record has a value, in order."""
        return [name for name in self._numbers if self._has(name)]

    @cached_property
    def names(self) -> list[str]:
        """The stored names of fields, in order; `OMITTED` comes first if it is there."""
        words = Vocabulary(self.arrays["names"], self.arrays["name_ends"])
        return [words[number] for number in range(len(words))]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The fields for requests, and their places among `names`."""
        return {name: number for number, name in enumerate(self.names) if name != OMITTED}

    def distinct(self, field: str) -> int:
        """Return the number of stored values of a field, by its stored name; 0 if it is not there. Without a view none
        is read. Spellings that differ in case are counted one by one."""
        if self.visible is not None:
            return len(self.column(field) or ())
        if (number := self._numbers.get(field)) is None:
            return 0
        start, end = self.arrays["value_starts"][number : number + 2].tolist()
        return int(end - start)

    def select(
        self, field: str, operator: str, values: Sequence[str], *, globs: Collection[str] = frozenset()
    ) -> Flags:
        """Return the records that satisfy a condition, (n,) bool: any value of the field has the relation to any of
        `values`. `!=` is true if `=` is false, also for records without the field.

        Values are equal if their canonical forms are (`contracts/canonical.py`), a dimension also as a number (3 is
        3D); `2024-01` is any date of that month, `5..10` any number from 5 to 10. Values that are in `globs` are
        patterns: `*` and `?` match anything, in paths anything but a slash, which takes `**`.

        Raises:
            UsageError: no record has the field, or a comparison needs numbers or dates and the field has none.
        """
        if operator == "!=":
            return ~self.select(field, "=", values, globs=globs)
        column = self.find(field)
        if column is None and operator == "=":
            return self._marked(None, np.zeros_like)
        if column is None or (operator != "=" and not column.is_ordered):
            hint = f"compare its text: {field}=value"
            message = f"the field {quoted(field)} has no numbers or dates to compare by {operator}"
            raise UsageError(message, hint=hint)
        wanted = column.equal(values, globs) if operator == "=" else column.compared(operator, values)
        return self._marked(column, wanted.__getitem__)

    def having(self, field: str, value: str) -> Flags:
        """Return the records that have exactly this value, (n,) bool. Raises: UsageError for an unknown field."""
        column = self.find(field)
        number = None if column is None else column.number(value)
        return self._marked(None if number is None else column, lambda values: values == number)

    def _marked(self, column: Column | None, passes: Callable[[Terms], Flags]) -> Flags:
        """Return the records with a value that passes, (n,) bool."""
        marked: Flags = np.zeros(self._length, np.bool_)
        if column is not None:
            marked[column.records[passes(column.values)]] = True
        return marked

    def column(self, field: str) -> Column | None:
        """Return a field by any of its names; None if no record has it, or may have it."""
        try:
            return self.find(field)
        except UsageError:
            return None

    def find(self, field: str) -> Column | None:
        """Return the column of a field by any of its names, also by the last part of its path if only one field ends
        so; None for one that records may have and none of these has.

        Raises:
            UsageError: no record has, or may have, such a field.
        """
        name = known_as(field)
        inner = name.removeprefix("metadata.")
        if name in FIELDS and not self._has(name):
            return None
        for candidate in (name, inner) if known_as(inner) not in FIELDS else (name,):
            if self._has(candidate):
                return self._column(self._numbers[candidate])
        folded = name.casefold()
        alike = [known for known in self._numbers if known.casefold() == folded and self._has(known)]
        ending = f".{folded}"
        alike = alike or [known for known in self._numbers if known.casefold().endswith(ending) and self._has(known)]
        if len(alike) != 1:
            names = self.fields
            near = nearest(name, names)
            more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            listed = f"fields: {', '.join(names[:_LISTED])}{more}"
            hint = printable(f"did you mean `{near}`? {listed}" if near else listed)
            raise UsageError(f"no record has a field {quoted(field)}", hint=hint)
        return self._column(self._numbers[alike[0]])

    def same(self, field: str, other: str) -> bool:
        """Return True if two names name one field."""
        columns = [self.column(name) for name in (field, other)]
        return columns[0] is not None and columns[1] is not None and columns[0].name == columns[1].name

    def order(self, field: str, *, descending: bool) -> NDArray[np.float64]:
        """Return the place of each record by its least value of a field, or if `descending` by its greatest,
        (n,) float64: numbers before dates and texts, infinite without a value.

        Raises:
            UsageError: no record has the field.
        """
        column = self.find(field)
        places = np.full(self._length, np.inf)
        if column is not None:
            np.minimum.at(places, column.records, column.places(descending=descending)[column.values])
        return places

    def groups(self, field: str) -> tuple[Terms, list[str]]:
        """Return the groups that a field puts records in: (n,) int32 the place of each record's first value among the
        names, -1 if it has none, and the names. Raises: UsageError for an unknown field."""
        column = self.find(field)
        places = np.full(self._length, -1, np.int32)
        if column is None:
            return places, []
        places[column.records[::-1]] = column.values[::-1]  # of several values, the first is written last
        return places, [column.text(value) for value in range(len(column))]

    def values(self, field: str, record: int) -> list[str]:
        """Return the values of a record as written, in its order. Raises: UsageError for an unknown field."""
        column = self.find(field)
        return [] if column is None else column.values_of(record)

    def of_records(self, records: range) -> list[dict[str, list[str]]]:
        """Return the values of some adjacent records by the stored names of fields, in the order of each record."""
        found: list[dict[str, list[str]]] = [{} for _ in records]
        for name in self.fields:
            column = self._column(self._numbers[name])
            part = column.part(records.start, records.stop)
            rows = (column.records[part] - records.start).tolist()
            for row, value in zip(rows, column.values_in(part).tolist(), strict=True):
                found[row].setdefault(name, []).append(column.text(value))
        return found

    def counts(self, field: str) -> dict[str, int]:
        """Return the number of records with each value, most frequent first. Raises: UsageError: unknown field."""
        column = self.find(field)
        return {} if column is None else column.counts()

    @property
    def omitted(self) -> dict[str, int]:
        """By field, the number of records with skipped values: long texts, long lists, objects in lists."""
        if OMITTED not in self.names:
            return {}
        column = self._column(self.names.index(OMITTED))
        totals = np.bincount(column.values, minlength=len(column)).tolist()
        return {column.text(value): total for value, total in enumerate(totals)}

    def place(self, field: str, value: str) -> tuple[int, bool]:
        """Return the place of a value in the vocabulary, or the place where it would be, and whether it is there."""
        number = bisect_left(self.names, field)
        known = number < len(self.names) and self.names[number] == field
        starts = self.arrays["value_starts"]
        span = range(int(starts[number]), int(starts[number + known]))
        place = self.vocabulary.place(span, value)
        return place, place < span.stop and self.vocabulary[place] == value

    def _has(self, name: str) -> bool:
        number = self._numbers.get(name)
        if number is None or self.visible is None:
            return number is not None
        start, end = self.arrays["posting_starts"][number : number + 2].tolist()
        # Numbers out of range are found to be damaged when the column is read.
        records = self.arrays["records"][start:end]
        return bool(self.visible[records.clip(0, self._length - 1)].any())

    def _column(self, number: int) -> Column:
        arrays = self.arrays
        start, end = arrays["value_starts"][number : number + 2].tolist()
        postings = slice(*arrays["posting_starts"][number : number + 2].tolist())
        numbers = slice(*arrays["number_starts"][number : number + 2].tolist())
        column = Column(
            name=self.names[number],
            vocabulary=self.vocabulary,
            span=range(start, end),
            numbered=arrays["numbered"][numbers] - start,
            numbers=arrays["numbers"][numbers],
            records=arrays["records"][postings],
            stored=arrays["values"][postings],
            first=start,
        )
        if not column.sound(self._length):
            raise IndexCorrupt(f"the column {quoted(column.name)} of columns.pkl is damaged", hint=_HINT)
        return column if self.visible is None else column.within(self.visible)


def columns_of(generation: Generation) -> Columns:
    """Return the columns of a generation.

    Raises:
        IndexCorrupt: the file is damaged.
    """
    return generation.once(_open)


def _open(generation: Generation) -> Columns:
    return stored_columns(generation, FILE, len(generation.records), "records")


def stored_columns(generation: Generation, name: str, rows: int, unit: str) -> Columns:
    """Return the columns in a file of a generation, of so many records or chunks.

    Raises:
        IndexCorrupt: it is damaged, or has another number of rows.
    """
    columns = Columns(pickles.load(generation.file(name)))
    if len(columns) != rows:
        raise IndexCorrupt(f"{name} has {len(columns)} rows for {rows} {unit}", hint=_HINT)
    generation.expect(name, len(columns))
    return columns


def _fits(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Return True if the arrays have matching types and lengths; their content is checked by column."""
    fields = len(arrays["name_ends"]) - 1
    return (
        all(arrays[name].dtype.str == dtype and arrays[name].ndim == 1 for name, dtype in DTYPES.items())
        and all(len(arrays[name]) == fields + 1 for name in ("value_starts", "number_starts", "posting_starts"))
        and _rises(arrays["name_ends"], len(arrays["names"]))
        and _rises(arrays["value_starts"], len(arrays["ends"]) - 1)
        and _rises(arrays["number_starts"], len(arrays["numbered"]))
        and _rises(arrays["posting_starts"], len(arrays["records"]))
        and int(arrays["ends"][0]) == 0
        and int(arrays["ends"][-1]) == len(arrays["text"])
        and len(arrays["records"]) == len(arrays["values"])
        and len(arrays["numbered"]) == len(arrays["numbers"])
    )


def _rises(ends: Rows, last: int) -> bool:
    return bool(ends[0] == 0 and ends[-1] == last and (ends[1:] >= ends[:-1]).all())
