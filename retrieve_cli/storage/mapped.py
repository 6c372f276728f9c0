"""A file of an index, mapped into memory; where its blocks have sums, those that are read are held to them first.

A flipped bit in vectors, postings or texts changes an answer and nothing else shows it. SHA-1 over all files would: at
a tenth of a cold query's time, and for parts that the query never looks at. The sum of a block is read at the speed of
memory, from pages that the query reads anyway, and each block is looked at once as long as the file is open.

The sum of a block of 64 KiB: its pages of 4 KiB are summed as 64-bit words, and the sums of the pages once more, each
times another odd number, all modulo 2**64. Every single flipped bit, every change within 64 bits in a row, and pages
that changed places give another sum, and so does what is random. Several changes within one page may cancel out: of two
flipped bits, one pair in 128 does. What a sum says is never the last word: SHA-1 is, see `inspect verify`.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import finalize

import numpy as np

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.untrusted.files import open_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Sums = NDArray[np.uint64]
    Check: TypeAlias = Callable[..., None]
    """Holds arrays to what was written. Raises: IndexCorrupt if a block that they lie in is damaged."""

BLOCK = 1 << 16
"""Bytes of a block: what the kernel maps at a page fault, so that checking a block touches no more than reading it."""
_PAGE = 512
"""Words of a page."""
_PAGES = BLOCK // (8 * _PAGE)
_FACTORS = np.arange(1, 2 * _PAGES, 2, dtype=np.uint64)
_AT_ONCE = 256
"""Blocks summed at a time; bounds the memory."""


def unchecked(*parts: NDArray[Any]) -> None:
    """The check of what does not lie in a file."""


def unreleased() -> None:
    """Let go of nothing: for what does not lie in a file."""


def block_sums(data: Bytes) -> Sums:
    """Return the sum of each block; the last one is filled up with zeros."""
    whole = len(data) - len(data) % BLOCK
    if whole == len(data) <= _AT_ONCE * BLOCK:
        return _sums(data)
    found = [_sums(data[start : min(start + _AT_ONCE * BLOCK, whole)]) for start in range(0, whole, _AT_ONCE * BLOCK)]
    if whole < len(data):
        last = np.zeros(BLOCK, np.uint8)
        last[: len(data) - whole] = data[whole:]
        found.append(_sums(last))
    return np.concatenate([np.empty(0, np.uint64), *found])


def _sums(blocks: Bytes) -> Sums:
    """Sums of whole blocks, without a copy of them."""
    pages = np.add.reduce(blocks.view("<u8").reshape(-1, _PAGE), axis=1)
    sums: Sums = pages.reshape(-1, _PAGES) @ _FACTORS
    return sums


class MappedFile:
    """A regular file, mapped into memory. Threads may share one."""

    def __init__(self, path: Path, sums: Sums | None = None, fault: Callable[[], str] = str) -> None:
        """`sums` are those that its blocks had when it was written; None if nobody kept them, and nothing is checked.

        `fault` reads the whole file where they differ, and says what is wrong with it, nothing if it is as it was
        written: then it is the sums that are damaged.

        Raises:
            OSError: it cannot be read, or is not a regular file.
        """
        self.path = path
        self._fault = fault
        with open_regular(path) as file:
            size = file.seek(0, 2)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
            self._descriptor = os.dup(file.fileno())
        finalize(self, os.close, self._descriptor)

        self.memory = memoryview(b"" if self._map is None else self._map)
        self.data: Bytes = np.frombuffer(self.memory, np.uint8)
        self._first = _address(self.data)
        self._sums = sums
        self._sound = np.zeros(-(-size // BLOCK), np.bool_)
        self._settled = sums is None
        """True as soon as nothing is left to check."""
        self._sparse = False

    @classmethod
    def of(cls, file: Path | MappedFile) -> MappedFile:
        """Return the file, mapped if it is not yet. Raises: OSError."""
        return file if isinstance(file, MappedFile) else cls(file)

    def __len__(self) -> int:
        return len(self.data)

    def read_here_and_there(self) -> None:
        """Tell the system to read no more of the disk than is asked for: it reads megabytes around a page otherwise.

        What is checked is read a block at a time; without sums nothing would be, and nothing is told.
        """
        if self._sums is not None and self._map is not None and hasattr(mmap, "MADV_RANDOM"):
            self._map.madvise(mmap.MADV_RANDOM)
            self._sparse = True

    def fetch(self, first: int = 0, end: int | None = None) -> None:
        """Have the bytes from `first` up to but not `end` read from the disk, at once and not page by page."""
        end = len(self.data) if end is None else end
        if self._map is not None and first < end and hasattr(mmap, "MADV_WILLNEED"):
            start = first - first % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, start, end - start)

    def release(self) -> None:
        """Let go of the memory that was read: it is read again, from the page cache as a rule, if it is looked at."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def check(self, first: int = 0, end: int | None = None) -> None:
        """Hold the blocks of the bytes from `first` up to but not `end` to their sums.

        Raises:
            IndexCorrupt: one of them is damaged; names the file.
        """
        if self._settled:
            return
        end = len(self.data) if end is None else end
        start, stop = first // BLOCK, -(-end // BLOCK)
        while start < stop and self._sound[start]:
            start += 1
        if start < stop:
            stop = min(stop, len(self._sound))
            if self._sparse:
                self.fetch(start * BLOCK, min(stop * BLOCK, len(self.data)))
            self._verify(start, stop, self.data[start * BLOCK : stop * BLOCK])

    def check_parts(self, *parts: NDArray[Any]) -> None:
        """Hold the blocks that contiguous views of `data` lie in to their sums. Raises: IndexCorrupt."""
        if not self._settled:
            for part in parts:
                self.check(*self.span(part))

    def rows(self, first: int, size: int, rows: NDArray[np.int64]) -> Bytes:
        """Return some rows, (n, size), held to their sums: rows of `size` bytes, the first of which begins at `first`.

        As long as not all of the file was looked at, they are read and not mapped: a page that is touched may bring two
        megabytes into the memory of this process, and what is asked for lies all over the file.

        Raises:
            IndexCorrupt: one of them is damaged.
        """
        if self._settled or not len(rows):
            whole = max(0, len(self.data) - first) // size
            return self.data[first : first + whole * size].reshape(whole, size)[rows]
        found = np.empty((len(rows), size), np.uint8)
        begins = first + rows * size
        blocks = np.unique(np.concatenate([begins // BLOCK, (begins + size - 1) // BLOCK]))
        for block in blocks[~self._sound[blocks]].tolist():
            self._verify(block, block + 1, self._read(block * BLOCK, BLOCK))
        cuts = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        for start, stop in pairwise(cuts):  # rows that follow each other in one stretch
            found[start:stop].reshape(-1)[:] = self._read(int(begins[start]), (stop - start) * size)
        return found

    def _read(self, first: int, size: int) -> Bytes:
        return np.frombuffer(os.pread(self._descriptor, size, first), np.uint8)

    def check_besides(self, *parts: NDArray[Any]) -> None:
        """Hold everything to its sums that no contiguous view of `data` among `parts` covers. Raises: IndexCorrupt."""
        if not self._settled:
            at = 0
            for first, end in sorted(map(self.span, parts)):
                self.check(at, max(at, first))
                at = max(at, end)
            self.check(at)

    def span(self, part: NDArray[Any]) -> tuple[int, int]:
        """Return where a contiguous view of `data` begins and ends in the file; of any other array, 0 and 0."""
        first = _address(part) - self._first
        return (first, first + part.nbytes) if part.size and 0 <= first < len(self.data) else (0, 0)

    def _verify(self, start: int, stop: int, data: Bytes) -> None:
        """Hold blocks that were read to their sums."""
        sums = self._sums
        if sums is not None and len(sums) == len(self._sound) and (block_sums(data) == sums[start:stop]).all():
            self._sound[start:stop] = True
            self._settled = bool(self._sound.all())
            return
        if fault := self._fault():
            hint = "see what else is damaged: retrieve inspect verify; then build again: retrieve build"
            raise IndexCorrupt(fault, hint=hint)
        self._settled = True


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
