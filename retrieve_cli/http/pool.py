"""Connections of urllib3 within the limits of a clock. Loaded with the first request.

A socket's own timeout restarts with each byte, so a server that occasionally sends one could block a client forever.
Here no read or write of a request, headers included, may take longer than the rest of its clock.

Connections within the limits of a clock: name resolution, and every address of the server.
"""

from __future__ import annotations

import http.client
import io
import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from ipaddress import ip_address, ip_network
from math import inf
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError, SSLError
from urllib3.response import BaseHTTPResponse

from retrieve_cli.errors import printable
from retrieve_cli.http.addresses import Permits, anywhere, place, shown
from retrieve_cli.http.limits import PIECE, Clock, HttpFailed, NotPermitted, TransientFailure
from retrieve_cli.http.secrets import Secret

_FAILURES = (HTTPError, OSError, http.client.HTTPException, ValueError, OverflowError, TransientFailure)
"""Exceptions with which requests of urllib3 fail; OverflowError for a chunk larger than any memory."""
_CLOCK: ContextVar[Clock] = ContextVar("clock")
"""Clock of the current request of this thread: urllib3 cannot pass one to its connections."""
_PERMITS: ContextVar[Permits] = ContextVar("permits")
"""Rule for addresses of the current request, in the same way."""
_LONGEST_HEAD = 1 << 20
"""Maximum bytes of a status line and headers, including preceding informational answers."""
_LONGEST_REASON = 200
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")

# Its messages contain whole addresses, and a query may be a signature.
logging.getLogger("urllib3").setLevel(logging.CRITICAL)


