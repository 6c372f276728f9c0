"""Messages between the process that asks for documents and pictures and one that parses and draws them.

parent -> child   size (4 bytes), a request as JSON. The end of the pipe: the child ends
child  -> parent  one answer for each request: its form, 1 if the child ends after it, number and size; its content
state             a file of 32 bytes that both have mapped: number of the request that was begun, page it is on;
                  peak memory and page faults before the request, as the kernel counts them
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.documents.limits import Limits
from retrieve_cli.layout.marks import Mark
from retrieve_cli.layout.words import Box

SIZE = Struct("<I")
ANSWER = Struct("<c?QQ")
STATE = Struct("<QQ")
MEMORY = Struct("<QQ")
STATE_SIZE = STATE.size + MEMORY.size
DOCUMENT, PICTURE, REJECTED, OUT_OF_MEMORY = b"D", b"P", b"R", b"M"
"""Forms of an answer: a packed document; a PNG; message, hint, and whether it is no document as JSON; nothing."""
LONGEST_REQUEST = 16 << 20
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


class Request(NamedTuple):
    """A file to parse or to draw, and how."""

    module: str
    """Module with the function `parse`, or `render` for a drawing."""
    path: Path
    sha1: bytes
    name: str
    limits: Limits
    max_bytes: int
    sidecar: Path | None = None
    sidecar_bytes: int = 0
    """Size of the largest sidecar."""
    drawing: Drawing | None = None
    """Draws these pages instead of parsing the file."""

    @property
    def form(self) -> bytes:
        """Form of the answer if all goes well."""
        return DOCUMENT if self.drawing is None else PICTURE

    @property
    def longest(self) -> int:
        """Most bytes of the answer."""
        return LONGEST_ANSWER if self.drawing is None else LONGEST_PICTURE

    def packed(self, number: int) -> bytes:
        """Return the request as a message."""
        value = {
            "number": number,
            "module": self.module,
            "path": _text(self.path),
            "sha1": self.sha1.hex(),
            "name": self.name,
            "limits": self.limits._asdict(),
            "max_bytes": self.max_bytes,
            "sidecar": None if self.sidecar is None else _text(self.sidecar),
            "sidecar_bytes": self.sidecar_bytes,
            "drawing": self.drawing,
        }
        body = json.dumps(value).encode()
        return SIZE.pack(len(body)) + body


def unpacked(body: bytes) -> tuple[int, Request]:
    """Return the number of a request and the request."""
    value: dict[str, Json] = json.loads(body)
    sidecar = value["sidecar"]
    request = Request(
        value["module"],
        _path(value["path"]),
        bytes.fromhex(value["sha1"]),
        value["name"],
        Limits(**value["limits"]),
        value["max_bytes"],
        None if sidecar is None else _path(sidecar),
        value["sidecar_bytes"],
        None if value["drawing"] is None else _drawing(*value["drawing"]),
    )
    return value["number"], request


def _drawing(pages: list[int], marks: list[Json]) -> Drawing:
    return Drawing(tuple(pages), tuple(Mark(Box(*box), *others) for box, *others in marks))


def _text(path: Path) -> str:
    """Return an absolute path, of whose bytes each is a character: not every name is UTF-8."""
    return os.fsencode(path.absolute()).decode("latin-1")


def _path(text: str) -> Path:
    return Path(os.fsdecode(text.encode("latin-1")))
