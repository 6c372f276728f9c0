"""Names and web pages: a page reaches the server only if it is one of the server's own, or an operator lists it."""

from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st
from samples import Program
from servers import sent
from starlette.responses import JSONResponse

from retrieve_cli.errors import UsageError
from retrieve_cli.server.http.callers import Callers, Hosts
from retrieve_cli.server.http.service import Guard

LOOPBACK = Hosts("127.0.0.1")
EVERYWHERE = Hosts("0.0.0.0")
NAMED = Hosts("0.0.0.0", allowed_hosts=["example.org", "*.example.net", "api.example.com:8443"])


@pytest.mark.parametrize(
    "host", ["localhost:8100", "127.0.0.1:8100", "[::1]:8100", "LOCALHOST:8100", "localhost.:8100"]
)
def test_on_loopback_the_names_of_loopback_are_accepted(host: str) -> None:
    assert LOOPBACK.accepts([host])
    assert LOOPBACK.accepts([host.rpartition(":")[0] + ":9000"]), "a tunnel has a port of its own"
    assert Hosts("localhost").accepts([host])
    assert Hosts("::1").accepts([host])


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8100", "192.168.0.1:8100"),
        *("localhost.evil.example:8100", "127.0.0.1.evil.example:8100", "evil@localhost:8100", "localhost:8100/x"),
        *("", ":", ":8100", "[::1", "::1:8100"),
        *("localhost:08100000", "localhost:8100\r\nx", "löcalhost:8100", "a" * 999),
    ],
)
def test_on_loopback_no_other_name_is_accepted(host: str) -> None:
    assert not LOOPBACK.accepts([host])


def test_a_request_with_no_host_or_two_is_not_accepted() -> None:
    assert not LOOPBACK.accepts([])
    assert not LOOPBACK.accepts(["localhost:8100", "evil.example"])


def test_a_server_of_all_addresses_accepts_addresses_and_the_names_that_are_allowed() -> None:
    for host in ("10.0.0.7:9000", "10.0.0.7", "[2001:db8::1]:8100", "localhost:9000", "127.0.0.1:8100"):
        assert EVERYWHERE.accepts([host]), host
    for host in ("evil.example", "example.org", "10.0.0.7.evil.example"):
        assert not EVERYWHERE.accepts([host]), host
    for host in ("example.org", "EXAMPLE.org:9000", "a.example.net", "a.b.example.net:80", "api.example.com:8443"):
        assert NAMED.accepts([host]), host
    for host in ("a.example.org", "example.net", "evilexample.net", "api.example.com", "example.org.evil.example"):
        assert not NAMED.accepts([host]), host
    assert Hosts("10.0.0.7").accepts(["10.0.0.7:8100"])
    assert not Hosts("10.0.0.7").accepts(["10.0.0.8:8100"])
    assert Hosts("127.0.0.1", allowed_hosts=["*"]).accepts(["evil.example:1"])


@given(st.text(max_size=60))
def test_no_text_that_is_not_a_name_of_loopback_is_accepted(text: str) -> None:
    names = {"localhost:8100", "localhost.:8100", "127.0.0.1:8100", "127.0.0.1.:8100", "[::1]:8100"}
    assert LOOPBACK.accepts([text]) == (text.strip().lower() in names)


def test_pages_of_the_server_itself_and_of_listed_origins_may_use_it() -> None:
    hosts = Hosts("127.0.0.1", allowed_origins=["https://App.example.org/", "http://localhost:3000"])
    for origin in ("http://localhost:8100", "https://app.example.org", "http://localhost:3000"):
        assert hosts.permits(origin, "localhost:8100"), origin
    for origin in ("null", "", "http://localhost", "http://localhost:81", "https://evil.example", "file://", "http://"):
        assert not hosts.permits(origin, "localhost:8100"), origin
    behind_tls = Hosts("0.0.0.0", allowed_hosts=["example.org"])
    assert behind_tls.permits("https://example.org", "example.org")
    assert not behind_tls.permits("https://example.org:8443", "example.org")


