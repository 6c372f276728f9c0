"""Progress of a command on stderr: a bar on a terminal, a line every ten seconds elsewhere, nothing if quiet."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TextIO

from retrieve_cli.cli.options import Talk
from retrieve_cli.contracts.progress import showing
from retrieve_cli.errors import printable

if TYPE_CHECKING:
    from rich.progress import TaskID

    from retrieve_cli.contracts.progress import Task
    from retrieve_cli.ingest.report import Progress

INTERVAL = 10.0
"""Seconds between two lines."""
_REPORTED = 0.2
"""Seconds between two lines of JSON."""
_REDRAWN = 0.1
"""Seconds between two states of a bar."""


class ProgressLines:
    """A line about the task under way every few seconds, and one at the end of a task that was shown before."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._printed = time.monotonic()
        self._shown: set[int] = set()
        self._lock = Lock()

    def say(self, sentence: str) -> None:
        """Print a message."""
        self._talk.say(sentence)

    def began(self, task: Task) -> None:
        """Begin a task: nothing is printed yet."""

    def changed(self, task: Task) -> None:
        """Print the state of a task if the last line is old enough."""
        if time.monotonic() - self._printed < INTERVAL:
            return
        with self._lock:
            if time.monotonic() - self._printed >= INTERVAL:
                self._shown.add(id(task))
                self._print(task)

    def ended(self, task: Task) -> None:
        """Print the last state of a task that was shown."""
        if id(task) in self._shown:
            self._shown.remove(id(task))
            self._print(task)

    def _print(self, task: Task) -> None:
        from retrieve_cli.contracts.progress import sentence

        self._talk.say(sentence(task))
        self._printed = time.monotonic()


class Bars:
    """A bar for each running task, in rich's live display, which is closed between tasks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live: Any = None
        self._bars: dict[int, TaskID] = {}
        self._drawn = 0.0

    def say(self, sentence: str) -> None:
        """Print a message, above the bars if there are any."""
        if self._live is None:
            print(printable(sentence), file=self._stream)
        else:
            self._live.console.print(printable(sentence), markup=False, highlight=False, soft_wrap=True)

    def began(self, task: Task) -> None:
        """Add a bar."""
        if self._live is None:
            self._live = _live(self._stream)
            self._live.start()
        self._bars[id(task)] = self._live.add_task(printable(task.name), total=task.total, **_texts(task))

    def changed(self, task: Task) -> None:
        """Move a bar, not more often than the eye follows."""
        now = time.monotonic()
        if now - self._drawn >= _REDRAWN:
            self._drawn = now
            self._move(task)

    def ended(self, task: Task) -> None:
        """Remove a bar after its last state was drawn."""
        self._move(task)
        self._live.refresh()
        self._live.remove_task(self._bars.pop(id(task)))
        if not self._bars:
            self._live.stop()
            self._live = None

    def _move(self, task: Task) -> None:
        if (bar := self._bars.get(id(task))) is not None:
            name = printable(task.name)
            self._live.update(bar, description=name, completed=task.done, total=task.total, **_texts(task))


class ProgressReports:
    """A line of JSON about the task under way, a few times a second, for the program that runs this one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._printed = 0.0
        self._lock = Lock()

    def say(self, sentence: str) -> None:
        """Print a message."""
        self._print({"message": sentence})

    def began(self, task: Task) -> None:
        """Print the beginning of a task."""
        self._report(task)

    def changed(self, task: Task) -> None:
        """Print the state of a task if the last line is old enough."""
        if time.monotonic() - self._printed >= _REPORTED:
            self._report(task)

    def ended(self, task: Task) -> None:
        """Print the last state of a task."""
        self._report(task)

    def _report(self, task: Task) -> None:
        rate = None if task.rate is None else round(task.rate, 3)
        state = {"name": task.name, "unit": task.unit, "done": task.done, "total": task.total, "rate": rate}
        self._print({"progress": state})

    def _print(self, value: dict[str, Any]) -> None:
        with self._lock:
            self._printed = time.monotonic()
            print(json.dumps(value), file=self._stream, flush=True)


def _texts(task: Task) -> dict[str, str]:
    from retrieve_cli.contracts.progress import amount, rate, time_left

    return {"amount": amount(task), "rate": rate(task), "left": time_left(task)}


@contextmanager
def progress_for(talk: Talk, stream: TextIO, *, reports: bool = False) -> Iterator[Progress]:
    """Show the tasks of this context as suits the stream; yields the printer of messages.

    `reports` are lines of JSON instead.
    """
    if reports:
        reported = ProgressReports(stream)
        with showing(reported):
            yield reported
        return
    if talk.quiet or talk.json:
        with showing(None):
            yield ProgressLines(talk)
        return
    terminal = stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    display = Bars(stream) if terminal else ProgressLines(talk)
    with showing(display):
        yield display


def _live(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress as RichProgress, TextColumn
    from rich.table import Column

    return RichProgress(
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"), markup=False),
        BarColumn(bar_width=20),
        *(
            TextColumn(f"{{task.fields[{name}]}}", table_column=Column(no_wrap=True), markup=False)
            for name in ("amount", "rate", "left")
        ),
        console=Console(file=stream),
        transient=True,
        refresh_per_second=4,
        redirect_stdout=False,  # stdout is data
    )
