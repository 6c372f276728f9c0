"""Connections while a clock runs: names that are not resolved, addresses that do not answer, and those that do."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event

import pytest
from raw_servers import fetch, serving
from waiting import PATIENCE_S

from retrieve_cli.http.limits import Clock, TransientFailure
from retrieve_cli.http.pool import connect
from retrieve_cli.http.transport import Transport

Address = tuple[str, int]
Resolve = Callable[..., list[str]]


@pytest.fixture
def silent() -> Iterator[Address]:
    """The address of a listener whose queue is full: it neither accepts nor refuses."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()


def test_a_name_that_is_never_resolved_is_given_up_when_the_clock_has_run_out(
    connect: Callable[..., Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    over = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(PATIENCE_S) and [])
    with pytest.raises(TransientFailure, match=r"resolved in time|no complete answer"):
        fetch(connect("http://tools.example"), "http://tools.example/", clock=Clock(0.3, 9))
    over.set()


def test_a_name_that_does_not_exist_is_said(connect: Callable[..., Transport]) -> None:
    with pytest.raises(TransientFailure, match=r"(?i)name|address"):
        fetch(connect("http://tools.invalid"), "http://tools.invalid/")


def test_all_addresses_of_a_name_have_one_clock_together(silent: Address, resolve: Resolve) -> None:
    resolve(*[silent] * 100)
    with pytest.raises(TransientFailure, match="no complete answer"):
        connect("tools.example", 80, options=(), clock=Clock(0.5, 0.3))


def test_an_address_that_does_not_answer_is_passed_over_for_the_next(silent: Address, resolve: Resolve) -> None:
    with serving(lambda talk: talk.answer(b"x")) as server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        resolve(free.getsockname(), silent, ("127.0.0.1", server.port))
        connect("tools.example", 80, options=(), clock=Clock(PATIENCE_S, 0.2)).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_on_this_machine_is_reached_by_address_and_by_name(host: str) -> None:
    with serving(lambda talk: talk.answer(b"x")) as server:
        option = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connect(host, server.port, options=[option], clock=Clock(PATIENCE_S, PATIENCE_S)) as sock:
            assert sock.getpeername()[1] == server.port
            assert sock.getsockopt(*option[:2])


def test_the_last_address_that_did_not_answer_is_said_to_have_been_silent(silent: Address, resolve: Resolve) -> None:
    resolve(silent)
    with pytest.raises(TransientFailure, match=r"no connection within 0\.2 s"):
        connect("tools.example", 80, options=(), clock=Clock(9, 0.2))
