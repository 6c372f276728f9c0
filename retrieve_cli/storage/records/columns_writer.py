"""Writer of `columns.pkl`: the columns of new records, and of records of one older generation."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.storage import pickles
from retrieve_cli.storage.pickles import Later
from retrieve_cli.storage.postings import PostingsWriter, PostingTable, kept_by_group, kept_values
from retrieve_cli.storage.records.column import number_of, values_of
from retrieve_cli.storage.records.columns import DTYPES, Columns
from retrieve_cli.storage.vocabulary import MergedTexts, TextBuffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.records.column import Flags

_NONE: Mapping[str, Json] = {
    "length": 0,
    **{name: np.zeros(int(name.endswith(("ends", "starts"))), dtype) for name, dtype in DTYPES.items()},
}
"""The columns of no records."""


class ColumnsWriter:
    """Gathers the columns of records in their order: new records (`append`) and records of one older generation
    (`keep`)."""

    def __init__(self) -> None:
        self._old: Columns | None = None
        self._fresh = FreshValues()
        self._postings = PostingsWriter()

    def append(self, row: Mapping[str, Json]) -> None:
        """Add a record, given as its row of `records.jsonl`."""
        self.add(values_of(row))

    def add(self, fields: Mapping[str, Sequence[str]]) -> None:
        """Add a row, given as the distinct values of each of its fields."""
        code = self._fresh.code
        self._postings.add(code(field, value) for field, values in fields.items() for value in values)

    def keep(self, old: Columns, record: int) -> None:
        """Add a record of older columns, each at most once, without reading it."""
        self.keep_all(old, range(record, record + 1))

    def keep_all(self, old: Columns, records: range) -> None:
        """Add consecutive records of older columns."""
        if self._old is None:
            self._old = old
        elif self._old is not old:
            raise ValueError("records are kept from one older generation")
        self._postings.keep_all(records)

    def finish(self) -> dict[str, Json]:
        """Return the content of the file; the same records give the same arrays, no matter which of them were kept. The
        gathered values are consumed."""
        return pickles.fill(*self._merged())

    def write(self, path: Path) -> None:
        """Write the file, with little of it in memory at a time. The gathered values are used up."""
        stored, blocks = self._merged()
        pickles.dump(stored, path, blocks)

    def _merged(self) -> tuple[dict[str, Json], Iterator[tuple[Later, NDArray[Any]]]]:
        old = Columns(_NONE) if self._old is None else self._old
        stored = old.arrays
        table = PostingTable(stored["posting_starts"], stored["records"], stored["values"], len(old))
        origins = self._postings.origins(len(old))
        names = MergedVocabulary(old, kept_values(table, origins, len(old.vocabulary)), self._fresh)
        codes, self._fresh = len(self._fresh), FreshValues()
        groups = names.fields[names.of_fresh]
        counts = np.zeros(len(names.names), np.int64)
        left = names.of_field >= 0
        counts[names.of_field[left]] += kept_by_group(table, origins)[left]
        np.add.at(counts, groups, self._postings.added_by_term(codes))
        starts = np.append(0, np.cumsum(counts))
        records, values = Later("<i4", (int(starts[-1]),)), Later("<i4", (int(starts[-1]),))
        merged = self._postings.merged(
            table, origins, counts, old_groups=names.of_field, groups=groups, values=(names.of_old, names.of_fresh)
        )
        content = {
            "length": len(self._postings),
            **names.arrays,
            "posting_starts": starts,
            "records": records,
            "values": values,
        }
        return content, (part for block in merged for part in ((records, block.rows), (values, block.values)))


class FreshValues:
    """Values of new records under codes, in order of arrival; a value may have several."""

    _MOST = 1 << 17
    """Values whose code is remembered; beyond it they are forgotten, and a repeated value gets another code."""

    def __init__(self) -> None:
        self._words = TextBuffer()
        self._fields = array("i")
        self._names: dict[str, int] = {}
        self._known: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        """Number of codes."""
        return len(self._fields)

    def code(self, field: str, value: str) -> int:
        """Return the code of a value of a field."""
        code = self._known.get((field, value))
        if code is None:
            if len(self._known) >= self._MOST:
                self._known = {}
            code = self._known[field, value] = len(self._fields)
            self._fields.append(self._names.setdefault(field, len(self._names)))
            self._words.append(value.encode())
        return code

    @property
    def fields(self) -> list[str]:
        """The fields that have values, in order."""
        return sorted(self._names)

    def codes(self, field: str) -> Rows:
        """Return the codes of a field's values."""
        return np.flatnonzero(np.frombuffer(self._fields, np.intc) == self._names[field])

    def values(self, field: str) -> tuple[list[str], Rows]:
        """Return the distinct values of a field in canonical order, and the place of each of its codes."""
        words = [self._words[code].decode() for code in self.codes(field).tolist()]
        folded = list(map(canonical, words))
        order = sorted(range(len(words)), key=words.__getitem__)
        order.sort(key=folded.__getitem__)  # stable: equal folded texts stay in order of the text
        del folded
        ordered = [words[number] for number in order]
        first = np.array([True, *(word != last for last, word in pairwise(ordered))], np.bool_)[: len(words)]
        places = np.empty(len(words), np.int64)
        places[np.array(order, np.int64)] = np.cumsum(first) - 1
        return [word for word, new in zip(ordered, first.tolist(), strict=True) if new], places


