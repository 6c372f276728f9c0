"""`sums.pkl`: the sums of the blocks of a generation's files, beside its manifest.

They are not part of the generation: its id and its answers are the same without them. If the sum of a block does not
match, the file's SHA-1 decides whether it is damaged. Generations of earlier versions have no sums; the next sync adds
them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import durable, pickles
from retrieve_cli.storage.mapped import BLOCK, block_sums
from retrieve_cli.untrusted.files import open_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.storage.mapped import Sums

FILE = "sums.pkl"
_AT_ONCE = 8 * BLOCK
"""Bytes of a file that are in memory at a time."""


def write(folder: Path, names: Iterable[str]) -> None:
    """Write the sums of some files of a folder, and wait until they are on disk. Raises: OSError."""
    keep(folder, _of(folder, names))


def keep(folder: Path, sums: Mapping[str, Sums]) -> None:
    """Write sums by the names of their files, and wait until they are on disk. Raises: OSError."""
    new = folder / f".{FILE}.{os.getpid()}"
    files = {name: sums[name].view(np.int64) for name in sorted(sums)}
    try:
        pickles.dump({"block": BLOCK, "files": files}, new)
        durable.sync(new)
        new.replace(folder / FILE)
    finally:
        new.unlink(missing_ok=True)


def digest_and_sums(path: Path) -> tuple[str, Sums]:
    """Return the SHA-1 of a file, 40 hex digits, and the sums of its blocks, in one pass. Raises: OSError."""
    hashed = hashlib.sha1(usedforsecurity=False)
    parts = [np.empty(0, np.uint64)]
    buffer = np.empty(_AT_ONCE, np.uint8)
    with open_regular(path) as file:
        while size := _read_into(file, buffer):
            hashed.update(buffer[:size].data)
            parts.append(block_sums(buffer[:size]))
    return hashed.hexdigest(), np.concatenate(parts)


def _read_into(file: BufferedReader, buffer: NDArray[np.uint8]) -> int:
    """Fill a buffer from a file; return the number of bytes, which is smaller only at the end of the file."""
    done = 0
    while done < len(buffer) and (size := file.readinto(buffer[done:].data)):
        done += size
    return done


def read(folder: Path) -> Mapping[str, Sums] | None:
    """Return the sums of the files of a folder by name; None without sums, an empty mapping if damaged."""
    try:
        place = folder / FILE
        if place.is_symlink():  # read before it is known whether the user agreed to links out of the folder
            return {}
        stored = pickles.load(place)
        if stored["block"] != BLOCK:
            return {}
        return {name: sums.view(np.uint64) for name, sums in stored["files"].items()}
    except (IndexCorrupt, KeyError, TypeError, AttributeError, ValueError):
        return {} if os.path.lexists(folder / FILE) else None


def fit(folder: Path, names: Iterable[str]) -> bool:
    """Return True if the sums of all these files exist and match them. Raises: OSError."""
    stored = read(folder) or {}
    computed = _of(folder, names)
    return stored.keys() == computed.keys() and all(np.array_equal(stored[name], computed[name]) for name in computed)


def _of(folder: Path, names: Iterable[str]) -> dict[str, Sums]:
    return {name: digest_and_sums(folder / name)[1] for name in sorted(names)}
