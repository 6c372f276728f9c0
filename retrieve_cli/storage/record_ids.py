"""Ids of records by row, and rows by id."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.mapped import pieces, unreleased
from retrieve_cli.storage.vocabulary import Vocabulary

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows

_FEW = 8
"""Number of look-ups that compare ids, before a dictionary of all ids is built."""


class RecordIds:
    """Different ids in one contiguous UTF-8 buffer, in order of rows."""

    def __init__(self, text: bytes | memoryview, ends: Rows) -> None:
        """`ends` has one entry more than there are ids; the first is 0."""
        self.text = text
        self.ends = ends
        self._looked_up = 0

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, row: int) -> str:
        try:
            return str(self.text[self.ends[row] : self.ends[row + 1]], "utf-8")
        except UnicodeDecodeError as error:
            raise IndexCorrupt(f"offsets.pkl is damaged ({error})", hint="retrieve inspect verify") from error

    @property
    def vocabulary(self) -> Vocabulary:
        """The ids as texts of a file."""
        return Vocabulary(np.frombuffer(self.text, np.uint8), self.ends)

    def row(self, record_id: str) -> int | None:
        """Return the row of an id, None if it is missing: the first few ids are compared with all others, then a
        dictionary is built."""
        self._looked_up += 1
        if self._looked_up > _FEW:
            return self._rows.get(record_id)
        wanted = record_id.encode("utf-8", "surrogatepass")
        text = np.frombuffer(self.text, np.uint8)
        rows = np.flatnonzero(self.ends[1:] - self.ends[:-1] == len(wanted))
        for place in range(len(wanted), 0, -1):  # ids differ at their ends more often than at their starts
            rows = rows[text[self.ends[rows] + (place - 1)] == wanted[place - 1]]
        return int(rows[-1]) if len(rows) else None

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {self[row]: row for row in range(len(self))}


def rises(ends: Rows, last: int, *, least: int, release: Callable[[], None] = unreleased) -> bool:
    """Return True if `ends` go from 0 to `last` in steps of at least `least`; `release` is called after each part."""
    rising = ((np.diff(piece) >= least).all() for piece in pieces(ends, release, overlap=1))
    return bool(ends[0] == 0 and ends[-1] == last and all(rising))
