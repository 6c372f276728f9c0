"""Connections within the limits of a clock: name resolution, and every address of the server."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from retrieve_cli.errors import printable
from retrieve_cli.http.addresses import Permits, anywhere
from retrieve_cli.http.failures import NotPermitted, TransientFailure
from retrieve_cli.http.limits import Clock

_LONGEST_S = 10.0
"""Maximum seconds for one address."""
_Addresses = Sequence[tuple[Any, ...]]
"""Type of the result of `socket.getaddrinfo`."""


def connect(
    host: str,
    port: int,
    *,
    options: Iterable[Sequence[Any]],
    clock: Clock,
    permits: Permits = anywhere,
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
    failure = OSError("the name has no address")
    for family, kind, protocol, _, address in _permitted(host, port, clock, permits=permits):
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


def _permitted(host: str, port: int, clock: Clock, *, permits: Permits) -> _Addresses:
    """Return the addresses of a host. Raises: NotPermitted: one of them is not permitted."""
    known = _addresses(host.strip("[]"), port, clock)
    for *_, address in known:
        if not permits(host, port, str(address[0])):
            message = f"{printable(host)} has the address {address[0]}, which is not a public one"
            raise NotPermitted(message, hint="only public servers are reached")
    return known


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
