"""Exchanges with providers: rates, keys, stored answers, offline, replays, and failures of every kind."""

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from traceback import TracebackException
from typing import Any

import pytest
from raw_servers import Asked, Conversation, Say, Server, serving
from websearch.echoing import JSON, KEY, NOW, ORIGIN, Echo, exchange, long, titles
from websearch.test_stored import files_may_not_grow

from retrieve_cli.contracts.websearch import (
    Call,
    Failure,
    KeyPlace,
    Malformed,
    NotStored,
    ProviderFailed,
    Rate,
    RateLimited,
    Rejected,
    Response,
    Timeout,
    Unreachable,
)
from retrieve_cli.errors import UsageError
from retrieve_cli.http.limits import Clock
from retrieve_cli.websearch.exchange import Exchange
from retrieve_cli.websearch.rates import Rates

Fresh = Callable[..., Exchange]
CALL = Call(f"{ORIGIN}/search", {"q": "µ x&y=1"})
HEADER = KeyPlace("ECHO_KEY", "header", "X-API-KEY")
PARAMETER = KeyPlace("ECHO_KEY", "parameter", "api_key")


@pytest.fixture
def fresh(server: Server, tmp_path: Path) -> Callable[..., Exchange]:
    """Makes exchanges in which the server stands for the origin; all have one folder."""
    return partial(exchange, server.url, tmp_path)


@pytest.fixture
def made(fresh: Fresh) -> Exchange:
    return fresh()


def fetch(made: Exchange, call: Call = CALL, *, clock: Clock | None = None, **provider: Any) -> Response:
    """Return the response to a call of a provider that can read it."""
    fetch = made.fetch_for(Echo(**provider), clock=clock or long())
    response = fetch(call)
    made.keep(fetch)
    return response


def failure(made: Exchange, call: Call = CALL, **how: Any) -> Failure:
    with pytest.raises(ProviderFailed) as caught:
        fetch(made, call, **how)
    return caught.value.failure


# ------------------------------------------------------------------------------------------- requests


def test_a_call_is_sent_to_the_endpoint_with_its_parameters(server: Server, made: Exchange) -> None:
    response = fetch(made)
    assert [asked.line for asked in server.asked] == ["GET /search?q=%C2%B5+x%26y%3D1 HTTP/1.1"]
    assert response.status == 200
    assert response.at == "2026-11-23T04:00:00Z"
    assert json.loads(response.body)[1] == "1"


def test_a_body_is_posted_with_its_headers(server: Server, made: Exchange) -> None:
    fetch(made, Call(f"{ORIGIN}/s", headers={"Content-Type": "application/json"}, body=b"{}"))
    (asked,) = server.asked
    assert (asked.line, asked.body) == ("POST /s HTTP/1.1", b"{}")
    assert asked.headers["content-type"] == "application/json"


FOREIGN = ["https://other.example/x", "http://api.example.org/x", f"{ORIGIN}:444/x", f"{ORIGIN}/?a=1"]


@pytest.mark.parametrize("url", FOREIGN)
def test_a_call_to_a_server_that_is_not_declared_is_an_error_that_names_no_parameter(
    server: Server, made: Exchange, url: str
) -> None:
    with pytest.raises(ValueError, match="declared") as caught:
        fetch(made, Call(url, {"token": "hush"}))
    assert url.partition("?")[0] in str(caught.value)
    assert "hush" not in str(caught.value)
    assert server.asked == []


ENDPOINTS = "http://10.0.0.1:80 http://example.org ftp://127.0.0.1 127.0.0.1:80 https://a.org/path https://a.org?x"


@pytest.mark.parametrize("endpoint", ENDPOINTS.split())
def test_an_endpoint_that_is_not_an_origin_of_https_or_this_machine_is_rejected(tmp_path: Path, endpoint: str) -> None:
    with pytest.raises(UsageError, match="endpoints"):
        exchange(endpoint, tmp_path)


def test_without_an_endpoint_no_private_address_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("127.0.0.1", 443))])
    said = failure(exchange("", tmp_path))
    assert isinstance(said, Rejected)
    assert "127.0.0.1" in str(said)


def test_an_endpoint_may_be_an_address_of_ipv6(tmp_path: Path) -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no loopback address of IPv6")
    with serving(titles) as server:
        listener, server.listener = server.listener, listener
        Thread(target=server._accept, daemon=True).start()
        port = server.listener.getsockname()[1]
        assert fetch(exchange(f"http://[::1]:{port}", tmp_path)).status == 200
        listener.close()


