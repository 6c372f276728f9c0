"""Messages between the process that asks for documents and pictures and one that parses and draws them.

request  a head as in `ReceivedRequest`; the file and its sidecar, which the child cannot open
answer   one for each request: a head with its form, its number and whether the child ends after it; a packed document,
         a PNG, message, hint and whether it is no document as JSON, or nothing; before it, the rows of a table
state    a file of 32 bytes that both have mapped: number of the request that was begun, page it is on; peak memory and
         page faults before the request, as the kernel counts them

Documents as bytes between the process that parses one and the process that asked for it.

The process that parses is not trusted: a parser in C may have been taken over by the document. So the bytes are JSON, a
text and plain arrays; nothing is executed to read them, and every type, number and offset is checked.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Block, DocumentPage, Dropped, Kind, Layout, Mark, Words
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.frames import framed

STATE = struct.Struct("<QQ")
MEMORY = struct.Struct("<QQ")
STATE_SIZE = STATE.size + MEMORY.size
DOCUMENT, PICTURE, REJECTED, OUT_OF_MEMORY, ROWS = "document", "picture", "rejected", "memory", "rows"
"""Forms of an answer."""
LONGEST_REQUEST = 16 << 20
"""Most bytes of the head of a request."""
LONGEST_HEAD = 200
"""Most bytes of the head of an answer."""
LONGEST_ANSWER = 256 << 20
"""Most bytes of an answer, which the parent holds until the document is asked for."""
LONGEST_PICTURE = 64 << 20
"""Most bytes of a picture: more than the pixels of four pages of noise."""
IDLE_S = 60.0
"""Seconds after which a child without work ends, if its parent has not ended it before."""


class Drawing(NamedTuple):
    """Pages to draw, and the marks on them."""

    pages: tuple[int, ...]
    marks: tuple[Mark, ...]


class ParseRequest(NamedTuple):
    """A file to parse or to draw, and how."""

    module: str
    """Module with the function `parse`, or `render` for a drawing."""
    path: Path
    sha1: bytes
    name: str
    limits: ParsingLimits
    max_bytes: int
    sidecar: Path | None = None
    sidecar_bytes: int = 0
    """Size of the largest sidecar."""
    drawing: Drawing | None = None
    """Draws these pages instead of parsing the file."""
    table: tuple[str, str] | None = None
    """Kind of a table and its sheet: reads the rows instead of parsing the file."""

    @property
    def form(self) -> str:
        """Form of the answer if all goes well."""
        return DOCUMENT if self.drawing is None else PICTURE

    @property
    def longest(self) -> int:
        """Most bytes of the answer."""
        return LONGEST_ANSWER if self.drawing is None else LONGEST_PICTURE

    def packed(self, number: int) -> bytes:
        """Return the request as a message, with the content of its files.

        Raises:
            OSError: a file cannot be opened, or is too large.
        """
        content = files.read_bytes(self.path, limit=self.max_bytes)
        sidecar = None if self.sidecar is None else files.read_bytes(self.sidecar, limit=self.sidecar_bytes)
        size, rest = len(content), None if sidecar is None else len(sidecar)
        asked = ReceivedRequest(
            *(number, self.module, size, self.sha1.hex(), self.name, self.limits, rest),
            *(self.drawing, self.longest, self.table),
        )
        return framed(msgspec.json.encode(asked), content + sidecar if sidecar else content)


class ReceivedRequest(NamedTuple):
    """A request as it arrives, before the content of its files."""

    number: int
    module: str
    size: int
    sha1: str
    name: str
    limits: ParsingLimits
    sidecar: int | None
    """Size of the sidecar, None without one."""
    drawing: Drawing | None
    longest: int
    """Most bytes of the answer."""
    table: tuple[str, str] | None


class AnswerHead(Struct):
    """Head of an answer."""

    form: str
    number: int
    last: bool


_SIZES = struct.Struct("<QQQ")
"""Bytes of the structure, bytes of the text, number of words."""
_PER_WORD = 28
"""Bytes of a word: start, end and page, (3,) uint32, and its box, (4,) float32."""
_LARGEST = 2**53
"""Whole numbers beyond this limit differ between JSON readers."""
_DEEPEST = 32
"""Levels of metadata."""
_Offset = Annotated[int, Meta(ge=0, le=_LARGEST)]
_Name = Annotated[str, Meta(max_length=1000)]
"""An anchor, or the label of a page."""
_FARTHEST = 1e7
"""Largest coordinate, in points: the edge of a page of 3.5 km."""
_Side = Annotated[float, Meta(ge=0, le=_FARTHEST)]
_Block = tuple[_Offset, _Offset, Kind, Annotated[int, Meta(ge=0, le=8)], _Name, _Name]
_Page = tuple[_Offset, _Name, _Side, _Side, _Offset, _Offset, bool, bool]
_Dropped = tuple[_Name, _Name, _Offset]


class _Structure(Struct):
    """A document without its text and the places of its words, with checked types."""

    title: str
    metadata: dict[str, Any]
    body_start: _Offset
    notices: list[str]
    dropped: list[_Dropped]
    words: bool
    blocks: list[_Block] | None
    pages: list[_Page]


def packed(parsed: Parsed) -> bytes:
    """Return a document as bytes. Lone surrogates, which UTF-8 cannot encode, become `?`.

    Raises:
        ValueError: its metadata has a value that JSON cannot hold.
    """
    layout = parsed.layout
    words = None if layout is None else layout.words
    structure = {
        "title": parsed.title,
        "metadata": dict(parsed.metadata),
        "body_start": parsed.body_start,
        "notices": list(parsed.notices),
        "dropped": parsed.dropped,
        "blocks": None if layout is None else layout.blocks,
        "pages": () if layout is None else layout.pages,
        "words": words is not None,
    }
    head = json.dumps(structure, ensure_ascii=False, allow_nan=False, default=str).encode("utf-8", "replace")
    text = parsed.text.encode("utf-8", "replace")
    arrays = () if words is None else words.arrays()
    count = len(arrays[0]) if arrays else 0
    return b"".join((_SIZES.pack(len(head), len(text), count), head, text, *(part.tobytes() for part in arrays)))


def unpacked(content: bytes) -> Parsed:
    """Return the document that was packed.

    Raises:
        ValueError: the bytes are not a packed document.
    """
    view = memoryview(content)
    if len(view) < _SIZES.size:
        raise ValueError("too short")
    head_size, text_size, count = _SIZES.unpack_from(view)
    if len(view) != _SIZES.size + head_size + text_size + _PER_WORD * count:
        raise ValueError("sizes that do not add up")
    head, rest = view[_SIZES.size :][:head_size], view[_SIZES.size + head_size :]
    try:
        found = msgspec.json.decode(head, type=_Structure)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    text, words = str(rest[:text_size], "utf-8"), rest[text_size:]
    _check(found.metadata)
    _require(found.body_start <= len(text), "a body outside the text")
    layout = None
    if found.blocks is not None:
        pages = tuple(_pages(found.pages, len(text)))
        last = pages[-1].index if pages else _LARGEST
        placed = _words(words, len(text), last) if found.words else None
        layout = Layout(tuple(_blocks(found.blocks, len(text))), pages, placed)
    if layout is None or layout.words is None:
        _require(not words, "words without a layout")
    dropped = tuple(Dropped(*row) for row in found.dropped)
    return Parsed(text, layout, found.metadata, found.title, found.body_start, tuple(found.notices), dropped)


def _blocks(rows: list[_Block], size: int) -> Iterable[Block]:
    """Yield blocks. Raises: ValueError unless they are in order, do not overlap and lie within the text."""
    before = 0
    for row in rows:
        block = Block(*row)
        _require(before <= block.start <= block.end <= size, "a block in the wrong place")
        before = block.end
        yield block


def _pages(rows: list[_Page], size: int) -> Iterable[DocumentPage]:
    """Yield pages. Raises: ValueError unless they are in order and lie within the text."""
    last = before = 0
    for row in rows:
        page = DocumentPage(*row)
        _require(page.index > last, "pages out of order")
        _require(before <= page.start <= page.end <= size, "a page in the wrong place")
        last, before = page.index, page.start
        yield page


def _words(content: memoryview, size: int, last_page: int) -> Words:
    """Return words. Raises: ValueError unless they are in order and lie within the text and on its pages."""
    import numpy as np

    count = len(content) // _PER_WORD
    whole, floats = array("I"), array("f")
    whole.frombytes(content[: 12 * count])
    floats.frombytes(content[12 * count :])
    starts, ends, pages = np.asarray(whole, np.uint32).reshape(3, count).astype(np.int64)
    inside = bool(np.all(starts <= ends) and np.all(ends <= size) and np.all(np.diff(starts) >= 0))
    _require(inside, "a word in the wrong place")
    _require(bool(np.all(pages >= 1) and np.all(pages <= last_page)), "a word on a page that is not there")
    _require(bool(np.all(np.abs(np.asarray(floats)) <= _FARTHEST)), "a word outside any page")
    return Words.of(whole[:count], whole[count : 2 * count], whole[2 * count :], floats)


def _check(value: Json, level: int = 0) -> None:
    """Check metadata. Raises: ValueError if it is nested too deeply, or has impossible numbers."""
    _require(level <= _DEEPEST, "metadata nested too deeply")
    _require(not isinstance(value, int) or abs(value) <= _LARGEST, "a number that is too large")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check(part, level + 1)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
