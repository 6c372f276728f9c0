"""Mean and deviation of a query's inner products with all rows of vectors, without reading these again.

For a query q and rows with mean m and covariance S, the mean is q.m and the variance q'S q: exact. For the best row
of a group no formula exists. A fixed sample of groups gives mean and deviation of the best rows of its groups, and of
the mean rows of the same groups. The latter are also known exactly for all groups, so that most of the error of the
sample is corrected: a difference and a ratio estimate with an auxiliary variable (Cochran 1977, "Sampling Techniques").

Sums have the same bits on any processor although BLAS computes them: rows are rounded to whole numbers of 20 bits, of
which a block's sums of products are exact in float64, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.cores import one_blas_thread
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.bitmap import SAMPLE_ROWS, SampledGroups, sampled_groups, several, variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Vectors

    Floats = NDArray[np.float64]

_MOST_DIM = 1024
"""Numbers of a vector up to which there are second moments, dim x dim; longer vectors have the sample only."""
_SAMPLE_BYTES = 4 << 20
"""Most bytes of the sample, at a byte per number."""
_LEVELS = 255
_BLOCK = 4096
_BITS = 20
"""Rows summed at a time and bits of a number: products are below 2^40, and sums of 2^12 of them below 2^53."""
_STEP = 128
"""Rows of the sample scored at a time: 192 KiB for 384 dimensions, which stay in the cache."""
_HINT = "build again: retrieve build"


class Moments(Frozen, eq=False):
    """Mean row and covariance of rows."""

    mean: Floats
    """(dim,) float64."""
    covariance: Vectors
    """(dim, dim) float32."""

    def spread(self, query: Vectors) -> tuple[float, float]:
        """Return mean and standard deviation of the inner products with a query, (dim,) float32."""
        exact = query.astype(np.float64)
        square = _inner(np.einsum("ij,j->i", self.covariance, query).astype(np.float64), exact)
        return _inner(self.mean, exact), math.sqrt(max(square, 0.0))


class VectorSample(Frozen, eq=False):
    """Vectors of sampled rows, one byte per number: low_j + width_j b / 255."""

    begins: Rows
    """(groups + 1,) int64 place of each group's first row, then the number of rows."""
    codes: NDArray[np.uint8]
    """(rows, dim) uint8."""
    low: Vectors
    width: Vectors

    def scores(self, query: Vectors) -> Floats:
        """Return the inner product of a query with each row, (rows,) float64."""
        weights = query * (self.width / np.float32(_LEVELS))
        scores = np.empty(len(self.codes), np.float64)
        scratch = np.empty((min(_STEP, len(scores)), len(weights)), np.float32)
        for start in range(0, len(scores), _STEP):
            numbers = scratch[: len(scores) - start]
            np.copyto(numbers, self.codes[start : start + _STEP])
            scores[start : start + _STEP] = np.einsum("ij,j->i", numbers, weights)
        return scores + _inner(self.low.astype(np.float64), query.astype(np.float64))


