"""Workers that are processes of this machine: fresh ones, not copies of this process with its threads and locks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.queues import SimpleQueue
from threading import Thread

from retrieve_cli.models.executors.workers import Encoded, Unit, Worker, WorkerDied

_DIED = "it crashed, or the system ended it"
_worker: Worker
"""The worker of this process, if it is one of a crew."""


class ProcessCrew:
    """`workers.Crew` in a pool of processes, which end with this one, however this one ends."""

    def __init__(self, size: int, make: Callable[[], Worker], devices: Sequence[str]) -> None:
        """`devices` are numbers of GPUs, which the processes take in turn."""
        self.size = size
        self._make = make
        self._devices = devices
        self._pool: ProcessPoolExecutor | None = None

    def hire(self, count: int) -> ProcessPoolExecutor:
        self.close()
        # A process starts without the current folder on its search path: the folder may be foreign.
        self._environment = os.environ.get("PYTHONSAFEPATH")
        os.environ["PYTHONSAFEPATH"] = "1"
        context = get_context("spawn")
        end, self._lifeline = context.Pipe(duplex=False)
        numbers = context.SimpleQueue()
        for number in range(count):
            numbers.put(number)
        arguments = (self._make, numbers, count, self._devices, end)
        self._pool = ProcessPoolExecutor(count, context, _begin, arguments)
        self._futures: set[Future[Encoded]] = set()
        return self._pool

    def submit(self, unit: Unit) -> None:
        pool = self._pool or self.hire(self.size)
        try:
            self._futures.add(pool.submit(_encode, unit))
        except BrokenProcessPool as error:
            raise WorkerDied(_DIED) from error

    def next(self) -> Encoded:
        future = wait(self._futures, return_when=FIRST_COMPLETED).done.pop()
        self._futures.remove(future)
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise WorkerDied(_DIED) from error

    def close(self) -> None:
        if self._pool is not None:
            self._lifeline.close()
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
            os.environ.pop("PYTHONSAFEPATH", None)
            if self._environment is not None:
                os.environ["PYTHONSAFEPATH"] = self._environment


def _begin(
    make: Callable[[], Worker],
    numbers: SimpleQueue[int],
    count: int,
    devices: Sequence[str],
    end: Connection,
) -> None:
    """Make the worker of this process, which gets its share of the cores, and a GPU if there are any."""
    global _worker  # noqa: PLW0603  the one way from an initializer to the calls
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the build decides how it ends
    Thread(target=_end_with, args=(end,), daemon=True).start()
    number = numbers.get()
    if devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[number % len(devices)]
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[number % len(cores) :: count])
    _worker = make()


def _encode(unit: Unit) -> Encoded:
    return _worker.encode(unit)


def _end_with(end: Connection) -> None:
    """End this process when its build closes the other end of a pipe, or ends."""
    try:
        end.recv_bytes()
    except (EOFError, OSError):
        os._exit(0)
