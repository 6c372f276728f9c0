"""Addresses of web servers: which may be used, which are the same server, and how they are shown."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit, urlunsplit

from retrieve_cli.errors import UsageError, printable
from retrieve_cli.frozen import dataclass

_PORTS = {"http": 80, "https": 443}
"""The supported schemes, and the default port of each."""


@dataclass(frozen=True, slots=True)
class Wording:
    """How errors speak of the setting that holds an address."""

    called: str
    form: str
    """An example of a correct value."""
    user: str
    """The message for an address with a user in it; `{}` stands for the address."""
    instead: str
    """The hint for the same."""


def check_url(url: str, wording: Wording) -> None:
    """Raises: UsageError if `url` is not the address of a web server, or has a user in it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and parts.hostname and (parts.port or 1) and url.isprintable()
    except ValueError:
        raise UsageError(f"the {wording.called} is no URL", hint=f"write it as {wording.form}") from None
    if not usable or " " in url:
        raise UsageError(f"{shown(url)!r} is no http or https address", hint=f"write it as {wording.form}")
    if _has_user(url):
        # Addresses are stored and shown where a password must not be.
        raise UsageError(wording.user.format(shown(url)), hint=wording.instead)


def without_user(url: str) -> str:
    """The address without the credentials that may be in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], *parts[2:]))


def shown(url: str) -> str:
    """The address for people: without credentials and without its query, which may hold a signature."""
    try:
        parts = urlsplit(without_user(url))
    except ValueError:
        return "an address that cannot be read"
    return printable(urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")) + ("?…" if parts.query else ""))


def joined(url: str, location: str) -> str:
    """The target of a Location header, which is read as Latin-1 and sent as UTF-8.

    Raises:
        ValueError: it is not an address.
    """
    return urljoin(url, location.encode("latin-1", "replace").decode("utf-8", "replace"))


def origin(url: str) -> str:
    """Scheme, host and port (RFC 6454).

    Raises:
        ValueError: it is not the address of a web server, or has a user in it.
    """
    if urlsplit(url).scheme not in _PORTS or not urlsplit(url).hostname or _has_user(url):
        raise ValueError(shown(url))
    scheme, host, port = place(url)
    return f"{scheme}://{host}:{port}"


def same_server(one: str, other: str) -> bool:
    """Whether credentials for the one may go to the other: the same origin, or the step from http up to https."""
    here, there = place(one), place(other)
    return here == there or (here[1] == there[1] and [here[::2], there[::2]] == [("http", 80), ("https", 443)])


def place(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a web address."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]


def _has_user(url: str) -> bool:
    return "@" in urlsplit(url).netloc
