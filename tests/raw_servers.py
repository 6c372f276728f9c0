"""Servers on loopback that say every byte themselves, and a proxy: what no well-behaved server could be told to do."""

import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from waiting import PATIENCE_S

from retrieve_cli.http.limits import Clock
from retrieve_cli.http.transport import HttpRequest, Transport

Say = Callable[["Conversation"], None]


@dataclass
class Asked:
    """A request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes
    client: int
    """The client's port: the same for requests over one connection."""


class Conversation:
    """One request, and the socket that its answer goes to."""

    def __init__(self, server: "Server", sock: socket.socket, asked: Asked) -> None:
        self.server, self.sock, self.asked = server, sock, asked

    def send(self, *parts: bytes) -> None:
        self.sock.sendall(b"".join(parts))

    def answer(self, body: bytes = b"", *headers: str, status: int = 200) -> None:
        lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}", *headers]
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1"), body)

    def drip(self, *parts: bytes, pause: float = 0.02) -> None:
        """Sends the parts one after the other, again and again, until the client or the test has enough."""
        while not self.server.closing.wait(pause):
            for part in parts:
                self.send(part)

    def keep_silent(self) -> None:
        self.server.closing.wait(PATIENCE_S)


class Server:
    """Answers each request by `say`; `asked` is what arrived."""

    def __init__(self, say: Say, *, tls: ssl.SSLContext | None = None, reads: bool = True) -> None:
        """Without `reads`, nothing that a client sends is received."""
        self.say, self.tls, self.reads = say, tls, reads
        self.asked: list[Asked] = []
        self.closing = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.closing.set()
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # ends the thread that accepts
        self.listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self._talk, args=(sock,), daemon=True).start()

    def _talk(self, sock: socket.socket) -> None:
        with sock, suppress(OSError, ValueError):
            if not self.reads:
                self.closing.wait(PATIENCE_S)
                return
            client = sock.getpeername()[1]
            sock = self.tls.wrap_socket(sock, server_side=True) if self.tls else sock
            with sock, sock.makefile("rb") as stream:
                while line := stream.readline().decode("latin-1").strip():
                    pairs = iter(lambda: stream.readline().decode("latin-1").strip().partition(": "), ("", "", ""))
                    headers = {name.lower(): value for name, _, value in pairs}
                    body = stream.read(int(headers.get("content-length", 0)))
                    self.asked.append(Asked(line, headers, body, client))
                    self.say(Conversation(self, sock, self.asked[-1]))


@contextmanager
def serving(say: Say, **how: object) -> Iterator[Server]:
    server = Server(say, **how)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        server.close()


def forward(talk: Conversation) -> None:
    """Answers as a proxy does: for CONNECT, whatever the other side says; otherwise with what it was asked for."""
    method, target, _ = talk.asked.line.split()
    if method != "CONNECT":
        talk.answer(f"through the proxy: {target}".encode())
        return
    host, _, port = target.rpartition(":")
    with socket.create_connection((host, int(port))) as other:
        talk.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        ends = {talk.sock: other, other: talk.sock}
        while not talk.server.closing.is_set():
            for end in select.select(list(ends), [], [], 0.1)[0]:
                if not (piece := end.recv(1 << 16)):
                    return
                ends[end].sendall(piece)


def fetch(transport: Transport, url: str, *, clock: Clock | None = None, **request: Any) -> tuple[int, bytes]:
    """Status and body of the answer."""
    with transport.open(HttpRequest(url, **request), clock or Clock(PATIENCE_S, PATIENCE_S)) as reply:
        return reply.status, b"".join(reply.decoded())


def slowly(*parts: bytes, first: bytes = b"", pause: float = 0.02) -> Say:
    def say(talk: Conversation) -> None:
        talk.send(first)
        talk.drip(*parts, pause=pause)

    return say
