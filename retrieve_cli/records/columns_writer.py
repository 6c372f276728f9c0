"""Writes `columns.pkl`: the columns of new records, and of those that one older generation has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.records.column_merge import MergedVocabulary
from retrieve_cli.records.column_values import values_of
from retrieve_cli.records.columns import DTYPES, Columns
from retrieve_cli.storage.postings import PostingsWriter, PostingTable

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows

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
        self._postings = PostingsWriter("i")

    def append(self, row: Mapping[str, Json]) -> None:
        """Adds a record, given as its row of `records.jsonl`."""
        codes = [
            self._vocabulary.setdefault((field, value), len(self._vocabulary))
            for field, values in values_of(row).items()
            for value in values
        ]
        self._postings.add(codes, codes)

    def keep(self, old: Columns, record: int) -> None:
        """Adds a record of older columns, each of them at most once, without looking at it."""
        if self._old is None:
            self._old = old
        elif self._old is not old:
            raise ValueError("records are kept from one older generation")
        self._postings.keep(record)

    def finish(self) -> dict[str, Json]:
        """What the file holds; the same records give the same arrays, whichever of them were kept."""
        old = Columns(_NONE) if self._old is None else self._old
        values = old.arrays["values"]
        kept, added = (
            self._postings.kept(PostingTable(values, old.arrays["records"], values), len(old)),
            self._postings.added(),
        )
        used = np.bincount(kept.values, minlength=len(old.vocabulary)) > 0
        names = MergedVocabulary(old, used, list(self._vocabulary))
        merged = self._postings.merge(
            _renamed(kept, names.of_old[kept.values], names), _renamed(added, names.of_fresh[added.values], names)
        )
        return {
            "length": len(self._postings),
            **names.arrays,
            "posting_starts": merged.starts(len(names.names)),
            "records": merged.rows,
            "values": merged.values.astype(np.int32),
        }


def _renamed(postings: PostingTable, values: Rows, names: MergedVocabulary) -> PostingTable:
    """Return the postings with the numbers that their values have now, by the field of each."""
    return replace(postings, terms=names.fields[values], values=values)
