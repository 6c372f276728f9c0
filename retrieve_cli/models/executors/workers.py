"""The promise of a worker to its coordinator. Transports keep it: local processes, servers, Ray.

Slots of workers, each with a thread that talks to the worker, and their reports.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from queue import Empty, Full, Queue, SimpleQueue
from threading import Event, Thread
from typing import NamedTuple, Protocol, TypeAlias

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.models import Encoded, Wanted
from retrieve_cli.errors import RetrieveError, shortened


class Hello(NamedTuple):
    """The first request to a process."""

    factory: str
    """"module:function", which returns `encoding.Encoders` for the settings."""
    settings: Json
    threads: int
    paths: Sequence[str]
    """Search path for modules."""
    probes: Sequence[str]


class WorkUnit(NamedTuple):
    """Texts of a unit."""

    unit: int
    texts: Sequence[str]
    wanted: Sequence[Wanted]


class UnitResults(NamedTuple):
    """Encodings of some texts of a unit."""

    places: Sequence[int]
    encoded: Sequence[Encoded]
    truncated: int = 0
    """Number of these texts that were truncated."""


class ProbeAnswer(NamedTuple):
    """Cards and device of a worker, and its encodings of the probes."""

    cards: Json
    """Cards of its encoders; None if it cannot tell them."""
    probes: Sequence[Encoded]
    about: str = ""
    """Device or address, in words."""


class WorkerEnded(Exception):
    """The worker is gone, with its unit; the text gives the reason."""


class Unfit(Exception):
    """The worker cannot be used: its model is missing or is another model. The text gives the reason."""


class NotEncoded(Exception):
    """The worker lives, and could not encode the texts without a result; the text gives the reason."""


class EncodingWorker(Protocol):
    """Encodes one unit at a time. All methods but `kill` are called from one thread, and may block."""

    def start(self, probes: Sequence[str]) -> ProbeAnswer:
        """Make the worker ready, and return the encoded probes. Raises: WorkerEnded, Unfit."""

    def encode(self, work: WorkUnit) -> Iterator[UnitResults]:
        """Yield results as they come, first of all none: the texts of a unit that was begun may be why a worker ends.

        Raises:
            WorkerEnded, NotEncoded
        """

    def kill(self) -> None:
        """End it at once, from any thread."""

    def close(self) -> None:
        """End it, and free what belongs to it."""


class WorkerSlot(NamedTuple):
    """A place for a worker, which is replaced if it ends."""

    name: str
    """For people and for the scheduler: "worker 3", "http://a:8080"."""
    open: Callable[[], EncodingWorker]
    """Returns a new worker. Raises: OSError if this machine cannot start it."""


_REASON = 300
_TICK_S = 0.1
_JOIN_S = 2.0
"""Seconds to wait for the thread of a worker that was ended; the thread of a server may wait for its answer."""


class SlotReady(NamedTuple):
    """A worker has encoded the probes."""

    answer: ProbeAnswer


class SlotEnded(NamedTuple):
    """A worker is gone."""

    reason: str
    unfit: bool = False
    """True if another one in its place would not be of use either."""


class UnitDone(NamedTuple):
    """A worker has returned all that it can of its unit."""

    reason: str = ""
    """Why some texts have no result."""


What: TypeAlias = "SlotReady | SlotEnded | UnitDone | UnitResults"


class SlotReport(NamedTuple):
    """Something that happened at a slot."""

    slot: str
    life: int
    """Number of the worker at this slot: reports of earlier ones are late."""
    what: What


class SlotReports:
    """Reports of all slots. A worker that is faster than the coordinator waits: nothing piles up."""

    def __init__(self, most: int) -> None:
        self._queue: Queue[SlotReport] = Queue(most)
        self._closed = Event()

    def put(self, report: SlotReport) -> None:
        """Add a report; it is dropped once the coordinator has stopped listening."""
        while not self._closed.is_set():
            with suppress(Full):
                self._queue.put(report, timeout=_TICK_S)
                return

    def get(self, seconds: float) -> SlotReport | None:
        """Return the next report; None if none arrives within some seconds."""
        with suppress(Empty):
            return self._queue.get(timeout=seconds)
        return None

    def close(self) -> None:
        """Drop all reports."""
        self._closed.set()


class Slot:
    """A slot and its worker, if it has one now."""

    def __init__(self, slot: WorkerSlot, reports: SlotReports, probes: Sequence[str]) -> None:
        self.name = slot.name
        self.life = 0
        self.ready = False
        self.out = ""
        """Why no worker is started here any more."""
        self.failures = 0
        """Workers in a row that ended before they were ready."""
        self.again_at = 0.0
        """Time at which the next worker is started."""
        self._slot = slot
        self._reports = reports
        self._probes = probes
        self._worker: _Opened | None = None
        self._inbox: SimpleQueue[WorkUnit | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._earlier: list[Thread] = []
        """Threads of workers that were ended, until they are done."""

    @property
    def empty(self) -> bool:
        """True if a worker is to be started."""
        return self._thread is None and not self.out

    def start(self) -> None:
        """Start a worker."""
        self.life += 1
        self._worker = _Opened(self._slot)
        self._inbox = SimpleQueue()
        arguments = (self._worker, self.life, self._inbox)
        self._thread = Thread(target=self._speak, args=arguments, name=self.name, daemon=True)
        self._thread.start()

    def give(self, work: WorkUnit) -> None:
        """Pass a unit to the worker."""
        self._inbox.put(work)

    def vacate(self, after_s: float) -> None:
        """End the worker, and let the next one start after some seconds."""
        self.end()
        if self._thread is not None:
            self._earlier = [thread for thread in (*self._earlier, self._thread) if thread.is_alive()]
        self.ready = False
        self._worker = self._thread = None
        self.again_at = time.monotonic() + after_s

    def end(self) -> None:
        """End the worker at once."""
        self._inbox.put(None)
        if self._worker is not None:
            self._worker.kill()

    def join(self) -> None:
        """Wait until the threads of workers that were ended are done."""
        for thread in (*self._earlier, *([self._thread] if self._thread else [])):
            thread.join(_JOIN_S)

    def _speak(self, opened: _Opened, life: int, inbox: SimpleQueue[WorkUnit | None]) -> None:
        """Speak with a worker until it ends: the work of a thread."""

        def report(what: What) -> None:
            self._reports.put(SlotReport(self.name, life, what))

        try:
            with closing(opened.open()) as worker:
                report(SlotReady(worker.start(self._probes)))
                while (work := inbox.get()) is not None:
                    report(_encode(worker, work, report))
        except WorkerEnded as error:
            report(SlotEnded(str(error)))
        except Unfit as error:
            report(SlotEnded(str(error), unfit=True))
        except RetrieveError as error:
            report(SlotEnded(error.message))
        except Exception as error:  # noqa: BLE001  the other workers go on after any error
            report(SlotEnded(f"{type(error).__name__}: {shortened(str(error), _REASON)}"))


class _Opened:
    """A worker that is opened in one thread and may be ended from another one at any time."""

    def __init__(self, slot: WorkerSlot) -> None:
        self._slot = slot
        self._worker: EncodingWorker | None = None
        self._ended = Event()

    def open(self) -> EncodingWorker:
        """Return the worker."""
        self._worker = self._slot.open()
        if self._ended.is_set():
            self._worker.kill()
        return self._worker

    def kill(self) -> None:
        """End the worker, now or as soon as it has started."""
        self._ended.set()
        if self._worker is not None:
            self._worker.kill()


def _encode(worker: EncodingWorker, work: WorkUnit, report: Callable[[What], None]) -> UnitDone:
    try:
        for results in worker.encode(work):
            report(results)
    except NotEncoded as error:
        return UnitDone(str(error))
    return UnitDone()
