"""Admission of requests: the size of the body, and one computation at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import accumulate
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from retrieve_cli.frozen import Frozen
from retrieve_cli.server.http.answers import dumped
from retrieve_cli.server.http.embed import Encoding
from retrieve_cli.server.http.requests import Limits, RejectedRequest, Work

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")

_PASS = 64
"""Texts that may join the first request of a pass."""


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the body, read up to its limit.

    Raises:
        RejectedRequest: it is too large (413).
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limits.bytes:
            raise RejectedRequest(413, f"the body has more than {limits.bytes} bytes", code="too_large")
    return bytes(body)


class Queue:
    """Queue of computations in a separate thread, so that other requests are answered meanwhile.

    A job that no request waits for any more is dropped before it begins. A running one cannot be stopped: the thread
    is a daemon, so that it does not keep the program from ending.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._waiting, self._computing = 0, False

    @property
    def busy(self) -> bool:
        """True if something is being computed."""
        return self._computing

    @property
    def waiting(self) -> int:
        """Requests that are computed or wait for it."""
        return self._waiting

    async def compute(self, work: Work, gone: Callable[[], Awaitable[None]]) -> bytes:
        """Return the answer as JSON, once its turn has come; `gone` returns if the client leaves before that.

        Raises:
            RejectedRequest: too many requests wait already, or the client has disconnected.
        """
        if self._waiting >= self._limits.waiting:
            raise RejectedRequest(503, f"{self._waiting} requests are already waiting: try again later", code="busy")
        answer: Future[bytes] = Future()
        self._waiting += 1
        if self._thread is None:
            self._thread = Thread(target=self._run, name="compute", daemon=True)
            self._thread.start()
        self._jobs.put(_Job(work, answer))
        try:
            return await unless_gone(asyncio.wrap_future(answer), gone())
        finally:
            answer.cancel()
            self._waiting -= 1

    def close(self) -> None:
        """End the thread after the current computation, and drop the other jobs."""
        with suppress(Empty):
            while job := self._jobs.get_nowait():
                job.answer.cancel()
        self._jobs.put(None)

    def _run(self) -> None:
        job = self._jobs.get()
        while job:
            jobs, following = self._joined(job)
            running = [one for one in jobs if one.answer.set_running_or_notify_cancel()]
            self._computing = True
            try:
                _compute(running)
            finally:
                self._computing = False
            job = following or self._jobs.get()

    def _joined(self, job: _Job) -> tuple[list[_Job], _Job | None]:
        """Return a job with those behind it that share its pass, and the first one that does not, if it was taken.

        Nothing waits for company: who is there when the model becomes free shares the pass.
        """
        jobs, first, texts = [job], job.work, 0
        while isinstance(first, Encoding) and first.joinable:
            try:
                following = self._jobs.get_nowait()
            except Empty:
                break
            if following is None:
                self._jobs.put(None)  # the end, which comes after this pass
                break
            work = following.work
            if not (isinstance(work, Encoding) and work.joinable and work.encode == first.encode):
                return jobs, following
            if (texts := texts + len(work.texts)) > _PASS:
                return jobs, following
            jobs.append(following)
        return jobs, None


def _compute(jobs: Sequence[_Job]) -> None:
    for job, work in zip(jobs, _works([job.work for job in jobs]), strict=True):
        try:
            job.answer.set_result(dumped(work()))
        except BaseException as error:  # noqa: BLE001  it is raised again where the request is answered
            job.answer.set_exception(error)


def _works(works: Sequence[Work]) -> Sequence[Work]:
    """Return the works; several encodings share one pass, and the rest of each remains. If the shared pass fails, each
    work gets a separate pass, so that an error ends one request and not its neighbours."""
    encodings = [work for work in works if isinstance(work, Encoding)]
    if len(encodings) < 2 or len(encodings) < len(works):
        return works
    try:
        vectors = encodings[0].encode([text for one in encodings for text in one.texts])
    except Exception:  # noqa: BLE001  it comes again
        return works
    ends = accumulate(len(one.texts) for one in encodings)
    return [partial(one.finish, vectors[end - len(one.texts) : end]) for one, end in zip(encodings, ends, strict=True)]


class _Job(Frozen):
    work: Work
    answer: Future[bytes]


async def unless_gone(answered: asyncio.Future[T], gone: Awaitable[None]) -> T:
    """Return a result unless the client leaves first, which drops a job that has not begun.

    Raises:
        RejectedRequest: the client has left.
    """
    left = asyncio.ensure_future(gone)
    either: set[asyncio.Future[Any]] = {answered, left}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            raise RejectedRequest(499, "the client has disconnected", code="client_left")
        return answered.result()
    finally:
        left.cancel()
        if not answered.cancel() and not answered.cancelled():
            answered.exception()  # or asyncio warns that it was never retrieved


async def departure(request: Request) -> None:
    """Return once the client has closed its connection. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
