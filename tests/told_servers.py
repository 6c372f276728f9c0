"""Servers on loopback that answer as they are told, and keep account of what was asked."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, TypeVar

_DRIP_S = 0.02
NONSENSE = (
    b"", b"[" * 100_000, b"null", b"[]", b"1e400", b'"\xff"', b'{"error": 1}', b"\x1b[2J", b"{}", b"NaN", b"<html>",
    b'{"status": []}', b'{"status": {"error": {}}}', b'{"error": {"root_cause": 3, "caused_by": [1]}}',
)  # fmt: skip
NONSENSE += tuple(
    b'{"result": %s, "hits": %s, "docs": %s, "version": %s, "count": %s}' % ((value,) * 5)
    for value in (
        b"5", b"[5]", b'"x"', b'{"points": 7}', b'{"points": [{"id": [], "score": "x", "vector": 0}]}', b'{"hits": 3}',
        b'{"hits": [{"_id": "-", "_score": []}]}', b'{"collections": [1]}', b'{"collections": {}, "aliases": [[]]}',
        b'{"aliases": [{"alias_name": 1}], "collections": [{"name": null}]}', b"1e18", b'{"number": [], "count": "a"}',
    )
)  # fmt: skip


@dataclass
class Answer:
    """What a server says to one request."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    chunks: int = 0
    """Above 0: the body goes in chunks of that many bytes, without a Content-Length."""
    sent: int | None = None
    """How much of the body is sent before the connection is closed; None for all."""
    sized: bool = True
    """Whether its length is said before it."""
    drip: bool = False
    """Whether the body is followed by one byte after the other, as long as the client listens."""
    stall: bool = False
    """Whether nothing is sent after the headers."""
    drop: bool = False
    """Whether the connection is closed without an answer."""


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: Message
    body: bytes
    connection: int
    """The client's port: the same for requests over one connection."""

    @cached_property
    def json(self) -> Any:
        return json.loads(self.body)


class Server(ThreadingHTTPServer):
    """Answers each request by a function; connections are kept if it is `persistent`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, answer: Callable[[Asked], Answer], *, persistent: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer, self.persistent = answer, persistent
        self.closing = threading.Event()

    def handle_error(self, *_: Any) -> None:
        """A client that leaves early is what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = Asked(self.command, self.path, self.headers, body, self.client_address[1])
        self._reply(self.server.answer(asked))

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Nothing: the tests look at what was asked."""

    def _reply(self, answer: Answer) -> None:
        sized = answer.sized and not (answer.chunks or answer.drip or answer.status == 304)
        whole = sized and answer.sent is None and not (answer.stall or answer.drop)
        self.close_connection = not (whole and self.server.persistent)
        if answer.drop:
            return
        self.send_response(answer.status)
        headers = dict(answer.headers)
        if self.close_connection:
            headers["Connection"] = "close"
        if answer.chunks:
            headers["Transfer-Encoding"] = "chunked"
        elif sized:
            headers["Content-Length"] = str(len(answer.body) + answer.stall)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if answer.stall:
            self.server.closing.wait()
        else:
            self._send_body(answer)

    def _send_body(self, answer: Answer) -> None:
        body = answer.body[: answer.sent]
        if answer.chunks:
            for start in range(0, len(body), answer.chunks):
                chunk = body[start : start + answer.chunks]
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            self.wfile.write(b"0\r\n\r\n" if answer.sent is None else b"")
        else:
            self.wfile.write(body)
        while answer.drip and not self.server.closing.wait(_DRIP_S):
            self.wfile.write(b" ")
            self.wfile.flush()


Place = TypeVar("Place")


def running(place: Place) -> Iterator[Place]:
    """Yield something with a `server` while that serves: what a fixture yields from."""
    thread = threading.Thread(target=place.server.serve_forever, args=(0.01,), daemon=True)  # type: ignore[attr-defined]
    thread.start()
    try:
        yield place
    finally:
        stop(place)
        thread.join()


@contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[str]:
    """Answer requests by a function, and give the address."""
    for place in running(SimpleNamespace(server=Server(answer))):
        yield f"http://127.0.0.1:{place.server.server_port}"


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def stop(place: Any) -> None:
    """Let nobody listen at its address any more."""
    place.server.closing.set()
    place.server.shutdown()
    place.server.server_close()
