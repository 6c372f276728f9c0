"""Marks of the folders below a folder of documents: by them a file that came or went is seen without listing files.

A file that is made, removed or renamed changes the time of its folder. Where that time differs, the names in that one
folder are compared, so that a file of another kind, or one that an editor made for a moment, does not count.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Collection, Mapping
from itertools import islice
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.storage.marks import settled

MOST_FOLDERS = 1000
"""Folders that are looked at, those nearest to the top first."""


def marks_of_folders(path: Path, suffixes: Collection[str]) -> dict[str, Json]:
    """Return, by the path of each folder below `path`, its time and the SHA-1 of the names in it that count: files with
    one of the suffixes, and folders. The time is 0 if it may not change with the next file."""
    found: dict[str, Json] = {}
    waiting = deque([""])
    while waiting and len(found) < MOST_FOLDERS:
        folder = waiting.popleft()
        try:
            status = (path / folder).stat()  # before the names: what comes between the two is seen
            names, inner = _names(path / folder, suffixes)
        except (OSError, UnicodeEncodeError):  # its files are rejected by the source, too
            continue
        time = status.st_mtime_ns if settled(status.st_mtime_ns, status.st_ctime_ns) else 0
        found[folder] = [time, names]
        waiting += [f"{folder}/{name}" if folder else name for name in inner]
    return found


def changed_folders(path: Path, marks: Mapping[str, Json], suffixes: Collection[str]) -> int:
    """Return how many of the folders have other names in them than when they were marked."""
    return sum(_changed(path / folder, mark, suffixes) for folder, mark in islice(marks.items(), MOST_FOLDERS))


def _changed(folder: Path, mark: Json, suffixes: Collection[str]) -> bool:
    time, names = mark
    try:
        return bool(folder.stat().st_mtime_ns != time and _names(folder, suffixes)[0] != names)
    except (OSError, ValueError):  # it is gone, or no folder
        return True


def _names(folder: Path, suffixes: Collection[str]) -> tuple[str, list[str]]:
    """The SHA-1 of the names in a folder that count, and the folders among them.

    Raises:
        OSError: it cannot be read.
        UnicodeEncodeError: a name is not UTF-8.
    """
    endings = tuple(suffixes)
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
    inner = sorted(entry.name for entry in visible if entry.is_dir(follow_symlinks=False))
    files = (entry.name for entry in visible if entry.name.lower().endswith(endings) or entry.is_symlink())
    text = "/".join(sorted({*inner, *files}))  # no name has a slash
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), inner
