"""One small file from a web server, whole or not at all."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from retrieve_cli.errors import SourceFailed, UsageError
from retrieve_cli.http.addresses import Wording, check_url, shown
from retrieve_cli.http.failures import HttpFailed, TransientFailure
from retrieve_cli.http.limits import Clock, limit_size
from retrieve_cli.http.transport import HttpRequest, Redirect, Transport

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


def check_secure_url(url: str, *, called: str) -> None:
    """Check an address whose answer is trusted: https, or http on this machine.

    Raises:
        UsageError: it is another one; `called` is the name of the setting.
    """
    wording = Wording(called, "https://HOST/PATH", f"{called} {{}} contains a user", "remove it")
    check_url(url, wording)
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        message = f"{called} is {shown(url)!r}: over http anyone on the way could replace it"
        raise UsageError(message, hint="use https")


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and the addresses of this machine's loopback interface."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def fetch(url: str, *, limit: int, seconds: float) -> bytes:
    """Return the body of an answer with status 200, of at most `limit` bytes. Redirects are not followed.

    Raises:
        SourceFailed: no answer with status 200 arrives within the time.
        Unavailable: urllib3 is not installed.
    """
    address, hint = shown(url), f"check it: curl -sS {shown(url)}"
    transport = Transport(url, called="the address", follow=_stay)
    try:
        with transport.open(HttpRequest(url, _HEADERS), Clock(seconds, seconds)) as reply:
            if reply.status != 200:
                raise SourceFailed(f"{address} answered with status {reply.status}", hint=hint)
            too_large = SourceFailed(f"{address} sent more than {limit} bytes", hint=hint)
            return b"".join(limit_size(reply.decoded(), limit, lambda: too_large))
    except TransientFailure as failure:
        raise SourceFailed(f"cannot fetch {address}: {failure}", hint=hint) from None
    except HttpFailed as failure:
        raise SourceFailed(str(failure), hint=failure.hint) from None
    finally:
        transport.close()


def _stay(redirect: Redirect) -> str:
    hint = "configure the address that it leads to"
    raise SourceFailed(f"{shown(redirect.url)} redirects to another address", hint=hint)
