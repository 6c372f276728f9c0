"""Atomic publication of a fetched catalog, with its SHA-1 in a file beside it.

The file is replaced first and its digest last, so a matching digest marks a finished publication. After a crash between
the two the digest does not match, `intact` reports that, and the next fetch downloads everything.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from shlex import quote

from retrieve_cli.errors import SourceFailed
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import sha1_file


def intact(target: Path) -> str:
    """Return the target's SHA-1 if the file beside it agrees; empty if either is missing or they differ."""
    try:
        promised = _digest_path(target).read_text("utf-8", "replace").partition(" ")[0]
        return promised if promised == sha1_file(target) else ""
    except OSError:
        return ""


def publish(target: Path, pieces: Iterable[bytes]) -> str:
    """Replace the target by the pieces in one step, write its SHA-1 beside it, and return the SHA-1.

    The target does not change before the last piece: if the pieces raise an error, it stays unchanged. Content that is
    the same is not written again.

    Raises:
        SourceFailed: the file cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sha1 = _replace(target, pieces)
        beside, line = _digest_path(target), f"{sha1}  {target.name}\n"
        if not (beside.is_file() and beside.read_bytes() == line.encode()):
            durable.replace(beside, line)
    except OSError as error:
        hint = f"check the permissions and the free space: df -h {quote(str(target.parent))}"
        raise SourceFailed(f"cannot write {target}: {error.strerror}", hint=hint) from error
    return sha1


def sweep(folder: Path) -> None:
    """Remove the partial files of interrupted fetches. No other fetch into the folder may be running."""
    for pattern in (".*.part", ".*.new"):
        for path in folder.glob(pattern):
            with suppress(OSError):
                path.unlink()


def _replace(target: Path, pieces: Iterable[bytes]) -> str:
    """Put the pieces in the target's place and return their SHA-1."""
    new = target.with_name(f".{target.name}.part")
    digest = hashlib.sha1(usedforsecurity=False)
    try:
        with new.open("wb") as file:
            for piece in pieces:
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        # Compare the content, not the digest file, which may be outdated after a crash.
        if not (target.is_file() and sha1_file(target) == digest.hexdigest()):
            new.replace(target)
            durable.sync(target.parent)
    finally:
        with suppress(OSError):
            new.unlink()
    return digest.hexdigest()


def _digest_path(target: Path) -> Path:
    """Return the path of the file that holds the SHA-1 of `target` in the format of sha1sum."""
    return target.with_name(target.name + ".sha1")
