"""The bytes of a file, read within a limit that its header cannot raise, and the facts that its header gives."""

from __future__ import annotations

import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.untrusted.nearest import nearest

LIMIT = 1_000_000
"""The most bytes that are read of a file."""
READS = 20_000
"""The most reads of a file: a damaged header may look like a hundred thousand empty elements."""
HEAD = 4096
"""Bytes from which a format is recognized."""
PACKED = 65_536
"""Bytes that are read of a compressed file."""
UNPACKED = 262_144
"""The most bytes that are decompressed."""
GZIP = b"\x1f\x8b"


class Header(Frozen):
    """Facts about an image from the header of its file, and none about a person."""

    format: str | None = None
    modality: str | None = None
    depth: int | None = None
    """Planes of a volume, 1 for a picture; None if the file is not an image or its header does not have them."""
    moments: int = 1
    """Volumes or pictures that follow each other in time."""
    lone_slice: bool = False
    """True if the file is one picture, and the series that it belongs to is likely a volume."""
    anatomy: str | None = None
    series: str | None = None
    """Identity of a DICOM series; compared, never shown."""
    complaints: tuple[str, ...] = ()
    """Problems of the file, as ends of a sentence that begins with its name."""

    @property
    def dimensionality(self) -> str | None:
        """2D, 3D or 4D, as imaging tools count: a moving picture is 2D, a changing volume is 4D."""
        if self.depth is None:
            return None
        if self.depth == 1:
            return "2D"
        return "4D" if self.moments > 1 else "3D"

    @property
    def likely(self) -> str | None:
        """The likely dimensionality of the data: the dimensionality of its series, if the file is one slice of it."""
        if self.lone_slice:
            return "4D" if self.moments > 1 else "3D"
        return self.dimensionality


class UnreadableHeader(Exception):
    """A file cannot be read as its format; the message is the end of a sentence that begins with its name."""


class Exhausted(OSError):
    """A header is longer than the limit of the reader."""


class Bounded(io.RawIOBase):
    """A stream of at most `allowance` bytes in `READS` reads, which allocates no memory for bytes that do not exist.

    It is not buffered: a buffer would take as much memory as a header claims before a byte is read.
    """

    def __init__(self, raw: IO[bytes], size: int, allowance: int) -> None:
        super().__init__()
        self._raw = raw
        self.size = size
        self._left = allowance
        self._reads = READS
        self._at = 0
        self.overran = False
        """True if a read went beyond the end."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        if start + offset < 0:
            raise ValueError("a place before the beginning")
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """Read bytes. Raises: Exhausted: that is more than may still be read."""
        rest = max(self.size - self._at, 0)
        wanted = rest if size is None or size < 0 else size
        self.overran |= wanted > rest and self._at != self.size
        wanted = min(wanted, rest)
        self._reads -= 1
        if wanted > self._left or self._reads < 0:
            raise Exhausted("the header goes on")
        self._raw.seek(self._at)
        data = self._raw.read(wanted) or b""
        self._left -= len(data)
        self._at += len(data)
        return data

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]  # any writable buffer
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class Content(Frozen):
    """The input of a reader."""

    stream: Bounded
    head: bytes
    complete: bool = True
    """True if the stream is the whole file, so that a claimed size can be compared with it."""


def no_wait(path: str, flags: int) -> int:
    """Open a file; a pipe that took its place does not keep the program waiting."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


@contextmanager
def opened(path: Path, allowance: int = LIMIT) -> Iterator[Content]:
    """Open a regular file.

    Raises:
        OSError, ValueError: it cannot be opened.
        UnreadableHeader: it is not a regular file, or is empty.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # opening a device may start it
        raise UnreadableHeader("is not a file that can be read: it is a pipe, a socket or a device")
    with open(path, "rb", buffering=0, opener=no_wait) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableHeader("is not a file that can be read: it is a pipe, a socket or a device")
        if not status.st_size:
            raise UnreadableHeader("is empty")
        yield content_of(file, status.st_size, allowance)


def content_of(raw: IO[bytes], size: int, allowance: int, *, complete: bool = True) -> Content:
    """Return the content of a stream of `size` bytes."""
    stream = Bounded(raw, size, allowance)
    head = stream.read(min(HEAD, size))
    stream.seek(0)
    return Content(stream, head, complete)


def decompressed(content: Content) -> Content:
    """Return the beginning of what a gzip file contains. Raises: UnreadableHeader: nothing comes out."""
    content.stream.seek(0)
    text = inflated(content.stream.read(min(PACKED, content.stream.size)), zlib.MAX_WBITS | 16)
    if not text:
        raise UnreadableHeader("is damaged: nothing can be decompressed")
    return content_of(io.BytesIO(text), len(text), LIMIT, complete=False)


def inflated(packed: bytes, window: int) -> bytes:
    """Return what a deflated stream gives before it ends, breaks, or grows too large."""
    inflate = zlib.decompressobj(window)
    text = b""
    for start in range(0, len(packed), 512):  # in pieces, so that the bytes before a damaged part are kept
        try:
            text += inflate.decompress(packed[start : start + 512], UNPACKED - len(text))
        except zlib.error:
            break
        if inflate.eof or len(text) >= UNPACKED:
            break
    return text


_ALIKE = 0.6
"""Similarity from which on the name of another file in the folder is suggested."""


def expect_file(name: str) -> None:
    """Hold the path of a file or folder to what can be read; nothing is read of it.

    Raises:
        UsageError: nothing is there, or it cannot be opened; names the file beside it that has the nearest name.
    """
    path = Path(name)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            os.scandir(path).close()
        elif stat.S_ISREG(mode):
            os.close(no_wait(name, os.O_RDONLY))
        else:
            raise UsageError(f"{quoted(name)} is not a file: it is a pipe, a socket or a device", hint="name a file")
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"there is no file {quoted(name)}", hint=_suggestion(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file can have this name"
        raise UsageError(f"cannot read the file {quoted(name)}: {reason}", hint="check the path") from error


def _suggestion(path: Path) -> str:
    folder = path.parent
    try:
        with os.scandir(folder) as entries:
            near = nearest(path.name, (entry.name for entry in entries), cutoff=_ALIKE)
    except OSError:
        return f"there is no folder {quoted(str(folder))}"
    return f"did you mean {quoted(str(folder / near))}?" if near else "check the path"