class VectorStatistics:
    """Statistics of rows of vectors; immutable, for use by any thread."""

    def __init__(
        self, *, length: int, rows: Moments | None, groups: Moments | None, sample: VectorSample | None
    ) -> None:
        """`groups` are the moments of the mean rows of groups; None if each row is a group, or vectors are long."""
        self._length = length
        self._rows = rows
        self._groups = groups
        self._sample = sample

    def spread(self, query: Vectors, *, grouped: bool) -> tuple[float, float]:
        """Return mean and standard deviation of the inner products of a query, (dim,) float32, with all rows; if
        grouped, of the best one of each group.

        The same query gets the same bits on any processor.
        """
        if self._length == 0:
            return 0.0, 0.0
        if self._sample is None or (self._rows is not None and not grouped):
            return (0.0, 0.0) if self._rows is None else self._rows.spread(query)
        scores = self._sample.scores(query)
        if not grouped:
            return float(scores.sum()) / len(scores), math.sqrt(variance(scores))
        begins = self._sample.begins
        best = np.maximum.reduceat(scores, begins[:-1])
        mean, deviation = float(best.sum()) / len(best), math.sqrt(variance(best))
        if self._groups is None:
            return mean, deviation
        means = np.add.reduceat(scores, begins[:-1]) / np.diff(begins)
        exact_mean, exact = self._groups.spread(query)
        sampled = math.sqrt(variance(means))
        mean += exact_mean - float(means.sum()) / len(means)
        return mean, deviation * (exact / sampled) if sampled > 0 else deviation

    def to_arrays(self) -> dict[str, Json]:
        """Return numbers and arrays for `storage.pickles.dump`; the same rows give the same bytes."""
        stored: dict[str, Json] = {"kind": "vectors", "length": self._length}
        for name, moments in (("rows", self._rows), ("groups", self._groups)):
            if moments is not None:
                stored |= {f"{name}_mean": moments.mean, f"{name}_covariance": moments.covariance}
        if (sample := self._sample) is not None:
            stored |= {"begins": sample.begins, "codes": sample.codes, "low": sample.low, "width": sample.width}
        return stored

    @classmethod
    def of_arrays(cls, stored: Mapping[str, Json]) -> VectorStatistics:
        """Return the statistics from the contents of `to_arrays`, without copying arrays.

        Raises:
            IndexCorrupt: parts are missing or disagree.
        """
        try:
            rows, groups = (
                Moments(stored[f"{name}_mean"], stored[f"{name}_covariance"]) if f"{name}_mean" in stored else None
                for name in ("rows", "groups")
            )
            names = ("begins", "codes", "low", "width")
            sample = VectorSample(*(stored[name] for name in names)) if "codes" in stored else None
            length = stored["length"]
            sound = stored["kind"] == "vectors" and isinstance(length, int) and _fit(rows, groups, sample)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"the statistics of vectors are incomplete ({quoted(error)})", hint=_HINT) from error
        if not sound:
            raise IndexCorrupt("the arrays of the statistics of vectors do not fit each other", hint=_HINT)
        return cls(length=length, rows=rows, groups=groups, sample=sample)


