"""Servers that others choose: only public addresses, checked redirects, bounded text."""

import gzip
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from ipaddress import IPv6Address, ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from raw_servers import Conversation, Server, serving
from waiting import PATIENCE_S

from retrieve_cli.http.guarded import MOST_BYTES, Guarded, GuardedReply, check_target, is_public, rule
from retrieve_cli.http.limits import Clock, NotPermitted, NotReadable, TransientFailure
from retrieve_cli.http.pool import connect
from retrieve_cli.http.secrets import Secret
from retrieve_cli.http.transport import HttpRequest

JSON = "Content-Type: application/json"
KEY = Secret("sk-sesame")

# ------------------------------------------------------------------------------------------- addresses

PRIVATE = """0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.9.9.9 169.254.169.254 172.16.0.1
172.31.255.255 192.0.0.8 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.51.100.7 203.0.113.7 224.0.0.1 239.1.1.1
240.0.0.1 255.255.255.255 :: ::1 fe80::1 fe80::1%eth0 febf::1 fec0::1 fc00::1 fd00:ec2::254 ff02::1 2001:db8::1 2001::1
2001:10::1 3fff::1 100::1 5f00::1 4000::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1
2002:7f00:1:: 2002:0a00:0001::1 64:ff9b::127.0.0.1 64:ff9b::10.1.2.3 64:ff9b:1::8.8.8.8 2600::5efe:10.0.0.1
2600::200:5efe:192.168.0.1 ::ffff:8.8.8.8 ::8.8.8.8 2606:4700::1%1 localhost 127.1 0x7f.0.0.1 2130706433""".split()
PUBLIC = """8.8.8.8 1.1.1.1 130.14.29.110 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 223.255.255.255 192.0.1.1
2606:4700::1111 2a00:1450:4001::1 2002:0808:0808::1 64:ff9b::8.8.8.8 2600::5efe:8.8.8.8""".split()
NETWORKS = """0.0.0.0/0 10.0.0.0/8 100.64.0.0/9 172.16.0.0/11 169.254.0.0/15 192.0.0.0/15 198.18.0.0/14 224.0.0.0/3 ::/0
::ffff:0:0/95 2000::/3 2001::/16 2002::/16 2002:7f00::/24 64:ff9b::/95 64:ff9b:1::/47 fc00::/6 fe80::/9""".split()


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_of_this_network_or_machine_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_global_unicast_address_is_public(address: str) -> None:
    assert is_public(address)


@st.composite
def addresses(draw: st.DrawFn) -> str:
    network = ip_network(draw(st.sampled_from(NETWORKS)), strict=False)
    return str(network[draw(st.integers(0, network.num_addresses - 1))])


@given(st.ip_addresses(v=4))
def test_an_embedded_address_is_as_public_as_itself_or_less(inner: Any) -> None:
    number = int(inner)
    forms = [number | 0xFFFF << 32, number, number | 0x64FF9B << 96, 0x2002 << 112 | number << 80 | 1]
    if not is_public(str(inner)):
        assert not any(is_public(str(IPv6Address(form))) for form in forms)


REJECTED = """http://example.org/ https://127.0.0.1/ https://[::1]/ https://[::ffff:10.0.0.1]/ https://10.0.0.1:8443/x
https://169.254.169.254/latest/meta-data https://localhost/ https://LOCALHOST./ https://db.internal/ https://printer.local/
https://intranet/ https://127.1/ https://2130706433/ https://0x7f.1/ https://0177.0.0.1/ https://user@example.org/
https://user:word@example.org/ ftp://example.org/ file:///etc/passwd https:///x https://127。0。0。1/ https://１２７.0.0.1/
https://[fe80::1%25eth0]/ https://a.localhost/ gopher://x.org/ https://x.org:99999/""".split()


@pytest.mark.parametrize("url", REJECTED)
def test_an_address_that_is_not_public_https_is_rejected_before_anything_is_sent(url: str) -> None:
    with pytest.raises(NotPermitted):
        check_target(url, ())


def test_public_https_addresses_and_exempt_origins_pass_and_no_other_port_or_scheme_of_their_hosts() -> None:
    exempt = {"http://127.0.0.1:8080"}
    check_target("http://127.0.0.1:8080/x", exempt)
    for url in ("https://api.example.org/x?y=1", "https://8.8.8.8/", "https://[2606:4700::1111]:8443/"):
        check_target(url, ())
    for url in ("http://127.0.0.1:8081/", "https://127.0.0.1:8080/", "http://127.0.0.2:8080/", "http://127.0.0.1/"):
        with pytest.raises(NotPermitted):
            check_target(url, exempt)


