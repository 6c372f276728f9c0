"""Addresses of servers: which may be meant, how they are shown, and which of them are the same server."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from retrieve_cli.errors import UsageError, printable

_PORTS = {"http": 80, "https": 443}


def check_url(url: str) -> None:
    """Raises: UsageError where `url` is no address of a web server, or holds a password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and parts.hostname and (parts.port or 1) and url.isprintable()
    except ValueError:
        raise UsageError("the address is no URL", hint="write it as https://HOST/PATH") from None
    if not usable or " " in url:
        raise UsageError(f"{shown(url)!r} is no http or https address", hint="write it as https://HOST/PATH")
    if "@" in parts.netloc:
        # The address is kept with the index, which others may read.
        raise UsageError(
            f"the address of {shown(url)} has a user in it, and it is kept in the index",
            hint="take it out, and name environment variables: user_env and password_env",
        )


def shown(url: str) -> str:
    """The address for people: neither credentials nor a query, which may hold a signature."""
    parts = urlsplit(without_user(url))
    return printable(urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")) + ("?…" if parts.query else ""))


def without_user(url: str) -> str:
    """The address without the credentials that may stand in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], *parts[2:]))


def same_server(one: str, other: str) -> bool:
    """Whether credentials for the one may go to the other; the step from http up to https is no other server."""
    here, there = urlsplit(one), urlsplit(other)
    places = [(parts.scheme, parts.port or _PORTS[parts.scheme]) for parts in (here, there)]
    upgraded = places == [("http", 80), ("https", 443)]
    return here.hostname == there.hostname and (upgraded or places[0] == places[1])
