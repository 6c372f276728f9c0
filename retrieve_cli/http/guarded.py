"""Requests to one server whose answers are not trusted: public addresses, bounded redirects, and bounded text.

Guarded.ask -> check_target -> Transport.open, again for each redirect -> GuardedReply, or the complaint of its body

Others choose the servers, so no answer or name may lead into this network. Names are checked after resolving, on the
very address that is connected to (`http/pool.py`): a name that resolves differently later gains nothing. The
networks are from the IANA registries of special-purpose addresses (RFC 6890), and the forms of IPv6 that contain an
address of IPv4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

from retrieve_cli.errors import printable
from retrieve_cli.frozen import replace
from retrieve_cli.http.addresses import Permits, origin, place, resolve, same_server, shown
from retrieve_cli.http.limits import Clock, HttpFailed, NotPermitted, NotReadable, limit_size, retry_after
from retrieve_cli.http.secrets import Secret, quoted
from retrieve_cli.http.transport import HttpRequest, Redirect, Reply, Transport, is_loopback

_SPECIAL_4 = [
    ip_network(network)
    for network in (
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
        "192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
    ).split()
]
_GLOBAL_6 = ip_network("2000::/3")
_SPECIAL_6 = [ip_network(network) for network in "2001::/23 2001:db8::/32 3fff::/20".split()]
_MAPPED, _COMPATIBLE, _NAT64, _SIX_TO_FOUR = map(ip_network, "::ffff:0:0/96 ::/96 64:ff9b::/96 2002::/16".split())
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""Upper half of an interface identifier that contains an address of IPv4 (RFC 5214)."""
_LOCAL = ("localhost", "local", "internal", "lan", "home.arpa")
"""Domains that only this machine or its network knows."""


def is_public(address: str) -> bool:
    """Return True for a global unicast address, as text without brackets."""
    try:
        known = ip_address(address)
    except ValueError:
        return False
    if isinstance(known, IPv4Address):
        return not any(known in network for network in _SPECIAL_4)
    inner = _embedded(known)
    if known.scope_id is not None or (inner is not None and not is_public(str(inner))):
        return False
    return known in _NAT64 or (known in _GLOBAL_6 and not any(known in network for network in _SPECIAL_6))


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the address of IPv4 that an address of IPv6 leads to; None if it contains none."""
    number = int(address)
    if any(address in network for network in (_MAPPED, _COMPATIBLE, _NAT64)):
        return IPv4Address(number & 0xFFFF_FFFF)
    if address in _SIX_TO_FOUR:
        return IPv4Address(number >> 80 & 0xFFFF_FFFF)
    return IPv4Address(number & 0xFFFF_FFFF) if number >> 32 & 0xFFFF_FFFF in _ISATAP else None


def rule(exempt: Collection[str]) -> Permits:
    """Return the rule for connections: any public address, and for the origins of `exempt` any address, or with http
    only addresses of this machine."""
    schemes = {place(url)[1:]: place(url)[0] for url in exempt}

    def permits(host: str, port: int, address: str) -> bool:
        scheme = schemes.get((host.strip("[]").lower(), port))
        if scheme is None:
            return is_public(address)
        return scheme == "https" or is_loopback(address)

    return permits


def check_target(url: str, exempt: Collection[str]) -> None:
    """Check an address before a request is sent to it; through a proxy, this is the only check.

    `exempt` are origins, as `origin` of addresses.py returns them, that are permitted in any form.

    Raises:
        NotPermitted: it is not https, contains a user, or its host is not public, or an unusual form of an address.
    """
    try:
        target, host = origin(url), (urlsplit(url).hostname or "").lower()
    except ValueError:
        raise _not_a_target(url, "is not the address of a web server") from None
    if target in exempt:
        return
    if not target.startswith("https:"):
        raise _not_a_target(url, "is not https")
    if not _is_public_host(host.rstrip(".")):
        raise _not_a_target(url, "is not a public server")


def _is_public_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        # The last label of a name is not a number; 127.1, 0x7f.1 and 2130706433 are forms of addresses.
        last = host.rpartition(".")[2]
        unusual = not host.isascii() or "." not in host or "%" in host or last[:1].isdigit()
        return not unusual and not any(host == name or host.endswith(f".{name}") for name in _LOCAL)
    return is_public(host)


def _not_a_target(url: str, reason: str) -> NotPermitted:
    hint = "only public https servers are reached, and the addresses that web.endpoints names"
    return NotPermitted(f"{shown(url)} {reason}", hint=hint)


MOST_BYTES = 10_000_000
"""Bytes of the largest body, without content coding."""
MOST_REDIRECTS = 5
_EXCERPT = 200
"""Characters of a server's complaint that are quoted."""
_LONGEST_TYPE = 100
_TEXT = ("application/json", "application/xml")