def test_an_exempt_http_origin_must_be_this_machine_when_its_name_is_resolved() -> None:
    permits = rule({"http://localhost:8080", "https://mirror.example:443"})
    assert permits("localhost", 8080, "127.0.0.1")
    assert not permits("localhost", 8080, "192.168.0.9")
    assert not permits("localhost", 9090, "127.0.0.1")
    assert permits("mirror.example", 443, "10.0.0.5")
    assert not permits("mirror.example", 444, "10.0.0.5")


# ------------------------------------------------------------------------------------------- names

Resolve = Callable[..., list[str]]


def ask(guarded: Guarded, url: str, **given: Any) -> GuardedReply:
    """Ask for an address, with the defaults of a plain call."""
    request = {name: given.pop(name) for name in ("headers", "body", "credentials") if name in given}
    how = {"accept": (200,), "secrets": [KEY], "before": lambda _: None, "mapped": lambda url: url, **given}
    clock = how.pop("clock", None) or Clock(PATIENCE_S, PATIENCE_S)
    return guarded.ask(HttpRequest(url, **request), clock, **how)


def test_a_name_that_resolves_to_a_private_address_is_not_connected_to(resolve: Resolve) -> None:
    with serving(Conversation.answer) as server, closing(Guarded("https://h.example", exempt=())) as guarded:
        resolve(("127.0.0.1", server.port))
        with pytest.raises(NotPermitted, match=r"h\.example has the address 127\.0\.0\.1"):
            ask(guarded, f"https://h.example:{server.port}/")
        assert server.asked == []


def test_one_private_address_among_public_ones_rejects_the_name(resolve: Resolve) -> None:
    with closing(Guarded("https://h.example", exempt=())) as guarded:
        resolve(("8.8.8.8", 443), ("10.0.0.1", 443))
        with pytest.raises(NotPermitted, match=r"10\.0\.0\.1"):
            ask(guarded, "https://h.example/")


def test_the_address_that_was_checked_is_the_one_connected_to(resolve: Resolve) -> None:
    with serving(Conversation.keep_silent) as server:
        looked_up = resolve(("127.0.0.1", server.port))
        checked: list[str] = []
        permits = lambda _host, _port, address: not checked.append(address)  # noqa: E731
        with connect("h.example", 443, options=(), clock=Clock(PATIENCE_S, PATIENCE_S), permits=permits) as sock:
            assert sock.getpeername() == ("127.0.0.1", server.port)
        assert checked == ["127.0.0.1"]
        assert looked_up == ["h.example"]  # once: a second look-up could have another result


# ------------------------------------------------------------------------------------------- proxies


