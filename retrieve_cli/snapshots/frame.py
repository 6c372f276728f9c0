"""The end of a zstd frame in a file, from its block headers (RFC 8878, section 3.1.1).

A decoder treats a truncated frame as one that continues later, and does not tell the position of the next byte. The
block headers do: each has the length of its block, and marks the last one.
"""

from __future__ import annotations

from typing import BinaryIO

from retrieve_cli.snapshots.form import BadSnapshot

_MAGIC = b"\x28\xb5\x2f\xfd"
_DESCRIPTOR = 0b100
"""The content has a checksum, an unknown length, and no dictionary."""
_HEADER = len(_MAGIC) + 2
"""Bytes before the first block: the descriptor and the size of the window follow the magic number."""
_BLOCK_HEADER, _CHECKSUM = 3, 4
_RUN, _RESERVED = 1, 3
"""Kinds of blocks: one byte repeated, and a reserved one."""


class Frame:
    """The bytes of a file that is one frame, for a decoder."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises: BadSnapshot: the file does not begin with a frame, or with one of another kind."""
        self._file = file
        head = self._bytes(_HEADER)
        if not head.startswith(_MAGIC):
            raise BadSnapshot("it is not compressed by zstd")
        if len(head) < _HEADER or head[len(_MAGIC)] != _DESCRIPTOR:
            raise BadSnapshot("its zstd frame is not one of a snapshot")
        self._left = _HEADER
        """Bytes until the next block header, or until the end."""
        self._last = False
        self._ended = False
        file.seek(0)

    def read(self, size: int) -> bytes:
        """Return some of the bytes, at most `size`; none at the end."""
        if not self._left and not self._ended:
            return self._next_block()
        piece = self._bytes(min(size, self._left))
        self._left -= len(piece)
        return piece

    def _next_block(self) -> bytes:
        """Return the header of the next block; behind the last one, the checksum."""
        if self._last:
            self._ended = True
            checksum = self._bytes(_CHECKSUM)
            if len(checksum) < _CHECKSUM:
                raise BadSnapshot("it is cut short")
            return checksum
        header = self._bytes(_BLOCK_HEADER)
        if len(header) < _BLOCK_HEADER:
            raise BadSnapshot("it is cut short")
        value = int.from_bytes(header, "little")
        self._last, kind = bool(value & 1), value >> 1 & 3
        if kind == _RESERVED:
            raise BadSnapshot("a block of it is damaged")
        self._left = 1 if kind == _RUN else value >> 3
        return header

    def check_end(self) -> None:
        """Raises: BadSnapshot: the file continues after the frame, or the frame was not read to its end."""
        if not self._ended or self._left:
            raise BadSnapshot("it is cut short, or its blocks are damaged")
        if self._bytes(1):
            raise BadSnapshot("there is data after its end")

    def _bytes(self, size: int) -> bytes:
        """Return bytes of the file, fewer at its end. Raises: BadSnapshot: they cannot be read."""
        try:
            return self._file.read(size)
        except OSError as error:
            raise BadSnapshot(f"it cannot be read ({error.strerror})") from error
