"""The transport against servers that answer well, badly, slowly and never."""

import logging
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from raw_servers import Conversation, Say, fetch, serving, slowly
from waiting import PATIENCE_S

from retrieve_cli.errors import printable
from retrieve_cli.http.limits import Clock, HttpFailed, TransientFailure
from retrieve_cli.http.secrets import Secret
from retrieve_cli.http.transport import HttpRequest, Transport

Connect = Callable[..., Transport]
KEY = Secret("Bearer sk-sesame")


# ------------------------------------------------------------------------------------------- deadlines


def breaking_off(*parts: bytes) -> Say:
    """Sends these, and closes the connection."""

    def say(talk: Conversation) -> None:
        talk.send(*parts)
        talk.sock.shutdown(2)

    return say


HEAD = b"HTTP/1.1 200 OK\r\n"
SLOW: dict[str, Say] = {
    "never answers": Conversation.keep_silent,
    "drips its status line": slowly(b"H"),
    "drips headers": slowly(b"X: y\r\n", first=HEAD),
    "drips 103 Early Hints": slowly(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"),
    "says nothing after its headers": lambda talk: (talk.send(HEAD, b"\r\n"), talk.keep_silent())[1],
    "drips its body": slowly(b"x", first=HEAD + b"\r\n"),
    "drips the length of a chunk": slowly(b"0", first=HEAD + b"Transfer-Encoding: chunked\r\n\r\n"),
    "drips trailers": slowly(b"X: y\r\n", first=HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"),
}


@pytest.mark.parametrize("idle_s", [0.4, 99])
@pytest.mark.parametrize("say", SLOW.values(), ids=SLOW)
def test_a_request_ends_in_time_however_the_server_drags_it_out(connect: Connect, say: Say, idle_s: float) -> None:
    with serving(say) as server, pytest.raises(TransientFailure, match=r"within 0\.4 s"):
        fetch(connect(server.url), server.url, clock=Clock(0.4, idle_s))


def test_standing_still_is_noticed_before_the_deadline(connect: Connect) -> None:
    with serving(Conversation.keep_silent) as server, pytest.raises(TransientFailure, match=r"no answer within 0\.2 s"):
        fetch(connect(server.url), server.url, clock=Clock(99, 0.2))


@pytest.mark.parametrize("line", [b"X: " + b"y" * 1000 + b"\r\n", b"y" * 1000])
@pytest.mark.parametrize("start", [HEAD, b"HTTP/1.1 103 Early Hints\r\n", b"HTTP/1.1 100 Continue\r\n"])
def test_headers_without_end_are_not_read_to_the_deadline(connect: Connect, start: bytes, line: bytes) -> None:
    say = slowly(line * 100, first=start, pause=0)
    with serving(say) as server, pytest.raises(TransientFailure, match=r"got more than \d+ (bytes|headers)"):
        fetch(connect(server.url), server.url)


@pytest.mark.parametrize("hint", [b"100 Continue", b"102 Processing", b"103 Early Hints"])
def test_informational_answers_without_end_are_not_read_to_the_deadline(connect: Connect, hint: bytes) -> None:
    say = slowly(b"HTTP/1.1 " + hint + b"\r\n\r\n", pause=0)
    with serving(say) as server, pytest.raises(TransientFailure, match="1048576 bytes"):
        fetch(connect(server.url), server.url)


# ------------------------------------------------------------------------------------------- bodies

CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nwhol\r\n1\r\ne\r\n0\r\n\r\n"
SIZED = HEAD + b"Content-Length: 5\r\n\r\nwhole"


@pytest.mark.parametrize("size", [b"f" * 3000, b"-1", b"7" * 70_000])
def test_a_chunk_that_says_any_size_is_an_answer_cut_short(connect: Connect, size: bytes) -> None:
    say = breaking_off(HEAD, b"Transfer-Encoding: chunked\r\n\r\n", size, b"\r\nwhole\r\n0\r\n\r\n")
    with serving(say) as server, pytest.raises(TransientFailure):
        fetch(connect(server.url), server.url)


@pytest.mark.parametrize("whole", [CHUNKED, SIZED], ids=["chunked", "sized"])
def test_an_answer_that_breaks_off_anywhere_is_never_taken_for_a_whole_one(connect: Connect, whole: bytes) -> None:
    with serving(lambda talk: breaking_off(whole[: int(talk.asked.body)])(talk)) as server:
        transport = connect(server.url)
        assert fetch(transport, server.url, body=b"%d" % len(whole)) == (200, b"whole")
        # Behind the zero of the last chunk nothing is missing but line ends.
        for cut in range(len(whole) - (4 if whole is CHUNKED else 0)):
            with pytest.raises(TransientFailure):
                fetch(transport, server.url, body=b"%d" % cut)


@pytest.mark.parametrize("status", [200, 404, 500])
def test_the_head_of_an_answer_is_what_can_be_had_of_it(connect: Connect, status: int) -> None:
    say = breaking_off(f"HTTP/1.1 {status} Status\r\nContent-Length: 99999\r\n\r\nsorry".encode())
    with (
        serving(say) as server,
        connect(server.url).open(HttpRequest(server.url), Clock(PATIENCE_S, PATIENCE_S)) as reply,
    ):
        assert (reply.status, reply.head()) == (status, b"sorry")


# ------------------------------------------------------------------------------------------- connections


def test_a_connection_is_kept_for_the_next_request(connect: Connect) -> None:
    with serving(lambda talk: talk.answer(b"x")) as server:
        transport = connect(server.url)
        for body in (None, b"abc", None):
            fetch(transport, server.url, body=body)
        assert len({asked.client for asked in server.asked}) == 1
        transport.close()
        fetch(transport, server.url)
        assert len({asked.client for asked in server.asked}) == 2


def test_a_connection_that_the_server_closed_meanwhile_is_replaced(connect: Connect) -> None:
    def say(talk: Conversation) -> None:
        talk.answer(b"x")
        talk.sock.shutdown(2)
        closed.set()

    closed = Event()
    with serving(say) as server:
        transport = connect(server.url)
        fetch(transport, server.url)
        assert closed.wait(PATIENCE_S)
        assert fetch(transport, server.url) == (200, b"x")


def test_each_thread_keeps_to_its_own_clock(connect: Connect) -> None:
    def say(talk: Conversation) -> None:
        if "/slow" in talk.asked.line:
            talk.keep_silent()
        over.wait(PATIENCE_S)
        talk.answer(b"x")

    over = Event()
    with serving(say) as server, ThreadPoolExecutor(8) as pool:
        transport = connect(server.url, connections=8)
        short = [pool.submit(fetch, transport, server.url + "/slow", clock=Clock(0.2, PATIENCE_S)) for _ in range(4)]
        long = [pool.submit(fetch, transport, server.url) for _ in range(4)]
        assert all(isinstance(future.exception(), TransientFailure) for future in short)
        over.set()
        assert all(future.result() == (200, b"x") for future in long)


# ------------------------------------------------------------------------------------------- redirects


def redirecting(to: str, status: int) -> Say:
    return lambda talk: talk.answer(b"", f"Location: {to}", status=status)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_go_to_no_other_origin(connect: Connect, status: int) -> None:
    with serving(lambda talk: talk.answer(b"x")) as other:
        for place in (other.url, other.url.replace("127.0.0.1", "localhost")):
            with serving(redirecting(place, status)) as server:
                fetch(connect(server.url), server.url, authorization=KEY)
                assert server.asked[-1].headers["authorization"] == "Bearer sk-sesame"
        assert ["authorization" in asked.headers for asked in other.asked] == [False, False]


@pytest.mark.parametrize(("status", "method"), [(302, "POST"), (303, "GET"), (307, "POST"), (308, "POST")])
def test_a_redirect_on_the_same_server_keeps_the_credentials(connect: Connect, status: int, method: str) -> None:
    def say(talk: Conversation) -> None:
        talk.answer(b"there") if "/new" in talk.asked.line else redirecting("/new", status)(talk)

    with serving(say) as server:
        assert fetch(connect(server.url), server.url, body=b"abc", authorization=KEY) == (200, b"there")
        last = server.asked[-1]
        assert (last.line, last.body) == (f"{method} /new HTTP/1.1", b"abc" if method == "POST" else b"")
        assert last.headers["authorization"] == "Bearer sk-sesame"


def test_redirects_in_a_circle_end_by_the_callers_rule_or_by_the_clock(connect: Connect) -> None:
    with serving(redirecting("/again", 302)) as server:
        with pytest.raises(HttpFailed, match="more than 5 times"):
            fetch(connect(server.url), server.url)
        assert len(server.asked) == 6
        endless = Transport(server.url, called="x", follow=lambda redirect: redirect.url)
        with pytest.raises(TransientFailure, match="no complete answer"):
            fetch(endless, server.url, clock=Clock(0.3, 9))
        endless.close()


def test_a_netrc_file_is_not_looked_into(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (tmp_path / ".netrc", tmp_path / "netrc"):
        place.write_text("machine 127.0.0.1 login me password mine\n")
        place.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with serving(lambda talk: talk.answer(b"x")) as server:
        fetch(connect(server.url), server.url)
        assert "authorization" not in server.asked[-1].headers


# ------------------------------------------------------------------------------------------- what shows


BROKEN: dict[str, Say] = {
    "drops": breaking_off(),
    "cuts": breaking_off(HEAD, b"Content-Length: 9\r\n\r\nx"),
    "stalls": Conversation.keep_silent,
    "drips": slowly(b"x", first=HEAD + b"\r\n"),
    "says the key for HTTP": breaking_off(b"sk-sesame\r\n\r\n"),
    "says the key for a version": lambda talk: talk.send(b"HTTP/sk-sesame 200 OK\r\n\r\n"),
    "says the key for a status": lambda talk: talk.send(b"HTTP/1.1 sk-sesame OK\r\n\r\n"),
    "says the key for a length": lambda talk: talk.send(HEAD, b"Transfer-Encoding: chunked\r\n\r\nsk-sesame\r\n"),
    "says the key for a header": lambda talk: talk.send(HEAD, b"sk-sesame\r\n\r\n"),
    "redirects to nothing": redirecting("http://127.0.0.1:9/", 302),
}


@pytest.mark.parametrize("say", BROKEN.values(), ids=BROKEN)
def test_neither_key_nor_query_is_in_an_error_its_frames_or_a_log(connect: Connect, caplog, say: Say) -> None:
    caplog.set_level(logging.DEBUG)
    error: BaseException | None = None
    with serving(say) as server:
        try:
            fetch(connect(server.url), server.url + "/?sig=tops3cret", authorization=KEY, clock=Clock(0.3, 9))
        except (TransientFailure, HttpFailed) as caught:
            error = caught
    assert error
    assert str(error) == printable(str(error))
    assert "sesame" not in caplog.text
    assert "tops3cret" not in caplog.text
    while error:
        frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
        shown = f"{error!r} {vars(error)} {frames}"
        assert "sesame" not in shown
        assert "tops3cret" not in str(error)
        error = error.__cause__ or error.__context__


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.binary(max_size=200), st.booleans())
def test_whatever_a_server_says_is_an_answer_or_a_failure(connect: Connect, said: bytes, begun: bool) -> None:
    with serving(breaking_off(HEAD if begun else b"", said)) as server, suppress(TransientFailure, HttpFailed):
        fetch(connect(server.url), server.url)
