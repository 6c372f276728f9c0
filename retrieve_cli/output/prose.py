"""Text and numbers as people read them: on one line, in pieces of one kind, with three significant digits."""

from __future__ import annotations

from math import floor, isfinite, log10
from typing import Literal, NamedTuple

Kind = Literal["prose", "row", "code", "heading"]

_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x2060, 0xFEFF))
_TOKEN = "format:"  # noqa: S105  begins what an index holds of formats beside the text of a record


class TextPiece(NamedTuple):
    """Text of one kind, on one line."""

    text: str
    kind: Kind


def one_line(text: str) -> str:
    """Return a text with single blanks between its words, without invisible characters and tokens of formats."""
    if not text.isascii():
        text = text.translate(_INVISIBLE)
    words = text.split()
    return " ".join([word for word in words if not word.startswith(_TOKEN)] if _TOKEN in text else words)


def significant(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, without an exponent unless it is tiny or huge."""
    if not isfinite(value) or value == 0:
        return f"{value:g}"
    shown = float(f"{value:.{digits - 1}e}")
    exponent = floor(log10(abs(shown)))
    if not -5 <= exponent < 9:
        return f"{value:.{digits - 1}e}"
    return f"{shown:.{max(digits - 1 - exponent, 0)}f}"


def percent(share: float) -> str:
    """Return a share as `87 %`."""
    return f"{share * 100:.0f} %"
