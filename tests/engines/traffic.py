"""Bytes, requests and round trips between a client and a server, counted by a proxy between them.

Requests are recognised by the protocol of a connection: those of HTTP/1.1, the streams of HTTP/2 (calls of gRPC), and
in PostgreSQL's the points at which the client waits for the server to be ready. The opening of a connection is none.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock, Thread
from typing import Any, NamedTuple

import numpy as np
from waiting import pause

Parser = Generator[int | bytes, bytes, None]
"""Takes the bytes of one direction in pieces: it says how many it needs, or up to which bytes."""
_PIECE = 1 << 16
_OPENING, _ENCRYPTION = "opening", "encryption"
_SSL, _GSS = 80877103, 80877104
_DATA, _HEADERS, _RESET = 0, 1, 3
"""Types of frames in HTTP/2."""


class Exchange(NamedTuple):
    """A request that was answered: moments at which the request was read and the answer passed on."""

    begun: float
    ended: float


@dataclass
class Seen:
    """Traffic of some time."""

    exchanges: list[Exchange] = field(default_factory=list)
    sent: int = 0
    """Bytes from the client."""
    received: int = 0

    @property
    def requests(self) -> int:
        return len(self.exchanges)

    @property
    def bytes(self) -> int:
        return self.sent + self.received

    @property
    def round_trips(self) -> int:
        """The most requests of which each began after the end of another: those that overlap in time count as one."""
        count, end = 0, float("-inf")
        for begun, ended in sorted(self.exchanges, key=lambda each: each.ended):
            if begun >= end:
                count, end = count + 1, ended
        return count


class Counter:
    """Traffic, counted while a block of statements runs; each answer is kept back for `latency_s` seconds, as by a
    distant server."""

    def __init__(self) -> None:
        self.latency_s = 0.0
        self._lock = Lock()
        self._seen = Seen()

    @contextmanager
    def counting(self) -> Iterator[Seen]:
        """Count the traffic of a block of statements."""
        seen = Seen()
        with self._lock:
            before, self._seen = self._seen, seen
        try:
            yield seen
        finally:
            with self._lock:
                self._seen = before

    def _passed(self, *, sent: int = 0, received: int = 0) -> None:
        if received and self.latency_s:
            pause(self.latency_s, why="a distant server")
        with self._lock:
            self._seen.sent += sent
            self._seen.received += received

    def _ended(self, exchange: Exchange) -> None:
        with self._lock:
            self._seen.exchanges.append(exchange)


class Traffic(Counter):
    """Proxies in front of servers on this machine."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[socket.socket] = []

    def before(self, server: int) -> int:
        """Start a proxy in front of the server at a port, and return the proxy's port."""
        listener = socket.create_server(("127.0.0.1", 0))
        self._open.append(listener)
        Thread(target=self._accept, args=(listener, server), daemon=True).start()
        port: int = listener.getsockname()[1]
        return port

    def close(self) -> None:
        """End all connections."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket, port: int) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", port))
                self._open += [client, server]
                turns = _Turns(self._ended)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                Thread(target=self._pump, args=(client, server, "sent", turns.asked()), daemon=True).start()
                Thread(target=self._pump, args=(server, client, "received", turns.answered()), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, direction: str, parser: Parser) -> None:
        feed = _Feed(parser)
        with suppress(OSError):
            while data := source.recv(_PIECE):
                self._passed(**{direction: len(data)})
                feed.take(data)  # before the client can go on
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


class Calls(Counter):
    """Calls of the collections of an engine without a server, with the bytes of the arrays that are passed."""

    def counted(self, collection: Any) -> Any:
        """Return a collection whose calls are counted."""
        return _Counted(self, collection)

    def call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a method as if it were a request."""
        begun = time.monotonic()
        answer = method(*arguments, **options)
        self._passed(sent=_size([arguments, list(options.values())]), received=max(1, _size(answer)))
        self._ended(Exchange(begun, time.monotonic()))
        return answer


class _Counted:
    def __init__(self, calls: Calls, collection: Any) -> None:
        self._calls, self._collection = calls, collection

    def __getattr__(self, name: str) -> Any:
        return partial(self._calls.call, getattr(self._collection, name))


