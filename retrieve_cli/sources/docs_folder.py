"""A folder of Markdown and text files, read recursively in the order of their paths."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path

from retrieve_cli.contracts import Field, Item, Json, Notice, Record, Refused, SourceKind
from retrieve_cli.errors import UsageError
from retrieve_cli.sources.digests import BOM, file_digest
from retrieve_cli.sources.fields import LONGEST_NAME, first, strings
from retrieve_cli.sources.folder_marks import marks_of_folders
from retrieve_cli.sources.places import absolute
from retrieve_cli.untrusted import files

KINDS = {".md": "markdown", ".markdown": "markdown", ".txt": "text"}

_FRONT_MATTER = re.compile(
    r"\ufeff?\s*^---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_HEADING = re.compile(r"^#{1,6}[ \t]+([^\s#].*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A name in a folder."""

    path: str
    folder: bool
    link: bool
    place: tuple[int, int]
    """Device and inode of the file or folder, or of the target of a link."""


class FolderSource:
    """Every `.md`, `.markdown` and `.txt` file; the id is the path, the group the first folder or the front matter's.

    Symbolic links are followed only with `follow_links`: they may lead out of the folder.
    """

    kind: SourceKind = "docs"

    def __init__(
        self,
        path: Path,
        *,
        name_weight: float,
        name: str = "",
        id_prefix: str = "",
        max_mb: float = 64.0,
        follow_links: bool = False,
    ) -> None:
        """Raises: UsageError if `path` is not a folder."""
        self.path = path
        self._place = absolute(path)
        self.name = name or self._place.name
        self._name_weight = name_weight
        self._id_prefix = id_prefix
        self._max_bytes = int(max_mb * files.MB)
        self._follow_links = follow_links
        try:
            folder = stat.S_ISDIR(path.stat().st_mode)
        except OSError as error:
            raise UsageError(f"cannot read the folder {path}: {error.strerror}", hint="check the path") from error
        if not folder:
            raise UsageError(f"{path} is a file; --docs-dir takes a folder", hint=f"for a catalog: --catalog {path}")

    @property
    def card(self) -> Mapping[str, Json]:
        return {"kind": self.kind, "extensions": sorted(KINDS), "name_weight": self._name_weight}

    @property
    def origin(self) -> Mapping[str, Json]:
        return {"kind": self.kind, "name": self.name, "path": str(self._place), "id_prefix": self._id_prefix}

    def fetch(self) -> None:
        """Do nothing: the folder is local."""

    def stamp(self) -> None:
        """Return None: a query checks the file of each hit instead."""

    def folders(self) -> Mapping[str, Json]:
        """Return the marks of the folders inside."""
        return marks_of_folders(self.path, KINDS)

    def scan(self) -> Iterator[Item | Refused | Notice]:
        others: Counter[str] = Counter()
        empty: list[str] = []
        for item in self._walk():
            if not isinstance(item, str):
                yield item
            elif Path(item).name.startswith("."):
                others["hidden"] += 1
            elif (suffix := Path(item).suffix.lower()) in KINDS:
                read = self._file(item)
                if read is None:
                    empty.append(item)
                else:
                    yield read
            else:
                others[suffix or "no extension"] += 1
        if empty:
            yield Notice(self.name, f"skipped {_counted(empty, 'empty file')}")
        if others:
            kinds = ", ".join(f"{suffix} {count}" for suffix, count in others.most_common(8))
            yield Notice(self.name, f"{_skipped(others)} ({kinds})")

    def size(self, most: int) -> int:
        """Return the bytes of all files that would be read, or a larger number than `most` if there are more.

        Raises:
            OSError: the folder cannot be read.
        """
        total = 0
        for item in self._walk():
            if isinstance(item, str) and Path(item).suffix.lower() in KINDS and total <= most:
                with suppress(OSError):  # an unreadable file is rejected when it is read
                    total += (self.path / item).stat(follow_symlinks=self._follow_links).st_size
        return total

    def count(self) -> int:
        """Return the number of files that would be read.

        Raises:
            OSError: the folder cannot be read.
        """
        return sum(isinstance(item, str) and Path(item).suffix.lower() in KINDS for item in self._walk())

    def _walk(self) -> Iterator[str | Refused | Notice]:
        """Yield paths of files relative to the source, in order of their parts. Each real folder is read once."""
        top = self.path.stat()
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
                real = os.path.realpath(self.path / item.path)
                yield Notice(item.path, f"skipped: this link leads back to {real}, which is already read")
            else:
                seen.add(item.place)
                waiting += self._entries(item.path + "/")
        if links:
            yield Notice(self.name, _not_followed(links))

    def _entries(self, prefix: str) -> list[_Entry | Refused]:
        """Return the entries of a folder, last name first; an entry without a status is rejected."""
        listed: list[_Entry | Refused] = []
        try:
            entries = sorted(os.scandir(self.path / prefix), key=lambda entry: entry.name, reverse=True)
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

    def _file(self, path: str) -> Item | Refused | None:
        """Return the file as an item; None if it contains only white space."""
        try:
            content = files.read_bytes(self.path / path, limit=self._max_bytes)
        except OSError as error:
            return Refused(path, 1, f"it cannot be read: {error.strerror}")
        if not content.removeprefix(BOM).strip():
            return None
        return Item(file_digest(path, self._id_prefix, content), path, 1, partial(self._read, path, content))

    def _read(self, path: str, content: bytes) -> Iterator[Record | Refused | Notice]:
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = content[error.start]
            yield Refused(
                path, 1, f"it is not UTF-8 (byte 0x{byte:02x} at position {error.start}); convert it with iconv"
            )
            return
        matter, body, complaint = front_matter(text)
        if complaint:
            yield Notice(path, complaint)
        yield self._record(path, text, matter, body)

    def _record(self, path: str, text: str, matter: Mapping[str, Json], body: int) -> Record | Refused:
        if not any(char.isalnum() for char in text):
            return Refused(path, 1, "it has no text")
        if not text[body:].strip():
            body = 0  # only front matter: make its title and description searchable
        title = first(strings(matter.get("title"))) or _heading(text, body) or Path(path).stem
        title = title[:LONGEST_NAME]
        folders = path.split("/")[:-1]
        return Record(
            id=self._id_prefix + path,
            name=title,
            text=text,
            kind="markdown" if KINDS[Path(path).suffix.lower()] == "markdown" else "text",
            source=path,
            body_start=body,
            description=first(strings(matter.get("description"))),
            url=first(strings(matter.get("url"))) or None,
            license=first(strings(matter.get("license"))) or None,
            keywords=tuple(strings(matter.get("keywords")) or strings(matter.get("tags"))),
            group=first(strings(matter.get("group"))) or (folders[0] if folders else None),
            fields=(Field("name", title, self._name_weight), Field("text", text[body:])),
            metadata={key: value for key, value in matter.items() if key not in _SHOWN},
        )