def test_the_endpoint_of_another_provider_is_not_reached_by_a_redirect(server: Server, tmp_path: Path) -> None:
    with serving(titles) as other:
        endpoints = {ORIGIN: server.url, "https://other.example": other.url}
        server.say = lambda talk: talk.answer(b"", f"Location: {other.url}/", status=302)
        made = Exchange(stored=None, rates=Rates(tmp_path), endpoints=endpoints, max_age_s=0, offline=False)
        assert isinstance(failure(made), Rejected)
        assert other.asked == []


# ------------------------------------------------------------------------------------------- credentials


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ECHO_KEY", KEY)
    return KEY


def everything(made: Exchange, folder: Path) -> str:
    """Return all that is stored or recorded, as text."""
    stored = [path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]
    return repr((stored, made.recorded.to_json(), made.recorded.bodies(), made.notices))


@pytest.mark.parametrize("place", [HEADER, PARAMETER], ids=["header", "parameter"])
def test_a_key_is_sent_and_neither_stored_nor_recorded(
    server: Server, made: Exchange, tmp_path: Path, key: str, place: KeyPlace
) -> None:
    def sent(asked: Asked) -> str:
        return asked.line + asked.headers.get("x-api-key", "")

    server.say = lambda talk: talk.answer(json.dumps([f"you sent {sent(talk.asked)}"]).encode(), JSON)
    response = fetch(made, Call(CALL.url, CALL.parameters, keys=(place,)))
    assert key in sent(server.asked[0])
    assert key.encode() not in response.body
    assert b"***" in response.body
    assert key not in everything(made, tmp_path)


def test_the_form_of_a_key_is_kept(server: Server, made: Exchange, key: str) -> None:
    fetch(made, Call(CALL.url, keys=(KeyPlace("ECHO_KEY", "header", "Authorization", "Bearer {}"),)))
    assert server.asked[0].headers["authorization"] == f"Bearer {key}"


def test_a_variable_that_is_not_set_leaves_its_place_out(server: Server, made: Exchange) -> None:
    fetch(made, Call(CALL.url, keys=(HEADER, PARAMETER)))
    assert server.asked[0].line == "GET /search HTTP/1.1"
    assert "x-api-key" not in server.asked[0].headers


@pytest.mark.parametrize("value", ["a\nb", "a\x00b"[:1] + "\x7f", "schlüssel"])
def test_a_key_that_no_header_may_have_is_rejected_without_its_value(
    server: Server, made: Exchange, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("ECHO_KEY", value)
    said = failure(made, Call(CALL.url, keys=(HEADER,)))
    assert isinstance(said, Rejected)
    assert "ECHO_KEY" in str(said)
    assert value not in str(said)
    assert server.asked == []


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("kind", ["rejected", "silent", "hung up"])
def test_no_key_is_in_the_frames_of_a_failure(server: Server, made: Exchange, kind: str) -> None:
    server.say = {"rejected": saying(status=403), "silent": Conversation.keep_silent, "hung up": hang_up}[kind]
    with pytest.raises(ProviderFailed) as caught:
        fetch(made, Call(CALL.url, keys=(PARAMETER, HEADER)), clock=long(1))
    assert KEY not in "".join(TracebackException.from_exception(caught.value, capture_locals=True).format())


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 503])
def test_no_failure_repeats_a_key(server: Server, made: Exchange, tmp_path: Path, key: str, status: int) -> None:
    server.say = lambda talk: talk.answer(f"no: {talk.asked.line}".encode(), JSON, status=status)
    said = failure(made, Call(CALL.url, keys=(PARAMETER,)))
    assert isinstance(said, Rejected)
    assert "no: GET" in str(said)
    assert key not in repr(said) + everything(made, tmp_path)


