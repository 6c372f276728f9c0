"""Cores of this machine: how many this process may use, and products of NumPy on one of them."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _OneThread:
    """Context that keeps OpenBLAS on the calling thread.

    Its threads spin while they wait for each other: on a machine with a busy core, a product of 8 x 384 by 384 x 384
    took 10 ms instead of 0.05 ms, and these products are too small to gain from a second thread.
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
