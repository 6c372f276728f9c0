"""Long work as named tasks: how much is done, of how much, how fast, and the same in words.

The code that does the work reports it, however deep it lies, and knows nothing of terminals:

    with task("encoding", "chunks", total=2941) as encoding:
        encoding.advance(32)

Without a display a task only counts. A command that shows progress installs one for its own thread (`showing`); work in
other threads, such as the requests of a server, is not shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import ceil
from threading import Lock
from typing import Protocol

BYTES = "bytes"
"""The unit of which people read millions."""


class Display(Protocol):
    """Shows tasks. All methods but `began` and `ended` are called from any thread."""

    def began(self, task: Task) -> None: ...

    def changed(self, task: Task) -> None: ...

    def ended(self, task: Task) -> None: ...


_DISPLAY: ContextVar[Display | None] = ContextVar("display", default=None)
_PART: ContextVar[str] = ContextVar("part", default="")


class Task:
    """Work of one kind that is under way; threads may share it."""

    def __init__(self, name: str, unit: str, total: int | None = None, *, display: Display | None = None) -> None:
        """`unit` is a plural: "chunks"."""
        self.name = name
        self.unit = unit
        self.total = total
        """None if it is not known."""
        self.done = 0
        self.size: int | None = None
        """Size of all the work, if its units differ: characters."""
        self.sized = 0
        """Size of the finished part."""
        self.began = time.monotonic()
        self._first: tuple[float, int] | None = None
        """Time of the first progress, and the work that was done then."""
        self._display = display
        self._lock = Lock()

    def advance(self, count: int = 1, *, size: int = 0) -> None:
        """Count more work as done, of some size if units differ."""
        with self._lock:
            self.done += count
            self.sized += size
            self._first = self._first or (time.monotonic(), self._work)
            if self.total is not None and self.done > self.total:
                self.total = self.done  # the total was an estimate
        if self._display is not None:
            self._display.changed(self)

    def reach(self, done: int) -> None:
        """Count as much work as done, if it was less until now."""
        if done > self.done:
            self.advance(done - self.done)

    def rename(self, name: str) -> None:
        """Give it another name, as the work enters another phase."""
        self.name = name

    def expect(self, total: int | None) -> None:
        """Set the total, which was not known before, or only as an estimate."""
        self.total = total
        if self._display is not None:
            self._display.changed(self)

    @property
    def rate(self) -> float | None:
        """Units per second since the task began; None until the rate is meaningful."""
        seconds = time.monotonic() - self.began
        return self.done / seconds if self.done and seconds >= 0.5 else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the rest takes; None if its size or its pace is not known."""
        whole = self.total if self.size is None else self.size
        if whole is None or self._first is None:
            return None
        return seconds_left([self._first, (time.monotonic(), self._work)], whole)

    @property
    def _work(self) -> int:
        return self.done if self.size is None else self.sized


MEASURED_S = 2.0
"""Seconds of progress after which a pace is known."""


def seconds_left(progress: Sequence[tuple[float, int]], whole: int) -> float | None:
    """Return the seconds that the rest takes, given times and the work that was done by then; None for the first two
    seconds. What came before the first progress, such as loading a model, does not count."""
    (begin, before), (now, done) = progress[0], progress[-1]
    if now - begin < MEASURED_S or done <= before:
        return None
    return max(whole - done, 0) * (now - begin) / (done - before)


@contextmanager
def task(name: str, unit: str, total: int | Callable[[], int | None] | None = None) -> Iterator[Task]:
    """Begin a task, and end it with this context. A total that has to be computed is so only for a display."""
    display = _DISPLAY.get()
    if callable(total):
        total = total() if display is not None else None
    made = Task(", ".join(filter(None, (_PART.get(), name))), unit, total, display=display)
    if display is None:
        yield made
        return
    display.began(made)
    try:
        yield made
    finally:
        display.ended(made)


def shown() -> bool:
    """Return True if a display shows the tasks of this context."""
    return _DISPLAY.get() is not None


def counting(pieces: Iterable[bytes], progress: Task) -> Iterator[bytes]:
    """Yield pieces of a file or an answer, and count their bytes."""
    for piece in pieces:
        progress.advance(len(piece))
        yield piece


@contextmanager
def part(name: str) -> Iterator[None]:
    """Put a name in front of the tasks of this context: "run 2 of 9"."""
    token = _PART.set(name)
    try:
        yield
    finally:
        _PART.reset(token)


@contextmanager
def noting_interruption(note: Callable[[], str]) -> Iterator[None]:
    """Add a note to an interruption of this context: how much of the work is kept. An empty one is not added."""
    try:
        yield
    except (Exception, GeneratorExit):
        raise
    except BaseException as interruption:
        if text := note():
            interruption.add_note(text)
        raise


@contextmanager
def showing(display: Display | None) -> Iterator[None]:
    """Show the tasks of this context; with None they are not shown."""
    token = _DISPLAY.set(display)
    try:
        yield
    finally:
        _DISPLAY.reset(token)


_MB = 1_000_000


def sentence(task: Task) -> str:
    """Return the state of a task as one line."""
    return ", ".join(filter(None, (f"{task.name}: {amount(task, ' of ')}", rate(task), time_left(task))))


def amount(task: Task, of: str = "/") -> str:
    """Return the work that is done, of all of it if that is known: `812/2,941 chunks`."""
    number = _megabytes if task.unit == BYTES else "{:,}".format
    unit = "MB" if task.unit == BYTES else counted(task.unit, task.done if task.total is None else task.total)
    return f"{number(task.done)}{'' if task.total is None else of + number(task.total)} {unit}"


def counted(unit: str, count: int) -> str:
    """Return a plural, or its singular for one."""
    if count != 1:
        return unit
    return f"{unit.removesuffix('ies')}y" if unit.endswith("ies") else unit.removesuffix("s")


def rate(task: Task) -> str:
    """Return the units per second: `66/s`; empty if that is not known."""
    value = task.rate
    if value is None:
        return ""
    if task.unit == BYTES:
        return f"{_megabytes(value)} MB/s"
    return f"{value:,.0f}/s" if value >= 10 else f"{value:.2g}/s"


def time_left(task: Task) -> str:
    """Return the time that the rest takes: `0:32 left`; empty if that is not known, or if nothing is left."""
    seconds = task.seconds_left
    if not seconds:
        return ""
    minutes, rest = divmod(ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"


def _megabytes(count: float) -> str:
    return f"{count / _MB:,.1f}"
