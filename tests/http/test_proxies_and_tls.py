"""Proxies and certificates that the environment names."""

import base64
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_servers import Conversation, fetch, forward, serving, slowly

from retrieve_cli.http.limits import Clock, HttpFailed, TransientFailure
from retrieve_cli.http.secrets import Secret
from retrieve_cli.http.transport import Transport

Connect = Callable[..., Transport]


def answer(talk: Conversation) -> None:
    talk.answer(b"directly")


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_request_goes_through_the_proxy(connect: Connect, monkeypatch, variable: str, scheme: str) -> None:
    with serving(forward) as proxy:
        monkeypatch.setenv(variable, f"{scheme}me:p%40ss@127.0.0.1:{proxy.port}")
        url = "http://catalog.example/c?x=1"
        assert fetch(connect(url), url)[1] == b"through the proxy: http://catalog.example/c?x=1"
        login = base64.b64encode(b"me:p@ss").decode()
        assert proxy.asked[-1].headers["proxy-authorization"] == f"Basic {login}"
        assert proxy.asked[-1].headers["host"] == "catalog.example"


@pytest.mark.parametrize("listed", ["*", "127.0.0.1", "other,127.0.0.1", "127.0.0.0/8", "::1, 127.0.0.0/8", "PORT"])
def test_what_no_proxy_lists_is_asked_directly(connect: Connect, monkeypatch, listed: str) -> None:
    with serving(answer) as server:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", listed.replace("PORT", f"127.0.0.1:{server.port}"))
        assert fetch(connect(server.url), server.url) == (200, b"directly")


@pytest.mark.parametrize("listed", ["", "other", "10.0.0.0/8", "not/a/network"])
def test_what_it_does_not_list_is_not(connect: Connect, monkeypatch, listed: str) -> None:
    with serving(answer) as server:
        monkeypatch.setenv("HTTP_PROXY", "http://me:hush@127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", listed)
        with pytest.raises(TransientFailure, match="refused") as caught:
            fetch(connect(server.url), server.url)
        assert "hush" not in f"{caught.value!r}"
        assert server.asked == []


def test_a_tunnel_hides_the_key_from_the_proxy(connect: Connect, monkeypatch, certificate: Path, tls) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with serving(answer, tls=tls) as server, serving(forward) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        transport = connect(server.url)
        for _ in range(2):
            assert fetch(transport, server.url, authorization=Secret("Bearer x")) == (200, b"directly")
        assert [asked.line for asked in proxy.asked] == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.0"]
        assert "authorization" not in proxy.asked[0].headers
        assert server.asked[-1].headers["authorization"] == "Bearer x"


def test_a_proxy_of_a_kind_that_is_not_supported_is_said(connect: Connect, monkeypatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:9")
    with pytest.raises(HttpFailed, match="cannot send a request") as caught:
        fetch(connect("http://h.example"), "http://h.example/")
    assert "HTTP_PROXY" in caught.value.hint


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_a_certificate_is_trusted_where_the_environment_names_it(
    connect: Connect, monkeypatch, certificate: Path, tls: ssl.SSLContext, variable: str
) -> None:
    with serving(answer, tls=tls) as server:
        with pytest.raises(HttpFailed, match="no trusted TLS connection") as caught:
            fetch(connect(server.url), server.url + "/?sig=tops3cret")
        assert "tops3cret" not in str(caught.value)
        assert "REQUESTS_CA_BUNDLE" in caught.value.hint
        monkeypatch.setenv(variable, str(certificate))
        assert fetch(connect(server.url), server.url) == (200, b"directly")
        with pytest.raises(HttpFailed, match="no trusted TLS connection"):
            fetch(connect(server.url), server.url.replace("127.0.0.1", "localhost"))


def test_certificates_that_cannot_be_read_are_named(connect: Connect, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "no.pem"))
    with pytest.raises(HttpFailed, match=r"no\.pem, which REQUESTS_CA_BUNDLE names"):
        fetch(connect("https://127.0.0.1:9"), "https://127.0.0.1:9/")


@pytest.mark.parametrize("part", [b"x", b""])
def test_a_server_that_drags_out_the_handshake_is_given_up_in_time(connect: Connect, part: bytes) -> None:
    with serving(slowly(part), reads=bool(part)) as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises((TransientFailure, HttpFailed)):
            fetch(connect(url), url, clock=Clock(0.4, 99))
