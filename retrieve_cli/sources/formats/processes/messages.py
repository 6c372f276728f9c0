"""Messages between a process that asks for documents and one that reads them.

A request is pickled: its sender is trusted. An answer is a byte for its form, then its content, and its sender is not
trusted, because a document may have taken over a parser in C: nothing is executed to read it, and every size, type,
number and offset is checked.
"""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Block, DocumentPage, Dropped, Layout, Mark, Words
from retrieve_cli.sources.formats.formats import MB, ParsingLimits
from retrieve_cli.untrusted.foreign_json import foreign_json

BEGUN, PAGE, ROWS, DONE, REJECTED, OUT_OF_MEMORY = b"b", b"p", b"r", b"d", b"x", b"m"
"""Forms: a request has arrived; number of a page that is read; some rows of a table. The others end an answer: a
document or a picture; message, hint, and whether it is no document at all; nothing."""
LONGEST = 256 * MB
"""Most bytes of an answer."""
_FARTHEST = 1e7
"""Largest coordinate, in points: the edge of a page of 3.5 km."""


class ParseRequest(NamedTuple):
    """A file to read, and how."""

    module: str
    """Module with the function `parse`, with `render` for pictures, with `parts` for tables."""
    path: Path
    sha1: bytes
    name: str
    limits: ParsingLimits
    max_bytes: int
    sidecar: Path | None = None
    sidecar_bytes: int = 0
    pages: tuple[int, ...] | None = None
    """Draws these pages, with marks, instead of parsing the file."""
    marks: tuple[Mark, ...] = ()
    table: tuple[str, str] | None = None
    """Kind of a table and its sheet: reads its rows instead of parsing the file."""


class _Structure(msgspec.Struct):
    """A document without its text and the places of its words."""

    title: str
    metadata: msgspec.Raw
    notices: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    blocks: tuple[Block, ...] | None
    pages: tuple[DocumentPage, ...]
    in_lines: bool


def packed(parsed: Parsed) -> bytes:
    """Return a document as bytes: its structure as JSON, its text, and of each word start, end and page, (3, n) uint32,
    and box, (n, 4) float32. Lone surrogates, which UTF-8 cannot encode, become `?`."""
    layout, words = parsed.layout or Layout(()), None
    structure: dict[str, Any] = {name: getattr(parsed, name) for name in ("title", "notices", "dropped")}
    structure |= {"metadata": dict(parsed.metadata), "blocks": None if parsed.layout is None else layout.blocks}
    structure |= {"pages": layout.pages, "in_lines": layout.in_lines}
    if layout.words is not None:
        words = [part.tobytes() for part in layout.words.arrays()]
    head = json.dumps(structure, ensure_ascii=False, allow_nan=False, default=str)
    return msgspec.msgpack.encode((*(part.encode("utf-8", "replace") for part in (head, parsed.text)), words))


def unpacked(content: bytes) -> Parsed:
    """Return the document that was packed. Raises: ValueError: the bytes are not one."""
    head, body, places = msgspec.msgpack.decode(content, type=tuple[bytes, bytes, tuple[bytes, ...] | None])
    found = msgspec.json.decode(head, type=_Structure)
    metadata, text, layout = foreign_json(bytes(found.metadata)), str(body, "utf-8"), None
    blocks, pages, size = found.blocks or (), found.pages, len(text)
    inside, before = isinstance(metadata, dict), 0
    for block in blocks:
        inside &= before <= block.start <= block.end <= size and 0 <= block.level <= 8
        before = block.end
    for last, page in zip((DocumentPage(0, "", 0, 0, 0, 0), *pages), pages, strict=False):
        inside &= last.index < page.index < 2**32 and last.start <= page.start <= page.end <= size
        inside &= 0 <= page.width <= _FARTHEST and 0 <= page.height <= _FARTHEST
    if not inside or (found.blocks is None and (pages or places)):
        raise ValueError("a block or a page in the wrong place")
    if found.blocks is not None:
        words = None if places is None else _words(*places, size=size, last=pages[-1].index if pages else 2**32)
        layout = Layout(blocks, pages, words, in_lines=found.in_lines)
    return Parsed(text, layout, metadata, found.title, found.notices, found.dropped)


def _words(*columns: bytes, size: int, last: int) -> Words:
    """Return words. Raises: ValueError unless they are in order, within the text and on its pages."""
    import numpy as np

    if [4 * len(column) for column in columns] != [len(columns[-1])] * 3 + [4 * len(columns[-1])]:
        raise ValueError("columns of different lengths")
    starts, ends, pages = (np.frombuffer(column, np.uint32).astype(np.int64) for column in columns[:3])
    ordered = np.all(starts <= ends) and np.all(ends <= size) and np.all(np.diff(starts) >= 0)
    placed = np.all(pages >= 1) and np.all(pages <= last)
    if not (ordered and placed and np.all(np.abs(np.frombuffer(columns[3], np.float32)) <= _FARTHEST)):
        raise ValueError("a word in the wrong place")
    whole = [array("I", column) for column in columns[:3]]
    return Words.of(whole[0], whole[1], whole[2], array("f", columns[3]))
