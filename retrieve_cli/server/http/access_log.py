"""Access log: one JSON object per line for each request, with the texts of queries only on demand.

A separate thread writes the lines: a full pipe or a slow disk must not keep requests from being answered.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Full, Queue
from threading import Thread

import orjson

from retrieve_cli.contracts import Json
from retrieve_cli.errors import unwritable

STDERR = "-"
"""Name of the log that is written to stderr; stdout carries data only."""
_STDERR = 2
_MOST_WAITING = 10_000
"""Lines that wait to be written; later ones are dropped, and counted in the next line."""
_AT_ONCE = 256
"""Lines of one write."""


class AccessLog:
    """A log in a file, or on stderr. The file may be moved away: the next line goes to a new one."""

    def __init__(self, place: str, *, texts: bool = False) -> None:
        """`place` is the path of a file, or `-`; `texts`: lines have the texts of queries.

        Raises:
            RetrieveError: the file cannot be written to.
        """
        self.texts = texts
        """True if lines have the texts of queries."""
        self._path = None if place == STDERR else Path(place)
        self._descriptor = _STDERR if self._path is None else _opened(self._path)
        self._lines: Queue[dict[str, Json] | None] = Queue(_MOST_WAITING)
        self.dropped = 0
        """Lines that were dropped since the last one."""
        self._thread = Thread(target=self._run, name="access log", daemon=True)
        self._thread.start()

    def write(self, line: dict[str, Json]) -> None:
        """Write a line; its `time` is in nanoseconds since 1970. It never waits."""
        try:
            if self.dropped:
                self._lines.put_nowait({**line, "dropped": self.dropped})
                self.dropped = 0
            else:
                self._lines.put_nowait(line)
        except Full:
            self.dropped += 1

    def close(self) -> None:
        """Write what waits, within a second."""
        with suppress(Full):
            self._lines.put(None, timeout=1.0)
        self._thread.join(1.0)

    def _run(self) -> None:
        while True:
            lines = [self._lines.get()]
            while len(lines) < _AT_ONCE and not self._lines.empty():
                lines.append(self._lines.get())
            with suppress(OSError):  # a full disk, a closed pipe: the server goes on
                self._follow_the_file()
                _write(self._descriptor, b"".join(_dumped(line) for line in lines if line is not None))
            if None in lines:
                return

    def _follow_the_file(self) -> None:
        """Open the file again if it was moved or removed, as a rotation of logs does."""
        if self._path is None:
            return
        here = os.fstat(self._descriptor)
        with suppress(OSError):
            there = self._path.stat()
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                return
        before, self._descriptor = self._descriptor, _opened(self._path)
        os.close(before)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise unwritable(path, error) from error


def _dumped(line: dict[str, Json]) -> bytes:
    moment = datetime.fromtimestamp(line["time"] / 1e9, UTC)
    return bytes(
        orjson.dumps({**line, "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"}) + b"\n"
    )


def _write(descriptor: int, contents: bytes) -> None:
    """Write all contents: a pipe may take a part of them."""
    view = memoryview(contents)
    while view:
        view = view[os.write(descriptor, view) :]