class MergedVocabulary:
    """The vocabulary of older columns without unused values, with new values in their places."""

    def __init__(self, old: Columns, used: Flags, fresh: FreshValues) -> None:
        """`used` marks the old values that are still there."""
        self._old = old
        self._new_numbers: tuple[array[int], array[float]] = array("q"), array("d")
        """The new values that are numbers, and these numbers."""
        words, where = TextBuffer(), array("q")
        at, news, own = np.zeros(len(fresh), np.int64), np.full(len(fresh), -1, np.int64), array("i")
        for number, field in enumerate(fresh.fields):
            values, of_code = fresh.values(field)
            places = [old.place(field, value) for value in values] if len(old) else [(0, False)] * len(values)
            first = len(words)
            for value, (place, known) in zip(values, places, strict=True):
                if known:
                    used[place] = True
                else:
                    if (amount := number_of(field, value)) is not None:
                        self._new_numbers[0].append(len(words))
                        self._new_numbers[1].append(amount)
                    words.append(value.encode())
                    where.append(place)
                    own.append(number)
            new = np.array([not known for _, known in places])
            codes = fresh.codes(field)
            at[codes] = np.array([place for place, _ in places], np.int64)[of_code]
            news[codes] = np.where(new, first + np.cumsum(new) - 1, -1)[of_code]
        self._texts = MergedTexts(old.vocabulary, used, words, np.array(where, np.int64))
        self.of_old = self._texts.of_old
        """By old value, its number now; -1 if it is no longer used."""
        self.of_fresh = np.where(news < 0, -1, 0)
        """By code of a new value, its number now."""
        self.of_fresh[news < 0] = self.of_old[at[news < 0]]
        self.of_fresh[news >= 0] = self._texts.of_fresh[news[news >= 0]]
        self._name([fresh.fields[number] for number in sorted(set(own))], np.array(own, np.int64))

    def _name(self, new: list[str], own: Rows) -> None:
        """Set the names of remaining fields, and the field of each value; `own` numbers the fields of new values."""
        old, kept = self._old, self._texts.kept
        fields = np.repeat(np.arange(len(old.names)), np.diff(old.arrays["value_starts"]))[kept]
        self.names = sorted({old.names[number] for number in np.unique(fields)} | set(new))
        position = {name: number for number, name in enumerate(self.names)}
        self.of_field = np.array([position.get(name, -1) for name in old.names], np.int64)
        """By field of the older columns, its place among `names`; -1 if it is no longer there."""
        added = np.searchsorted(np.unique(own), own)
        inserted = np.array([position[name] for name in new], np.int64)[added]
        self.fields = np.insert(self.of_field[fields], self._texts.before, inserted)
        """By value, the place of its field among `names`."""

    @property
    def arrays(self) -> dict[str, Json]:
        """Return the vocabulary in its stored form."""
        names = [name.encode() for name in self.names]
        old = self._old.arrays
        kept = self.of_old[old["numbered"]]
        left = kept >= 0
        added = self._texts.of_fresh[np.array(self._new_numbers[0], np.int64)]
        numbered = np.concatenate([kept[left], added])
        numbers = np.concatenate([old["numbers"][left], np.array(self._new_numbers[1], np.float64)])
        order = np.argsort(numbered)
        numbered = numbered[order].astype(np.int32)
        starts = np.searchsorted(self.fields, np.arange(len(self.names) + 1)).astype(np.int64)
        return {
            "names": np.frombuffer(b"".join(names), np.uint8),
            "name_ends": np.cumsum([0, *map(len, names)], dtype=np.int64),
            "text": self._texts.text,
            "ends": self._texts.ends,
            "value_starts": starts,
            "number_starts": np.searchsorted(numbered, starts).astype(np.int64),
            "numbered": numbered,
            "numbers": numbers[order],
        }
