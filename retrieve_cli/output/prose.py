"""Text as people read it: on one line, in pieces of one kind."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["prose", "row", "code", "heading"]

_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x2060, 0xFEFF))
_TOKEN = "format:"  # noqa: S105  begins what an index holds of formats beside the text of a record


class Piece(NamedTuple):
    """Text of one kind, on one line."""

    text: str
    kind: Kind


def one_line(text: str) -> str:
    """Return a text with single blanks between its words, without invisible characters and tokens of formats."""
    if not text.isascii():
        text = text.translate(_INVISIBLE)
    words = text.split()
    return " ".join([word for word in words if not word.startswith(_TOKEN)] if _TOKEN in text else words)
