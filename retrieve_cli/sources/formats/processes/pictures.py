"""Pictures from a process that is not trusted: a PNG file of its plainest kind, and nothing else."""

from __future__ import annotations

from struct import Struct
from zlib import crc32

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHUNK = Struct(">I4s")
_HEADER = Struct(">IIBBBBB")
_CHECK = Struct(">I")
_PLAIN = (8, 2, 0, 0, 0)
"""Red, green and blue with 8 bits each, deflated, filtered by row, not interlaced."""
_MOST_CHUNKS = 10_000
"""Parts of a file; Pillow writes pixels in parts of 64 KB or more."""
_WIDEST, _HIGHEST = 1 << 15, 1 << 13
"""Pixels: twice the size of four pages side by side."""


def checked(content: bytes) -> bytes:
    """Return a picture.

    Nothing but its header, its pixels and its end is in it (Portable Network Graphics, third edition, chapter 5): no
    text, no colour profile and no animation for a program that shows it. The pixels are not unpacked.

    Raises:
        ValueError: it is not such a file, or is too large.
    """
    if not content.startswith(_SIGNATURE):
        raise ValueError("not a PNG")
    place, names = len(_SIGNATURE), list[bytes]()
    while place < len(content) and len(names) <= _MOST_CHUNKS:
        name, place = _chunk(content, place)
        names.append(name)
    if place != len(content) or names[:1] != [b"IHDR"] or names[-1:] != [b"IEND"] or set(names[1:-1]) != {b"IDAT"}:
        raise ValueError("a PNG of other parts")
    return content


def _chunk(content: bytes, place: int) -> tuple[bytes, int]:
    """Return the name of a chunk and the place of the next one. Raises: ValueError."""
    start = place + _CHUNK.size
    if start > len(content):
        raise ValueError("a PNG that breaks off")
    size, name = _CHUNK.unpack_from(content, place)
    end = start + size
    if end + _CHECK.size > len(content):
        raise ValueError("a PNG that breaks off")
    if crc32(memoryview(content)[place + 4 : end]) != _CHECK.unpack_from(content, end)[0]:
        raise ValueError("a damaged PNG")
    if name == b"IHDR":
        _check_header(content[start:end])
    elif name == b"IEND" and size:
        raise ValueError("a PNG of other parts")
    return name, end + _CHECK.size


def _check_header(header: bytes) -> None:
    if len(header) != _HEADER.size:
        raise ValueError("a PNG of other parts")
    width, height, *kind = _HEADER.unpack(header)
    if not (0 < width <= _WIDEST and 0 < height <= _HIGHEST and tuple(kind) == _PLAIN):
        raise ValueError("a picture of another kind or size")
