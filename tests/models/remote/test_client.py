"""The client of JSON APIs."""

import json
import logging
import socket
import sys
import threading
import traceback
from typing import Any

import pytest
from models.remote.servers import Answer, Api, Asked
from waiting import PATIENCE_S

from retrieve_cli.errors import RetrieveError, Unavailable, UsageError
from retrieve_cli.models.remote.client import Client, ServerFailed, ServerUnavailable

OVERLOADED = b'{"error": {"message": "too many of you"}}'


def ask(client: Client, payload: Any = None) -> Any:
    return client.ask("/things", {"n": 1} if payload is None else payload, lambda answer: answer)


def refused(client: Client, error: type[RetrieveError] = ServerFailed) -> RetrieveError:
    with pytest.raises(error) as caught:
        ask(client)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


# ------------------------------------------------------------------------------------------- one request


def test_an_answer_is_what_the_server_made_of_the_payload(api: Api, connect) -> None:
    payload = {"text": "Grüße 細胞 \U0001f600 \x00\n"}
    assert ask(connect(), payload) == {"said": payload}
    assert api.last.path == "/v1/things"
    assert api.last.headers["Content-Type"] == "application/json"
    assert api.last.headers["Authorization"] is None


@pytest.mark.parametrize(
    ("base", "asked"), [("/", "/v1/things"), ("?api-version=2", "/v1/things?api-version=2"), ("/x/", "/v1/x/things")]
)
def test_the_endpoint_is_put_behind_the_path_of_the_base_address(api: Api, connect, base: str, asked: str) -> None:
    ask(connect(api.url + base))
    assert api.last.path == asked


def test_the_key_is_read_when_it_is_needed_and_sent_as_a_bearer_token(api: Api, connect, key: str, monkeypatch) -> None:
    client = connect(api_key_env="MODEL_KEY")
    ask(client)
    assert api.last.headers["Authorization"] == f"Bearer {key}"
    monkeypatch.setenv("MODEL_KEY", " another\n")
    ask(client)
    assert api.last.headers["Authorization"] == "Bearer another"


def test_a_key_that_is_not_set_is_named_by_its_variable_before_anybody_is_asked(api: Api, connect) -> None:
    error = refused(connect(api_key_env="NOT_SET"), Unavailable)
    assert "NOT_SET" in error.message
    assert error.hint == "set it: export NOT_SET=…"
    assert api.asked == []


@pytest.mark.parametrize("value", ["two words", "schlüssel", "a\x00b".replace("\x00", "\x01")])
def test_a_key_that_no_header_carries_is_refused_without_showing_it(connect, monkeypatch, value: str) -> None:
    monkeypatch.setenv("MODEL_KEY", value)
    error = refused(connect(api_key_env="MODEL_KEY"), UsageError)
    assert "MODEL_KEY" in error.message
    assert value not in error.message + error.hint


def test_without_urllib3_the_install_line_is_said(connect, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "urllib3", None)
    assert refused(connect(), Unavailable).hint == "pip install 'retrieve-cli[remote]'"


# ------------------------------------------------------------------------------------------- trying again


@pytest.mark.parametrize("retries", [0, 2])
def test_what_does_not_pass_ends_with_the_number_of_attempts(api: Api, connect, pauses, retries: int) -> None:
    api.say(OVERLOADED, status=500, times=9)
    error = refused(connect(retries=retries), ServerUnavailable)
    assert len(api.asked) == retries + 1
    assert len(pauses) == retries
    assert "500: “too many of you”" in error.message
    assert ("(3 attempts)" in error.message) == (retries == 2)


def test_a_server_that_is_not_there_is_unavailable(connect, pauses) -> None:
    error = refused(connect(f"http://127.0.0.1:{free_port()}/v1", retries=2), Unavailable)
    assert "refused" in error.message
    assert len(pauses) == 2


