"""Work spread over threads, and how many there may be."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spread(work: Callable[[T], None], items: Sequence[T], *, threads: int) -> None:
    """Over the threads, one item at a time; onnxruntime and NumPy let go of the interpreter while they compute."""
    threads = min(threads, len(items))
    if threads <= 1:
        for item in items:
            work(item)
        return
    from concurrent.futures import ThreadPoolExecutor  # a single query does without it, and it costs 3 ms

    with ThreadPoolExecutor(threads) as workers:
        for _ in workers.map(work, items):
            pass
