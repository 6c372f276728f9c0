"""A fetched catalog on the disk: there whole or not at all, with its SHA-1 beside it.

The file is replaced first and its digest last, so the digest is the mark of a finished publication: after a crash
between the two it does not match, `intact` says so, and the next fetch starts afresh.
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
    """The target's SHA-1 where the file beside it says the same; empty where either is missing or they disagree."""
    try:
        promised = _digest_path(target).read_text("utf-8", "replace").partition(" ")[0]
        return promised if promised == sha1_file(target) else ""
    except OSError:
        return ""


def publish(target: Path, pieces: Iterable[bytes]) -> str:
    """Puts the pieces in the target's place in one step, then its SHA-1, which is returned, beside it.

    Nothing of the target changes before the last piece: an error that the pieces raise leaves it as it was. The same
    content leaves it alone.

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
        hint = f"check the rights and the space left: df -h {quote(str(target.parent))}"
        raise SourceFailed(f"cannot write {target}: {error.strerror}", hint=hint) from error
    return sha1


def sweep(folder: Path) -> None:
    """Removes what fetches that were killed left half-written. No other fetch into the folder may be under way."""
    for pattern in (".*.part", ".*.new"):
        for path in folder.glob(pattern):
            with suppress(OSError):
                path.unlink()


def _replace(target: Path, pieces: Iterable[bytes]) -> str:
    """SHA-1 of the pieces, which are in the target's place then."""
    new = target.with_name(f".{target.name}.part")
    digest = hashlib.sha1(usedforsecurity=False)
    try:
        with new.open("wb") as file:
            for piece in pieces:
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        # Held to its content, not to its digest file, which a crash may have left a step behind.
        if not (target.is_file() and sha1_file(target) == digest.hexdigest()):
            new.replace(target)
            durable.sync(target.parent)
    finally:
        with suppress(OSError):
            new.unlink()
    return digest.hexdigest()


def _digest_path(target: Path) -> Path:
    """The file beside `target` that holds its SHA-1 as sha1sum writes it."""
    return target.with_name(target.name + ".sha1")
