"""Addresses of model servers: which may be meant, how they are shown, where a redirect may lead."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit, urlunsplit

from retrieve_cli.errors import UsageError, printable

_PORTS = {"http": 80, "https": 443}


def check_url(url: str) -> None:
    """Raises: UsageError where `url` is no address of a web server, or holds a password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and parts.hostname and (parts.port or 1) and url.isprintable()
    except ValueError:
        raise UsageError("the base_url is no URL", hint="write it as http://HOST:PORT/v1") from None
    if not usable or " " in url:
        raise UsageError(f"{shown(url)!r} is no http or https address", hint="write it as http://HOST:PORT/v1")
    if "@" in parts.netloc:
        raise UsageError(
            f"the base_url {shown(url)} has a user in it, and settings are kept in the open",
            hint="take it out; a server that wants a key gets it from a variable: api_key_env",
        )


def endpoint(base_url: str, path: str) -> str:
    """The address of an endpoint under a base address, whose query (an API version, say) stays at the end."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + path, parts.query, ""))


def shown(url: str) -> str:
    """The address for people: neither credentials nor a query, which may hold a signature."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return printable(urlunsplit((parts.scheme, host, parts.path, "", "")) + ("?…" if parts.query else ""))


def origin(url: str) -> str:
    """Scheme, host and port: what decides whether two addresses are the same server.

    Raises:
        ValueError: it is no address of a web server, or has a user in it.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError(shown(url))
    return f"{parts.scheme}://{parts.hostname}:{parts.port or _PORTS[parts.scheme]}"


def redirected(url: str, location: str) -> str:
    """The address that a redirect leads to.

    Raises:
        ValueError: it leads to another server, named in the message, or nowhere.
    """
    target = urljoin(url, location)
    if origin(target) != origin(url):
        raise ValueError(origin(target))
    return target
