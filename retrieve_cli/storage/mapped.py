"""A file of an index, mapped into memory. If its blocks have sums, each block is verified before it is read.

A flipped bit in vectors, postings or texts changes an answer without any other sign. SHA-1 over all files would detect
it, at a tenth of a cold query's time, and for parts that the query never reads. Sums are computed at the speed of
memory, from pages that the query reads anyway, and each block is checked once while the file is open.

The sum of a block of 64 KiB: each of its 4 KiB pages is summed as 64-bit words, then the sums of the pages are summed,
each times another odd number, modulo 2**64. Every single flipped bit, every change within 64 consecutive bits, and
swapped pages change the sum, and so does random data with high probability. Several changes within one page may cancel
out: of two flipped bits, one pair in 128 does. A sum never decides alone: SHA-1 does, see `inspect verify`.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
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
    """Function that verifies the blocks of arrays. Raises: IndexCorrupt if one of these blocks is damaged."""

BLOCK = 1 << 16
"""Bytes of a block: the kernel maps this much at a page fault, so checking a block touches no more than reading it."""
_PAGE = 512
"""Words of a page."""
_PAGES = BLOCK // (8 * _PAGE)
_FACTORS = np.arange(1, 2 * _PAGES, 2, dtype=np.uint64)
_AT_ONCE = 256
"""Blocks summed at a time; bounds the memory."""


def unchecked(*parts: NDArray[Any]) -> None:
    """Check nothing: for arrays that are not part of a file."""


def unreleased() -> None:
    """Release nothing: for arrays that are not part of a file."""


def block_sums(data: Bytes) -> Sums:
    """Return the sum of each block; the last block is padded with zeros."""
    whole = len(data) - len(data) % BLOCK
    if whole == len(data) <= _AT_ONCE * BLOCK:
        return _sums(data)
    parts = [_sums(data[start : min(start + _AT_ONCE * BLOCK, whole)]) for start in range(0, whole, _AT_ONCE * BLOCK)]
    if whole < len(data):
        last = np.zeros(BLOCK, np.uint8)
        last[: len(data) - whole] = data[whole:]
        parts.append(_sums(last))
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _sums(blocks: Bytes) -> Sums:
    pages = np.add.reduce(blocks.view("<u8").reshape(-1, _PAGE), axis=1)
    sums: Sums = pages.reshape(-1, _PAGES) @ _FACTORS
    return sums


def pieces(array: NDArray[Any], release: Callable[[], None], *, overlap: int = 0) -> Iterator[NDArray[Any]]:
    """Yield an array in pieces, each with some of the next one; `release` is called after each."""
    for first in range(0, len(array) - overlap, BLOCK):
        yield array[first : first + BLOCK + overlap]
        release()


class MappedFile:
    """A regular file, mapped into memory. Threads may share one."""

    def __init__(self, path: Path, sums: Sums | None = None, fault: Callable[[], str] = str) -> None:
        """`sums` are the sums of its blocks when it was written; None disables the checks.

        If they differ, `fault` reads the whole file and returns its fault; an empty string means that the file is as
        written and the sums are damaged.

        Raises:
            OSError: the file cannot be read, or is not a regular file.
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
        """True if nothing is left to check."""
        self._sparse = False

    @classmethod
    def of(cls, file: Path | MappedFile) -> MappedFile:
        """Return the file, mapped if it is only a path. Raises: OSError."""
        return file if isinstance(file, MappedFile) else cls(file)

    def __len__(self) -> int:
        return len(self.data)

    def advise_random_reads(self) -> None:
        """Ask the system not to read ahead: by default it reads megabytes around a page.

        Checked files are read a block at a time. Without sums they are not, so this then changes nothing.
        """
        if self._sums is not None and self._map is not None and hasattr(mmap, "MADV_RANDOM"):
            self._map.madvise(mmap.MADV_RANDOM)
            self._sparse = True

    def fetch(self, first: int = 0, end: int | None = None) -> None:
        """Ask the system to read the bytes from `first` up to but not `end` at once, instead of page by page."""
        end = len(self.data) if end is None else end
        if self._map is not None and first < end and hasattr(mmap, "MADV_WILLNEED"):
            start = first - first % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, start, end - start)

    def release(self) -> None:
        """Free the memory of the mapped pages; later access reads them again, usually from the page cache."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def check(self, first: int = 0, end: int | None = None) -> None:
        """Verify the blocks of the bytes from `first` up to but not `end`.

        Raises:
            IndexCorrupt: one of them is damaged; the message names the file.
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

    def copied(self, first: int, end: int) -> bytes:
        """Return the bytes from `first` up to but not `end`, after verifying them. Raises: IndexCorrupt."""
        self.check(first, end)
        return self.data[first:end].tobytes()

    def check_parts(self, *parts: NDArray[Any]) -> None:
        """Verify the blocks of contiguous views of `data`. Raises: IndexCorrupt."""
        if not self._settled:
            self.check_spans([self.span(part) for part in parts])

    def check_spans(self, spans: Sequence[tuple[int, int]]) -> None:
        """Verify the blocks of several stretches of the file, each from its first byte up to its end.

        Raises:
            IndexCorrupt: a block differs from its sum.
        """
        for first, end in spans:
            self.check(first, end)

    def rows(self, first: int, size: int, rows: NDArray[np.int64]) -> Bytes:
        """Return some rows, (n, size), after verifying them: rows of `size` bytes, the first of which is at `first`.

        Until the whole file is verified, rows are read instead of mapped: touching a mapped page may load two megabytes
        into the memory of this process, and the rows are scattered over the file.

        Raises:
            IndexCorrupt: one of them is damaged.
        """
        if self._settled or not len(rows):
            whole = max(0, len(self.data) - first) // size
            return self.data[first : first + whole * size].reshape(whole, size)[rows]
        values = np.empty((len(rows), size), np.uint8)
        begins = first + rows * size
        blocks = np.unique(np.concatenate([begins // BLOCK, (begins + size - 1) // BLOCK]))
        self._verify_each(blocks[~self._sound[blocks]])
        cuts = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        for start, stop in pairwise(cuts):  # consecutive rows in one read
            values[start:stop].reshape(-1)[:] = self._read(int(begins[start]), (stop - start) * size)
        return values

    def _read(self, first: int, size: int) -> Bytes:
        return np.frombuffer(os.pread(self._descriptor, size, first), np.uint8)

    def check_besides(self, *parts: NDArray[Any]) -> None:
        """Verify everything that no contiguous view of `data` among `parts` covers. Raises: IndexCorrupt."""
        if not self._settled:
            done, spans = 0, []
            for first, end in sorted(map(self.span, parts)):
                spans.append((done, max(done, first)))
                done = max(done, end)
            self.check_spans([*spans, (done, len(self.data))])

    def span(self, part: NDArray[Any]) -> tuple[int, int]:
        """Return start and end of a contiguous view of `data` in the file; 0 and 0 for any other array."""
        first = _address(part) - self._first
        return (first, first + part.nbytes) if part.size and 0 <= first < len(self.data) else (0, 0)

    def _verify_each(self, blocks: NDArray[np.int64]) -> None:
        """Verify blocks here and there, by reading them."""
        for block in blocks.tolist():
            self._verify(block, block + 1, self._read(block * BLOCK, BLOCK))

    def _verify(self, start: int, stop: int, data: Bytes) -> None:
        sums = self._sums
        if sums is not None and len(sums) == len(self._sound) and (block_sums(data) == sums[start:stop]).all():
            self._sound[start:stop] = True
            self._settled = bool(self._sound.all())
            return
        if fault := self._fault():
            hint = "list all damaged files: retrieve inspect verify; then build again: retrieve build"
            raise IndexCorrupt(fault, hint=hint)
        self._settled = True


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])
