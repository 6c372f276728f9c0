"""Texts in one contiguous UTF-8 buffer of a file, sorted or not: opening decodes none of them.

Ids of records by row, and rows by id.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, overload

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows


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

    def texts(self, span: range) -> list[str]:
        """Return the texts of `span`, decoded at once."""
        ends = self._checked_ends(span).tolist()
        text = self.text[ends[0] : ends[-1]].tobytes()
        try:
            return [text[start - ends[0] : end - ends[0]].decode() for start, end in pairwise(ends)]
        except UnicodeDecodeError as error:
            raise _damaged(error) from error

    def hashes(self, span: range) -> NDArray[np.uint64]:
        """Return a hash of each text of `span`, (n,): of equal texts the same one."""
        hashes = np.zeros(len(span), np.uint64)
        for first in range(span.start, span.stop, _AT_ONCE):
            part = range(first, min(first + _AT_ONCE, span.stop))
            ends = self._checked_ends(part)
            sizes = np.diff(ends)
            factors = np.cumprod(np.full(int(sizes.max()) + 1, _FACTOR))
            places = np.arange(ends[-1] - ends[0]) - np.repeat(ends[:-1] - ends[0], sizes)
            sums = np.append(np.uint64(0), np.cumsum((self.text[ends[0] : ends[-1]] + _ONE) * factors[places]))
            own = sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]]
            hashes[part.start - span.start : part.stop - span.start] = own
        return hashes

    def _checked_ends(self, span: range) -> Rows:
        """Return the ends of texts, and the start of the first. Raises: IndexCorrupt: they are damaged."""
        ends = self.ends[span.start : span.stop + 1]
        if not (ends[0] >= 0 and ends[-1] <= len(self.text) and (ends[1:] >= ends[:-1]).all()):
            raise _damaged("a text ends before it begins")
        return ends

    @cached_property
    def heads(self) -> NDArray[np.uint64]:
        """The first bytes of each text as a number, (n,): the numbers are in the order of sorted texts."""
        heads = np.zeros(len(self), np.uint64)
        for first in range(0, len(self) if len(self.text) else 0, _AT_ONCE):
            starts, ends = self.ends[:-1][first : first + _AT_ONCE, None], self.ends[1:][first : first + _AT_ONCE, None]
            places = starts + np.arange(_HEAD)
            inside = places < ends
            head = np.where(inside, self.text[np.where(inside, places, 0)], 0).astype(np.uint8)
            heads[first : first + _AT_ONCE] = head.view(">u8")[:, 0]
        return heads

    def find(self, texts: Collection[str]) -> dict[str, int]:
        """Return the places of some texts among the sorted ones; others are skipped."""
        wanted = [text.encode() for text in texts]
        heads = np.array(wanted, f"S{_HEAD}").view(">u8").astype(np.uint64)
        lows = np.searchsorted(self.heads, heads)
        hits = np.flatnonzero(self.heads[np.minimum(lows, len(self) - 1)] == heads) if len(self) else lows[:0]
        lows, highs = lows[hits], np.searchsorted(self.heads, heads[hits], "right")
        # Most have one text with their head, of another length.
        alike = (highs > lows + 1) | (self.ends[lows + 1] - self.ends[lows] == [len(wanted[hit]) for hit in hits])
        found: dict[bytes, int] = {}
        for number, low, high in zip(hits[alike].tolist(), lows[alike].tolist(), highs[alike].tolist(), strict=True):
            raw = wanted[number]
            place = low + bisect_left(range(low, high), raw, key=self.raw)
            if place < high and self.raw(place) == raw:
                found[raw] = place
        return {raw.decode(): place for raw, place in found.items()}

    def beginning_with(self, text: str, lengths: range) -> list[str]:
        """Return the sorted texts that begin with the first eight bytes of a text and have so many bytes."""
        head = text.encode()[:_HEAD]
        least, most = (int.from_bytes(head.ljust(_HEAD, fill), "big") for fill in (b"\0", b"\xff"))
        low = int(np.searchsorted(self.heads, np.uint64(least)))
        high = int(np.searchsorted(self.heads, np.uint64(most), "right"))
        sizes = np.diff(self.ends[low : high + 1])
        places = low + np.flatnonzero((sizes >= lengths.start) & (sizes < lengths.stop))
        return [self[place] for place in places.tolist()]


_HEAD = 8
_AT_ONCE = 1 << 17
_ONE, _FACTOR = np.uint64(1), np.uint64(0x9E3779B97F4A7C15)
"""An odd factor: the hash of a text is the sum of its bytes, each times a power of it, modulo 2^64."""


class TextBuffer(Sequence[bytes]):
    """Growing buffer of contiguous UTF-8 texts."""

    def __init__(self, texts: Iterable[bytes] = ()) -> None:
        self.text = bytearray()
        self._ends = array("q", [0])
        for text in texts:
            self.append(text)

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

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            first, end, step = place.indices(len(self))
            if step != 1:
                return [self[index] for index in range(first, end, step)]
            start, ends = self._ends[first], self._ends[first : max(end, first) + 1]
            text = bytes(self.text[start : ends[-1]])  # one slice: callers may read a million ids this way
            return [text[begin - start : stop - start] for begin, stop in pairwise(ends)]
        number = range(len(self))[place]
        return bytes(self.text[self._ends[number] : self._ends[number + 1]])

    @property
    def ends(self) -> Rows:
        """End of each text, with 0 before the first."""
        return np.array(self._ends, np.int64)


def _damaged(error: object) -> IndexCorrupt:
    return IndexCorrupt(f"columns.pkl is damaged ({error})", hint="retrieve inspect verify")


_FEW_NUMBERED = 64
"""Number of look-ups that compare a text with all others, before a table is built."""


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
        if self._looked_up > _FEW_NUMBERED:
            return self._rows.get(record_id)
        wanted = record_id.encode("utf-8", "surrogatepass")
        text = np.frombuffer(self.text, np.uint8)
        rows = np.flatnonzero(self.ends[1:] - self.ends[:-1] == len(wanted))
        for place in range(len(wanted), 0, -1):  # ids differ at their ends more often than at their starts
            rows = rows[text[self.ends[rows] + (place - 1)] == wanted[place - 1]]
        return int(rows[-1]) if len(rows) else None

    def rows_alike(self, record_id: str) -> list[int]:
        """Return the rows of the ids with the canonical form of this one."""
        return self._alike.get(canonical(record_id), [])

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {self[row]: row for row in range(len(self))}

    @cached_property
    def _alike(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for row in range(len(self)):
            rows.setdefault(canonical(self[row]), []).append(row)
        return rows


def rises(ends: Rows, last: int, *, least: int) -> bool:
    """Return True if `ends` go from 0 to `last` in steps of at least `least`, which is 0 or 1."""
    rising = ends[1:] > ends[:-1] if least else ends[1:] >= ends[:-1]
    return bool(ends[0] == 0 and ends[-1] == last and rising.all())