@pytest.mark.usefixtures("key")
def test_the_same_request_with_another_key_has_the_same_answer(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call(CALL.url, keys=(PARAMETER,))
    first = fetch(fresh(), call)
    monkeypatch.setenv("ECHO_KEY", "another-key")
    assert fetch(fresh(), call) == first


# ------------------------------------------------------------------------------------------- failures


SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Type: text/xml\r\n\r\nx"


def hang_up(talk: Conversation) -> None:
    with suppress(OSError):
        talk.sock.shutdown(socket.SHUT_RDWR)


def saying(body: bytes = b"", *headers: str, status: int = 200) -> Say:
    return lambda talk: talk.answer(body, *headers, status=status)


@pytest.mark.parametrize(
    ("say", "kind", "text"),
    [
        (saying(b'{"error": "bad key"}', JSON, status=401), Rejected, "status 401: “{\"error\": \"bad key\"}”"),
        (saying(b"no", JSON, status=404), Rejected, "status 404"),
        (saying(status=418), Rejected, "status 418"),
        (saying(status=304), Rejected, "status 304"),
        (saying(b"down", "Content-Type: text/html", status=500), Rejected, "status 500: “down”"),
        (saying(status=503), Rejected, "status 503"),
        (saying(status=429), RateLimited, "no further requests now"),
        (saying(b"", "Retry-After: 17", status=429), RateLimited, "for 17 s"),
        (saying(b"", "Retry-After: 17", status=503), RateLimited, "for 17 s"),
        (saying(b"%PDF", "Content-Type: application/pdf"), Malformed, "not text: application/pdf"),
        (saying(b"x"), Malformed, "not text"),
        (saying(b"x", JSON, "Content-Encoding: br"), Malformed, "coding"),
        (saying(b" " * 10_000_001, JSON), Rejected, "more than 10 MB"),
        (lambda talk: talk.send(SHORT), Unreachable, "cut short"),
        (lambda talk: talk.send(b"SSH-2.0-x\r\n"), Unreachable, "not HTTP"),
        (lambda talk: None, Unreachable, ""),
    ],
)  # fmt: skip
def test_every_failure_is_said_as_its_kind(server: Server, made: Exchange, say: Say, kind: type, text: str) -> None:
    def then_close(talk: Conversation) -> None:
        say(talk)
        hang_up(talk)

    server.say = then_close
    said = failure(made)
    assert type(said) is kind
    assert text in str(said)


def test_nobody_who_listens_is_unreachable(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it does not listen
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert isinstance(failure(exchange(url, tmp_path)), Unreachable)


@pytest.mark.parametrize("say", [Conversation.keep_silent, lambda talk: talk.drip(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n")])
def test_an_answer_that_does_not_end_is_a_timeout(server: Server, made: Exchange, say: Say) -> None:
    server.say = say
    assert failure(made, clock=long(0.5)) == Timeout("no complete answer within 0.5 s")


def test_an_answer_of_another_status_or_that_its_provider_cannot_read_is_not_stored(
    server: Server, made: Exchange, tmp_path: Path
) -> None:
    made.fetch_for(Echo(), clock=long())(CALL)  # the provider cannot read it: it does not say `keep`
    server.say = saying(b'{"none": 1}', JSON, status=404)
    fetch = made.fetch_for(Echo(), clock=long())
    assert fetch(Call(f"{ORIGIN}/other"), accept=(200, 404)).status == 404
    made.keep(fetch)
    assert not (tmp_path / "web").exists()


@pytest.mark.parametrize("bad", [saying(status=502), hang_up])
def test_a_failure_that_may_pass_is_tried_once_more(server: Server, made: Exchange, bad: Say) -> None:
    server.say = lambda talk: bad(talk) if len(server.asked) == 1 else titles(talk)
    assert fetch(made).status == 200
    assert len(server.asked) == 2


@pytest.mark.parametrize(("status", "requests"), [(500, 2), (503, 2), (429, 1), (400, 1), (401, 1), (404, 1)])
def test_only_errors_of_the_server_are_tried_again_and_once(
    server: Server, made: Exchange, status: int, requests: int
) -> None:
    server.say = saying(status=status)
    failure(made)
    assert len(server.asked) == requests


def test_no_second_attempt_is_made_that_would_not_end_in_time(server: Server, made: Exchange) -> None:
    server.say = saying(status=500)
    failure(made, clock=long(0.2))
    assert len(server.asked) == 1


# ------------------------------------------------------------------------------------------- rates


def test_attempts_and_redirects_on_the_server_use_its_rate(server: Server, fresh: Fresh, tmp_path: Path) -> None:
    answers = [saying(status=500), saying(b"", "Location: /there", status=302), titles]

    def say(talk: Conversation) -> None:
        answers.pop(0)(talk)

    server.say = say
    slept: list[float] = []
    rates = Rates(tmp_path / "rates", sleep=slept.append)
    fetch(fresh(rates=rates), rate=Rate(1, 1000.0), clock=long(10_000))
    assert (len(server.asked), len(slept)) == (3, 2)


def test_a_rate_that_permits_no_request_in_time_is_a_failure_before_anything_is_sent(
    server: Server, fresh: Fresh
) -> None:
    fetch(fresh(), rate=Rate(1, 100.0))
    said = failure(fresh(), Call(f"{ORIGIN}/other"), rate=Rate(1, 100.0), clock=long(5))
    assert isinstance(said, RateLimited)
    assert said.retry_after == pytest.approx(110, abs=5)
    assert len(server.asked) == 1


def test_a_pause_that_a_server_asks_for_holds_for_the_next_search(server: Server, fresh: Fresh) -> None:
    server.say = saying(b"", "Retry-After: 50", status=429)
    failure(fresh())
    said = failure(fresh(), clock=long(5))
    assert isinstance(said, RateLimited)
    assert said.retry_after == pytest.approx(50, abs=5)
    assert len(server.asked) == 1


# ------------------------------------------------------------------------------------------- stored answers


def at(seconds: float) -> Callable[[], Any]:
    return lambda: NOW + timedelta(seconds=seconds)


def test_a_stored_answer_is_used_up_to_its_age(server: Server, fresh: Fresh) -> None:
    first = fetch(fresh())
    later = fresh(now=at(3600))
    assert fetch(later) == first
    assert later.age_s(first) == 3600.0
    too_late = fresh(now=at(3601))
    again = fetch(too_late)
    assert too_late.age_s(again) is None
    assert len(server.asked) == 2


@pytest.mark.parametrize("how", [{"max_age_s": 0.0}, {"store": False}, {"now": at(-7200)}])
def test_a_stored_answer_is_not_used_without_leave_or_from_the_future(
    server: Server, fresh: Fresh, how: dict[str, Any]
) -> None:
    fetch(fresh())
    fetch(fresh(**how))
    assert len(server.asked) == 2


def test_offline_answers_whatever_their_age_and_sends_nothing(server: Server, fresh: Fresh) -> None:
    first = fetch(fresh())
    offline = fresh(offline=True, max_age_s=0.0, now=at(1e8))
    assert fetch(offline) == first
    assert offline.age_s(first) == 1e8
    assert failure(offline, Call(f"{ORIGIN}/other")) == NotStored()
    assert len(server.asked) == 1


def test_offline_needs_neither_an_endpoint_nor_a_folder(tmp_path: Path) -> None:
    assert failure(exchange("", tmp_path, offline=True)) == NotStored()
    assert failure(exchange("", tmp_path, offline=True, store=False)) == NotStored()


def test_a_damaged_body_is_asked_for_again(server: Server, fresh: Fresh, tmp_path: Path) -> None:
    first = fetch(fresh())
    (body,) = (tmp_path / "web" / "bodies").rglob(first.digest)
    body.write_bytes(b"damaged")
    assert fetch(fresh()).body != first.body
    assert len(server.asked) == 2


def test_a_failure_is_not_stored(server: Server, fresh: Fresh) -> None:
    server.say = saying(status=404)
    failure(fresh())
    server.say = titles
    assert fetch(fresh()).status == 200


def test_a_full_disk_is_a_notice_and_no_failure(made: Exchange, tmp_path: Path) -> None:
    (tmp_path / "rates").mkdir()
    with files_may_not_grow(0):
        assert fetch(made).status == 200
    assert any("cannot be stored" in notice for notice in made.notices)


def test_a_request_is_sent_once_in_a_search(server: Server, fresh: Fresh) -> None:
    made = fresh(max_age_s=0.0)
    assert fetch(made) == fetch(made)
    assert len(server.asked) == 1


def test_closing_removes_what_is_too_old_now_and_then(made: Exchange, tmp_path: Path) -> None:
    fetch(made)
    made.close()
    assert (tmp_path / "web" / "tidied").exists()


# ------------------------------------------------------------------------------------------- replays


def test_a_replay_answers_from_its_tape_alone_and_records_it(server: Server, fresh: Fresh, tmp_path: Path) -> None:
    fetch(fresh())
    made = fresh(now=at(60))
    stored, other = fetch(made), fetch(made, Call(f"{ORIGIN}/other"))
    server.say = saying(b"no", JSON, status=403)
    said = failure(made, Call(f"{ORIGIN}/failing"))
    asked = len(server.asked)
    replay = exchange("", tmp_path / "none", tape=made.recorded, now=at(1e7))
    assert (fetch(replay), fetch(replay, Call(f"{ORIGIN}/other"))) == (stored, other)
    assert replay.age_s(stored) == made.age_s(stored) == 60.0
    assert replay.age_s(other) is None
    assert failure(replay, Call(f"{ORIGIN}/failing")) == said
    assert replay.recorded.to_json() == made.recorded.to_json()
    assert failure(replay, Call(f"{ORIGIN}/never")) == NotStored()
    assert len(server.asked) == asked


def test_nothing_is_recorded_after_the_deadline(server: Server, made: Exchange) -> None:
    clock = Clock(0.3, 0.3)
    server.say = Conversation.keep_silent
    assert isinstance(failure(made, clock=clock), Timeout)
    assert time.monotonic() >= clock.until
    assert made.recorded.to_json() == {"exchanges": {}, "failures": {}}