@pytest.mark.parametrize("origin", ["*", "null", "example.org", "https://", "https://a.example/x", "https://[", "a b"])
def test_what_is_not_an_origin_cannot_be_allowed(origin: str) -> None:
    with pytest.raises(UsageError, match="--allowed-origin"):
        Hosts("127.0.0.1", allowed_origins=[origin])


@pytest.mark.parametrize("host", ["", "https://example.org", "a b", "example.*", "**", "a" * 300])
def test_what_is_not_a_host_cannot_be_allowed(host: str) -> None:
    with pytest.raises(UsageError, match="--allowed-host"):
        Hosts("127.0.0.1", allowed_hosts=[host])


def asked(hosts: Hosts | None, method: str = "GET", **headers: str) -> httpx.Response:
    """The answer of a guarded application to one request."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse({"ok": True}, headers={"Vary": "Accept"})(scope, receive, send)

    request = (method, "http://localhost:8100/search", {"headers": headers})
    (answer,) = sent(Guard(application, hosts, Callers()), request)
    return answer


def test_a_request_with_two_kinds_of_length_is_rejected_and_its_connection_closed() -> None:
    """One of the two may be what a proxy in front believes: what follows could be another caller's request."""
    for hosts in (LOOPBACK, None):
        for headers in ({"Content-Length": "5"}, {"Transfer-Encoding": "chunked"}):
            assert asked(hosts, "POST", **headers).status_code == 200
        answer = asked(hosts, "POST", **{"Content-Length": "5", "Transfer-Encoding": "chunked"})
        assert (answer.status_code, answer.headers["connection"]) == (400, "close")
        assert "Content-Length and Transfer-Encoding" in answer.json()["error"]["message"]


def test_another_host_is_answered_by_421_and_a_foreign_page_by_403() -> None:
    assert asked(LOOPBACK).status_code == 200
    for headers, status, kind in (
        ({"Host": "evil.example"}, 421, "host"),
        ({"Origin": "https://evil.example"}, 403, "origin"),
        ({"Origin": "null"}, 403, "origin"),
    ):
        answer = asked(LOOPBACK, "POST", **headers)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (status, kind)
        assert "--allowed" in answer.json()["error"]["hint"]
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert asked(None, Host="evil.example").status_code == 200  # a socket of the file system


def test_cors_is_for_listed_origins_alone() -> None:
    hosts = Hosts("127.0.0.1", allowed_origins=["https://app.example.org"])
    answer = asked(hosts, Origin="https://app.example.org")
    assert answer.json() == {"ok": True}
    assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example.org"
    assert answer.headers["Vary"] == "Accept, Origin"
    assert "ETag" in answer.headers["Access-Control-Expose-Headers"]
    before = {"Origin": "https://app.example.org", "Access-Control-Request-Method": "POST"}
    preflight = asked(hosts, "OPTIONS", **before)
    assert preflight.status_code == 204
    assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
    assert asked(hosts, "OPTIONS", **{**before, "Origin": "https://evil.example"}).status_code == 403
    assert "Access-Control-Allow-Origin" not in asked(hosts, Origin="http://localhost:8100").headers


def test_flags_and_configuration_are_checked_before_the_server_starts(retrieve: Program, monkeypatch) -> None:
    assert "--allowed-host" in retrieve("serve", "--allowed-host", "a b", "--port", "0").err
    assert "--allowed-origin" in retrieve("serve", "--allowed-origin", "*", "--port", "0").err
    monkeypatch.setenv("RETRIEVE_SERVE__ALLOWED_ORIGINS", "['*']")
    assert "--allowed-origin" in retrieve("serve", "--port", "0").err
    monkeypatch.setenv("RETRIEVE_SERVE__ALLOWED_ORIGINS", "[]")
    monkeypatch.setenv("RETRIEVE_SERVE__ALLOWED_HOSTS", "['a b']")
    assert "--allowed-host" in retrieve("serve", "--port", "0").err
