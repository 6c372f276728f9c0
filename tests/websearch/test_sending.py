"""Calls over HTTP: keys in their place and nowhere else, pauses between requests, one more attempt, endpoints."""

import time

import pytest
from raw_servers import Server
from websearch.answering import failure
from websearch.echoing import KEY, ORIGIN, Echo, titles

from retrieve_cli.contracts.websearch import Call, KeyPlace, ProviderFailed, Response
from retrieve_cli.errors import UsageError
from retrieve_cli.http.limits import Clock
from retrieve_cli.websearch.sending import Pauses, Sender

HEADER, PARAMETER = KeyPlace("ECHO_KEY", "header", "X-Key", "Bearer {}"), KeyPlace("ECHO_KEY", "parameter", "api_key")


class Waits:
    """Pauses that note how long they would sleep."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.pauses = Pauses(sleep=self.slept.append)


def send(
    server: Server, provider: Echo | None = None, *, seconds: float = 60.0, waits: Waits | None = None
) -> Response:
    provider = provider or Echo()
    pauses = waits.pauses if waits else Pauses()
    sender = Sender({ORIGIN: server.url}, pauses=pauses)
    call = Call(f"{ORIGIN}/{provider.name}", {"q": "crispr"}, keys=provider.keys)
    return sender.send(call, provider, accept=(200,), clock=Clock(seconds, seconds))


@pytest.mark.parametrize("place", [HEADER, PARAMETER])
def test_a_key_is_sent_in_its_place_and_hidden_in_an_answer_that_repeats_it(
    server: Server, monkeypatch: pytest.MonkeyPatch, place: KeyPlace
) -> None:
    monkeypatch.setenv("ECHO_KEY", KEY)
    server.say = lambda talk: talk.answer(f'["{KEY}"]'.encode(), "Content-Type: application/json")
    response = send(server, Echo(keys=(place,)))
    (asked,) = server.asked
    assert asked.headers.get("x-key") == (f"Bearer {KEY}" if place is HEADER else None)
    assert (KEY in asked.line) == (place is PARAMETER)
    assert response.body == b'["***"]'


def test_a_key_that_is_not_valid_in_a_request_is_named_and_not_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_KEY", f"{KEY}\x07\n{KEY}")
    with pytest.raises(ProviderFailed, match="ECHO_KEY") as failed:
        send(server, Echo(keys=(HEADER,)))
    assert KEY not in str(failed.value)
    assert server.asked == []


def test_requests_to_a_server_keep_its_pause(server: Server) -> None:
    waits = Waits()
    for _ in range(3):
        send(server, Echo(pause_s=10.0), waits=waits)
    assert [round(seconds) for seconds in waits.slept] == [10, 20]  # nothing slept, so the third one is after two


def test_a_pause_beyond_the_deadline_is_a_failure_and_sends_nothing(server: Server) -> None:
    waits = Waits()
    send(server, Echo(pause_s=100.0), waits=waits)
    with pytest.raises(ProviderFailed, match="no further requests") as failed:
        send(server, Echo(pause_s=100.0), seconds=5.0, waits=waits)
    assert failed.value.failure.kind == "rate_limited"
    assert 90 < (failed.value.failure.retry_after or 0) <= 100
    assert len(server.asked) == 1


def test_a_server_that_asks_for_a_pause_gets_it(server: Server) -> None:
    waits = Waits()
    server.say = lambda talk: talk.answer(b"", "Retry-After: 30", status=429)
    with pytest.raises(ProviderFailed) as failed:
        send(server, waits=waits)
    assert failed.value.failure.retry_after == 30.0
    server.say = titles
    send(server, waits=waits)
    assert [round(seconds) for seconds in waits.slept] == [30]


def test_a_failure_that_may_pass_is_tried_once_more(server: Server) -> None:
    server.say = lambda talk: titles(talk) if len(server.asked) > 1 else talk.answer(b"busy", status=502)
    assert send(server).status == 200
    assert len(server.asked) == 2
    server.say = lambda talk: talk.answer(b"", status=403)
    with pytest.raises(ProviderFailed, match="403"):
        send(server)
    assert len(server.asked) == 3


def test_a_server_that_does_not_listen_is_unreachable() -> None:
    provider, begin = Echo(), time.monotonic()
    sender = Sender({ORIGIN: "http://127.0.0.1:1"}, pauses=Pauses())

    def ask(_: object) -> object:
        return sender.send(Call(f"{ORIGIN}/x"), provider, accept=(200,), clock=Clock(30, 30))

    assert failure(ask, b"").kind == "unreachable"
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    "endpoints",
    [{ORIGIN: "http://example.org"}, {ORIGIN: "https://example.org/path"}, {"example": "https://example.org"}],
)
def test_an_endpoint_is_an_origin_and_encrypted_or_on_this_machine(endpoints: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"web\.endpoints"):
        Sender(endpoints)
