"""How far a build is: a bar on a terminal, one line a milestone elsewhere, nothing when quiet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from retrieve_cli.cli.options import Talk
from retrieve_cli.errors import printable

if TYPE_CHECKING:
    from retrieve_cli.ingest.report import Progress

_MILESTONE = 10.0
"""Seconds between two lines."""


class Lines:
    """One line of progress every few seconds."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._said = time.monotonic()

    def step(self, records: int, chunks: int) -> None:
        if time.monotonic() - self._said >= _MILESTONE:
            self._said = time.monotonic()
            self._talk.say(f"{records} records read, {chunks} chunks encoded")

    def say(self, sentence: str) -> None:
        self._talk.say(sentence)


class Bar:
    """A rich status line that moves."""

    def __init__(self, bar: object, task: object) -> None:
        self._bar = bar
        self._task = task

    def step(self, records: int, chunks: int) -> None:
        self._bar.update(self._task, records=records, completed=chunks)  # type: ignore[attr-defined]

    def say(self, sentence: str) -> None:
        self._bar.console.print(printable(sentence), markup=False, highlight=False)  # type: ignore[attr-defined]


@contextmanager
def progress_for(talk: Talk, stream: TextIO) -> Iterator[Progress]:
    """The kind of progress that suits the stream."""
    if talk.quiet or not stream.isatty():
        yield Lines(talk)
        return
    from rich.console import Console
    from rich.progress import Progress as RichProgress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[records]} records read, {task.completed} chunks encoded"),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns, console=Console(file=stream), transient=True) as bar:
        yield Bar(bar, bar.add_task("build", total=None, records=0))
