"""Marks of the folders below a folder of documents: they reveal added and removed files without listing all files.

Creating, removing or renaming a file changes the time of its folder. If that time differs, the names in that one folder
are compared, so files of other kinds and temporary files of editors do not count.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.storage.file_stamps import settled

MOST_FOLDERS = 1000
"""Maximum number of folders to check, those nearest to the top first."""


def marks_of_folders(path: Path, suffixes: Collection[str]) -> dict[str, Json]:
    """Return, by the path of each folder below `path`, its time and the SHA-1 of the names in it that count: files with
    one of the suffixes, and folders. The time is 0 if it may not change with the next file."""
    marks: dict[str, Json] = {}
    waiting = deque([""])
    while waiting and len(marks) < MOST_FOLDERS:
        folder = waiting.popleft()
        try:
            status = (path / folder).stat()  # before the names, so that a change between the two is noticed
            names, inner = _names(path / folder, suffixes)
        except (OSError, UnicodeEncodeError):  # its files are rejected by the source, too
            continue
        time = status.st_mtime_ns if settled(status.st_mtime_ns, status.st_ctime_ns) else 0
        marks[folder] = [time, names]
        waiting += [f"{folder}/{name}" if folder else name for name in inner]
    return marks


def changed_folders(path: Path, marks: Mapping[str, Json], suffixes: Callable[[], Collection[str]]) -> int:
    """Return how many of the folders have other names in them than when they were marked."""
    return sum(_changed(path / folder, mark, suffixes) for folder, mark in islice(marks.items(), MOST_FOLDERS))


def _changed(folder: Path, mark: Json, suffixes: Callable[[], Collection[str]]) -> bool:
    time, names = mark
    try:
        return bool(folder.stat().st_mtime_ns != time and _names(folder, suffixes())[0] != names)
    except (OSError, ValueError):  # the folder is gone, or is now a file
        return True


def _names(folder: Path, suffixes: Collection[str]) -> tuple[str, list[str]]:
    """Return the SHA-1 of the names in a folder that count, and the folders among them.

    Raises:
        OSError: the folder cannot be read.
        UnicodeEncodeError: a name is not UTF-8.
    """
    endings = tuple(suffixes)
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
    inner = sorted(entry.name for entry in visible if entry.is_dir(follow_symlinks=False))
    files = (entry.name for entry in visible if entry.name.lower().endswith(endings) or entry.is_symlink())
    text = "/".join(sorted({*inner, *files}))  # names cannot contain a slash
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), inner