class _Wire(io.RawIOBase):
    """Bytes received by a socket, within the limits of the clock and, at first, of the head's size."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self._sock = sock
        self._clock = clock
        self._stream = sock.makefile("rb", buffering=0)
        self.left: float = _LONGEST_HEAD

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._clock.patience())
        count = self._stream.readinto(buffer)
        self.left -= count or 0
        if self.left < 0:
            raise http.client.HTTPException(f"its headers have more than {_LONGEST_HEAD} bytes")
        if self.left < inf and not count:
            # http.client would accept truncated headers, and treat an answer without a length as empty.
            raise http.client.RemoteDisconnected("the connection was closed before the end of the headers")
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self._wire = _Wire(sock, _CLOCK.get())
        self.fp = io.BufferedReader(self._wire)

    def begin(self) -> None:
        super().begin()
        # http.client skips only status 100; 101 is not informational.
        while 101 < self.status < 200:
            self.headers = None  # type: ignore[assignment]
            super().begin()
        self._wire.left = inf


class _Connection(HTTPConnection):
    response_class = _Answer

    def _new_conn(self) -> socket.socket:
        permits = _PERMITS.get() if self.proxy is None else anywhere  # a proxy is named in the environment
        host, port, options = self._dns_host, self.port or 0, self.socket_options or ()
        return connect(host, port, options=options, clock=_CLOCK.get(), permits=permits)

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        for start in range(0, len(data), PIECE):
            self.sock.settimeout(_CLOCK.get().patience())
            super().send(data[start : start + PIECE])


class _TlsConnection(_Connection, HTTPSConnection):
    pass


class _Connections(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsConnections(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class ConnectionPool:
    """Connections to any number of servers, directly or through proxies, kept open for later requests."""

    def __init__(self, size: int, called: str, permits: Permits = anywhere) -> None:
        """`size` is the number of open connections per server; `called` names the address in hints; `permits` is the
        rule for addresses of servers."""
        self._permits = permits
        self._size = size
        self._called = called
        self._managers: dict[tuple[str, bool], urllib3.PoolManager] = {}
        self._lock = Lock()

    def send(
        self, url: str, headers: Mapping[str, str], body: bytes | None, secret: Mapping[str, Secret], clock: Clock
    ) -> BaseHTTPResponse:
        """Return the answer with its body unread; the caller handles redirects. `secret` are further headers.

        Raises:
            TransientFailure, HttpFailed: there is no answer.
        """
        patience = clock.patience()
        timeout = urllib3.Timeout(connect=patience, read=patience)
        before, permitted = _CLOCK.set(clock), _PERMITS.set(self._permits)
        try:
            return self._manager(url).urlopen(
                "GET" if body is None else "POST", url, body=body, timeout=timeout, retries=False, redirect=False,
                headers={**headers, **{name: value.reveal() for name, value in secret.items()}},
                preload_content=False, decode_content=False,
            )  # fmt: skip
        except _FAILURES as error:
            failure = _failure(error, url, clock, self._called)
        finally:
            _CLOCK.reset(before)
            _PERMITS.reset(permitted)
        # Outside the handler, so that nothing is chained to an error that contains the request.
        clock.patience()
        raise failure

    @staticmethod
    def read(response: BaseHTTPResponse, clock: Clock) -> Iterator[bytes]:
        """Yield the bytes of a body without decoding them.

        Raises:
            TransientFailure: the connection failed or stalled, or the clock ran out.
        """
        trouble = ""
        while True:
            try:
                # read1 returns the bytes that have arrived; read would wait for a full piece.
                piece = response.read1(PIECE, decode_content=False)
            except _FAILURES as error:
                trouble = _reason(error)
            if trouble:
                clock.patience()
                raise TransientFailure(f"the answer was cut short ({trouble})")
            if not piece:
                return
            yield piece

    def close(self) -> None:
        """Close the open connections; later requests open new ones."""
        with self._lock:
            while self._managers:
                self._managers.popitem()[1].clear()

    def _manager(self, url: str) -> urllib3.PoolManager:
        proxy = _proxy(url)
        key = (proxy, "https" in (urlsplit(url).scheme, urlsplit(proxy).scheme))
        with self._lock:
            if key not in self._managers:
                trust = _trust() if key[1] else None
                make: Callable[..., urllib3.PoolManager] = urllib3.PoolManager
                settings: dict[str, Any] = {"maxsize": self._size, "ssl_context": trust}
                if proxy:
                    user = urllib3.util.parse_url(proxy).auth
                    make = urllib3.ProxyManager
                    settings |= {"proxy_url": proxy, "proxy_ssl_context": trust}
                    settings["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=unquote(user)) if user else {}
                manager = self._managers[key] = make(**settings)
                manager.pool_classes_by_scheme = {"http": _Connections, "https": _TlsConnections}
            return self._managers[key]


def _failure(error: Exception, url: str, clock: Clock, called: str) -> Exception:
    """Return the failure to raise instead of an error of urllib3."""
    if isinstance(error, SSLError | ssl.SSLError):
        hint = f"check {called} and the certificates (REQUESTS_CA_BUNDLE can name a file of certificates)"
        return HttpFailed(f"no trusted TLS connection to {shown(url)}: {_reason(error)}", hint=hint)
    if isinstance(error, ReadTimeoutError):
        return TransientFailure(f"no answer within {clock.idle_s:g} s")
    if isinstance(error, ValueError):
        hint = f"check {called}, and HTTP_PROXY and HTTPS_PROXY if they are set"
        return HttpFailed(f"cannot send a request to {shown(url)} ({type(error).__name__})", hint=hint)
    return TransientFailure(_reason(error))


def _reason(error: BaseException) -> str:
    """Return the innermost reason of a chain of errors; outer errors contain the address, secrets included.

    Errors that quote the server's answer, which may repeat a secret, are skipped.
    """
    chain = [error]
    for above in chain:
        inner = (getattr(above, "reason", None), *above.args, above.__cause__, above.__context__)
        errors = [part for part in inner if isinstance(part, BaseException) and type(part) is not ValueError]
        chain += [part for part in errors if part not in chain][:1]
    error = chain[-1]
    if type(error) in (http.client.BadStatusLine, http.client.UnknownProtocol):
        return "the answer is not HTTP"
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)[:_LONGEST_REASON]


def _proxy(url: str) -> str:
    """Return the proxy for a server from the environment; empty if none is set."""
    scheme, host, port = place(url)
    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all", "")
    if not proxy or proxy_bypass(f"{host}:{port}"):
        return ""
    for entry in proxies.get("no", "").split(","):
        # NO_PROXY may list networks (10.0.0.0/8); urllib compares only names.
        with suppress(ValueError):
            if ip_address(host) in ip_network(entry.strip(), strict=False):
                return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _trust() -> ssl.SSLContext:
    """Return the certificates named in the environment, or else the certificates of the machine and of certifi."""
    context = urllib3.util.create_urllib3_context()
    variable = next((name for name in _BUNDLES if os.environ.get(name)), None)
    if variable is None:
        context.load_default_certs()
        with suppress(ImportError):
            import certifi

            context.load_verify_locations(certifi.where())
        return context
    path = os.environ[variable]
    try:
        context.load_verify_locations(**{"capath" if os.path.isdir(path) else "cafile": path})  # noqa: PTH112
    except OSError as error:
        trouble = error.strerror
    else:
        return context
    raise ssl.SSLError(f"cannot read {path}, which {variable} names: {trouble}")


_LONGEST_S = 10.0
"""Maximum seconds for one address."""
_Addresses = Sequence[tuple[Any, ...]]
"""Type of the result of `socket.getaddrinfo`."""


def connect(
    host: str, port: int, *, options: Iterable[Sequence[Any]], clock: Clock, permits: Permits = anywhere
) -> socket.socket:
    """Return a connection to the first address of a host that accepts one; `options` are set on the socket.

    urllib3 would allow the whole timeout for each address, and any time for the resolver. `permits` receives host, port
    and address; the address that it permits is the one that is connected to.

    Raises:
        NotPermitted: the host has an address that is not permitted.
        TransientFailure: the clock ran out, or the last address did not answer.
        OSError: the name has no address, or the last one rejects connections.
        UnicodeError: the name is invalid.
    """
    failure, known = OSError("the name has no address"), _addresses(host.strip("[]"), port, clock)
    for *_, address in known:
        if not permits(host, port, str(address[0])):
            message = f"{printable(host)} has the address {address[0]}, which is not a public one"
            raise NotPermitted(message, hint="only public servers are reached")
    for family, kind, protocol, _, address in known:
        sock = socket.socket(family, kind, protocol)
        try:
            for option in options:
                sock.setsockopt(*option)
            sock.settimeout(min(_LONGEST_S, clock.patience()))
            sock.connect(address)
            sock.settimeout(clock.patience())  # for a TLS handshake
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    clock.patience()
    if isinstance(failure, TimeoutError):
        raise TransientFailure(f"no connection within {min(_LONGEST_S, clock.idle_s):g} s")
    raise failure


def _addresses(host: str, port: int, clock: Clock) -> _Addresses:
    """Resolve a name. A resolver cannot be cancelled: on timeout its thread is abandoned."""
    try:
        ip_address(host)
    except ValueError:
        pass
    else:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    outcome: SimpleQueue[_Addresses | Exception] = SimpleQueue()

    def look_up() -> None:
        try:
            outcome.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            outcome.put(error)

    Thread(target=look_up, daemon=True, name="resolver").start()
    try:
        result = outcome.get(timeout=clock.patience())
    except Empty:
        raise TransientFailure("the name of the server was not resolved in time") from None
    if isinstance(result, Exception):
        raise result
    return result
