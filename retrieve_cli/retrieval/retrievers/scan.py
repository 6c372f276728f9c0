"""A scan of all rows by BLAS that selects candidates; their exact scores come from `numerics.products`.

The last bits of the scan's scores depend on a row's place and on the processor. `Scan` bounds this error, so that
enough candidates are selected: those within three bounds of the last one wanted. Let B be the bound, s the scan's
score, e the exact one, t the depth-th best s. Then `depth` rows have e >= t - B, so every row of the exact list has
e >= t - B and s >= t - 2 B. The third bound covers the rounding of the limit itself.

8-bit quantised copy of the vectors: a scan that reads a quarter of the bytes selects the candidates.

The file is an ordinary faiss index, IndexScalarQuantizer of type QT_8bit. A number of dimension j is stored as a byte
b, which represents low_j + width_j (b + 0.5) / 255, where low_j and width_j come from the smallest and the largest
number of that dimension. Each number is within half a step of its representation, so the exact score of a row is within
sum_j |q_j| width_j / 510 of the score of the scan. This bound selects the rows to score exactly, so the results are
provably the same as without this file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.numerics import one_blas_thread, products, rounding_bound
from retrieve_cli.retrieval.retrievers.selection import best_of_groups, rows_of, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Vectors
    from retrieve_cli.storage.mapped import MappedFile

T = TypeVar("T")

BLOCK = 256
"""Rows multiplied at a time: 384 KiB for 384 dimensions, which stay in the cache between the copy and the product."""
WORTH_THREADS = 100_000
"""Minimum rows for which one query uses more than one core."""
_ALIGNMENT = 64
_FETCHED = 4096
"""Rows fetched at a time for scoring; bounds the memory."""


class Scan:
    """Approximate inner products of a query with every row, for selecting candidates.

    Within one process, the same query gets the same scores wherever the vectors are in memory: blocks begin at the same
    rows, have the same alignment, and are multiplied on one thread. So mean and deviation of the scores are comparable.
    """

    def __init__(self, vectors: Vectors) -> None:
        """`vectors` is (n, dim) float32, usually a view of a mapped file."""
        self._vectors = vectors
        self._copies = not (vectors.flags.c_contiguous and vectors.ctypes.data % _ALIGNMENT == 0)
        """True if blocks must be copied for alignment: the vectors of a faiss flat file begin at byte 45."""
        self._longest: float | None = None
        """Largest L2 norm of a row, known after the first scan."""

    def scores(self, query: Vectors, *, threads: int = 1) -> tuple[Vectors, float]:
        """Return (n,) float32 scores and a bound on their distance from `products`.

        If the vectors contain NaN, the bound is NaN and excludes nothing.

        Raises:
            IndexCorrupt: a row is damaged.
        """
        rows, dim = self._vectors.shape
        scores, vector = np.empty(rows, np.float32), aligned_empty(1, dim)[0]
        np.copyto(vector, query)

        def scan(begin: int, end: int) -> float:
            scratch, squares = aligned_empty(BLOCK, dim), [0.0]
            for start in range(begin, end, BLOCK):
                block = self._vectors[start : min(start + BLOCK, end)]
                if self._copies:
                    np.copyto(scratch[: len(block)], block)
                    block = scratch[: len(block)]
                np.dot(block, vector, out=scores[start : start + len(block)])
                if self._longest is None:
                    squares.append(float(np.einsum("ij,ij->i", block, block).max()))
            return float(np.max(squares))

        squares = in_parts(scan, rows, block=BLOCK, threads=threads)
        if self._longest is None:
            self._longest = math.sqrt(float(np.max(squares)))
        length = math.sqrt(float(np.einsum("i,i->", vector, vector)))
        return scores, rounding_bound(dim, norms=self._longest * length)

    def spread(self, scores: Vectors, query: Vectors) -> tuple[float, float]:
        """Return mean and standard deviation of scores of rows, or of the best scores of groups."""
        return spread(scores, len(scores))


def in_parts(scan: Callable[[int, int], T], rows: int, *, block: int, threads: int) -> list[T]:
    """Return the results of `scan` for all rows in one part or, for many rows, in one part per thread.

    Every part begins with a whole block, so that the number of threads does not change a score.
    """
    parts = threads if rows >= WORTH_THREADS else 1
    size = max(1, -(-rows // (block * parts))) * block
    stretches = [(start, min(start + size, rows)) for start in range(0, max(rows, 1), size)]
    with one_blas_thread:
        if len(stretches) == 1:
            return [scan(*stretches[0])]
        from concurrent.futures import ThreadPoolExecutor  # only needed for many rows

        with ThreadPoolExecutor(len(stretches)) as pool:  # NumPy releases the interpreter while it multiplies
            return list(pool.map(lambda stretch: scan(*stretch), stretches))


def contenders(scores: Vectors, bound: float, depth: int, allowed: Mask | None) -> Rows:
    """Return, in order, the allowed rows that may be among the best `depth` by exact scores, given the bound."""
    if allowed is not None:
        rows = np.flatnonzero(allowed)
        return rows[contenders(scores[rows], bound, depth, None)]
    if depth >= len(scores):
        return np.arange(len(scores))
    last = np.partition(scores, len(scores) - depth)[len(scores) - depth]
    return np.flatnonzero(~(scores < last - np.float32(3.0 * bound)))  # not `>=`: keeps NaN


def members(scores: Vectors, bound: float, groups: Rows, best: Vectors, starts: Rows) -> tuple[Rows, Rows]:
    """Return the rows that may be the best of each group by exact scores, and the start of each group among them.

    `best` is the highest of the `scores` in each of the `groups`, whose first rows are in `starts`.
    """
    rows, begins = rows_of(groups, starts)
    limits = np.repeat(best - np.float32(3.0 * bound), np.diff(np.append(begins, len(rows))))
    kept = ~(scores[rows] < limits)
    return rows[kept], np.append(0, np.cumsum(kept))[begins]


def score_rows(vectors_of: Callable[[Rows], Vectors], query: Vectors, rows: Rows, starts: Rows | None) -> Vectors:
    """Return inner products with the rows from `vectors_of`; with `starts`, the best of each group in `rows`."""
    if starts is not None:
        every, begins = rows_of(rows, starts)
        return best_of_groups(score_rows(vectors_of, query, every, None), np.append(begins, len(every)))
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _FETCHED):
        scores[start : start + _FETCHED] = products(vectors_of(rows[start : start + _FETCHED]), query)
    return scores


def aligned_empty(rows: int, dim: int) -> Vectors:
    """Return an empty (rows, dim) float32 array that begins at a multiple of 64 bytes."""
    size = 4 * rows * dim
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size].view(np.float32).reshape(rows, dim)


CODES_FILE = "dense_sq8.faiss"
_HEADER = struct.Struct("<4siqqq?iiifQQQ")
"""faiss write_index of an IndexScalarQuantizer: "IxSQ", d, ntotal, two unused, is_trained, metric; type, range
statistic and its argument, d, bytes of a row; number of floats that follow."""
_COUNT = struct.Struct("<Q")
"""Length in bytes of the data that follows."""
_UNUSED, _TRAINED, _INNER_PRODUCT, _QT_8BIT, _MINMAX = 1 << 20, True, 0, 0, 0
_LEVELS = 255
_SLACK = 1.001
"""Factor for rounding in addition to half a step: bytes are computed in float32."""
_ROWS = 512
"""Rows multiplied at a time: 768 KiB for 384 dimensions, which stay in the cache between the copy and the product."""
_HINT = "build again: retrieve build"


class Extremes:
    """Smallest and largest number of each dimension of the rows passed through."""

    def __init__(self, dim: int) -> None:
        self.low = np.full(dim, np.inf, np.float32)
        self.high = np.full(dim, -np.inf, np.float32)

    def watch(self, blocks: Iterable[Vectors]) -> Iterator[Vectors]:
        """Yield the blocks, each (m, dim) float32, and record their extremes."""
        for block in blocks:
            if len(block):
                np.minimum(self.low, block.min(0), out=self.low)
                np.maximum(self.high, block.max(0), out=self.high)
            yield block

    @property
    def finite(self) -> bool:
        """False if a number was not finite, or there were no rows."""
        with np.errstate(over="ignore"):
            return bool(np.isfinite(self.high - self.low).all())


def write_codes(blocks: Iterable[Vectors], path: Path, *, rows: int, extremes: Extremes) -> None:
    """Write a quantised row for each row of `blocks`, each (m, dim) float32."""
    low, width = extremes.low, extremes.high - extremes.low
    dim = len(low)
    steps = np.float32(_LEVELS) / np.where(width > 0, width, np.float32(1))
    head = (b"IxSQ", dim, rows, _UNUSED, _UNUSED, _TRAINED, _INNER_PRODUCT, _QT_8BIT, _MINMAX, 0.0, dim, dim, 2 * dim)
    with path.open("wb") as file:
        file.write(_HEADER.pack(*head))
        file.write(np.concatenate([low, width]).astype("<f4").data)
        file.write(_COUNT.pack(rows * dim))
        for block in blocks:
            numbers = (block - low) * steps
            file.write(np.clip(numbers, 0, _LEVELS, out=numbers).astype(np.uint8).data)


class QuantizedScan:
    """Approximate inner products of a query with every row, from one byte per number, for selecting candidates."""

    def __init__(self, file: MappedFile, *, rows: int, dim: int) -> None:
        """`file` belongs to (rows, dim) vectors.

        Raises:
            IndexCorrupt: it belongs to other vectors.
        """
        first = _HEADER.size + 8 * dim + _COUNT.size
        head = file.data[: _HEADER.size].tobytes()
        fields = _HEADER.unpack(head) if len(head) == _HEADER.size and len(file) == first + rows * dim else (b"",)
        expected = ((b"IxSQ", dim, rows), (_INNER_PRODUCT, _QT_8BIT), (dim, dim, 2 * dim))
        if (fields[:3], fields[6:8], fields[-3:]) != expected:
            raise IndexCorrupt(f"{file.path} does not contain the bytes of {rows} rows of {dim} numbers", hint=_HINT)
        trained = np.frombuffer(file.data[_HEADER.size : first - _COUNT.size].tobytes(), "<f4")
        self._low, self._width = trained[:dim], trained[dim:]
        self._codes: NDArray[np.uint8] = file.data[first:].reshape(rows, dim)

    def scores(self, query: Vectors, *, threads: int = 1) -> tuple[Vectors, float]:
        """Return (n,) float32 scores and a bound on their distance from `products`.

        Raises:
            IndexCorrupt: a row is damaged.
        """
        rows, dim = self._codes.shape
        weights = aligned_empty(1, dim)[0]
        np.multiply(query, self._width / np.float32(_LEVELS), out=weights)
        base = np.float32(self._low.astype(np.float64) @ query + 0.5 * weights.sum(dtype=np.float64))
        scores = np.empty(rows, np.float32)

        def scan(begin: int, end: int) -> None:
            scratch = aligned_empty(_ROWS, dim)
            for start in range(begin, end, _ROWS):
                block = self._codes[start : min(start + _ROWS, end)]
                numbers = scratch[: len(block)]
                np.copyto(numbers, block, casting="unsafe")
                np.dot(numbers, weights, out=scores[start : start + len(block)])
            scores[begin:end] += base

        in_parts(scan, rows, block=_ROWS, threads=threads)
        return scores, self._bound(query, weights)

    def spread(self, scores: Vectors, query: Vectors) -> tuple[float, float]:
        """Return mean and standard deviation of the exact scores, estimated from the scores of the scan.

        The error of a byte is uniform in half a step either way. It adds width_j^2 / (12 255^2) to the variance of
        dimension j (Sheppard 1898), which is subtracted. On 100,000 and on 1,000,000 points in about 4,000 clusters,
        the mean was off by up to 5e-5 and the deviation by 7e-5 deviations.
        """
        mean, deviation = spread(scores, len(scores))
        added = float(np.square(query * self._width, dtype=np.float64).sum()) / (12 * _LEVELS**2)
        return mean, math.sqrt(max(deviation**2 - added, 0.0))

    def _bound(self, query: Vectors, weights: Vectors) -> float:
        """Return half a step of each dimension, plus the rounding of the exact score and of the scan's score."""
        dim = len(query)
        step = _SLACK * float(np.abs(query, dtype=np.float64) @ self._width) / (2 * _LEVELS)
        most = np.maximum(np.abs(self._low), np.abs(self._low + self._width)).astype(np.float64)
        exact = rounding_bound(dim, norms=float(np.linalg.norm(most)) * float(np.linalg.norm(query)))
        coded = rounding_bound(
            dim + 2, norms=_LEVELS * dim**0.5 * float(np.linalg.norm(weights)) + float(most @ np.abs(query))
        )
        return step + exact + coded
