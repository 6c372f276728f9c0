"""Addresses of sources: which may be meant, and which of them are the same server."""

from __future__ import annotations

from urllib.parse import urlsplit

from retrieve_cli.errors import UsageError
from retrieve_cli.web.addresses import check, has_user, port, shown


def check_url(url: str) -> None:
    """Raises: UsageError where `url` is no address of a web server, or holds a password."""
    check(url, called="address", form="https://HOST/PATH")
    if has_user(url):
        # The address is kept with the index, which others may read.
        raise UsageError(
            f"the address of {shown(url)} has a user in it, and it is kept in the index",
            hint="take it out, and name environment variables: user_env and password_env",
        )


def same_server(one: str, other: str) -> bool:
    """Whether credentials for the one may go to the other; the step from http up to https is no other server."""
    here, there = urlsplit(one), urlsplit(other)
    places = [(parts.scheme, port(url)) for parts, url in ((here, one), (there, other))]
    upgraded = places == [("http", 80), ("https", 443)]
    return here.hostname == there.hostname and (upgraded or places[0] == places[1])
