"""Observation of requests: an id, metrics, a line of the access log, and the time of each stage as a header.

request -> id -> door, which notes caller and answers -> headers -> metrics, line

Access log: one JSON object per line for each request, with the texts of queries only on demand.

A separate thread writes the lines: a full pipe or a slow disk must not keep requests from being answered.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import Full, Queue
from secrets import token_hex
from threading import Thread
from typing import TYPE_CHECKING

import orjson

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable, shortened, unwritable

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from retrieve_cli.search.answer import Answer
    from retrieve_cli.server.http.metrics import Metrics


_ID_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:+=/@")
_LONGEST_ID = 128
_NOT_UNDER_WAY = ("/metrics", "/health")
_UNTRACED = {"fastapi.telemetry": None, "starlette.opentelemetry": True}
"""Keys that switch off the traces and logs of the frameworks, which have the parameters of links: texts of queries."""
_LOGGED_TEXTS = 8
"""Texts of one request that the access log has, if it has any."""
_LONGEST_TEXT = 300


@dataclass(slots=True, eq=False)
class Observed:
    """Notes on one request, made by the middleware and by the door that answers."""

    id: str
    route: str | None = None
    """Template of the route that answered, or the path of the application that is mounted there."""
    status: int = 499
    """499 for a request that was not answered: its client left."""
    bytes: int = 0
    """Bytes of the body of the answer."""
    caller: str = ""
    """Name of the caller's credential."""
    answers: Sequence[Answer] = ()
    """Answers to searches."""
    started: int = field(default_factory=time.time_ns)

    @property
    def stages_ms(self) -> dict[str, float]:
        """Milliseconds by stage of all its searches."""
        total: Counter[str] = Counter()
        for answer in self.answers:
            total.update(answer.served_ms)
        return {stage: round(spent, 3) for stage, spent in total.items()}

    @property
    def generation(self) -> str | None:
        """The generation that answered."""
        return self.answers[0].generation if self.answers else None

    @property
    def results(self) -> int | None:
        """Number of results of all its searches."""
        return sum(len(answer.results) for answer in self.answers) if self.answers else None


def observed(request: HTTPConnection) -> Observed:
    """Return the notes on a request; without the middleware, notes that are dropped."""
    notes = request.scope.setdefault("state", {}).get("observed")
    return notes if isinstance(notes, Observed) else Observed("")


class Observing:
    """An ASGI application around another one, which observes every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, log: AccessLog | None = None) -> None:
        self._app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        notes = Observed(_request_id(scope))
        scope.update(_UNTRACED)
        scope.setdefault("state", {}).update(request_id=notes.id, observed=notes)
        under_way = scope["path"] not in _NOT_UNDER_WAY

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                notes.status = message["status"]
                headers = [header for header in message.get("headers", ()) if header[0] != b"x-request-id"]
                headers.append((b"x-request-id", notes.id.encode("latin-1")))
                if notes.answers:
                    headers.append((b"server-timing", server_timing(notes.stages_ms).encode()))
                message = {**message, "headers": headers}
            else:
                notes.bytes += len(message.get("body", b""))
            await send(message)

        if under_way:
            self._metrics.began()
        try:
            await self._app(scope, receive, noting)
        finally:
            path = getattr(scope.get("route"), "path", None)
            notes.route = path if isinstance(path, str) and path else None
            seconds = time.perf_counter() - begun
            self._metrics.answered(notes.route, notes.status, seconds, under_way=under_way)
            if notes.answers:
                self._metrics.stages(notes.answers)
            if self._log is not None:
                self._log.write(_line(scope, notes, seconds, texts=self._log.texts))


def _request_id(scope: Scope) -> str:
    """Return the id that the client sent, if it is short and plain, or a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            sent = value.decode("latin-1")
            if 0 < len(sent) <= _LONGEST_ID and _ID_CHARS.issuperset(sent):
                return str(sent)
    return token_hex(16)


def server_timing(stages_ms: dict[str, float]) -> str:
    """Return milliseconds by stage as a Server-Timing header: https://www.w3.org/TR/server-timing/"""
    return ", ".join(f"{stage};dur={spent:g}" for stage, spent in stages_ms.items())


def _line(scope: Scope, notes: Observed, seconds: float, *, texts: bool) -> dict[str, Json]:
    line: dict[str, Json] = {
        "time": notes.started,
        "request_id": notes.id,
        "method": scope["method"],
        "route": notes.route,
        "status": notes.status,
        "ms": round(seconds * 1000, 3),
        "bytes": notes.bytes,
        "caller": notes.caller or None,
        "generation": notes.generation,
        "results": notes.results,
    }
    if texts and notes.answers:
        asked = [answer.query.text for answer in notes.answers[:_LOGGED_TEXTS]]
        line["queries"] = [printable(shortened(text, _LONGEST_TEXT)) for text in asked]
    return line


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
            self._lines.put_nowait({**line, "dropped": self.dropped} if self.dropped else line)
            self.dropped = 0
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
                contents = memoryview(b"".join(_dumped(line) for line in lines if line is not None))
                while contents:  # a pipe may take a part of them
                    contents = contents[os.write(self._descriptor, contents) :]
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
    written = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    return bytes(orjson.dumps({**line, "time": written}) + b"\n")
