"""Names that a server answers to, and web pages that may use it: no page reaches it through a name that it chose.

A page of evil.example whose name is pointed at 127.0.0.1 (DNS rebinding) sends `Host: evil.example`, and a page that
posts a form to another server sends its own `Origin` (RFC 6454).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.http.fetching import is_loopback

_HOST = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,255})(?::([0-9]{1,5}))?")
_ALLOWED = re.compile(r"\*|(\[[0-9a-fA-F:.]{2,45}\]|(?:\*\.)?[A-Za-z0-9._-]{1,255})(?::([0-9]{1,5}))?")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_PORTS = {"http": 80, "https": 443}
_ANY = "*"


class Name(NamedTuple):
    """A host with an optional port."""

    host: str
    port: int | None

    def fits(self, pattern: Name) -> bool:
        """Return True if a pattern names this host: itself, any below `*.`, any at all; a pattern without a port has
        any."""
        if pattern.port not in (None, self.port):
            return False
        if pattern.host.startswith("*."):
            return self.host.endswith(pattern.host[1:]) and len(self.host) >= len(pattern.host)
        return pattern.host in (_ANY, self.host)


class Hosts:
    """The names and origins that a server accepts."""

    def __init__(
        self,
        address: str,
        *,
        scheme: str = "http",
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
    ) -> None:
        """`address` is the listening address, in the form of `--host`.

        On loopback the names of loopback are accepted, with any port: a tunnel has another port, and a port is not a
        name that others can point. Elsewhere the address is accepted, and for all addresses (0.0.0.0) any address
        and the machine's name.

        Raises:
            UsageError: an allowed host or origin is not written as one.
        """
        self._default = _PORTS[scheme]
        self._any_address = False
        bare = address.strip("[]").lower()
        names = {*_LOOPBACK, _bracketed(bare)}
        if not is_loopback(bare):
            self._any_address = _is_unspecified(bare)
            names.add(os.uname().nodename.lower())
        own = [Name(name, None) for name in sorted(names)]
        self._patterns = [*own, *map(read_host, allowed_hosts)]
        self._origins = frozenset(map(read_origin, allowed_origins))

    def accepts(self, hosts: Sequence[str]) -> bool:
        """Return True if the Host headers of a request are one, and name this server."""
        name = _named(hosts[0], self._default) if len(hosts) == 1 else None
        if name is None:
            return False
        return any(map(name.fits, self._patterns)) or (self._any_address and _is_address(name.host))

    def listed(self, origin: str) -> bool:
        """Return True if pages of an origin may use the server from elsewhere."""
        return origin.lower() in self._origins

    def permits(self, origin: str, host: str) -> bool:
        """Return True if pages of an origin may use the server: its own pages, and pages of listed origins.

        The scheme is not compared: behind a proxy that ends TLS, the page's is https and the server's http.
        """
        if self.listed(origin):
            return True
        scheme, _, rest = origin.lower().partition("://")
        if scheme not in _PORTS or (page := _named(rest, _PORTS[scheme])) is None:
            return False
        here = _named(host, _PORTS[scheme])
        return here == page


def read_host(text: str) -> Name:
    """Return a host that an operator allows. Raises: UsageError."""
    match = _ALLOWED.fullmatch(text.strip())
    if match is None:
        hint = "example.org, example.org:8443, *.example.org, or * for any"
        raise UsageError(f"--allowed-host is {quoted(text)}, not a host", hint=hint)
    if match[1] is None:
        return Name(_ANY, None)
    return Name(match[1].lower().rstrip("."), None if match[2] is None else int(match[2]))


def read_origin(text: str) -> str:
    """Return an origin that an operator allows, as browsers write it. Raises: UsageError."""
    hint = "https://app.example.org, without a path; one origin per flag"
    try:
        parts = urlsplit(text.strip().lower().rstrip("/"))
        port = parts.port
    except ValueError:
        raise UsageError(f"--allowed-origin is {quoted(text)}, not an origin", hint=hint) from None
    plain = not (parts.path or parts.query or parts.fragment) and _HOST.fullmatch(parts.netloc)
    if parts.scheme not in _PORTS or not plain:
        raise UsageError(f"--allowed-origin is {quoted(text)}, not an origin", hint=hint)
    shown = "" if port in (None, _PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{_bracketed(parts.hostname or '')}{shown}"


def _named(text: str, default: int) -> Name | None:
    """Return a host with its port; None if it is not a host."""
    match = _HOST.fullmatch(text.strip())
    if match is None:
        return None
    return Name(match[1].lower().rstrip("."), default if match[2] is None else int(match[2]))


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _is_unspecified(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return not host


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
