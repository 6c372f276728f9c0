"""The counter of traffic counts what passed, and what waited for what."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from threading import Barrier, Thread
from types import SimpleNamespace

import pytest
from engines.traffic import Exchange, Seen, Traffic
from told_servers import Answer, Asked, Server, running
from waiting import PATIENCE_S, until


def asked(connection: HTTPConnection, method: str = "POST") -> bytes:
    connection.request(method, "/", b"x" * 1000 if method == "POST" else None)
    return connection.getresponse().read()


def test_requests_of_http_are_counted_with_their_bytes() -> None:
    answers = iter([Answer(b"a" * 2000), Answer(b"b" * 3000, chunks=700), Answer(b"c"), Answer(b"", status=204)])
    for place in running(SimpleNamespace(server=Server(lambda _: next(answers), persistent=True))):
        traffic = Traffic()
        connection = HTTPConnection("127.0.0.1", traffic.before(place.server.server_port), timeout=PATIENCE_S)
        with traffic.counting() as seen:
            assert [len(asked(connection)) for _ in range(4)] == [2000, 3000, 1, 0]
        assert (seen.requests, seen.round_trips) == (4, 4)
        assert 4000 < seen.sent < 5000
        assert 5001 < seen.received < 6500
        connection.close()
        traffic.close()


def test_requests_that_wait_at_the_same_time_are_one_round_trip() -> None:
    both = Barrier(2)

    def answer(_: Asked) -> Answer:
        both.wait(PATIENCE_S)
        return Answer(b"answer")

    for place in running(SimpleNamespace(server=Server(answer, persistent=True))):
        traffic = Traffic()
        port = traffic.before(place.server.server_port)
        connections = [HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S) for _ in range(2)]
        with traffic.counting() as seen, ThreadPoolExecutor(2) as threads:
            for _ in range(3):
                assert list(threads.map(asked, connections)) == [b"answer"] * 2
        assert (seen.requests, seen.round_trips) == (6, 3)
        for each in (*connections, traffic):
            each.close()


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (4 + len(body)).to_bytes(4) + body


STARTUP = message(b"", (196608).to_bytes(4) + b"user\0me\0\0")
READY = message(b"Z", b"I")
POSTGRESQL = [
    (message(b"", (80877103).to_bytes(4)), b"N", 0),
    (STARTUP, message(b"R", b"\0" * 4) + message(b"S", b"a\0b\0") + READY, 0),
    (message(b"P", b"statement") + message(b"S", b""), message(b"1", b"") + READY, 1),
    (message(b"Q", b"text\0") + message(b"S", b""), READY + message(b"C", b"SELECT 1\0") + READY, 2),
]
HTTP2 = [
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0", b"\0\0\0\4\0\0\0\0\0", 0),
    (b"\0\0\1\1\4\0\0\0\1h" + b"\0\0\1\0\1\0\0\0\1d", b"\0\0\1\1\4\0\0\0\1h" + b"\0\0\1\1\5\0\0\0\1t", 1),
    (b"\0\0\1\1\5\0\0\0\3h" + b"\0\0\1\1\5\0\0\0\5h", b"\0\0\1\0\1\0\0\0\5d" + b"\0\0\4\3\0\0\0\0\3\0\0\0\0", 2),
]


@pytest.mark.parametrize("turns", [POSTGRESQL, HTTP2], ids=["postgresql", "http2"])
@pytest.mark.parametrize("step", [1, 1000])
def test_other_protocols_are_read_in_whatever_pieces_they_come(
    turns: list[tuple[bytes, bytes, int]], step: int
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        for said, answer, _ in turns:
            read(connection, len(said))
            for start in range(0, len(answer), step):
                connection.sendall(answer[start : start + step])
        connection.close()

    thread = Thread(target=serve)
    thread.start()
    traffic = Traffic()
    client = socket.create_connection(("127.0.0.1", traffic.before(listener.getsockname()[1])), timeout=PATIENCE_S)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for said, answer, requests in turns:
        with traffic.counting() as seen:
            for start in range(0, len(said), step):
                client.sendall(said[start : start + step])
            read(client, len(answer))
            until(partial(lambda seen, requests: seen.requests == requests, seen, requests), "the answer to be read")
        assert (seen.sent, seen.received) == (len(said), len(answer))
    thread.join()
    for each in (client, listener, traffic):
        each.close()


def read(connection: socket.socket, count: int) -> None:
    while count:
        count -= len(connection.recv(count))


def test_the_longest_chain_of_requests_is_counted() -> None:
    exchanges = [Exchange(0, 4), Exchange(1, 2), Exchange(2, 3), Exchange(5, 6), Exchange(5.5, 7)]
    assert Seen(exchanges).round_trips == 3
    assert Seen().round_trips == 0
