"""`sums.pkl`: the sums of the blocks of a generation's files, beside its manifest.

They are no part of the generation: its id and its answers are the same without them, and a file whose sums say that it
is damaged is only believed to be if its SHA-1 says so too. Generations of earlier versions have none; the next sync
adds them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import durable, pickles
from retrieve_cli.storage.mapped import BLOCK, MappedFile, block_sums

if TYPE_CHECKING:
    from retrieve_cli.storage.mapped import Sums

FILE = "sums.pkl"


def write(folder: Path, names: Iterable[str]) -> None:
    """Write the sums of some files of a folder, and wait until they are on the disk. Raises: OSError."""
    new = folder / f".{FILE}.{os.getpid()}"
    try:
        pickles.dump({"block": BLOCK, "files": _of(folder, names)}, new)
        durable.sync(new)
        new.replace(folder / FILE)
    finally:
        new.unlink(missing_ok=True)


def read(folder: Path) -> Mapping[str, Sums] | None:
    """Return the sums of the files of a folder by name; None if there are none, and of no file if they are damaged."""
    try:
        stored = pickles.load(folder / FILE)
        if stored["block"] != BLOCK:
            return {}
        return {name: sums.view(np.uint64) for name, sums in stored["files"].items()}
    except (IndexCorrupt, KeyError, TypeError, AttributeError, ValueError):
        return {} if os.path.lexists(folder / FILE) else None


def fit(folder: Path, names: Iterable[str]) -> bool:
    """Return True if there are sums of all these files, and they are theirs. Raises: OSError."""
    there = read(folder) or {}
    now = _of(folder, names)
    return there.keys() == now.keys() and all(np.array_equal(there[name], now[name].view(np.uint64)) for name in now)


def _of(folder: Path, names: Iterable[str]) -> dict[str, Sums]:
    return {name: block_sums(MappedFile(folder / name).data).view(np.int64) for name in sorted(names)}
