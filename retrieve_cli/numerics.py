"""Arithmetic with bits that do not depend on a row's place, its neighbours, its alignment or the number of threads.

A product of a matrix with a vector through BLAS (`gemv`) sums a row's terms in an order that depends on the place of
the row in the block, so the last bit of a row's score may differ between a single row and the same row in a list. All
numbers that are compared or displayed go through this file; BLAS may be used to find candidates.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache
from itertools import product
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Number = TypeVar("Number", np.float32, np.float64)

_LAYOUT: Final = ("C_CONTIGUOUS", "ALIGNED")
_PIECE = 4096
"""Maximum numbers of a row that einsum gets at once; half of NumPy's default buffer."""
_UNIT_ROUNDOFF = 2.0**-24
"""Unit roundoff of float32: half the distance from 1 to the next number."""
_SMALLEST = 2.0**-126
"""Smallest normal float32: the maximum loss of a term by underflow."""
_SLACK = 1.01
"""Factor for the rounding of the norms from which a bound is computed."""


def products(rows: NDArray[Number], vector: NDArray[Number]) -> NDArray[Number]:
    """Return the inner product of each row of (n, d) with a vector (d,), as (n,).

    The bits are the same for a single row and in any block: einsum without `optimize` does not use BLAS and sums every
    row in the same order, with instructions that all processors of a kind have. The order depends on the memory layout
    and NumPy's buffer, so rows are made contiguous and aligned, and long ones are summed piece by piece.
    """
    if len(vector) > _PIECE:
        return products(rows[:, :_PIECE], vector[:_PIECE]) + products(rows[:, _PIECE:], vector[_PIECE:])
    operands: Any = np.require(rows, None, _LAYOUT), np.require(vector, None, _LAYOUT)
    inner: NDArray[Number] = np.einsum("ij,j->i", *operands)
    return inner


def rounding_bound(dim: int, *, norms: float) -> float:
    """Return the maximum distance of two float32 inner products of the same vectors, for any order of their terms.

    Each is within d u / (1 - d u) of |x| |y|, with u = 2^-24, of the exact product, fused operations or not (Higham
    2002, "Accuracy and Stability of Numerical Algorithms", section 3.1). `norms` is the product of the L2 norms.
    """
    error = dim * _UNIT_ROUNDOFF
    return _SLACK * 2.0 * (error / (1.0 - error) * norms + dim * _SMALLEST) if error < 0.5 else float("inf")


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _OneThread:
    """Context that keeps OpenBLAS on the calling thread.

    Its threads spin while they wait for each other: on a machine with a busy core, a product of 8 x 384 by 384 x 384
    took 10 ms instead of 0.05 ms, and these products are too small to gain from a second thread. Splitting rows among
    threads also changes their places in a block, and thus the bits of their products.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0 and (blas := openblas()):
                self._before = blas[0]()
                blas[1](1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and (blas := openblas()):
                blas[1](self._before)


one_blas_thread = _OneThread()


@lru_cache(maxsize=1)
def openblas() -> tuple[Any, Any] | None:
    """Return the functions that read and set the thread count of NumPy's OpenBLAS; None if NumPy uses another library.
    The environment does not reveal the count: OpenBLAS read it when NumPy was imported."""
    if os.name == "nt":
        libraries = [str(path) for path in (Path(np.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas*")]
    else:  # the look-up continues in the libraries that a file was linked with, wherever the distribution put them
        libraries = [str(sys.modules["numpy._core._multiarray_umath"].__file__)]
    for library in libraries:
        try:
            loaded = ctypes.CDLL(library)
        except OSError:
            continue
        for prefix, suffix in product(("scipy_", ""), ("64_", "")):  # wheels of NumPy first, then distributions
            get = getattr(loaded, f"{prefix}openblas_get_num_threads{suffix}", None)
            put = getattr(loaded, f"{prefix}openblas_set_num_threads{suffix}", None)
            if get and put:
                return get, put
    return None
