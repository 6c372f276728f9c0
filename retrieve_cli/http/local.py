"""Sockets of this machine: a server of one user, that receives files which its clients have open."""

from __future__ import annotations

import os
import socket
import struct
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from retrieve_cli.untrusted.frames import SIZES, sizes_of

Listener: TypeAlias = socket.socket
Connection: TypeAlias = socket.socket
_QUEUE = 128
_PATIENCE_S = 5.0
"""Seconds that a client has to send its request."""


@contextmanager
def listening(path: Path) -> Iterator[Listener]:
    """Yield a socket at a path, of mode 0600; it is removed at the end. A socket without a listener is replaced.

    Raises:
        OSError: the folder cannot be written, or holds no sockets.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        path.unlink(missing_ok=True)
        umask = os.umask(0o177)
        try:
            with _short(path) as name:
                listener.bind(name)
        finally:
            os.umask(umask)
        mine = path.stat().st_ino
        listener.listen(_QUEUE)
        listener.setblocking(False)  # noqa: FBT003  a client may leave before it is accepted
        try:
            yield listener
        finally:
            with suppress(OSError):
                if path.stat().st_ino == mine:
                    path.unlink()


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """Yield a name of a path that the system takes as the address of a socket, however long the path is."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def accept(listener: Listener) -> Connection | None:
    """Return the connection of the next client; None if no client waits any more."""
    try:
        connection, _ = listener.accept()
    except (BlockingIOError, ConnectionError):
        return None
    connection.settimeout(_PATIENCE_S)
    return connection


def owner(connection: Connection) -> tuple[int, int]:
    """Return the process and the user at the other end. Raises: OSError."""
    size = struct.calcsize("3i")
    process, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return process, user


def connect(path: Path) -> Connection:
    """Return a connection to the server at a path. Raises: OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_PATIENCE_S)
    try:
        with _short(path) as name:
            connection.connect(name)
    except OSError:
        connection.close()
        raise
    return connection


def pair() -> tuple[Connection, Connection]:
    """Return two ends of a connection within this machine."""
    return socket.socketpair()


def send(connection: Connection, request: bytes, descriptors: list[int]) -> None:
    """Send a request, and descriptors with it. Raises: OSError."""
    sent = socket.send_fds(connection, [request], descriptors)
    connection.sendall(request[sent:])


def opened(descriptor: int) -> Connection:
    """Return the connection behind a descriptor."""
    return socket.socket(fileno=descriptor)


def receive(connection: Connection, *, longest: int, files: int) -> tuple[bytes, bytes, list[int]]:
    """Return head and body of a frame, each of at most `longest` bytes, and the descriptors that came with it, at most
    `files`.

    Raises:
        OSError, ValueError: it is not complete in time, or is not a request.
    """
    opened = array("i")
    data, extra, flags, _ = connection.recvmsg(SIZES, socket.CMSG_LEN(files * opened.itemsize))
    for level, kind, content in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            opened.frombytes(content[: len(content) - len(content) % opened.itemsize])
    try:
        if flags & socket.MSG_CTRUNC:
            raise ValueError("too many descriptors")
        head, body = (_received(connection, size) for size in sizes_of(data, head=longest, body=longest))
        return head, body, list(opened)
    except BaseException:
        for descriptor in opened:
            os.close(descriptor)
        raise


def _received(connection: Connection, size: int) -> bytes:
    """Return so many bytes, and not one more: another message may follow. Raises: OSError, ValueError."""
    parts = list[bytes]()
    while size > 0:
        parts.append(connection.recv(min(size, 1 << 20)))
        size -= len(parts[-1])
        if not parts[-1]:
            raise ValueError("half a request")
    return b"".join(parts)
