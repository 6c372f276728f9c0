"""Pictures from a process that is not trusted."""

from __future__ import annotations

import struct
from zlib import crc32

_PLAIN = (8, 2, 0, 0, 0)
"""Red, green and blue with 8 bits each, deflated, filtered by row, not interlaced."""
_WIDEST, _HIGHEST = 1 << 15, 1 << 13
"""Pixels: twice the size of four pages side by side."""


def checked_picture(content: bytes) -> bytes:
    """Return a PNG with nothing in it but its header, its pixels and its end. Raises: ValueError."""
    names, start = [], 8
    while start + 12 <= len(content) and b"IEND" not in names:
        size, name = struct.unpack_from(">I4s", content, start)
        end = start + 8 + size
        _require(end + 4 <= len(content), "a PNG that breaks off")
        sound = crc32(memoryview(content)[start + 4 : end]) == int.from_bytes(content[end : end + 4])
        _require(sound and (size > 0) == (name != b"IEND"), "a damaged PNG")
        names.append(name)
        start = end + 4
    whole = content.startswith(b"\x89PNG\r\n\x1a\n") and start == len(content)
    pixels = names[:1] == [b"IHDR"] and names[-1:] == [b"IEND"] and set(names[1:-1]) == {b"IDAT"}
    _require(whole and pixels, "a PNG of other parts")
    width, height, *kind = struct.unpack_from(">IIBBBBB", content, 16)
    fits = 0 < width <= _WIDEST and 0 < height <= _HIGHEST and tuple(kind) == _PLAIN
    _require(fits and content[8:12] == b"\0\0\0\r", "a picture of another kind or size")
    return content


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
