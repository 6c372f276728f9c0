"""A folder of markdown and text files, read recursively in the order of their paths."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path

from retrieve_cli.contracts import Field, Json, Notice, Record, Refused
from retrieve_cli.errors import UsageError
from retrieve_cli.sources.fields import first, strings

KINDS = {".md": "markdown", ".markdown": "markdown", ".txt": "text"}

_FRONT_MATTER = re.compile(
    r"\ufeff?\s*^---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)


class FolderSource:
    """Every `.md`, `.markdown` and `.txt` file; the id is its path, the group its first folder or its own word."""

    kind = "docs"

    def __init__(self, path: Path, *, name_weight: float) -> None:
        """Raises: UsageError where `path` is no folder."""
        self.path = path
        self.location = str(path.resolve())
        self.name = path.resolve().name
        self._name_weight = name_weight
        if not path.is_dir():
            what = "is a file" if path.is_file() else "does not exist"
            hint = f"for a catalog: --catalog {path}" if path.is_file() else "check the path"
            raise UsageError(f"{path} {what}; --docs-dir takes a folder", hint=hint)

    @property
    def card(self) -> Mapping[str, Json]:
        return {"kind": self.kind, "extensions": sorted(KINDS), "name_weight": self._name_weight}

    def read(self) -> Iterator[Record | Refused | Notice]:
        others: Counter[str] = Counter()
        for item in self._walk(self.path, "", frozenset({os.path.realpath(self.path)})):
            if not isinstance(item, str):
                yield item
            elif (suffix := Path(item).suffix.lower()) in KINDS:
                yield from self._file(item)
            else:
                others[suffix or "no extension"] += 1
        if others:
            kinds = ", ".join(f"{suffix}: {count}" for suffix, count in others.most_common(8))
            yield Notice(
                self.name, f"{others.total()} files that are neither markdown nor text were left out ({kinds})"
            )

    def _walk(self, folder: Path, prefix: str, above: frozenset[str]) -> Iterator[str | Refused | Notice]:
        """Paths of files relative to the source, in order; hidden folders and links that lead back are left out."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield Refused(prefix or ".", 1, f"the folder cannot be read: {error.strerror}")
            return
        for entry in entries:
            path = prefix + entry.name
            if not entry.is_dir():
                if not entry.name.startswith("."):
                    yield path
            elif entry.name.startswith("."):
                yield Notice(path, "hidden folder left out")
            elif (real := os.path.realpath(entry.path)) in above:
                yield Notice(path, f"this link leads back to {real}, which is being read already: left out")
            else:
                yield from self._walk(Path(entry.path), path + "/", above | {real})

    def _file(self, path: str) -> Iterator[Record | Refused | Notice]:
        try:
            text = (self.path / path).read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            yield Refused(
                path, 1, f"it is not UTF-8 (byte 0x{byte:02x} at position {error.start}); convert it with iconv"
            )
            return
        except OSError as error:
            yield Refused(path, 1, f"it cannot be read: {error.strerror}")
            return
        matter, body, complaint = front_matter(text)
        if complaint:
            yield Notice(path, complaint)
        yield self._record(path, text, matter, body)

    def _record(self, path: str, text: str, matter: Mapping[str, Json], body: int) -> Record | Refused:
        if not any(char.isalnum() for char in text):
            return Refused(path, 1, "it has no text")
        if not text[body:].strip():
            body = 0  # nothing but front matter: its title and description are what can be found
        heading = _HEADING.search(text, body)
        title = first(strings(matter.get("title"))) or (heading.group(1) if heading else "") or Path(path).stem
        folders = path.split("/")[:-1]
        return Record(
            id=path,
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
_LARGEST = 2**53
"""Whole numbers beyond are not the same in every JSON reader; they are kept as strings."""
_SHOWN = frozenset({"title", "description", "url", "license", "keywords", "group"})


def front_matter(text: str) -> tuple[dict[str, Json], int, str]:
    """Metadata between `---` lines at the top, the position after them, and a complaint where it is no YAML mapping."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, 1 if text.startswith("\ufeff") else 0, ""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        value = yaml.load(match["yaml"], loader)  # noqa: S506  both are safe loaders
    except (yaml.YAMLError, ValueError) as error:
        return {}, 0, f"its front matter is not valid YAML ({str(error).splitlines()[0]}): indexed as text"
    if value is not None and not isinstance(value, dict):
        return {}, 0, "its front matter is no mapping of keys to values: indexed as text"
    try:
        return _plain(value or {}, iter(range(_MOST_VALUES))), match.end(), ""
    except (StopIteration, RecursionError):
        return {}, 0, f"its front matter unfolds to more than {_MOST_VALUES} values: indexed as text"


def _plain(value: Json, budget: Iterator[int]) -> Json:
    """YAML's dates, numbers and keys as JSON can hold them; takes one from the budget for each value.

    Raises:
        StopIteration: there are more values than the budget has (a few lines of YAML can unfold to billions).
    """
    next(budget)
    if isinstance(value, dict):
        return {_text(key): _plain(part, budget) for key, part in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(part, budget) for part in value]
    if value is None or isinstance(value, bool):
        return value
    small = isinstance(value, int) and abs(value) < _LARGEST
    return value if small or (isinstance(value, float) and isfinite(value)) else _text(value)


def _text(value: Json) -> str:
    """A string that UTF-8 can hold."""
    return str(value).encode("utf-8", "replace").decode()
