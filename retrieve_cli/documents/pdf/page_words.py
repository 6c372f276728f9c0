"""Words of a PDF page with their places, as pdfium reads them."""

from __future__ import annotations

from typing import NamedTuple


class Word(NamedTuple):
    """A word, or the part of one that stands on one line.

    Places are points from the top left corner of the visible page as displayed: y grows downward, `x0 <= x1` and
    `y0 <= y1`, rotation and crop box applied. They may lie outside the page.
    """

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    """Font size in points as displayed."""
    bold: bool = False
    fixed: bool = False
    """True in a monospaced font."""
    turn: int = 0
    """Degrees clockwise from left-to-right in which the text runs on the displayed page: 0, 90, 180 or 270."""
