"""Writer of `columns.pkl`: the values of rows by field, of new rows or of rows of older segments."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import compress, count, islice
from operator import ne
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.storage import pickles
from retrieve_cli.storage.records.record_values import number_of
from retrieve_cli.storage.records.stored_columns import DTYPES, StoredColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

_BLOCK = 1024
"""Rows whose values are numbered together."""
_MOST = 1 << 14
"""Values of a field whose code is remembered; beyond it they are forgotten, and a repeated value gets another code."""


class ColumnsWriter:
    """Gathers the values of rows: of new ones in order (`add`), or of segments (`take`)."""

    def __init__(self) -> None:
        self._fields: dict[str, _Field] = defaultdict(_Field)
        self._length = 0

    def add(self, fields: Mapping[str, Sequence[str]]) -> None:
        """Add a row, given as the distinct values of each of its fields."""
        for name, texts in fields.items():
            self._fields[name].add(self._length, texts)
        self._length += 1
        if self._length % _BLOCK == 0:
            self._number()

    def _number(self) -> None:
        for field in self._fields.values():
            field.number()

    def take(self, columns: StoredColumns, rows: Rows) -> None:
        """Add rows of a segment: `rows` has the new row of each of its rows, -1 for one that is dropped."""
        for name in columns.names:
            field = columns.field(name)
            if field is not None:
                new_rows = rows[field.owners]
                kept = new_rows >= 0
                used, codes = np.unique(field.values[kept], return_inverse=True)
                self._fields[name].take(field.texts(used.tolist()), codes, new_rows[kept])
        self._length += int(np.count_nonzero(rows >= 0))

    def write(self, path: Path) -> None:
        """Write the file; the same rows give the same bytes, no matter where they came from. The rows are used up."""
        pickles.dump(self.stored(), path)

    def stored(self) -> dict[str, Any]:
        """Return the content of the file. The rows are used up."""
        self._number()
        names = sorted(name for name, field in self._fields.items() if len(field.rows))
        parts: dict[str, list[NDArray[Any]]] = {name: [np.empty(0, dtype)] for name, dtype in DTYPES.items()}
        values = [0]
        for name in names:
            arrays = self._fields.pop(name).sorted(name)
            arrays["numbered"] += values[-1]
            values.append(values[-1] + len(arrays["ends"]))
            for key, array_of_field in arrays.items():
                parts[key].append(array_of_field)
        content: dict[str, Any] = {"length": self._length, "names": names, "value_starts": np.array(values, np.int64)}
        del parts["value_starts"]
        for key in list(parts):
            content[key] = np.concatenate(parts.pop(key))
        for key in ("ends", "row_starts"):
            content[key] = np.append(0, np.cumsum(content[key]))
        return content


class _Field:
    """The values of one field: texts under codes, of which a text may have several, and the codes of rows."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        """Values of the last rows, which have no codes yet."""
        self._known: dict[str, int] | None = defaultdict(count().__next__)
        """The codes of the last texts; None once so many values were all different."""
        self._text = bytearray()
        """The texts of all codes, one behind the other; `_lengths` has the bytes of each."""
        self._lengths = array("i")
        self.rows = array("i")
        """The row of each value."""
        self._codes = array("i")

    def add(self, row: int, texts: Sequence[str]) -> None:
        """Add the values of a row."""
        self._waiting.extend(texts)
        if len(texts) == 1:
            self.rows.append(row)
        else:
            self.rows.extend([row] * len(texts))

    def number(self) -> None:
        """Give codes to the values that wait."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        if self._known is None:
            first = len(self._lengths)
            self._codes.extend(range(first, first + len(waiting)))
            self._append(waiting)
            return
        before = len(self._known)
        self._codes.extend(map(self._known.__getitem__, waiting))
        self._append(list(islice(self._known, before, None)))
        if len(self._known) > _MOST:
            are_different = len(self._lengths) == len(self._codes)
            self._known = None if are_different else defaultdict(count(len(self._lengths)).__next__)

    def take(self, texts: Sequence[str], codes: Rows, rows: Rows) -> None:
        """Add the values of rows, numbered within `texts`. It is not mixed with rows that are added."""
        self._codes.frombytes((codes + len(self._lengths)).astype(np.intc).tobytes())
        self.rows.frombytes(rows.astype(np.intc).tobytes())
        self._append(texts)

    def _append(self, texts: Sequence[str]) -> None:
        encoded = [text.encode() for text in texts]
        self._text += b"".join(encoded)
        self._lengths.extend(map(len, encoded))

    def sorted(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of the file for this field, with the size of each text and the number of rows of each
        value in place of their ends. The values are used up."""
        texts, end = [], 0
        for length in self._lengths:
            start, end = end, end + length
            texts.append(self._text[start:end].decode())
        del self._text
        order = sorted(range(len(texts)), key=texts.__getitem__)
        order.sort(key=lambda code: canonical(texts[code]))  # stable: equal forms stay in order of the text
        numbers = np.empty(len(texts), np.int32)
        texts = [texts[code] for code in order]
        is_first = [True, *map(ne, texts, texts[1:])]
        numbers[order] = np.cumsum(is_first) - 1
        sizes = np.frombuffer(self._lengths, np.intc)[order][np.array(is_first)]
        del order
        texts = list(compress(texts, is_first))
        rows, values = np.frombuffer(self.rows, np.intc), numbers[self._codes]
        by_row = np.argsort(rows, kind="stable")
        rows, values = rows[by_row], values[by_row]
        return {
            "text": np.frombuffer("".join(texts).encode(), np.uint8),
            "ends": sizes,
            "row_starts": np.bincount(values).astype(np.int32),
            "rows": rows[np.argsort(values, kind="stable")],
            "values": values,
            **_numbers(name, texts),
        }


def _numbers(name: str, texts: list[str]) -> dict[str, NDArray[Any]]:
    """Return the places of the numbers among the values of a field, and the numbers."""
    first, end = (bisect_left(texts, sign, key=canonical) for sign in "+:")  # a number begins with one of +-.0-9
    amounts = {value: number_of(name, texts[value]) for value in range(first, end)}
    numbers = {value: number for value, number in amounts.items() if number is not None}
    return {"numbered": np.array([*numbers], np.int32), "numbers": np.array([*numbers.values()], np.float64)}
