"""Writes `columns.pkl`: the columns of new records, and of those that one older generation has."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.records.column_merge import MergedVocabulary
from retrieve_cli.records.column_values import values_of
from retrieve_cli.records.columns import DTYPES, Columns

_NONE: Mapping[str, Json] = {
    "length": 0,
    **{name: np.zeros(int(name.endswith(("ends", "starts"))), dtype) for name, dtype in DTYPES.items()},
}
"""The columns of no records."""


class ColumnsWriter:
    """Gathers the columns of records in their order: new ones (`append`) and those of one older generation (`keep`)."""

    def __init__(self) -> None:
        self._old: Columns | None = None
        self._vocabulary: dict[tuple[str, str], int] = {}
        self._codes = array("i")
        self._sizes = array("i")
        self._origins = array("q")
        """By record, the record of the older columns it is taken from, or -1."""

    def append(self, row: Mapping[str, Json]) -> None:
        """Adds a record, given as its row of `records.jsonl`."""
        before = len(self._codes)
        for field, values in values_of(row).items():
            for value in values:
                self._codes.append(self._vocabulary.setdefault((field, value), len(self._vocabulary)))
        self._sizes.append(len(self._codes) - before)
        self._origins.append(-1)

    def keep(self, old: Columns, record: int) -> None:
        """Adds a record of older columns, each of them at most once, without looking at it."""
        if self._old is None:
            self._old = old
        elif self._old is not old:
            raise ValueError("records are kept from one older generation")
        self._origins.append(record)

    def finish(self) -> dict[str, Json]:
        """What the file holds; the same records give the same arrays, whichever of them were kept."""
        old = Columns(_NONE) if self._old is None else self._old
        origins = np.array(self._origins, np.int64)
        fresh, kept = np.flatnonzero(origins < 0), np.flatnonzero(origins >= 0)
        moved = np.full(len(old), -1, np.int64)
        moved[origins[kept]] = kept
        old_records = moved[old.arrays["records"]]
        still = old_records >= 0
        old_values = old.arrays["values"][still]
        merged = MergedVocabulary(
            old, np.bincount(old_values, minlength=len(old.vocabulary)) > 0, list(self._vocabulary)
        )
        codes = np.array(self._codes, np.int32)
        values = np.concatenate([merged.of_old[old_values], merged.of_fresh[codes]])
        records = np.concatenate([old_records[still], np.repeat(fresh, np.array(self._sizes, np.int64))])
        fields = merged.fields[values]
        # Both parts are in order by themselves, and a stable sort of such a sequence costs little more than a merge.
        order = np.argsort(fields * len(origins) + records, kind="stable")
        return {
            "length": len(origins),
            **merged.arrays,
            "posting_starts": np.searchsorted(fields[order], np.arange(len(merged.names) + 1)).astype(np.int64),
            "records": records[order].astype(np.int32),
            "values": values[order].astype(np.int32),
        }
