"""Writer of `columns.pkl`: the columns of new records, and of records of one older generation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.records.column_merge import FreshValues, MergedVocabulary
from retrieve_cli.records.column_values import values_of
from retrieve_cli.records.columns import DTYPES, Columns
from retrieve_cli.storage import pickles
from retrieve_cli.storage.mapped import unreleased
from retrieve_cli.storage.pickles import Later
from retrieve_cli.storage.postings import PostingsWriter, PostingTable, kept_by_group, kept_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NONE: Mapping[str, Json] = {
    "length": 0,
    **{name: np.zeros(int(name.endswith(("ends", "starts"))), dtype) for name, dtype in DTYPES.items()},
}
"""The columns of no records."""


class ColumnsWriter:
    """Gathers the columns of records in their order: new ones (`append`) and those of one older generation (`keep`)."""

    def __init__(self) -> None:
        self._old: Columns | None = None
        self._release: Callable[[], None] = unreleased
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

    def keep_all(self, old: Columns, records: range, release: Callable[[], None] = unreleased) -> None:
        """Add consecutive records of older columns; `release` frees the memory in which they are read."""
        if self._old is None:
            self._old, self._release = old, release
        elif self._old is not old:
            raise ValueError("records are kept from one older generation")
        self._postings.keep_all(records)

    def finish(self) -> dict[str, Json]:
        """Return the content of the file; the same records give the same arrays, whichever of them were kept. The
        gathered values are used up."""
        return pickles.fill(*self._merged())

    def write(self, path: Path) -> None:
        """Write the file, with little of it in memory at a time. The gathered values are used up."""
        stored, blocks = self._merged()
        pickles.dump(stored, path, blocks)

    def _merged(self) -> tuple[dict[str, Json], Iterator[tuple[Later, NDArray[Any]]]]:
        old = Columns(_NONE) if self._old is None else self._old
        stored = old.arrays
        table = PostingTable(stored["posting_starts"], stored["records"], stored["values"], len(old), self._release)
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
