"""The one way to open a file that a user, a folder or an artifact names: regular files only, up to a size.

A path may lead to a FIFO that never answers, to /dev/zero that never ends, or to a sparse file of terabytes. Opening
here never waits and never reads beyond the limit; what is not a regular file, or is too large, is an `OSError` whose
`strerror` says so, because callers already turn those into an error that names the path and the next step.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

MB = 2**20
CONFIG = 1 * MB
"""Bytes of a configuration file, a query in a file, or a small record that the program keeps for itself."""
MANIFEST = 64 * MB
"""Bytes of a manifest, of a calibration, or of a file of JSON that describes a model."""
JUDGMENTS = 1024 * MB
"""Bytes of judgments, runs and edges."""
LINE = 64 * MB
"""Bytes of one line of a catalog or of a file of edges."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class Unreadable(OSError):
    """The path exists and is not read: it is not a regular file, or larger than its kind may be."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(errno.EINVAL, reason, str(path))


def open_regular(path: Path | str, *, limit: int | None = None) -> BufferedReader:
    """Open a regular file for reading bytes, without ever waiting for its other end.

    Raises:
        OSError: it cannot be opened, is not a regular file, or has more than `limit` bytes; `strerror` says which.
    """
    descriptor = regular_descriptor(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        if limit is not None and size > limit:
            raise _too_large(path, size, limit)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def regular_descriptor(path: Path | str, flags: int, *, mode: int = 0o666) -> int:
    """Open a regular file without ever waiting for its other end, and return its descriptor.

    What is opened for writing is not a symbolic link either: in a folder from somebody else it may lead to any file of
    the user.

    Raises:
        OSError: it cannot be opened, or is not a regular file; `strerror` says what it is instead.
    """
    flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    if flags & (os.O_WRONLY | os.O_RDWR):
        flags |= os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as error:
        if error.errno == errno.ELOOP and Path(path).is_symlink():
            raise Unreadable(path, "it is a symbolic link, through which nothing is written") from error
        raise
    found = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(found):
        os.close(descriptor)
        kind = next((name for test, name in _KINDS if test(found)), "something else")
        raise Unreadable(path, f"it is {kind}, not a regular file")
    return descriptor


def read_bytes(path: Path | str, *, limit: int) -> bytes:
    """Return all bytes of a regular file.

    Raises:
        OSError: as `open_regular`; also if the file grows beyond `limit` while it is read.
    """
    with open_regular(path, limit=limit) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise _too_large(path, len(content), limit)
    return content


def read_text(path: Path | str, *, limit: int, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the text of a regular file, its line ends as "\\n".

    Raises:
        OSError: as `read_bytes`.
        UnicodeDecodeError: it is not in that encoding.
    """
    text = read_bytes(path, limit=limit).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def lines(file: BinaryIO, *, limit: int = LINE) -> Iterator[bytes]:
    """Yield the lines of an open file with their ends. Of a line longer than `limit`, its first `limit` + 1 bytes are
    yielded and the rest is skipped without being kept."""
    while line := file.readline(limit + 1):
        yield line
        rest = line
        while len(rest) > limit and not rest.endswith(b"\n"):
            rest = file.readline(limit + 1)
            if len(rest) <= limit:
                break


def _too_large(path: Path | str, size: int, limit: int) -> Unreadable:
    return Unreadable(path, f"it has {size / MB:,.1f} MB, and at most {limit / MB:,.0f} MB are read")