def vector_statistics(
    blocks: Iterable[Vectors], *, dim: int, length: int, starts: Rows | None = None, sample: int = SAMPLE_ROWS
) -> VectorStatistics:
    """Return the statistics of `length` rows, from one pass over `blocks` of them in order, (m, dim) float32 each.

    `starts` has the first row of each group, then the number of rows; None: each row is a group. The result does not
    depend on the sizes of the blocks. At most `sample` rows are sampled, fewer if vectors are long.

    Raises:
        ValueError: there are more or fewer rows.
    """
    groups = several(starts)
    small = dim <= _MOST_DIM
    rows = _Sums(dim) if small else None
    means = _GroupMeans(groups, dim) if small and groups is not None else None
    most = max(1, min(sample, _SAMPLE_BYTES // dim))
    every = np.arange(length + 1) if groups is None else groups
    chosen = sampled_groups(every, most) if groups is not None or not small else None
    taken: list[Vectors] = []
    seen = 0
    for block in _regular(blocks, dim):
        if rows is not None:
            rows.add(block)
        if means is not None:
            means.add(block)
        if chosen is not None:
            first, last = np.searchsorted(chosen.rows, [seen, seen + len(block)])
            taken.append(block[chosen.rows[first:last] - seen])
        seen += len(block)
    if seen != length:
        raise ValueError(f"there are {seen} rows instead of {length}")
    coded = None if chosen is None or not length else _sample(chosen, np.concatenate(taken))
    found = (None if each is None else each.moments() for each in (rows, means))
    return VectorStatistics(length=length, rows=next(found), groups=next(found), sample=coded)


class _Sums:
    """Sums of rows and of products of their numbers. Blocks have `_BLOCK` rows each, but for the last one."""

    def __init__(self, dim: int) -> None:
        self._count = 0
        self._first = np.zeros(dim)
        self._second = np.zeros((dim, dim))

    def add(self, block: NDArray[np.float32] | Floats) -> None:
        exponents = np.frexp(np.abs(block).max(0, initial=0.0).astype(np.float64))[1] - _BITS
        scale = np.ldexp(1.0, exponents)  # by dimension
        numbers = np.rint(block.astype(np.float64) / scale)
        with one_blas_thread:
            squares = numbers.T @ numbers
        self._count += len(block)
        self._first += numbers.sum(0) * scale
        self._second += squares * scale * scale[:, None]

    def moments(self) -> Moments:
        mean = self._first / max(self._count, 1)
        covariance = self._second / max(self._count, 1) - mean * mean[:, None]
        return Moments(mean, covariance.astype(np.float32))


class _GroupMeans:
    """Sums of the mean rows of groups, which may begin in one block and end in another."""

    def __init__(self, starts: Rows, dim: int) -> None:
        self._sums = _Sums(dim)
        self._starts = starts
        self._seen = 0
        self._open = np.zeros(dim)
        """Sum of the rows of the group that has not ended yet."""
        self._waiting = np.empty((0, dim))
        """Mean rows that do not fill a block yet."""

    def add(self, block: Vectors) -> None:
        end = self._seen + len(block)
        first = int(np.searchsorted(self._starts, self._seen, side="right")) - 1
        last = int(np.searchsorted(self._starts, end, side="left"))
        begins = np.maximum(self._starts[first:last] - self._seen, 0)
        sums = np.add.reduceat(block.astype(np.float64), begins, axis=0)
        sums[0] += self._open
        self._seen = end
        ended = last - first if self._starts[last] == end else last - first - 1
        self._open = sums[-1] if ended < len(sums) else np.zeros_like(self._open)
        sizes = np.diff(self._starts[first : first + ended + 1])
        self._waiting = np.concatenate([self._waiting, sums[:ended] / sizes[:, None]])
        while len(self._waiting) >= _BLOCK:
            self._sums.add(self._waiting[:_BLOCK])
            self._waiting = self._waiting[_BLOCK:]

    def moments(self) -> Moments:
        if len(self._waiting):
            self._sums.add(self._waiting)
        return self._sums.moments()


def _regular(blocks: Iterable[Vectors], dim: int) -> Iterator[Vectors]:
    waiting: list[Vectors] = []
    count = 0
    for block in blocks:
        waiting.append(np.asarray(block, np.float32).reshape(-1, dim))
        count += len(block)
        if count >= _BLOCK:
            rows = np.concatenate(waiting)
            whole = count - count % _BLOCK
            yield from (rows[start : start + _BLOCK] for start in range(0, whole, _BLOCK))
            waiting, count = [rows[whole:].copy()], count - whole
    if count:
        yield np.concatenate(waiting)


def _sample(chosen: SampledGroups, vectors: Vectors) -> VectorSample:
    low = vectors.min(0)
    width = vectors.max(0) - low
    numbers = (vectors - low) * (np.float32(_LEVELS) / np.where(width > 0, width, np.float32(1)))
    return VectorSample(chosen.begins, np.clip(np.rint(numbers), 0, _LEVELS).astype(np.uint8), low, width)


def _inner(left: Floats, right: Floats) -> float:
    """Return the inner product with the same bits everywhere; BLAS would sum in another order elsewhere."""
    return float(np.einsum("i,i->", left, right))


def _fit(rows: Moments | None, groups: Moments | None, sample: VectorSample | None) -> bool:
    """Return True if all arrays have the same dimension, and the places of groups rise within the sample."""
    dims = [each.mean.shape for each in (rows, groups) if each is not None]
    squares = [each.covariance.shape == 2 * each.mean.shape for each in (rows, groups) if each is not None]
    if sample is not None:
        dims += [sample.codes.shape[1:], sample.low.shape, sample.width.shape]
        begins = sample.begins
        squares.append(bool(begins[0] == 0 and begins[-1] == len(sample.codes) and (np.diff(begins) > 0).all()))
    return len(set(dims)) == 1 and all(squares)
