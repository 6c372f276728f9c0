"""Segments of a page: words that follow one another on one line without a wide gap.

The layout of a page is found on segments instead of words: there are five times fewer, and none of them reaches over
the gap between two columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.sources.formats.pdf.directions import RTL, reading_boxes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.sources.formats.pdf.page_words import PageWords

_GAP = 0.8
"""Gap between two words, in font sizes, that ends a segment: more than a word space, less than a gap of columns."""
_OVERLAP = 0.35
"""Share of the lower word's height by which two words of one line overlap at least."""
_JUMP = 1.6
"""Ratio of font sizes above which two words are not of one segment: an initial beside its line."""


class Segment(NamedTuple):
    """Words `first` to `last - 1` of a page; places as its reader sees them, see `directions.reading_boxes`."""

    x0: float
    y0: float
    x1: float
    y1: float
    first: int
    last: int
    size: float
    bold: bool
    fixed: bool
    chars: int
    rtl: bool = False
    table: int = -1
    """Number of the table that it replaces; -1 for text."""

    @property
    def height(self) -> float:
        return self.y1 - self.y0


def segments_of(words: PageWords, taken: NDArray[np.bool_] | None = None) -> Mapping[int, Sequence[Segment]]:
    """Return the segments of a page by the turn of their text, without the words that are `taken` by tables."""
    count = len(words.texts)
    if not count:
        return {}
    boxes = reading_boxes(words.boxes, words.turns)
    rtl = np.array([bool(RTL.search(text)) for text in words.texts]) if RTL.search(" ".join(words.texts)) else None
    starts = np.flatnonzero(np.concatenate([[True], _breaks(words, boxes, rtl, taken)]))
    lengths = np.array(list(map(len, words.texts)))
    columns = (
        np.minimum.reduceat(boxes[:, 0], starts).tolist(),
        np.minimum.reduceat(boxes[:, 1], starts).tolist(),
        np.maximum.reduceat(boxes[:, 2], starts).tolist(),
        np.maximum.reduceat(boxes[:, 3], starts).tolist(),
        starts.tolist(),
        [*starts[1:].tolist(), count],
        np.maximum.reduceat(words.sizes, starts).round(2).tolist(),
        np.logical_and.reduceat(words.bold, starts).tolist(),
        np.logical_and.reduceat(words.fixed, starts).tolist(),
        np.add.reduceat(lengths, starts).tolist(),
        [False] * len(starts) if rtl is None else (2 * np.add.reduceat(lengths * rtl, starts) > 0).tolist(),
    )
    turned: dict[int, list[Segment]] = {}
    left_out = [False] * len(starts) if taken is None else taken[starts].tolist()
    turns = words.turns[starts].tolist()
    segments = map(partial(tuple.__new__, Segment), zip(*columns, repeat(-1)))  # no call of Python per segment
    for segment, turn, out in zip(segments, turns, left_out, strict=True):
        if not out:
            turned.setdefault(turn, []).append(segment)
    return turned


def _breaks(
    words: PageWords, boxes: NDArray[np.float32], rtl: NDArray[np.bool_] | None, taken: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Return for each word but the first one if it begins a segment, (n - 1,)."""
    before, after = boxes[:-1], boxes[1:]
    size, smaller = np.maximum(words.sizes[1:], words.sizes[:-1]), np.minimum(words.sizes[1:], words.sizes[:-1])
    ahead, behind = after[:, 0] - before[:, 2], before[:, 0] - after[:, 2]
    backward = after[:, 0] < before[:, 0] - 0.1 * size
    if rtl is not None:
        backward &= ~(rtl[1:] | rtl[:-1])
    overlap = np.minimum(after[:, 3], before[:, 3]) - np.maximum(after[:, 1], before[:, 1])
    lower = np.minimum(after[:, 3] - after[:, 1], before[:, 3] - before[:, 1])
    breaks: NDArray[np.bool_] = (
        (np.maximum(ahead, behind) > _GAP * size)
        | backward
        | (overlap < _OVERLAP * lower)
        | (words.turns[1:] != words.turns[:-1])
        | (size > _JUMP * smaller)
    )
    if taken is not None:
        breaks |= taken[1:] != taken[:-1]
    return breaks
