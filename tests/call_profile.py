"""Calls between the files of the package while a function runs, counted by the interpreter and not by a clock."""

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import retrieve_cli

_PACKAGE = f"{Path(retrieve_cli.__file__).parent}/"


class Calls(NamedTuple):
    """What called what, by the paths of files within the package."""

    files: list[str]
    """Files of which a function was called, in the order of the first call."""
    edges: Counter[tuple[str, str]]
    """Calls from one file to another: the caller is the frame that made the call."""

    @property
    def hops(self) -> Counter[tuple[str, str]]:
        """Calls between the top-level packages: the number of times that a reader has to follow one to another."""
        found: Counter[tuple[str, str]] = Counter()
        for (caller, callee), number in self.edges.items():
            if room(caller) != room(callee):
                found[room(caller), room(callee)] += number
        return found

    @property
    def hops_by_file(self) -> Counter[str]:
        """By file, the calls between top-level packages that it makes or answers."""
        found: Counter[str] = Counter()
        for (caller, callee), number in self.edges.items():
            if room(caller) != room(callee):
                found[caller] += number
                found[callee] += number
        return found


def room(path: str) -> str:
    """The top-level package of a file, or the file itself where it lies there."""
    return path.partition("/")[0]


def profiled(function: Callable[[], Any]) -> Calls:
    """The calls that a function makes, in this thread and in those that it starts.

    A body of a module runs when it is imported, and not when somebody asks a question: it is not a call.
    """
    order: dict[str, None] = {}
    edges: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not (name := frame.f_code.co_filename).startswith(_PACKAGE):
            return
        if frame.f_code.co_name == "<module>":
            return
        path = name.removeprefix(_PACKAGE)
        order.setdefault(path)
        caller = frame.f_back
        if caller is not None and caller.f_code.co_filename.startswith(_PACKAGE):
            edges[caller.f_code.co_filename.removeprefix(_PACKAGE), path] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # None takes it away again
    return Calls(list(order), edges)
