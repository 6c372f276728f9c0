"""A scan of all rows by BLAS that selects candidates; their exact scores come from `numerics.products`.

The last bits of the scan's scores depend on a row's place and on the processor. `Scan` bounds this error, so that
enough candidates are selected: those within three bounds of the last one wanted. Let B be the bound, s the scan's
score, e the exact one, t the depth-th best s. Then `depth` rows have e >= t - B, so every row of the exact list has
e >= t - B and s >= t - 2 B. The third bound covers the rounding of the limit itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from retrieve_cli.numerics import one_blas_thread, products, rounding_bound
from retrieve_cli.retrieval.retrievers.selection import best_of_groups, rows_of, spread
from retrieve_cli.storage.mapped import unchecked

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors
    from retrieve_cli.storage.mapped import Check

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

    def __init__(self, vectors: Vectors, check: Check = unchecked) -> None:
        """`vectors` is (n, dim) float32, usually a view of a mapped file; `check` detects damaged rows."""
        self._check = check
        self._vectors = vectors
        flags = vectors.flags
        self._copies = not (flags.c_contiguous and vectors.ctypes.data % _ALIGNMENT == 0)
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
                self._check(block)  # this also brings it into the cache
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
