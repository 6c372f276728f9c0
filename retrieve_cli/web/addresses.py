"""Addresses of web servers: which may be meant, and how they are shown."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from retrieve_cli.errors import UsageError, printable

PORTS = {"http": 80, "https": 443}
"""The schemes that are spoken, and the port of each where none is named."""


def check(url: str, *, called: str, form: str) -> None:
    """Raises: UsageError where `url` is no address of a web server; says what it is `called`, and its right `form`."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in PORTS and parts.hostname and (parts.port or 1) and url.isprintable()
    except ValueError:
        raise UsageError(f"the {called} is no URL", hint=f"write it as {form}") from None
    if not usable or " " in url:
        raise UsageError(f"{shown(url)!r} is no http or https address", hint=f"write it as {form}")


def has_user(url: str) -> bool:
    """Whether credentials stand in the address, which is kept and shown where they must not be."""
    return "@" in urlsplit(url).netloc


def without_user(url: str) -> str:
    """The address without the credentials that may stand in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], *parts[2:]))


def shown(url: str) -> str:
    """The address for people: neither credentials nor a query, which may hold a signature."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return printable(urlunsplit((parts.scheme, host, parts.path, "", "")) + ("?…" if parts.query else ""))


def port(url: str) -> int:
    """The port that is asked, named or not."""
    parts = urlsplit(url)
    return parts.port or PORTS[parts.scheme]
