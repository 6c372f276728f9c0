"""Texts in one contiguous UTF-8 buffer of a file, sorted or not: opening decodes none of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Terms

_HEAD = 8
"""Bytes that the terms for a spelling have in common."""


class Vocabulary:
    """Texts in one contiguous UTF-8 buffer; each is decoded on access."""

    def __init__(self, text: NDArray[np.uint8], ends: Rows) -> None:
        """`ends` has one entry more than there are texts; the first is 0."""
        self.text = text
        self.ends = ends
        self._bytes = text.data

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, number: int) -> str:
        try:
            return str(self._view(number), "utf-8")
        except UnicodeDecodeError as error:
            raise _damaged(error) from error

    def raw(self, number: int) -> bytes:
        """Return the bytes of a text. Raises: IndexCorrupt: its ends are damaged."""
        return bytes(self._view(number))

    def _view(self, number: int) -> memoryview:
        start, end = self.ends.item(number), self.ends.item(number + 1)
        if not 0 <= start <= end <= len(self._bytes):
            raise _damaged("a text ends before it begins")
        return self._bytes[start:end]

    def place(self, text: str) -> int | None:
        """Return the place of a text among the sorted ones; None if it is not there."""
        wanted = text.encode()
        place = bisect_left(range(len(self)), wanted, key=self.raw)
        return place if place < len(self) and self.raw(place) == wanted else None

    def beginning_with(self, text: str, lengths: range) -> list[str]:
        """Return the sorted texts that begin with the first eight bytes of a text and have so many bytes."""
        head = text.encode()[:_HEAD]
        low, high = (bisect_left(range(len(self)), bound, key=self.raw) for bound in (head, head + b"\xff"))
        sizes = np.diff(self.ends[low : high + 1])
        places = low + np.flatnonzero((sizes >= lengths.start) & (sizes < lengths.stop))
        return [self[place] for place in places.tolist()]


class RecordIds(Vocabulary):
    """Different ids of records, in order of rows."""

    def __init__(self, text: NDArray[np.uint8], ends: Rows, ranks: Terms) -> None:
        """`ranks` (n,) int32 has the place of each id in their order."""
        super().__init__(text, ends)
        self._ranks = ranks
        self._rows: Terms | None = None

    def row(self, record_id: str) -> int | None:
        """Return the row of an id; None if it is missing."""
        if self._rows is None:
            rows = np.zeros_like(self._ranks)
            try:
                rows[self._ranks] = np.arange(len(self), dtype=np.int32)
            except IndexError as error:
                raise _damaged(error) from error
            self._rows = rows
        wanted = record_id.encode("utf-8", "surrogatepass")
        place = bisect_left(self._rows, wanted, key=self.raw)
        row = int(self._rows[place]) if place < len(self) else 0
        return row if place < len(self) and self.raw(row) == wanted else None


class TextBuffer:
    """Growing buffer of contiguous UTF-8 texts."""

    def __init__(self) -> None:
        self.text = bytearray()
        self._ends = array("q", [0])

    def append(self, text: bytes) -> None:
        """Add a text."""
        self.text += text
        self._ends.append(len(self.text))

    def extend(self, texts: Vocabulary, rows: range) -> None:
        """Add a contiguous range of texts of a file."""
        ends = texts.ends[rows.start : rows.stop + 1]
        moved = ends[1:] + (len(self.text) - int(ends[0]))
        self.text += texts.text[int(ends[0]) : int(ends[-1])].tobytes()
        self._ends.frombytes(moved.astype(np.int64, copy=False).tobytes())

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, span: slice) -> list[bytes]:
        first, end, _ = span.indices(len(self))
        ends = self._ends[first : end + 1]
        text = bytes(self.text[ends[0] : ends[-1]])  # one slice: callers may read a million ids this way
        return [text[start - ends[0] : stop - ends[0]] for start, stop in pairwise(ends)]

    @property
    def ends(self) -> Rows:
        """End of each text, with 0 before the first."""
        return np.array(self._ends, np.int64)


def _damaged(error: object) -> IndexCorrupt:
    return IndexCorrupt(f"a text of the index is damaged ({error})", hint="retrieve inspect verify")


def rises(ends: Rows, last: int, *, least: int) -> bool:
    """Return True if `ends` go from 0 to `last` in steps of at least `least`, which is 0 or 1."""
    rising = ends[1:] > ends[:-1] if least else ends[1:] >= ends[:-1]
    return bool(ends[0] == 0 and ends[-1] == last and rising.all())