def test_the_proxy_of_the_environment_may_be_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving(lambda talk: talk.answer(status=502)) as proxy,
        closing(Guarded("https://h.org", exempt=())) as guarded,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(TransientFailure, match="502"):
            ask(guarded, "https://h.org/")
        assert [asked.line for asked in proxy.asked] == ["CONNECT h.org:443 HTTP/1.0"]


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "localhost", "[::1]", "127.1"])
def test_no_proxy_is_asked_for_a_private_target(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    with serving(Conversation.answer) as proxy, closing(Guarded("https://h.org", exempt=())) as guarded:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(NotPermitted):
            ask(guarded, f"https://{host}/")
        assert proxy.asked == []


# ------------------------------------------------------------------------------------------- redirects


def to(location: str, status: int = 302) -> Callable[[Conversation], None]:
    return lambda talk: talk.answer(b"", f"Location: {location}", status=status)


@pytest.fixture
def two() -> Iterator[tuple[Server, Server, Guarded]]:
    """Two servers that may be asked, and a client of the first one."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(serving(lambda talk: talk.answer(b"{}", JSON))) for _ in range(2))
        guarded = stack.enter_context(closing(Guarded(first.url, exempt=(first.url, second.url))))
        yield first, second, guarded


def test_five_redirects_are_followed_each_as_a_request_of_its_own_and_a_sixth_is_rejected(two: Any) -> None:
    first, _, guarded = two
    asked: list[str] = []
    first.say = lambda talk: to("/again")(talk) if len(first.asked) < 6 else talk.answer(b"[1]", JSON)
    assert ask(guarded, first.url, before=asked.append).body == b"[1]"
    assert asked == [first.url, *[f"{first.url}/again"] * 5]
    first.asked.clear()
    first.say = to("/again")
    with pytest.raises(NotPermitted, match="more than 5"):
        ask(guarded, first.url)
    assert len(first.asked) == 6


LOCATIONS = """http://127.0.0.1:{other}/ http://example.org/ https://localhost/ file:///x //10.0.0.1/ https://[::1]/
https://[x/ https://a@b.org/ http://h:x/""".split()


@pytest.mark.parametrize("location", LOCATIONS)
def test_a_redirect_is_checked_like_an_address(two: Any, location: str) -> None:
    first, second, _ = two
    first.say = to(location.format(other=second.port))
    with closing(Guarded(first.url, exempt=(first.url,))) as guarded, pytest.raises(NotPermitted):
        ask(guarded, first.url)
    assert second.asked == []


def test_credentials_go_with_redirects_on_their_server_and_to_no_other_one(two: Any) -> None:
    first, second, guarded = two

    def say(talk: Conversation) -> None:
        to("/next" if len(first.asked) == 1 else f"{second.url}/there")(talk)

    first.say = say
    ask(guarded, first.url, credentials={"X-API-KEY": KEY})
    assert [asked.headers["x-api-key"] for asked in first.asked] == ["sk-sesame"] * 2
    assert "x-api-key" not in second.asked[0].headers


@pytest.mark.parametrize("form", ["sk-sesame", "x%20sk-sesame"])
def test_a_redirect_that_carries_a_credential_to_another_server_is_rejected(two: Any, form: str) -> None:
    first, second, guarded = two
    first.say = to(f"{second.url}/?api_key={form}")
    with pytest.raises(NotPermitted, match="credential") as caught:
        ask(guarded, f"{first.url}/?api_key=sk-sesame")
    assert "sesame" not in str(caught.value)
    assert second.asked == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_body_is_dropped_for_status_303_alone(two: Any, status: int) -> None:
    first, second, guarded = two
    first.say = to(second.url, status)
    ask(guarded, first.url, body=b"{}")
    (asked,) = second.asked
    assert (asked.line.split()[0], asked.body) == (("GET", b"") if status == 303 else ("POST", b"{}"))


def test_the_target_of_a_redirect_is_mapped_like_any_address(two: Any) -> None:
    first, second, guarded = two
    first.say = to("https://other.example/x")
    ask(guarded, first.url, mapped=lambda url: url.replace("https://other.example", second.url))
    assert second.asked[0].line == "GET /x HTTP/1.1"


def test_a_redirect_without_a_location_is_an_answer(two: Any) -> None:
    first, _, guarded = two
    first.say = lambda talk: talk.answer(b"", status=304)
    assert ask(guarded, first.url).status == 304


# ------------------------------------------------------------------------------------------- bodies


@pytest.mark.parametrize(
    "header", ["Content-Type: application/pdf", "Content-Type: image/png", "X: y", "Content-Type: +json"]
)
def test_what_is_not_text_is_not_read(two: Any, header: str) -> None:
    first, _, guarded = two
    first.say = lambda talk: talk.answer(b"x", header)
    with pytest.raises(NotReadable, match="not text"):
        ask(guarded, first.url)


@pytest.mark.parametrize("coded", [False, True])
def test_a_body_has_at_most_ten_million_bytes_after_decoding(two: Any, coded: bool) -> None:
    first, _, guarded = two
    bodies = [b" " * MOST_BYTES, b" " * (MOST_BYTES + 1), b" " * (MOST_BYTES * 20)]
    body, *larger = [gzip.compress(body, 1) if coded else body for body in bodies[: 3 if coded else 2]]
    coding = ["Content-Encoding: gzip"] if coded else []
    first.say = lambda talk: talk.answer(body, JSON, *coding)
    assert len(ask(guarded, first.url).body) == MOST_BYTES
    for larger_body in larger:
        first.say = lambda talk, said=larger_body: talk.answer(said, JSON, *coding)
        with pytest.raises(NotPermitted, match="more than 10 MB"):
            ask(guarded, first.url)


def test_a_complaint_is_quoted_on_one_line_without_credentials(two: Any) -> None:
    first, _, guarded = two
    first.say = lambda talk: talk.answer(b'{"error":\n"bad key sk-sesame' + b"!" * 400 + b'"}', JSON, status=401)
    answer = ask(guarded, first.url)
    assert answer.status == 401
    assert answer.complaint.startswith('“{"error": "bad key ***!!!')
    assert len(answer.complaint) < 210


def test_https_is_spoken_with_an_exempt_origin(
    monkeypatch: pytest.MonkeyPatch, certificate: Path, tls: ssl.SSLContext
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with serving(lambda talk: talk.answer(b"{}", JSON), tls=tls) as server:
        with closing(Guarded(server.url, exempt=(server.url,))) as guarded:
            assert ask(guarded, server.url).body == b"{}"
        with closing(Guarded(server.url, exempt=())) as guarded, pytest.raises(NotPermitted):
            ask(guarded, server.url)
