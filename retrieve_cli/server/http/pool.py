"""Admission of blocking work: a bounded pool of threads behind a bounded queue.

NumPy and onnxruntime release the interpreter lock, so that searches run side by side. A request that would wait longer
than its deadline, or behind too many others, is rejected at once; one whose client has left is dropped before it
begins. The web search has separate threads: it waits for other servers, and local searches must not wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from math import ceil
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from retrieve_cli.errors import NotConfigured
from retrieve_cli.server.http.admission import departure, unless_gone
from retrieve_cli.server.http.requests import RejectedRequest

if TYPE_CHECKING:
    from starlette.requests import Request

    from retrieve_cli.api.web import AnswersWeb
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.search.web_answer import WebAnswer, WebOptions
    from retrieve_cli.server.auth.scopes import Caller

T = TypeVar("T")

_SMOOTHING = 0.1
"""Share of the last job in the moving average of seconds per job."""


class Pool:
    """Threads for blocking work, and the queue before them."""

    def __init__(self, threads: int, queue: int) -> None:
        """`threads` jobs run at once, `queue` more wait for their turn."""
        self._threads, self._most = threads, threads + queue
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="work")
        self._admitted = self._running = 0
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
        """Return the result of a function, which is called once its turn has come. The body must have been read.

        Raises:
            RejectedRequest: too many jobs wait already, the deadline would pass while it waits, or the client has left.
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
            said, hint = f"{self._admitted} requests are already waiting", "try again later"
        elif deadline_ms is not None and wait * 1000 > deadline_ms:
            said = f"the queue takes about {wait * 1000:.0f} ms, more than the deadline of {deadline_ms:g} ms"
            hint = "raise `deadline_ms`, or try again later"
        else:
            return
        raise RejectedRequest(503, said, code="busy", hint=hint, headers={"Retry-After": str(max(ceil(wait), 1))})

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


_AT_ONCE, _WAITING = 8, 32
"""Searches at once in one process, and those that may wait for their turn."""


class WebSearching(Pool):
    """A web search behind a queue; disabled if the configuration does not enable it."""

    def __init__(self, search: AnswersWeb | None, *, deadline_ms: float) -> None:
        """`deadline_ms` is the default deadline of a search."""
        super().__init__(_AT_ONCE, _WAITING)
        self._search, self._deadline_ms = search, deadline_ms

    @property
    def enabled(self) -> bool:
        """True if searches are answered."""
        return self._search is not None

    @property
    def search(self) -> AnswersWeb:
        """The search. Raises: NotConfigured: it is not enabled."""
        if self._search is None:
            hint = "set web.enabled: true in config.yaml"
            raise NotConfigured("web search is not enabled on this server", hint=hint)
        return self._search

    async def answer(self, request: Request, options: WebOptions, caller: Caller) -> WebAnswer:
        """Return the answer to a search of a caller.

        Raises:
            RetrieveError: it is not enabled, or the options do not fit the configuration.
            RejectedRequest: too many searches wait already, or the deadline would pass while it waits.
        """
        answer = partial(self.search.answer, options, owner=caller.owner)
        return await self.run(request, answer, deadline_ms=options.deadline_ms)

    async def run(
        self, request: Request, function: Callable[..., T], *arguments: Any, deadline_ms: float | None = None
    ) -> T:
        """Return the result of a searching function. Raises: RejectedRequest: it would have to wait for too long."""
        return await super().run(request, function, *arguments, deadline_ms=deadline_ms or self._deadline_ms)


def web_search_of(settings: Settings, artifacts: Path) -> AnswersWeb | None:
    """Return the web search of a configuration; None if it does not enable one."""
    if not settings.web.enabled:
        return None
    from retrieve_cli.search.web import WebSearch

    return WebSearch(settings, artifacts)
