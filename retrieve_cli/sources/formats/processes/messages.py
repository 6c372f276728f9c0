"""Messages between the process that asks for documents and pictures and one that parses and draws them.

request  a head as in `ReceivedRequest`; the file and its sidecar, which the child cannot open
answer   one for each request: a head with its form, its number and whether the child ends after it; a packed document,
         a PNG, message, hint and whether it is no document as JSON, or nothing
state    a file of 32 bytes that both have mapped: number of the request that was begun, page it is on; peak memory and
         page faults before the request, as the kernel counts them
"""

from __future__ import annotations

import json
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.layout import Mark
from retrieve_cli.contracts.page_words import Box
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.frames import framed

STATE = Struct("<QQ")
MEMORY = Struct("<QQ")
STATE_SIZE = STATE.size + MEMORY.size
DOCUMENT, PICTURE, REJECTED, OUT_OF_MEMORY = "document", "picture", "rejected", "memory"
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
            number, self.module, size, self.sha1.hex(), self.name, self.limits, rest, self.drawing, self.longest
        )
        return framed(json.dumps(asked).encode(), content + sidecar if sidecar else content)


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


def asked_of(head: list[Json]) -> ReceivedRequest:
    """Return the head of a request."""
    asked = ReceivedRequest(*head)
    drawing = None if asked.drawing is None else _drawing(*asked.drawing)
    return asked._replace(limits=ParsingLimits(*asked.limits), drawing=drawing)


def _drawing(pages: tuple[int, ...], marks: tuple[Json, ...]) -> Drawing:
    return Drawing(tuple(pages), tuple(Mark(Box(*box), *others) for box, *others in marks))
