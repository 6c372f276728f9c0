"""Recognition of a Word document by its first bytes."""

from __future__ import annotations

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of a compound file: Word 97, or an encrypted package."""
_HEADER = b"PK\x03\x04"
_TYPES = b"[Content_Types].xml"
_MARKS = (b"wordprocessingml.document.main", b"wordprocessingml.template.main", b"ms-word.")
"""Types of the main part of documents and templates; those with macros are `application/vnd.ms-word…`."""


def looks_like_docx(head: bytes) -> bool:
    """Return True if a file begins as a Word document does: `head` is its first 4 KB.

    A ZIP file is one if a member of it is in `word/`, or if its content types name a Word document.
    """
    if not head.startswith(_HEADER):
        return False
    start = 0
    while start >= 0:
        length = int.from_bytes(head[start + 26 : start + 28], "little")
        member = head[start + 30 : start + 30 + length]
        if member.startswith((b"word/", b"word\\")):
            return True
        if member == _TYPES and any(mark in _unpacked(head, start, length) for mark in _MARKS):
            return True
        start = head.find(_HEADER, start + 30)
    return False


def _unpacked(head: bytes, start: int, length: int) -> bytes:
    """Return the beginning of the member whose header is at `start`."""
    import zlib

    body = start + 30 + length + int.from_bytes(head[start + 28 : start + 30], "little")
    if head[start + 8 : start + 10] == b"\0\0":
        return head[body:]
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(head[body:], 2**16)
    except zlib.error:
        return b""
