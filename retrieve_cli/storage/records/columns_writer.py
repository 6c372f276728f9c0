"""Writer of `columns.pkl`: the values of rows by field, of new rows or of rows of older segments."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.storage import pickles
from retrieve_cli.storage.pickles import Later
from retrieve_cli.storage.records.record_values import number_of
from retrieve_cli.storage.records.stored_columns import DTYPES, StoredColumns, ordered_texts
from retrieve_cli.storage.vocabulary import TextBuffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

_MOST = 1 << 14
"""Values of a field whose code is remembered; beyond it they are forgotten, and a repeated value gets another code."""


class ColumnsWriter:
    """Gathers the values of rows: of new ones in order (`add`), or of segments (`take`)."""

    def __init__(self) -> None:
        self._fields: dict[str, _Field] = defaultdict(_Field)
        self._length = 0

    def add(self, fields: Mapping[str, Sequence[str]]) -> None:
        """Add a row, given as the distinct values of each of its fields."""
        for name, values in fields.items():
            self._fields[name].add(self._length, values)
        self._length += 1

    def take(self, columns: StoredColumns, rows: Rows) -> None:
        """Add rows of a segment: `rows` has the new row of each of its rows, -1 for one that is dropped."""
        for name, field in columns.fields:
            old, values = field.values_in(range(len(columns)))
            kept = rows[old] >= 0
            used, codes = np.unique(values[kept], return_inverse=True)
            if len(used):
                self._fields[name].take(map(field.raw, used.tolist()), codes, rows[old][kept])
        self._length += int(np.count_nonzero(rows >= 0))

    def write(self, path: Path) -> None:
        """Write the file; the same rows give the same bytes, no matter where they came from. The rows are used up."""
        names = sorted(self._fields)
        fields = [self._fields.pop(name).finish(name) for name in names]
        content: dict[str, Any] = {
            "length": self._length,
            "names": np.frombuffer("".join(names).encode(), np.uint8),
            "name_ends": _starts(map(str.encode, names)),
            "value_starts": _starts(field["ends"] for field in fields),
            "number_starts": _starts(field["numbered"] for field in fields),
        }
        shifts = {
            name: _starts(field[of] for field in fields) for name, of in (("ends", "text"), ("row_starts", "rows"))
        }
        blocks: list[tuple[Later, NDArray[Any]]] = []
        for name in ("text", "ends", "numbered", "numbers", "row_starts", "rows", "owners", "values"):
            parts = [field[name] for field in fields]
            if name in shifts:  # counted over all fields, with 0 before the first
                shifted = (part + first for part, first in zip(parts, shifts[name][:-1], strict=True))
                parts = [np.zeros(1, np.int64), *shifted]
            later = content[name] = Later(DTYPES[name], (sum(map(len, parts)),))
            blocks += [(later, part) for part in parts]
        pickles.dump(content, path, blocks)


def _starts(parts: Iterable[Sequence[Any] | NDArray[Any]]) -> Rows:
    """Return where each part begins if one follows the other, and the end of the last."""
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)


class _Field:
    """The values of one field: texts under codes, of which a text may have several, and the codes of each row."""

    def __init__(self) -> None:
        self._texts = TextBuffer()
        self._known: dict[str, int] = {}
        self._rows, self._codes = array("i"), array("i")

    def add(self, row: int, values: Sequence[str]) -> None:
        for value in values:
            code = self._known.get(value)
            if code is None:
                if len(self._known) >= _MOST:
                    self._known = {}
                code = self._known[value] = len(self._texts)
                self._texts.append(value.encode())
            self._rows.append(row)
            self._codes.append(code)

    def take(self, texts: Iterable[bytes], codes: Rows, rows: Rows) -> None:
        self._codes.frombytes((codes + len(self._texts)).astype(np.intc).tobytes())
        self._rows.frombytes(rows.astype(np.intc).tobytes())
        for text in texts:
            self._texts.append(text)

    def finish(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the distinct values in order of canonical form and text, and their rows in both orders."""
        texts, places = ordered_texts([text.decode() for text in self._texts[:]])
        encoded = [text.encode() for text in texts]
        numbers = {value: number for value, text in enumerate(texts) if (number := number_of(name, text)) is not None}
        values, rows = places[np.frombuffer(self._codes, np.intc)], np.frombuffer(self._rows, np.intc)
        by_row = np.argsort(rows, kind="stable")
        return {
            "text": np.frombuffer(b"".join(encoded), np.uint8),
            "ends": np.cumsum([*map(len, encoded)], dtype=np.int64),
            "numbered": np.array([*numbers], np.int32),
            "numbers": np.array([*numbers.values()], np.float64),
            "row_starts": np.cumsum(np.bincount(values), dtype=np.int64),
            "rows": rows[np.lexsort((rows, values))],
            "owners": rows[by_row],
            "values": values[by_row].astype(np.int32),
        }
