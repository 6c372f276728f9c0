"""Digests of the input of a record: a catalog's line or a folder's file.

A digest covers everything that decides the record except the configuration: the bytes, and the names that become part
of it. The index stores the digests. A sync uses them to find records that it can reuse, and a query to check whether a
hit is still current.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Card
from retrieve_cli.errors import UsageError
from retrieve_cli.storage.manifest import canonical
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

SIDECAR = 64 * files.MB
"""Maximum bytes of a sidecar."""
WHITE = b" \t\r\n"
"""The characters that JSON defines as white space."""
BOM = b"\xef\xbb\xbf"
"""Byte order mark that some programs write before the first line; it is not part of the line."""


def line_digest(name: str, id_prefix: str, rules: str = "") -> Hash:
    """Return the beginning of the SHA-1 of a line or row of the catalog `name`, which the line continues, without the
    `WHITE` around it. `rules` is the digest of the rules by which the catalog is read."""
    return hashlib.sha1(canonical(["catalog", name, id_prefix, rules]), usedforsecurity=False)


def document_digest(path: str, id_prefix: str, card: Card, sha1: bytes, sidecar: Path | None) -> bytes:
    """Return the SHA-1 of a document: its path within the folder, the card of its parser, empty for texts, the SHA-1 of
    its bytes, and the bytes of its sidecar if it has one.

    Raises:
        OSError: the sidecar cannot be read.
    """
    beside = "" if sidecar is None else files.sha1_of(sidecar, limit=SIDECAR).hex()
    names = ["document", path, id_prefix, dict(card), sha1.hex(), beside]
    return hashlib.sha1(canonical(names), usedforsecurity=False).digest()


def sidecar_of(path: Path, card: Card) -> Path | None:
    """Return the file with the text of the pages of a document, if its parser takes one and there is one."""
    ending = card.get("sidecar")
    sidecar = path.with_name(f"{path.name}{ending}") if isinstance(ending, str) else None
    return sidecar if sidecar is not None and sidecar.is_file() else None


def file_stamp(path: Path) -> list[int]:
    """Return size, and times of the last change of content and of inode in nanoseconds: equal if it is unchanged."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def absolute(path: Path) -> Path:
    """Return the path from the root. Links in it are kept, so that a source follows when its link is changed.

    Raises:
        UsageError: the name is not UTF-8, so a manifest cannot store it.
    """
    place = os.path.abspath(path)  # noqa: PTH100  resolve() would follow links, absolute() would keep `..`
    try:
        place.encode()
    except UnicodeEncodeError as error:
        shown = place.encode("utf-8", "replace").decode()
        raise UsageError(f"the name of {shown} is not UTF-8", hint="rename it, or its folder") from error
    return Path(place)
