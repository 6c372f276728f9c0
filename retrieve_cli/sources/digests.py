"""Digests of what a record is read from: of a catalog's line, of a folder's file.

They hold what decides the record besides the configuration: the bytes, and the names that end up in it. Built into an
index, they tell a sync what it may keep and a query whether a hit is still what its source says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from retrieve_cli.storage.manifest import canonical

BOM = b"\xef\xbb\xbf"
"""What some programs put before the first line; no part of it."""


def line_digest(name: str, id_prefix: str) -> Callable[[bytes], bytes]:
    """SHA-1 of a line of the catalog of that name, white space around it left out."""
    begun = _begun("catalog", name, id_prefix)

    def digest(line: bytes) -> bytes:
        hashed = begun.copy()
        hashed.update(line.strip(b" \t\r\n"))  # what JSON calls white space
        return hashed.digest()

    return digest


def file_digest(path: str, id_prefix: str, content: bytes) -> bytes:
    """SHA-1 of a file's bytes under its path within the folder."""
    hashed = _begun("file", path, id_prefix)
    hashed.update(content)
    return hashed.digest()


def file_stamp(path: Path) -> list[int]:
    """Size, and times of the last change of content and of inode in nanoseconds: all equal, and nobody wrote to it."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _begun(*names: str) -> hashlib._Hash:
    """A hash of names to which bytes can be added: JSON says itself where it ends, so nothing can move over."""
    return hashlib.sha1(canonical(list(names)), usedforsecurity=False)
