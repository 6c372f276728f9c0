"""Marks of the folders below a folder of documents: they reveal added and removed files without listing all files.

Creating, removing or renaming a file changes the time of its folder. If that time differs, the names in that one folder
are compared, so files of other kinds and temporary files of editors do not count, nor do excluded files.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.storage.durable import settled

if TYPE_CHECKING:
    from retrieve_cli.sources.folders.ignore_rules import IgnoreRules

MOST_FOLDERS = 1000
"""Maximum number of folders to check, those nearest to the top first."""


def counts(path: str, suffixes: Collection[str]) -> bool:
    """Return True if a file may be a document by its name: it has one of the suffixes, or none (but a number alone is
    a temporary file of an editor)."""
    name = path.rpartition("/")[2].lower().removesuffix(".gz")
    return name.endswith(tuple(suffixes)) or not ("." in name or name.isdigit())


def marks_of_folders(path: Path, suffixes: Collection[str], rules: IgnoreRules) -> dict[str, Json]:
    """Return, by the path of each folder below `path`, its time and the SHA-1 of the names in it that count (documents,
    folders) and of its `.gitignore`. The time is 0 if it may not change with the next file, or if there are rules."""
    marks: dict[str, Json] = {}
    waiting = deque([""])
    while waiting and len(marks) < MOST_FOLDERS:
        folder = waiting.popleft()
        try:
            status = (path / folder).stat()  # before the names, so that a change between the two is noticed
            names, inner, with_rules = _names(path, folder, suffixes, rules)
        except (OSError, UnicodeEncodeError):  # its files are rejected by the source, too
            continue
        lasting = settled(status.st_mtime_ns, status.st_ctime_ns) and not with_rules
        marks[folder] = [status.st_mtime_ns if lasting else 0, names]
        waiting += [f"{folder}/{name}" if folder else name for name in inner]
    return marks


def changed_folders(
    path: Path, marks: Mapping[str, Json], suffixes: Callable[[], Collection[str]], rules: Callable[[], IgnoreRules]
) -> int:
    """Return how many of the folders have other names or rules in them than when they were marked."""
    rules = cache(rules)

    def changed(folder: str, time: Json, names: Json) -> bool:
        try:
            same = (path / folder).stat().st_mtime_ns == time
            return not same and _names(path, folder, suffixes(), rules())[0] != names
        except (OSError, ValueError):  # the folder is gone, or is now a file
            return True

    return sum(changed(folder, *mark) for folder, mark in islice(marks.items(), MOST_FOLDERS))


def _names(path: Path, folder: str, suffixes: Collection[str], rules: IgnoreRules) -> tuple[str, list[str], bool]:
    """Return the SHA-1 of the names in a folder that count, the folders among them, and True if it has rules.

    Raises:
        OSError: the folder cannot be read.
        UnicodeEncodeError: a name is not UTF-8.
    """
    prefix = f"{folder}/" if folder else ""
    with os.scandir(path / folder) as entries:
        visible = [(entry, entry.is_dir(follow_symlinks=False)) for entry in entries if not entry.name.startswith(".")]
    read = [(each, inner) for each, inner in visible if not rules.skips(prefix + each.name, folder=inner)]
    inner = sorted(entry.name for entry, is_folder in read if is_folder)
    files = [entry for entry, is_folder in read if not is_folder]
    counted = (each.name for each in files if counts(each.name, suffixes) or each.is_symlink())
    text = "/".join(sorted({*inner, *counted}))  # names cannot contain a slash
    own = rules.content(folder)
    named = text.encode() + b"/" + own if own else text.encode()
    return hashlib.sha1(named, usedforsecurity=False).hexdigest(), inner, bool(own)