# ------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("status", [401, 403])
def test_who_is_not_let_in_is_told_about_the_key(api: Api, connect, key: str, status: int) -> None:
    api.say({"detail": "who are you?"}, status=status, times=2)
    assert "api_key_env" in refused(connect(retries=3), Unavailable).hint
    error = refused(connect(api_key_env="MODEL_KEY"), Unavailable)
    assert "$MODEL_KEY was rejected" in error.hint
    assert "who are you?" in error.message
    assert len(api.asked) == 2


def test_an_endpoint_or_a_model_that_is_not_there_is_unavailable(api: Api, connect) -> None:
    api.say({"error": {"message": "The model `x` does not exist."}}, status=404)
    error = refused(connect(retries=3), Unavailable)
    assert "does not exist" in error.message
    assert f"{api.url}/models" in error.hint
    assert len(api.asked) == 1


@pytest.mark.parametrize("status", [400, 413, 422, 501])
def test_a_request_that_is_refused_is_not_sent_again(api: Api, connect, status: int) -> None:
    api.say({"message": "too long: 9000 tokens"}, status=status)
    with pytest.raises(ServerFailed, match="too long: 9000 tokens") as caught:
        connect(retries=3).ask("/things", {}, lambda answer: answer, hint="make it shorter")
    assert caught.value.hint == "make it shorter"
    assert caught.value.status == status
    assert len(api.asked) == 1


@pytest.mark.parametrize("body", [b"", b"<html>sign in</html>", b"[NaN]", b"[1e999]", b"\xff\xfe"])
def test_what_is_no_json_is_refused(api: Api, connect, body: bytes) -> None:
    api.say(body)
    assert "not JSON" in refused(connect(retries=3)).message
    assert len(api.asked) == 1


def test_an_answer_without_end_or_in_a_coding_that_was_not_asked_for_is_refused(api: Api, connect) -> None:
    api.say(b"[" + b"1," * 50_000 + b"1]")
    assert "more than 10000 bytes" in refused(connect(max_bytes=10_000)).message
    api.say(b"??", headers={"Content-Encoding": "br"})
    assert "“br”" in refused(connect()).message
    assert api.last.headers["Accept-Encoding"] == "identity"


def test_an_error_shows_the_message_of_the_server_on_one_short_line(api: Api, connect) -> None:
    api.say({"trace": "x" * 9000, "error": {"message": "too many tokens"}}, status=400)
    assert "400: “too many tokens”" in refused(connect()).message
    api.say(b"\x1b[31mred\nalert" + b"!" * 5000, status=400)
    message = refused(connect()).message
    assert "\x1b" not in message
    assert "red alert" in message
    assert len(message) < 500


# ------------------------------------------------------------------------------------------- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server_is_an_error_and_the_key_stays_here(
    api: Api, elsewhere: Api, connect, key: str, status: int
) -> None:
    api.say(status=status, headers={"Location": elsewhere.url + "/things?q=1"})
    error = refused(connect(api_key_env="MODEL_KEY", retries=3))
    assert elsewhere.asked == []
    for place in (api, elsewhere):
        assert f"127.0.0.1:{place.server.server_port}" in error.message


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_on_the_same_server_is_followed_with_body_and_key(api: Api, connect, key: str, status: int) -> None:
    api.say(b"x" * 1000, status=status, headers={"Location": "/v1/things/"})
    assert ask(connect(api_key_env="MODEL_KEY"), [1]) == {"said": [1]}
    assert api.last.path == "/v1/things/"
    assert api.last.headers["Authorization"] == f"Bearer {key}"


def test_a_redirect_that_would_lose_the_body_is_an_error_and_others_come_to_an_end(api: Api, connect) -> None:
    api.say(status=301, headers={"Location": "/v2/things"})
    assert "/v2/things" in refused(connect()).message
    assert len(api.asked) == 1
    api.say(status=307, headers={"Location": "/v1/things"}, times=50)
    assert "redirects more than" in refused(connect()).message
    assert len(api.asked) < 10


# ------------------------------------------------------------------------------------------- many requests


