"""Stamps of files: a process that has loaded the files answers for a command only while they are unchanged."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import retrieve_cli

Marks = Mapping[str, tuple[int, ...] | None]
_CODE = (".py", ".yaml", ".tsv", ".html")
_INSTALLED = ("site-packages", "dist-packages")


def program() -> list[str]:
    """Return the files of the program, and the folders whose time changes when a package is installed."""
    folder = Path(retrieve_cli.__file__).parent
    own = [str(path) for path in folder.rglob("*") if path.suffix in _CODE]
    return [*own, *(entry for entry in sys.path if entry.endswith(_INSTALLED))]


def mapped() -> list[str]:
    """Return the files that this process has mapped: libraries, weights, and an index."""
    paths: dict[str, None] = {}
    for line in Path("/proc/self/maps").read_bytes().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith(b"/"):
            paths[os.fsdecode(fields[5])] = None
    return list(paths)


def marks(paths: Iterable[str]) -> Marks:
    """Return a mark of each file: another one whenever the file changes."""
    return {path: _mark(path) for path in paths}


def changed(before: Marks) -> str | None:
    """Return the first file that is another one now."""
    return next((path for path, mark in before.items() if mark is None or _mark(path) != mark), None)


def _mark(path: str) -> tuple[int, ...] | None:
    try:
        state = os.stat(path)  # noqa: PTH116  hundreds of them before each answer
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns
