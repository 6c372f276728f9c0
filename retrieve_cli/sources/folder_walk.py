"""Walk over a folder: the paths of its files in the order of their parts, and what is skipped or cannot be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retrieve_cli.contracts import Notice, Refused

MOST_NAMED = 8
"""Number of skipped links or empty files that a notice names."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A name in a folder."""

    path: str
    folder: bool
    link: bool
    place: tuple[int, int]
    """Device and inode of the file or folder, or of the target of a link."""


class FolderWalk:
    """Walk over a folder. Symbolic links are followed only with `follow_links`: they may lead out of the folder."""

    def __init__(self, path: Path, name: str, *, follow_links: bool) -> None:
        """`name` is that of the source, for notices."""
        self._path = path
        self._name = name
        self._follow_links = follow_links

    def __iter__(self) -> Iterator[str | Refused | Notice]:
        """Yield paths of files relative to the folder, in order of their parts. Each real folder is read once.

        Raises:
            OSError: the folder itself cannot be read.
        """
        top = self._path.stat()
        seen = {(top.st_dev, top.st_ino)}
        links: list[str] = []
        waiting = self._entries("")
        while waiting:
            item = waiting.pop()
            if not isinstance(item, _Entry):
                yield item
            elif item.link and not self._follow_links:
                links.append(item.path)
            elif not item.folder:
                yield item.path
            elif Path(item.path).name.startswith("."):
                yield Notice(item.path, "skipped: hidden folder")
            elif item.place in seen:
                real = os.path.realpath(self._path / item.path)
                yield Notice(item.path, f"skipped: this link leads back to {real}, which is already read")
            else:
                seen.add(item.place)
                waiting += self._entries(item.path + "/")
        if links:
            skipped = counted(links, "symbolic link")
            yield Notice(self._name, f"skipped {skipped}; docs.follow_links: true follows them")

    def _entries(self, prefix: str) -> list[_Entry | Refused]:
        """Return the entries of a folder, last name first; an entry without a status is rejected."""
        listed: list[_Entry | Refused] = []
        try:
            entries = sorted(os.scandir(self._path / prefix), key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            return [Refused(prefix or ".", 1, f"the folder cannot be read: {error.strerror}")]
        for entry in entries:
            path = prefix + entry.name
            try:
                path.encode()
                listed.append(self._entry(path, entry))
            except UnicodeEncodeError:
                listed.append(Refused(_text(path), 1, "its name is not UTF-8; rename it"))
            except OSError as error:
                listed.append(Refused(path, 1, f"it cannot be read: {error.strerror}"))
        return listed

    def _entry(self, path: str, entry: os.DirEntry[str]) -> _Entry:
        """Return an entry with its status. Raises: OSError if it is a dangling link and links are followed."""
        link = entry.is_symlink()
        status = entry.stat(follow_symlinks=self._follow_links)
        return _Entry(path, stat.S_ISDIR(status.st_mode), link, (status.st_dev, status.st_ino))


def counted(paths: list[str], what: str) -> str:
    """Return the number of paths and the names of the first ones."""
    shown = ", ".join(_text(path) for path in paths[:MOST_NAMED])
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return f"{len(paths)} {what}{'s' * (len(paths) != 1)} ({shown}{more})"


def _text(value: str) -> str:
    """Return a string that UTF-8 can encode."""
    return value.encode("utf-8", "replace").decode()