def _size(value: Any) -> int:
    """Return the bytes of all arrays in a value, and of other things that go with them."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(_size, value)) if isinstance(value, list | tuple) else len(str(value))


class _Feed:
    """Gives a parser the pieces of one direction that it asks for."""

    def __init__(self, parser: Parser) -> None:
        self._parser, self._buffer = parser, bytearray()
        self._wanted = next(parser)

    def take(self, data: bytes) -> None:
        self._buffer += data
        while True:
            if isinstance(self._wanted, int):
                end = self._wanted
            else:
                end = self._buffer.find(self._wanted) + len(self._wanted)
                if end < len(self._wanted):
                    return
            if len(self._buffer) < end:
                return
            piece = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._wanted = self._parser.send(piece)


class _Turns:
    """Requests of one connection that wait for their answers, and the parsers of both directions."""

    def __init__(self, ended: Callable[[Exchange], None]) -> None:
        self._waiting: list[tuple[object, float]] = []
        """Key of a request, and the time at which it began."""
        self._ended = ended
        self._lock = Lock()
        self._protocol = ""

    def asked(self) -> Parser:
        """Read what the client says."""
        first = yield 1
        if first == b"\0":
            self._protocol = "postgresql"
            yield from self._postgresql_asked(first)
        rest = yield 3
        if first + rest == b"PRI ":
            self._protocol = "http/2"
            yield 20
            yield from self._frames_asked()
        self._protocol = "http/1.1"
        yield from self._http_asked(first + rest)

    def answered(self) -> Parser:
        """Read what the server says, which may be first only in HTTP/2."""
        first = yield 1
        if self._protocol == "postgresql":
            yield from self._postgresql_answered(first)
        if self._protocol == "http/1.1":
            yield from self._http_answered(first)
        yield from self._frames_answered(first)

    def _begin(self, what: object) -> None:
        with self._lock:
            self._waiting.append((what, time.monotonic()))

    def _end(self, what: object = None) -> None:
        """The first request that waits, or a given one, is answered."""
        with self._lock:
            place = next((at for at, (own, _) in enumerate(self._waiting) if what in (None, own)), None)
            if place is None:
                return
            own, begun = self._waiting.pop(place)
        if own not in (_OPENING, _ENCRYPTION):
            self._ended(Exchange(begun, time.monotonic()))

    def _next(self) -> object:
        with self._lock:
            return self._waiting[0][0] if self._waiting else None

    def _http_asked(self, start: bytes) -> Parser:
        while True:
            head = start + (yield b"\r\n\r\n")
            self._begin(head.partition(b" ")[0])
            yield from _body(head)
            start = b""

    def _http_answered(self, start: bytes) -> Parser:
        while True:
            head = start + (yield b"\r\n\r\n")
            start = b""
            status = head.split(b" ", 2)[1][:3]
            if not status.startswith(b"1"):
                if status not in (b"204", b"304") and self._next() != b"HEAD":
                    yield from _body(head)
                self._end()

    def _frames_asked(self) -> Parser:
        while True:
            kind, _, stream, _ = yield from _frame(b"")
            if kind == _HEADERS:
                self._begin(stream)

    def _frames_answered(self, start: bytes) -> Parser:
        while True:
            kind, flags, stream, _ = yield from _frame(start)
            start = b""
            if kind == _RESET or (kind in (_DATA, _HEADERS) and flags & 1):
                self._end(stream)

    def _postgresql_asked(self, start: bytes) -> Parser:
        code = 0
        while code in (0, _SSL, _GSS):
            length = int.from_bytes(start + (yield 4 - len(start)))
            body = yield length - 4
            code, start = int.from_bytes(body[:4]), b""
            self._begin(_ENCRYPTION if code in (_SSL, _GSS) else _OPENING)
        while True:
            kind = yield 1
            yield int.from_bytes((yield 4)) - 4
            if kind in (b"S", b"Q", b"F"):  # Sync, Query, FunctionCall
                self._begin(kind)

    def _postgresql_answered(self, kind: bytes) -> Parser:
        while True:
            if self._next() == _ENCRYPTION:  # answered by one letter
                self._end()
            else:
                yield int.from_bytes((yield 4)) - 4
                if kind == b"Z":  # ReadyForQuery
                    self._end()
            kind = yield 1


def _body(head: bytes) -> Parser:
    """Read the body behind the head of a request or an answer of HTTP/1.1."""
    lines = dict(line.lower().partition(b":")[::2] for line in head.split(b"\r\n")[1:])
    if b"chunked" in lines.get(b"transfer-encoding", b""):
        while size := int((yield b"\r\n").partition(b";")[0], 16):
            yield size + 2
        while (yield b"\r\n") != b"\r\n":
            continue
    elif length := int(lines.get(b"content-length", b"0")):
        yield length


def _frame(start: bytes) -> Generator[int, bytes, tuple[int, int, int, bytes]]:
    """Read a frame of HTTP/2: type, flags, stream and contents."""
    head = start + (yield 9 - len(start))
    contents = yield int.from_bytes(head[:3])
    return head[3], head[4], int.from_bytes(head[5:9]) & 0x7FFFFFFF, contents
