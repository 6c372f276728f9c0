"""Listening socket of a server of this program."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from retrieve_cli.errors import RetrieveError

Listener = socket.socket


@contextmanager
def bind(host: str, port: int) -> Iterator[Listener]:
    """Yield a socket bound to the address, reserved before the model loads; clients cannot connect yet.

    Raises:
        RetrieveError: the port is in use, or the address is not on this machine.
    """
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, UnicodeError) as error:
        if listener is not None:
            listener.close()
        raise _not_there(host, port, error) from error
    with listener:
        yield listener


def inherited(descriptor: int) -> Listener:
    """Return the socket that another process of this program has bound. Raises: RetrieveError if it is not one."""
    try:
        return socket.socket(fileno=descriptor)
    except OSError as error:
        raise RetrieveError(f"descriptor {descriptor} is not a socket", hint="start it without --fd") from error


def listen(listener: Listener) -> None:
    """Let clients connect.

    Raises:
        RetrieveError: another process took the port in the meantime.
    """
    try:
        listener.listen(2048)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        raise _not_there(host, port, error) from error


def _not_there(host: str, port: int, error: Exception) -> RetrieveError:
    reason = getattr(error, "strerror", None) or str(error)
    hint = "choose another port: --port N, or --port 0 for a free one; --host for another address"
    return RetrieveError(f"cannot listen at {host}, port {port}: {reason}", hint=hint)
