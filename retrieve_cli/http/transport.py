"""HTTP requests to one server: pooled connections, a clock for each request, credentials, redirects.

Transport.open -> send, repeated for redirects -> Reply -> its body, in pieces, until the clock runs out

One small file from a web server, whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from retrieve_cli.errors import SourceFailed, Unavailable, UsageError, printable
from retrieve_cli.frozen import Frozen
from retrieve_cli.http.addresses import Permits, Wording, anywhere, check_url, same_server, shown
from retrieve_cli.http.limits import Clock, HttpFailed, TransientFailure, gunzip, inflate, limit_size
from retrieve_cli.http.secrets import Secret

if TYPE_CHECKING:
    from retrieve_cli.http.pool import ConnectionPool


INSTALL = "pip install 'retrieve-cli[remote]'"
HEAD = 4096
"""Maximum bytes of a body that are read for an excerpt."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CODINGS = {"gzip": gunzip, "x-gzip": gunzip, "deflate": inflate}


class HttpRequest(Frozen):
    """A GET, or a POST if there is a body. Only the server gets credentials, wherever redirects lead."""

    url: str
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    authorization: Secret | None = None
    credentials: Mapping[str, Secret] = {}
    """Headers with further credentials."""

    @property
    def secret(self) -> Mapping[str, Secret]:
        """Headers that only the server gets."""
        return {"Authorization": self.authorization, **self.credentials} if self.authorization else self.credentials


class Redirect(Frozen):
    """An answer that names another address."""

    url: str
    status: int
    location: str
    number: int
    """Number of the redirect within the request, from 1."""


Follow = Callable[[Redirect], str]
"""Function that returns the next address, or raises an error of the caller."""


class Reply(Frozen):
    """An answer whose body can be read once."""

    url: str
    """Address of the answer, after all redirects."""
    status: int
    headers: Mapping[str, str]
    travelling: Iterator[bytes]
    """The body before decoding. Raises `TransientFailure` if it is truncated or takes too long."""

    def decoded(self, travelling: Iterator[bytes] | None = None) -> Iterator[bytes]:
        """Return the body without its content coding; `travelling` may replace the field of that name.

        Raises:
            TransientFailure: it was truncated or took too long.
            HttpFailed: the coding is not supported, or the body is damaged.
        """
        coding = self.headers.get("Content-Encoding", "").strip().lower()
        body = self.travelling if travelling is None else travelling
        if coding in ("", "identity"):
            return body
        if coding in _CODINGS:
            return _CODINGS[coding](body)
        hint = "configure the server to use gzip or no compression"
        raise HttpFailed(f"{shown(self.url)} uses the unsupported coding {printable(coding)!r}", hint=hint)

    def head(self, size: int = HEAD) -> bytes:
        """Return the first `size` bytes of the body, or fewer if reading fails."""
        body = b""
        with suppress(TransientFailure, HttpFailed):
            for piece in self.decoded():
                body += piece
                if len(body) >= size:
                    break
        return body[:size]


class Transport:
    """Requests to one server, from any number of threads. Nothing is sent or loaded before the first request."""

    def __init__(
        self, server: str, *, called: str, follow: Follow, connections: int = 1, permits: Permits = anywhere
    ) -> None:
        """`server` is the address of the only server that gets credentials; `called` is its name in hints.

        `connections` is the number of open connections kept for later requests; `permits` is the rule for addresses of
        servers, redirects included.
        """
        self._permits = permits
        self._server = server
        self._called = called
        self._follow = follow
        self._connections = connections
        self._pool: ConnectionPool | None = None
        self._lock = Lock()

    def close(self) -> None:
        """Close the open connections; later requests open new ones."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()

    @contextmanager
    def open(self, request: HttpRequest, clock: Clock) -> Iterator[Reply]:
        """Yield the reply after all redirects.

        Raises:
            TransientFailure: no reply, but another attempt may succeed.
            HttpFailed: no reply, and another attempt would fail as well; `NotPermitted` if an address is not permitted.
            Unavailable: urllib3 is not installed.
        """
        pool, url, body = self._opened(), request.url, request.body
        headers = {"User-Agent": "retrieve-cli", **request.headers}
        for number in count(1):
            secret = request.secret if same_server(self._server, url) else {}
            response = pool.send(url, headers, body, secret, clock)
            try:
                location = response.headers.get("Location")
                if response.status not in _REDIRECTS or location is None:
                    yield Reply(url, response.status, response.headers, pool.read(response, clock))
                    return
            finally:
                response.close()
            url = self._follow(Redirect(url, response.status, location, number))
            body = None if response.status == 303 else body

    def _opened(self) -> ConnectionPool:
        try:
            import urllib3  # noqa: F401
        except ImportError as error:
            message = "connecting to a server needs the package urllib3, which is not installed"
            raise Unavailable(message, hint=INSTALL) from error
        from retrieve_cli.http.pool import ConnectionPool

        with self._lock:
            self._pool = self._pool or ConnectionPool(self._connections, self._called, self._permits)
            return self._pool


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


def fetch(url: str, *, limit: int, seconds: float, accept: str = "application/json") -> bytes:
    """Return the body of an answer with status 200, of at most `limit` bytes. Redirects are not followed.

    Raises:
        SourceFailed: no answer with status 200 arrives within the time.
        Unavailable: urllib3 is not installed.
    """
    address, hint = shown(url), f"check it: curl -sS {shown(url)}"
    transport = Transport(url, called="the address", follow=_stay)
    try:
        with transport.open(
            HttpRequest(url, {"Accept": accept, "Accept-Encoding": "identity"}), Clock(seconds, seconds)
        ) as reply:
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
