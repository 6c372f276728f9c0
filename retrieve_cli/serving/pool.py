"""Admission of blocking work: a bounded pool of threads behind a bounded queue.

NumPy and onnxruntime release the interpreter lock, so that searches run side by side. A request that would wait longer
than its deadline, or behind too many others, is rejected at once; one whose client has left is dropped before it
begins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from retrieve_cli.serving.admission import departure, unless_gone
from retrieve_cli.serving.requests import Rejected

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")

_SMOOTHING = 0.1
"""Share of the last job in the moving average of seconds per job."""


class Pool:
    """Threads for blocking work, and the queue before them."""

    def __init__(self, threads: int, queue: int) -> None:
        """`threads` jobs run at once, `queue` more wait for their turn."""
        self._threads = threads
        self._most = threads + queue
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="work")
        self._admitted = 0
        self._running = 0
        self._counting = Lock()
        self._seconds = 0.0

    @property
    def busy(self) -> bool:
        """True if a job is running, even if no client waits for it."""
        return self._running > 0

    @property
    def waiting(self) -> int:
        """Number of jobs that run or wait for their turn."""
        return self._admitted

    async def run(
        self, request: Request, function: Callable[..., T], *arguments: Any, deadline_ms: float | None = None
    ) -> T:
        """Return what a function returns for these arguments, once its turn has come. The body must have been read.

        Raises:
            Rejected: too many jobs wait already, the deadline would pass while it waits, or the client has left.
        """
        self._admit(deadline_ms)
        at_once = self._admitted < self._threads
        self._admitted += 1
        job: Future[T] = self._executor.submit(self._timed, function, *arguments)
        try:
            answered = asyncio.wrap_future(job)
            return await (answered if at_once else unless_gone(answered, departure(request)))
        finally:
            job.cancel()
            self._admitted -= 1

    def close(self) -> None:
        """Drop the jobs that have not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _admit(self, deadline_ms: float | None) -> None:
        queued = max(self._admitted + 1 - self._threads, 0)
        wait = queued * self._seconds / self._threads
        if self._admitted >= self._most:
            raise Rejected(
                503,
                f"{self._admitted} requests are already waiting",
                code="busy",
                hint="try again later",
                headers={"Retry-After": str(max(ceil(wait), 1))},
            )
        if deadline_ms is not None and wait * 1000 > deadline_ms:
            raise Rejected(
                503,
                f"the queue takes about {wait * 1000:.0f} ms, more than the deadline of {deadline_ms:g} ms",
                code="busy",
                hint="raise `deadline_ms`, or try again later",
                headers={"Retry-After": str(max(ceil(wait), 1))},
            )

    def _timed(self, function: Callable[..., T], *arguments: Any) -> T:
        begun = time.perf_counter()
        with self._counting:
            self._running += 1
        try:
            return function(*arguments)
        finally:
            spent = time.perf_counter() - begun
            with self._counting:
                self._running -= 1
                self._seconds += (spent - self._seconds) * (_SMOOTHING if self._seconds else 1.0)
