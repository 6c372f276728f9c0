"""A task in words: `encoding: 812 of 2,941 chunks, 66/s, 0:32 left`."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from retrieve_cli.contracts.progress import BYTES

if TYPE_CHECKING:
    from retrieve_cli.contracts.progress import Task

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
