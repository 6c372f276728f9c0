"""Addresses of model servers: which may be meant, and where a redirect may lead."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit, urlunsplit

from retrieve_cli.errors import UsageError
from retrieve_cli.web.addresses import PORTS, check, has_user, port, shown


def check_url(url: str) -> None:
    """Raises: UsageError where `url` is no address of a web server, or holds a password."""
    check(url, called="base_url", form="http://HOST:PORT/v1")
    if has_user(url):
        raise UsageError(
            f"the base_url {shown(url)} has a user in it, and settings are kept in the open",
            hint="take it out; a server that wants a key gets it from a variable: api_key_env",
        )


def endpoint(base_url: str, path: str) -> str:
    """The address of an endpoint under a base address, whose query (an API version, say) stays at the end."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + path, parts.query, ""))


def origin(url: str) -> str:
    """Scheme, host and port: what decides whether two addresses are the same server.

    Raises:
        ValueError: it is no address of a web server, or has a user in it.
    """
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname or has_user(url):
        raise ValueError(shown(url))
    return f"{parts.scheme}://{parts.hostname}:{port(url)}"


def redirected(url: str, location: str) -> str:
    """The address that a redirect leads to.

    Raises:
        ValueError: it leads to another server, named in the message, or nowhere.
    """
    target = urljoin(url, location)
    if origin(target) != origin(url):
        raise ValueError(origin(target))
    return target
