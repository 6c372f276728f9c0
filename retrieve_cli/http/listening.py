"""Listening socket of a server of this program, and the certificate of the server, checked before anything starts."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.untrusted.files import CONFIG, read_bytes

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


class SharedListener(socket.socket):
    """A socket at an address that several processes share; it does not listen.

    A process to which it is sent gets a separate socket at the same address, and the system deals connections out among
    all that listen there: from one queue for all, the first process to wake would take them.
    """

    def __reduce__(self) -> tuple[Callable[..., SharedListener], tuple[Any, ...]]:
        return _shared, (self.getsockname(), self.family)


@contextmanager
def reserve(host: str, port: int) -> Iterator[Listener]:
    """Yield a socket bound to the address, for several processes that listen there.

    Raises:
        RetrieveError: as `bind` does, also if processes of another server share the address.
    """
    with bind(host, port) as alone:
        address, family = alone.getsockname(), alone.family
    try:
        listener = _shared(address, family)
    except OSError as error:
        raise _not_there(host, port, error) from error
    with listener:
        yield listener


def _shared(address: Any, family: int) -> SharedListener:
    """Return a socket at an address that others may share. Raises: OSError."""
    # By its protocol asyncio tells that connections need TCP_NODELAY: without it an answer waits 40 ms.
    listener = SharedListener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def listen(listener: Listener) -> None:
    """Let clients connect. Raises: RetrieveError: another process took the port in the meantime."""
    try:
        listener.listen(2048)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        raise _not_there(host, port, error) from error


def _not_there(host: str, port: int, error: Exception) -> RetrieveError:
    reason = getattr(error, "strerror", None) or str(error)
    hint = "choose another port: --port N, or --port 0 for a free one; --host for another address"
    return RetrieveError(f"cannot listen at {host}, port {port}: {reason}", hint=hint)


_OTHERS = 0o077
"""Permissions of users other than the owner."""
_EXAMPLE = "--tls-cert cert.pem --tls-key key.pem"


def check_pair(
    certificate: Path | None, key: Path | None, *, warn: Callable[[str], None] = lambda _: None
) -> tuple[Path, Path] | None:
    """Return a certificate and its key if the server has them; None if neither is named.

    `warn` receives a warning if other users may read the key.

    Raises:
        UsageError: one of them is missing, cannot be read, or does not belong to the other.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        flag = "--tls-cert" if certificate is None else "--tls-key"
        raise UsageError(f"TLS needs a certificate and its private key; {flag} is missing", hint=_EXAMPLE)
    for flag, path in (("--tls-cert", certificate), ("--tls-key", key)):
        try:
            read_bytes(path, limit=CONFIG)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}", hint=f"check {flag}") from error
    try:
        # Without a password here, a server that has no operator would stop and ask for it.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(_reason(certificate, key, error), hint=f"both in PEM form: {_EXAMPLE}") from error
    if key.stat().st_mode & _OTHERS:
        warn(f"warning: other users may read the private key; chmod 600 {key}")
    return certificate, key


def _reason(certificate: Path, key: Path, error: Exception) -> str:
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return f"the private key {key} does not belong to the certificate {certificate}"
    if isinstance(error, ssl.SSLError) and "PEM" not in str(error):
        return f"cannot load the certificate {certificate} with the private key {key}; keys with a password do not work"
    return f"{certificate} is not a certificate, or {key} is not a private key without a password"
