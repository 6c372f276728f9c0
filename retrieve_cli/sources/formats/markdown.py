"""Markdown and plain text: the text unchanged, and the metadata in front of it.

A text that is composed block by block, with a blank line between two of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Block, Kind
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.untrusted.files import decode, has_controls, label_of

_FRONT_MATTER = re.compile(
    r"\ufeff?\s*^---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_HEADING = re.compile(r"^#{1,6}[ \t]+([^\s#].*)$", re.MULTILINE)
_MOST_VALUES = 10_000
_LARGEST = 2**53
"""Whole numbers beyond this limit differ between JSON readers; they are kept as strings."""


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001  as all parsers
    """Return the text of a file, with its front matter as metadata and its first heading as the title.

    Raises:
        BadDocument: it is not a text.
    """
    text, notices = decoded(content)
    matter, body, complaint = front_matter(text)
    if not text[body:].strip():
        body = 0  # only front matter: make its title and description searchable
    notices = (*notices, complaint) if complaint else notices
    heading = _HEADING.search(text, body)
    title = heading[1].strip().rstrip("#").rstrip() if heading else ""
    return Parsed(text, metadata=matter, title=title, body_start=body, notices=notices)


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


def utf8(content: bytes) -> str:
    """Return the text of a file, with its byte order mark if it has one.

    Raises:
        BadDocument: it is not UTF-8.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte 0x{content[error.start]:02x} at position {error.start}"
        raise BadDocument(f"it is not UTF-8 ({place}); convert it with iconv") from error


def decoded(content: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file, with its byte order mark if it has one; with a notice if it is not in UTF-8.

    Raises:
        BadDocument: it is not a text.
    """
    try:
        return content.decode("utf-8"), ()
    except UnicodeDecodeError:
        found = None if has_controls(content) else decode(content)
    if found is None:
        raise BadDocument("it is not a text: it has bytes that no encoding of texts has")
    text, encoding = found
    return text.removeprefix("\ufeff"), (f"read as {label_of(encoding)}, not UTF-8",)


class GrowingText:
    """Text and blocks of a document so far."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.length = 0
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def _put(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)


class BlockText(GrowingText):
    """Text and blocks of a document, in order."""

    def add(self, text: str, kind: Kind, *, level: int = 0, anchor: str = "") -> None:
        """Add a block; nothing if it is empty."""
        if not text:
            return
        if self.blocks:
            self._put("\n\n")
        start = self.length
        self._put(text)
        self.blocks.append(Block(start, self.length, kind, level, anchor))

    def extend(self, line: str) -> None:
        """Add a line to the last block."""
        self._put("\n" + line)
        self.blocks[-1] = self.blocks[-1]._replace(end=self.length)
