"""Addresses of web servers: validation, comparison of servers, and display."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urljoin, urlsplit, urlunsplit

from retrieve_cli.errors import UsageError, printable
from retrieve_cli.frozen import Frozen

Permits = Callable[[str, int, str], bool]
"""Rule for connections: True if a host with this port may be reached at this address."""
_PORTS = {"http": 80, "https": 443}
"""Default ports of the supported schemes."""


class Wording(Frozen):
    """Wording of errors for a setting that contains an address."""

    called: str
    form: str
    """Example of a correct value."""
    user: str
    """Message for an address that contains a user; `{}` is replaced by the address."""
    instead: str
    """Hint for the same error."""


def check_url(url: str, wording: Wording) -> None:
    """Check an address. Raises: UsageError if `url` is not the address of a web server, or contains a user."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and parts.hostname and (parts.port or 1) and url.isprintable()
    except ValueError:
        raise UsageError(f"the {wording.called} is not a URL", hint=f"write it as {wording.form}") from None
    if not usable or " " in url:
        raise UsageError(f"{shown(url)!r} is not an http or https address", hint=f"write it as {wording.form}")
    if "@" in parts.netloc:
        # Addresses are stored and displayed, so they must not contain a password.
        raise UsageError(wording.user.format(shown(url)), hint=wording.instead)


def without_user(url: str) -> str:
    """Return the address without the credentials that it may contain."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], *parts[2:]))


def shown(url: str) -> str:
    """Return the address for display: without credentials, and without its query, which may contain a signature."""
    try:
        parts = urlsplit(without_user(url))
    except ValueError:
        return "an address that cannot be read"
    return printable(urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")) + ("?…" if parts.query else ""))


def resolve(url: str, location: str) -> str:
    """Return the target of a Location header, which is read as Latin-1 and sent as UTF-8.

    Raises:
        ValueError: it is not an address.
    """
    return urljoin(url, location.encode("latin-1", "replace").decode("utf-8", "replace"))


def origin(url: str) -> str:
    """Return scheme, host and port (RFC 6454).

    Raises:
        ValueError: it is not the address of a web server, or contains a user.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError(shown(url))
    scheme, host, port = place(url)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def same_server(one: str, other: str) -> bool:
    """Return True if credentials may go from one server to the other: same origin, or a step from http to https."""
    here, there = place(one), place(other)
    return here == there or (here[1] == there[1] and [here[::2], there[::2]] == [("http", 80), ("https", 443)])


def place(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a web address."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]


def anywhere(_host: str, _port: int, _address: str) -> bool:
    """Return True for every address: the configuration names the servers."""
    return True
