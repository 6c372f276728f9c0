"""Writer of `columns.pkl`: the values of rows by field, of new rows or of rows of older segments."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, count, islice
from operator import ne
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.storage import pickles
from retrieve_cli.storage.pickles import Later
from retrieve_cli.storage.records.record_values import number_of
from retrieve_cli.storage.records.stored_columns import DTYPES, StoredColumns, StoredField

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
        for name, number in columns.numbers.items():
            field = StoredField(columns, name, number)
            new_rows = rows[field.owners]
            kept = new_rows >= 0
            used, codes = np.unique(field.values[kept], return_inverse=True)
            if len(used):
                self._fields[name].take([field.raw(value) for value in used.tolist()], codes, new_rows[kept])
        self._length += int(np.count_nonzero(rows >= 0))

    def write(self, path: Path) -> None:
        """Write the file; the same rows give the same bytes, no matter where they came from. The rows are used up."""
        content, blocks = self._contents()
        pickles.dump(content, path, blocks)

    def stored(self) -> dict[str, Any]:
        """Return the content of the file. The rows are used up."""
        return pickles.fill(*self._contents())

    def _contents(self) -> tuple[dict[str, Any], Iterator[tuple[Later, NDArray[Any]]]]:
        self._number()
        names = sorted(name for name, field in self._fields.items() if field.has_values)
        fields = [self._fields.pop(name).sorted(name) for name in names]
        values = sum(len(field.lengths) for field in fields)
        pairs = sum(len(field.rows) for field in fields)
        numbered = sum(len(field.numbered) for field in fields)
        sizes = {
            "text": sum(len(field.text) for field in fields),
            "ends": values + 1,
            "numbered": numbered,
            "numbers": numbered,
            "row_starts": values + 1,
            "rows": pairs,
            "owners": pairs,
            "values": pairs,
        }
        later = {name: Later(DTYPES[name], (size,)) for name, size in sizes.items()}
        content: dict[str, Any] = {
            "length": self._length,
            "names": np.frombuffer("".join(names).encode(), np.uint8),
            "name_ends": _ends([len(name.encode()) for name in names]),
            "value_starts": _ends([len(field.lengths) for field in fields]),
            "number_starts": _ends([len(field.numbered) for field in fields]),
        }
        return {**content, **later}, _blocks(fields, later)


def _ends(sizes: Sequence[int] | NDArray[np.int32]) -> Rows:
    """Return where each part begins if one follows the other, and the end of the last."""
    return np.append(0, np.cumsum(sizes, dtype=np.int64))


def _blocks(fields: list[_SortedField], later: Mapping[str, Later]) -> Iterator[tuple[Later, NDArray[Any]]]:
    """Yield the arrays of one field after the other; texts and rows are counted over all fields."""
    text = pairs = 0
    for name in ("ends", "row_starts"):
        yield later[name], np.zeros(1, np.int64)
    while fields:
        field = fields.pop(0)
        for name, part in field.arrays(text, pairs).items():
            yield later[name], part
        text, pairs = text + len(field.text), pairs + len(field.rows)


class _Field:
    """The values of one field: texts under codes, of which a text may have several, and the codes of rows."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        """Values of the last rows, which have no codes yet."""
        self._waiting_rows: list[int] = []
        self._known: dict[str, int] | None = defaultdict(count().__next__)
        """The codes of the last texts; None once so many values were all different."""
        self._text = bytearray()
        """The texts of all codes, one behind the other; `_lengths` has the bytes of each."""
        self._lengths, self._rows, self._codes = array("i"), array("i"), array("i")

    def add(self, row: int, texts: Sequence[str]) -> None:
        """Add the values of a row."""
        self._waiting.extend(texts)
        if len(texts) == 1:
            self._waiting_rows.append(row)
        else:
            self._waiting_rows.extend([row] * len(texts))

    @property
    def has_values(self) -> bool:
        """True if a row has a value."""
        return len(self._rows) > 0

    def number(self) -> None:
        """Give codes to the values that wait."""
        if not self._waiting:
            return
        new: Iterable[str] = self._waiting
        if self._known is None:
            first = len(self._lengths)
            self._codes.extend(range(first, first + len(self._waiting)))
        else:
            before = len(self._known)
            self._codes.extend(map(self._known.__getitem__, self._waiting))
            new = islice(self._known, before, None)
        self._append([text.encode() for text in new])
        self._rows.extend(self._waiting_rows)
        self._waiting, self._waiting_rows = [], []
        if self._known is not None and len(self._known) > _MOST:
            self._known = (
                None if len(self._lengths) == len(self._rows) else defaultdict(count(len(self._lengths)).__next__)
            )

    def take(self, texts: Sequence[bytes], codes: Rows, rows: Rows) -> None:
        """Add the values of rows, numbered within `texts`. It is not mixed with rows that are added."""
        self._codes.frombytes((codes + len(self._lengths)).astype(np.intc).tobytes())
        self._rows.frombytes(rows.astype(np.intc).tobytes())
        self._append(texts)

    def _append(self, texts: Sequence[bytes]) -> None:
        self._text += b"".join(texts)
        self._lengths.extend(map(len, texts))

    def sorted(self, name: str) -> _SortedField:
        """Return the distinct values in order of canonical form and text, and the number of the value of each row.

        The values are used up.
        """
        texts, end = [], 0
        for length in self._lengths:
            start, end = end, end + length
            texts.append(self._text[start:end].decode())
        del self._text, self._lengths
        order = sorted(range(len(texts)), key=texts.__getitem__)
        order.sort(key=lambda code: canonical(texts[code]))  # stable: equal forms stay in order of the text
        numbers = np.empty(len(texts), np.int32)
        texts = [texts[code] for code in order]
        is_first = [True, *map(ne, texts, texts[1:])]
        numbers[order] = np.cumsum(is_first) - 1
        del order
        distinct = list(compress(texts, is_first))
        return _SortedField(name, distinct, np.frombuffer(self._rows, np.intc), numbers[self._codes])


class _SortedField:
    """The distinct values of one field in order, and the number of the value of each row."""

    def __init__(self, name: str, texts: list[str], rows: NDArray[np.intc], values: NDArray[np.int32]) -> None:
        self.text = "".join(texts).encode()
        self.lengths = np.fromiter((len(text.encode()) for text in texts), np.int32, len(texts))
        """Bytes of each value."""
        first, end = (bisect_left(texts, sign, key=canonical) for sign in "+:")  # a number begins with one of +-.0-9
        amounts = {value: number_of(name, texts[value]) for value in range(first, end)}
        numbers = {value: number for value, number in amounts.items() if number is not None}
        self.numbered = np.array([*numbers], np.int32)
        self.numbers = np.array([*numbers.values()], np.float64)
        self.rows, self._values = rows, values

    def arrays(self, text: int, pairs: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of the file, behind so many bytes of text and so many values of rows."""
        by_row = np.argsort(self.rows, kind="stable")
        owners, values = self.rows[by_row], self._values[by_row]
        return {
            "text": np.frombuffer(self.text, np.uint8),
            "ends": _ends(self.lengths)[1:] + text,
            "numbered": self.numbered,
            "numbers": self.numbers,
            "row_starts": np.cumsum(np.bincount(values), dtype=np.int64) + pairs,
            "rows": owners[np.argsort(values, kind="stable")],
            "owners": owners,
            "values": values,
        }