_MOST_VALUES = 10_000
_MOST_NAMED = 8
"""Number of skipped links or empty files that a notice names."""
_LARGEST = 2**53
"""Whole numbers beyond this limit differ between JSON readers; they are kept as strings."""
_SHOWN = frozenset({"title", "description", "url", "license", "keywords", "group"})


def _skipped(others: Counter[str]) -> str:
    """Return the sentence about files that are not documents."""
    count, hidden = others.total(), ", or are hidden" if others["hidden"] else ""
    return f"skipped {count} file{'s' * (count != 1)} that are not Markdown or text{hidden}"


def _not_followed(links: list[str]) -> str:
    """Return the sentence about symbolic links that are skipped."""
    return f"skipped {_counted(links, 'symbolic link')}; docs.follow_links: true follows them"


def _counted(paths: list[str], what: str) -> str:
    """Return the number of paths and the names of the first ones."""
    shown = ", ".join(_text(path) for path in paths[:_MOST_NAMED])
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return f"{len(paths)} {what}{'s' * (len(paths) != 1)} ({shown}{more})"


def _heading(text: str, body: int) -> str:
    """Return the first heading of a document, without its marks."""
    match = _HEADING.search(text, body)
    return match.group(1).strip().rstrip("#").rstrip() if match else ""


def front_matter(text: str) -> tuple[dict[str, Json], int, str]:
    """Return metadata between `---` lines at the top, the position after them, and a complaint if it is invalid."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, 1 if text.startswith("\ufeff") else 0, ""
    from retrieve_cli.untrusted import yaml_text  # import yaml only for files with front matter

    try:
        value = yaml_text.load(match["yaml"], values=_MOST_VALUES)
    except ValueError as error:
        return {}, 0, f"its front matter is not valid YAML ({error}): indexed as text"
    if value is not None and not isinstance(value, dict):
        return {}, 0, "its front matter is not a mapping of keys to values: indexed as text"
    return _plain(value or {}), match.end(), ""


def _plain(value: Json) -> Json:
    """Return YAML's dates, numbers and keys in a form that JSON can hold."""
    if isinstance(value, dict):
        return {_text(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, bool):
        return value
    small = isinstance(value, int) and abs(value) < _LARGEST
    return value if small or (isinstance(value, float) and isfinite(value)) else _text(value)


def _text(value: Json) -> str:
    """Return a string that UTF-8 can encode."""
    return str(value).encode("utf-8", "replace").decode()