def test_answers_come_in_the_order_of_the_payloads(api: Api, connect) -> None:
    first = threading.Event()

    def respond(asked: Asked) -> Any:
        if asked.json == 0:
            first.wait(PATIENCE_S)
        elif asked.json == 3:
            first.set()
        return asked.json

    api.respond = respond
    found = connect(concurrency=2).ask_all("/things", list(range(20)), lambda answer, place: (answer, place))
    assert found == [(number, number) for number in range(20)]


def test_the_bound_holds_for_all_who_share_a_client(api: Api, connect) -> None:
    client, together = connect(concurrency=2), threading.Barrier(2, timeout=PATIENCE_S)
    api.respond = lambda asked: together.wait() and asked.json
    askers = [threading.Thread(target=client.ask_all, args=("/x", [1, 2, 3], lambda *_: 0)) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(api.asked) == 12
    assert api.peak == 2


def test_the_first_failure_wakes_those_who_pause_and_ends_what_has_not_begun(api: Api, connect) -> None:
    def respond(asked: Asked) -> Any:
        if asked.json == 0:
            both.wait()
            return Answer(b"no", 400)
        return Answer(b"busy", 503)

    both = threading.Barrier(2, timeout=PATIENCE_S)

    def sleep(stop: threading.Event, _: float) -> None:
        both.wait()
        assert stop.wait(PATIENCE_S)

    api.respond = respond
    with pytest.raises(ServerFailed, match="400"):
        connect(concurrency=2, retries=9, sleep=sleep).ask_all("/things", list(range(20)), lambda *_: 0)
    assert sorted(asked.json for asked in api.asked) == [0, 1]


# ------------------------------------------------------------------------------------------- the key


def told(error: BaseException) -> str:
    """Everything that an error and those behind it could show to a person or a log."""
    shown: list[str] = []
    chain: list[BaseException] = [error]
    for each in chain:
        shown += [str(each), repr(each), repr(vars(each)), getattr(each, "hint", "")]
        shown += traceback.format_exception(each)
        shown.append(str(getattr(getattr(each, "request", None), "headers", "")))
        chain += [other for other in (each.__cause__, each.__context__) if other and other not in chain]
    return "\n".join(shown)


SPELLINGS = [str, lambda key: json.dumps(key)[1:-1], lambda key: json.dumps(key)[1:-1].replace("/", "\\/")]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    "how",
    [
        *({"status": status} for status in (200, 401, 500)),
        {"drop": True},
        {"stall": True},
        {"sent": 3},
        {"headers": {"Content-Encoding": "KEY"}},
        {"status": 307, "headers": {"Location": "http://elsewhere/KEY"}},
        {"status": 301, "headers": {"Location": "/v1/KEY"}},
        {"status": 429, "headers": {"Retry-After": "KEY"}},
    ],
    ids=str,
)
def test_the_key_is_never_shown_whatever_the_server_repeats(
    api: Api, connect, key: str, caplog, capfd, how: dict[str, Any], spelling
) -> None:
    caplog.set_level(logging.DEBUG)
    headers = {name: value.replace("KEY", key) for name, value in how.get("headers", {}).items()}
    body = f"Incorrect API key: {spelling(key)} {spelling(key)}".encode()
    api.say(body, **{**how, "headers": headers}, times=2)
    client = connect(api_key_env="MODEL_KEY", timeout_s=0.3, retries=1)
    error = refused(client, RetrieveError)
    captured = capfd.readouterr()
    shown = "\n".join([told(error), caplog.text, captured.out, captured.err, repr(client), repr(vars(client))])
    assert api.last.headers["Authorization"] == f"Bearer {key}"
    for each in SPELLINGS:
        assert each(key) not in shown
    assert key[:10] not in error.message + error.hint


def test_a_signature_in_the_address_is_not_shown(api: Api, connect) -> None:
    api.say(b"bad signature: sig=tops3cret", status=400)
    error = refused(connect(api.url + "?sig=tops3cret"))
    assert "tops3cret" not in error.message + error.hint
