"""Safe opening of files that a user, a folder or an artifact names: regular files only, up to a size.

A path may lead to a FIFO that never answers, to /dev/zero that never ends, or to a sparse file of terabytes. These
functions never wait and never read beyond the limit. A path that is not a regular file, or is too large, raises an
`OSError` with the reason in `strerror`, because callers already convert these into an error with the path and a hint.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO

MB = 2**20
CONFIG = 1 * MB
"""Maximum bytes of a configuration file, a query in a file, or a small record of the program itself."""
MANIFEST = 64 * MB
"""Maximum bytes of a manifest, of a calibration, or of a JSON file that describes a model."""
JUDGMENTS = 1024 * MB
"""Maximum bytes of judgments, runs and edges."""
LINE = 64 * MB
"""Maximum bytes of one line of a catalog or of a file of edges."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a symbolic link"),
)


class UnreadableFile(OSError):
    """An existing path that is not read: not a regular file, or larger than the limit of its kind."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(errno.EINVAL, reason, str(path))


def open_regular(path: Path | str, *, limit: int | None = None) -> BufferedReader:
    """Open a regular file for reading bytes, without ever waiting for a pipe's other end.

    Raises:
        OSError: it cannot be opened, is not a regular file, or has more than `limit` bytes; `strerror` has the reason.
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
    """Open a regular file without ever waiting for a pipe's other end, and return its descriptor.

    A file opened for writing must not be a symbolic link either: in a folder of another user it may lead to any file of
    this user.

    Raises:
        OSError: it cannot be opened, or is not a regular file; `strerror` names its kind.
    """
    flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    if flags & (os.O_WRONLY | os.O_RDWR):
        flags |= os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as error:
        if error.errno == errno.ELOOP and Path(path).is_symlink():
            raise UnreadableFile(path, "it is a symbolic link; links are never written through") from error
        raise
    file_mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(file_mode):
        os.close(descriptor)
        raise _of_another_kind(path, file_mode)
    return descriptor


def expect_regular(path: Path) -> None:
    """Check the kind of a file without opening it. Raises: OSError: it is a link or no file."""
    file_mode = path.lstat().st_mode
    if not stat.S_ISREG(file_mode):
        raise _of_another_kind(path, file_mode)


def _of_another_kind(path: Path | str, file_mode: int) -> UnreadableFile:
    kind = next((name for test, name in _KINDS if test(file_mode)), "something else")
    return UnreadableFile(path, f"it is {kind}, not a regular file")


def read_bytes(path: Path | str, *, limit: int) -> bytes:
    """Return all bytes of a regular file.

    Raises:
        OSError: as in `open_regular`; also if the file grows beyond `limit` while it is read.
    """
    with open_regular(path, limit=limit) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise _too_large(path, len(content), limit)
    return content


def sha1_of(path: Path | str, *, limit: int) -> bytes:
    """Return the SHA-1 of the bytes of a regular file, with little of it in memory.

    Raises:
        OSError: as in `open_regular`.
    """
    import hashlib  # not for every command

    with open_regular(path, limit=limit) as file:
        return hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).digest()


def read_text(path: Path | str, *, limit: int, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the text of a regular file, with line ends as "\\n".

    Raises:
        OSError: as in `read_bytes`.
        UnicodeDecodeError: it is not in that encoding.
    """
    text = read_bytes(path, limit=limit).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def lines(file: IO[bytes], *, limit: int = LINE) -> Iterator[bytes]:
    """Yield the lines of an open file with their ends. For a line longer than `limit`, yield its first `limit` + 1
    bytes and skip the rest without storing it."""
    read = partial(file.readline, limit + 1)
    for line in iter(read, b""):
        yield line
        rest = line
        while len(rest) > limit and not rest.endswith(b"\n"):
            rest = read()


def _too_large(path: Path | str, size: int, limit: int) -> UnreadableFile:
    return UnreadableFile(path, f"it has {size / MB:,.1f} MB; the limit is {limit / MB:,.0f} MB")