class GuardedReply(NamedTuple):
    """A complete answer."""

    status: int
    content_type: str
    body: bytes
    """Empty if the status was not expected."""
    complaint: str
    """Beginning of the body, quoted and without credentials, if the status was not expected."""
    retry_after: float | None
    """Seconds after which the server permits the next request, if it gives a time."""


class _Moved(Exception):
    """Carries a redirect out of the transport, so that each step is a separate request."""

    def __init__(self, redirect: Redirect) -> None:
        super().__init__()
        self.redirect = redirect


class Guarded:
    """Requests to one server, from any number of threads; redirects may lead to other public servers."""

    def __init__(self, server: str, *, exempt: Collection[str]) -> None:
        """`server` is the address of the only server that gets credentials; `exempt` are origins that need not be
        public."""
        self._server = server
        self._exempt = frozenset(exempt)
        permits = rule(self._exempt)
        self._transport = Transport(server, called="the provider", follow=_stop, connections=4, permits=permits)

    def close(self) -> None:
        """Close the open connections."""
        self._transport.close()

    def ask(
        self,
        request: HttpRequest,
        clock: Clock,
        *,
        accept: Collection[int],
        secrets: Iterable[Secret],
        before: Callable[[str], None],
        mapped: Callable[[str], str],
    ) -> GuardedReply:
        """Return the answer after at most five redirects.

        `secrets` are hidden in complaints; `before` is called with the address of each request before it is sent, and
        `mapped` returns the address that is asked in place of the target of a redirect.

        Raises:
            TransientFailure: no complete answer, but another attempt may succeed.
            NotPermitted: an address, a redirect or the size is not permitted.
            NotReadable: an expected answer is not text, or is damaged.
            HttpFailed: there is no connection, and another attempt would fail as well.
            Unavailable: urllib3 is not installed.
        """
        known = list(secrets)
        for number in range(MOST_REDIRECTS + 1):
            check_target(request.url, self._exempt)
            before(request.url)
            try:
                with self._transport.open(request, clock) as reply:
                    return _read(reply, accept, known)
            except _Moved as moved:
                redirect = moved.redirect
            if number < MOST_REDIRECTS:
                request = _next(request, redirect, known, mapped=mapped)
        raise _not_permitted(f"{shown(self._server)} redirects more than {MOST_REDIRECTS} times")


def _stop(redirect: Redirect) -> str:
    raise _Moved(redirect)


def _next(
    request: HttpRequest, redirect: Redirect, secrets: Collection[Secret], *, mapped: Callable[[str], str]
) -> HttpRequest:
    """Return the request that a redirect asks for; a body is dropped for status 303 alone."""
    try:
        target = resolve(redirect.url, redirect.location)
        origin(target)
        urlsplit(target).port  # noqa: B018  raises for a port that is not a number
    except ValueError:
        raise _not_permitted(f"{shown(redirect.url)} redirects to something that is not an address") from None
    target = mapped(target)
    spellings = [text for secret in secrets for text in secret.spellings]
    if not same_server(redirect.url, target) and any(text in target for text in spellings):
        raise _not_permitted(f"{shown(redirect.url)} redirects with a credential to another server")
    return replace(request, url=target, body=None if redirect.status == 303 else request.body)


def _read(reply: Reply, accept: Collection[int], secrets: Collection[Secret]) -> GuardedReply:
    said = reply.headers.get("Retry-After", "")
    after = (retry_after(said) or None) if said.strip() != "0" else 0.0
    content_type = printable(reply.headers.get("Content-Type", "").strip())[:_LONGEST_TYPE]
    if reply.status not in accept:
        head = reply.head().decode("utf-8", "replace") if _is_text(content_type) else ""
        complaint = quoted(head, secrets, most=_EXCERPT) if head else ""
        return GuardedReply(reply.status, content_type, b"", complaint, after)
    if not _is_text(content_type):
        message = f"its answer is not text: {content_type or 'it has no content type'}"
        raise NotReadable(message, hint="see the address in a browser")
    limit = _not_permitted(f"its answer has more than {MOST_BYTES // 1_000_000} MB")
    try:
        body = b"".join(limit_size(reply.decoded(), MOST_BYTES, lambda: limit))
    except NotPermitted:
        raise
    except HttpFailed as failure:
        raise NotReadable(str(failure), hint=failure.hint) from None
    return GuardedReply(reply.status, content_type, body, "", after)


def _is_text(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    structured = kind.startswith("application/") and kind.endswith(("+json", "+xml"))
    return structured or kind.startswith("text/") or kind in _TEXT


def _not_permitted(message: str) -> NotPermitted:
    return NotPermitted(message, hint="the rules for answers of web servers do not permit it")
