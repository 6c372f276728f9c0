"""A scan of all rows by BLAS finds the candidates; what is listed is decided by `numerics.products`.

The scan's scores depend in their last bits on a row's place and on the processor. `Scan` says by how much at most, so
that enough candidates are taken for their exact scores to decide: those within three bounds of the last one wanted.
Let B be the bound, s the scan's score, e the exact one, t the depth-th best s. Then `depth` rows have e >= t - B, so
every row of the exact list has e >= t - B and s >= t - 2 B. The third bound covers the rounding of the limit itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from retrieve_cli.numerics import one_blas_thread, products, rounding_bound
from retrieve_cli.retrievers.selection import grouped, rows_of, spread
from retrieve_cli.storage.mapped import unchecked

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors
    from retrieve_cli.storage.mapped import Check

T = TypeVar("T")

BLOCK = 256
"""Rows multiplied at a time: 384 KiB of 384 numbers each, which stay in the cache between the copy and the product."""
WORTH_THREADS = 100_000
"""Rows from which on one query is worth more than one core."""
_ALIGNMENT = 64
_FETCHED = 4096
"""Rows fetched at a time to be scored; bounds the memory."""


class Scan:
    """Inner products of a query with every row, near enough to choose candidates by.

    In one process the same query has the same scores wherever the vectors lie: blocks begin at the same rows, are
    aligned alike and are multiplied on one thread. Mean and deviation of the scores can therefore be compared.
    """

    def __init__(self, vectors: Vectors, check: Check = unchecked) -> None:
        """`vectors` is (n, dim) float32, usually a view of a mapped file, of which `check` tells damaged rows."""
        self._check = check
        self._vectors = vectors
        flags = vectors.flags
        self._copies = not (flags.c_contiguous and vectors.ctypes.data % _ALIGNMENT == 0)
        """The vectors of a faiss flat file begin at byte 45."""
        self._longest: float | None = None
        """Largest L2 norm of a row, known after the first scan."""

    def scores(self, query: Vectors, *, threads: int = 1) -> tuple[Vectors, float]:
        """Return (n,) float32 scores and a bound on the distance of each from `products`.

        The bound is not a number, and nothing can be excluded by it, if the vectors hold one that is not.

        Raises:
            IndexCorrupt: a row is damaged.
        """
        rows, dim = self._vectors.shape
        scores, vector = np.empty(rows, np.float32), aligned(1, dim)[0]
        np.copyto(vector, query)

        def scan(begin: int, end: int) -> float:
            scratch, squares = aligned(BLOCK, dim), [0.0]
            for start in range(begin, end, BLOCK):
                block = self._vectors[start : min(start + BLOCK, end)]
                self._check(block)  # brings it into the cache, too
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
        """Return mean and standard deviation of scores that the query has here, of rows or of the best in groups."""
        return spread(scores, len(scores))


def in_parts(scan: Callable[[int, int], T], rows: int, *, block: int, threads: int) -> list[T]:
    """Return what `scan` gives for rows in a stretch or, if there are many and several threads, in one a thread.

    Every stretch begins with a whole block, so that the threads do not change a score.
    """
    parts = threads if rows >= WORTH_THREADS else 1
    size = max(1, -(-rows // (block * parts))) * block
    stretches = [(start, min(start + size, rows)) for start in range(0, max(rows, 1), size)]
    with one_blas_thread:
        if len(stretches) == 1:
            return [scan(*stretches[0])]
        from concurrent.futures import ThreadPoolExecutor  # few rows do without it

        with ThreadPoolExecutor(len(stretches)) as pool:  # NumPy lets go of the interpreter while it multiplies
            return list(pool.map(lambda stretch: scan(*stretch), stretches))


def contenders(scores: Vectors, bound: float, depth: int, allowed: Mask | None) -> Rows:
    """Return, in order, the allowed rows that may be among the best `depth` by exact scores within `bound` of these."""
    if allowed is not None:
        rows = np.flatnonzero(allowed)
        return rows[contenders(scores[rows], bound, depth, None)]
    if depth >= len(scores):
        return np.arange(len(scores))
    last = np.partition(scores, len(scores) - depth)[len(scores) - depth]
    return np.flatnonzero(~(scores < last - np.float32(3.0 * bound)))  # not `>=`: keeps what is not a number


def members(scores: Vectors, bound: float, groups: Rows, best: Vectors, starts: Rows) -> tuple[Rows, Rows]:
    """Return the rows that may be the best of each group by exact scores, and where each group begins among them.

    `best` is the highest of the `scores` in each of the `groups`, whose first rows are in `starts`.
    """
    rows, begins = rows_of(groups, starts)
    limits = np.repeat(best - np.float32(3.0 * bound), np.diff(np.append(begins, len(rows))))
    kept = ~(scores[rows] < limits)
    return rows[kept], np.append(0, np.cumsum(kept))[begins]


def score_rows(vectors_of: Callable[[Rows], Vectors], query: Vectors, rows: Rows, starts: Rows | None) -> Vectors:
    """Inner products with the rows that `vectors_of` fetches; with `starts`, the best of each group in `rows`."""
    if starts is not None:
        every, begins = rows_of(rows, starts)
        return grouped(score_rows(vectors_of, query, every, None), np.append(begins, len(every)))
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _FETCHED):
        scores[start : start + _FETCHED] = products(vectors_of(rows[start : start + _FETCHED]), query)
    return scores


def aligned(rows: int, dim: int) -> Vectors:
    """Return an empty (rows, dim) float32 array that begins at a multiple of 64 bytes."""
    size = 4 * rows * dim
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size].view(np.float32).reshape(rows, dim)
