"""Division of words that pdfium joined although their parts are far apart.

pdfium adds a space between two characters only if the second one is further on in the same line. A running head that
is drawn after its page number, at the other side of the page, continues the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.sources.formats.pdf.raw import RTL, reading_boxes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pieces = tuple[list["Span"], NDArray[np.intp], NDArray[np.float32], NDArray[np.float32]]
    """Spans, the number of the word of each piece, and the boxes of their first and of their last characters."""

_WIDE = 0.75
"""Width of a character, in font sizes, above which the characters of a word are looked at one by one."""
_GAP = 0.35
"""Gap within a word, in font sizes: more than a word space is never part of a word."""
_SHIFT = 0.7
"""Vertical distance within a word, in font sizes: a word shifted more than a superscript is on another line."""
_MOST = 20_000
"""Characters of a page that are looked at one by one."""

Span = tuple[int, int]


def split_words(
    heads: NDArray[np.float32],
    tails: NDArray[np.float32],
    *,
    characters: str,
    spans: list[Span],
    sizes: NDArray[np.float32],
    turns: NDArray[np.int16],
    boxes_of: Callable[[Sequence[int]], NDArray[np.float32]],
) -> Pieces | None:
    """Return the words, and the pieces of each word whose parts are far apart; None if there is nothing to split.

    `heads` and `tails` are the boxes of their first and last characters.
    """
    first, last = reading_boxes(heads, turns), reading_boxes(tails, turns)
    lengths = np.array([end - start for start, end in spans])
    backward = last[:, 0] < first[:, 0] - _GAP * sizes
    wide = np.maximum(first[:, 2], last[:, 2]) - np.minimum(first[:, 0], last[:, 0]) > (_WIDE * lengths + 0.5) * sizes
    shifted = np.abs(last[:, 1] + last[:, 3] - first[:, 1] - first[:, 3]) > 2 * _SHIFT * sizes
    cuts: dict[int, list[int]] = {}
    left = _MOST
    for number in np.flatnonzero(backward | wide | shifted).tolist():
        start, end = spans[number]
        leftward = bool(RTL.search(characters, start, end))
        if leftward and not wide[number] and not shifted[number]:
            continue
        left -= end - start
        if left < 0:
            break
        boxes = reading_boxes(boxes_of(range(start, end)), np.repeat(turns[number : number + 1], end - start))
        before, after = (boxes[1:], boxes[:-1]) if leftward else (boxes[:-1], boxes[1:])
        size = float(sizes[number])
        apart = (after[:, 0] - before[:, 2] > _GAP * size) | (after[:, 0] < before[:, 0] - _GAP * size)
        lifted = np.abs(after[:, 1] + after[:, 3] - before[:, 1] - before[:, 3]) > 2 * _SHIFT * size
        if positions := np.flatnonzero(apart | lifted).tolist():
            cuts[number] = [start + position + 1 for position in positions]
    return _pieces(spans, cuts, boxes_of) if cuts else None


def _pieces(
    spans: list[Span], cuts: dict[int, list[int]], boxes_of: Callable[[Sequence[int]], NDArray[np.float32]]
) -> Pieces:
    pieces: list[Span] = []
    source: list[int] = []
    for number, (start, end) in enumerate(spans):
        bounds = [start, *cuts.get(number, ()), end]
        pieces += pairwise(bounds)
        source += [number] * (len(bounds) - 1)
    heads, tails = boxes_of([start for start, _ in pieces]), boxes_of([end - 1 for _, end in pieces])
    return pieces, np.array(source, dtype=np.intp), heads, tails
