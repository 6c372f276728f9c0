"""Processes that parse and draw documents: started when there is work, used for many files, ended without work."""

from __future__ import annotations

import os
import weakref
from collections import deque
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Any

from retrieve_cli.contracts import Parsed
from retrieve_cli.cores import available_cores
from retrieve_cli.errors import BadDocument, RetrieveError
from retrieve_cli.sources.formats.processes.messages import ParseRequest
from retrieve_cli.sources.formats.processes.process import NotBegun, Process

_IDLE_S = 5.0
"""Seconds after which a process without work ends."""
_AHEAD = 2
"""Documents, for each process, that are parsed or being parsed and not requested yet."""
_STOPPED = "reading was stopped"
_STARTS = 2
"""Times that a process is started for one file; a file that was begun is not tried again."""


class ParserPool:
    """Parses and draws files in processes, on as many cores as it may use."""

    def __init__(self, memory_bytes: int, *, workers: int | None = None) -> None:
        """`workers` is the number of processes, by default the number of cores that this process may use."""
        self._memory_bytes = memory_bytes
        self._workers = workers or available_cores()
        self._reset()

    def _reset(self) -> None:
        self._owner = os.getpid()
        self._changed = Condition()
        self._queue: deque[PendingDocument] = deque()
        self._running = 0
        self._threads = 0
        self._begun: set[PendingDocument] = set()
        self._done: weakref.WeakSet[PendingDocument] = weakref.WeakSet()
        """Parsed documents that are not requested yet."""
        self._processes: set[Process] = set()
        self._end = weakref.finalize(self, _kill, self._owner, self._processes)

    def begin(self, request: ParseRequest) -> PendingDocument:
        """Begin to parse or draw a file, in its turn."""
        if self._owner != os.getpid():  # in a copy of the process there are no threads
            self._end.detach()
            self._reset()
        reading = PendingDocument(self, request)
        with self._changed:
            self._queue.append(reading)
            self._work_on()
        return reading

    def wait(self, reading: PendingDocument) -> None:
        """Wait until a document is parsed; it is the next one to be begun."""
        with self._changed:
            reading.awaited = True
            self._work_on()
            self._changed.wait_for(reading.done)
            self._done.discard(reading)
            self._work_on()

    def close(self) -> None:
        """End all processes at once. The pool can still be used."""
        with self._changed:
            for reading in (*self._queue, *self._begun):
                reading.stopped = True
            for reading in self._queue:
                reading.settle(BadDocument(_STOPPED))
            self._queue.clear()
            self._changed.notify_all()
        _kill(self._owner, self._processes)

    def _work_on(self) -> None:
        """Let the threads know that there may be work, and start one if all are busy."""
        self._changed.notify_all()
        if self._threads < self._workers and self._running == self._threads and self._next() is not None:
            self._threads += 1
            Thread(target=self._work, name="documents", daemon=True).start()

    def _next(self) -> PendingDocument | None:
        """Return the document to begin with now; None if the queue is empty, or too many documents are ready."""
        awaited = next((reading for reading in self._queue if reading.awaited), None)
        if awaited is not None or not self._queue:
            return awaited
        return self._queue[0] if self._running + len(self._done) < _AHEAD * self._workers else None

    def _work(self) -> None:
        """Parse documents until the queue stays empty: the work of a thread, which has one process at a time.

        The thread that has started a process must live as long: the kernel ends the process with it (PR_SET_PDEATHSIG).
        """
        process: Process | None = None
        while (reading := self._taken()) is not None:
            outcome: Parsed | bytes | BaseException
            try:
                process, outcome = self._parsed(process, reading)
            except BaseException as error:  # noqa: BLE001  raised in the waiting thread
                process, outcome = None, error
            with self._changed:
                self._running -= 1
                self._begun.discard(reading)
                reading.settle(outcome)
                self._done.add(reading)
                self._work_on()
            del reading
        if process is not None:
            self._close(process)

    def _taken(self) -> PendingDocument | None:
        """Return a document to parse; None if the queue stays empty for some time, and the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._next() is not None, _IDLE_S)
            reading = self._next()
            if reading is None:
                self._threads -= 1
                return None
            self._queue.remove(reading)
            self._running += 1
            self._begun.add(reading)
            self._work_on()
            return reading

    def _parsed(
        self, process: Process | None, reading: PendingDocument
    ) -> tuple[Process | None, Parsed | bytes | Exception]:
        """Parse a file; return the process if it takes another file, and the document or the error.

        The pool may be closed at any time: a process that it did not see is looked at again once it can be seen.
        """
        said = ""
        for _ in range(_STARTS + (process is not None)):
            try:
                if process is None:
                    process = Process(self._memory_bytes)
                    self._processes.add(process)
                if reading.stopped:
                    break
                outcome: Parsed | bytes | Exception = process.ask(reading.request)
            except BadDocument as error:
                outcome = error
            except (NotBegun, OSError) as error:
                said = str(error)
                self._close(process)
                process = None
                if reading.stopped:
                    break
                continue
            if process is not None and process.last:
                self._close(process)
                process = None
            return process, outcome
        if reading.stopped:
            self._close(process)
            return None, BadDocument(_STOPPED)
        reason = f"no process that reads documents can be started{': ' * bool(said)}{said}"
        return None, RetrieveError(reason, hint="nothing was changed; check the limits of this machine")

    def _close(self, process: Process | None) -> None:
        if process is not None:
            self._processes.discard(process)
            process.close()


class PendingDocument(Future[Parsed | bytes]):
    """A document that is being parsed or drawn."""

    def __init__(self, pool: ParserPool, request: ParseRequest) -> None:
        super().__init__()
        self._pool = pool
        self.request = request
        self.awaited = False
        """True if a caller waits for it."""
        self.stopped = False
        """True if the pool was closed before it was done."""

    def settle(self, outcome: Parsed | bytes | BaseException) -> None:
        """Set the document, its picture, or the error."""
        if isinstance(outcome, BaseException):
            self.set_exception(outcome)
        else:
            self.set_result(outcome)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the document, or for the picture that was asked for, and return it.

        Raises:
            BadDocument: it cannot be read or drawn.
            RetrieveError: no process can be started.
        """
        self._pool.wait(self)
        return super().result(timeout)


def _kill(owner: int, processes: set[Process]) -> None:
    """End processes at once, if this is the process that has started them."""
    if owner == os.getpid():
        for process in list(processes):
            process.kill()
