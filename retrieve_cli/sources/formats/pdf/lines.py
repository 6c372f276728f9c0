"""Lines of a column, and the segments of a page that they are made of: words on one line without a wide gap.

The layout of a page is found on segments instead of words: there are five times fewer, and none of them reaches over
the gap between two columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, repeat
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.sources.formats.pdf.words import RTL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.sources.formats.pdf.words import Boxes, PageWords

_GAP = 0.8  # gap in font sizes that ends a segment
_OVERLAP_OF_WORDS, _OVERLAP = 0.35, 0.5
"""Share of the lower one's height by which two words, or segments, of one line overlap at least."""
_JUMP = 1.6
"""Ratio of sizes above which a word is not of its neighbours' segment: an initial, which belongs to the first line."""


class LinePart(NamedTuple):
    """Words `first` to `last - 1` of a page; places as its reader sees them, see `reading_boxes`."""

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
    table: int = -1  # number of the table that it replaces; -1 for text

    @property
    def height(self) -> float:
        return self.y1 - self.y0


class Line(NamedTuple):
    """A line of text, or a table in place of one; places as its reader sees them."""

    x0: float
    y0: float
    x1: float
    y1: float
    segments: tuple[LinePart, ...]
    size: float
    bold: bool
    fixed: bool
    rtl: bool
    chars: int
    column: int  # number of the column on the page, in reading order
    left: float
    right: float  # edges of the column
    turn: int

    @property
    def table(self) -> int:
        """Number of the table; -1 for text."""
        return self.segments[0].table

    def words(self) -> list[int]:
        """Return the numbers of its words."""
        return [number for segment in self.segments for number in range(segment.first, segment.last)]


def lines_of(segments: Sequence[LinePart], *, column: int, turn: int) -> list[Line]:
    """Return the lines of a column from top to bottom."""
    edges = min(segment.x0 for segment in segments), max(segment.x1 for segment in segments)
    return [line_of(row, (column, *edges, turn)) for row in _rows(segments)]


def _rows(segments: Sequence[LinePart]) -> list[list[LinePart]]:
    usual = median(segment.height for segment in segments)

    def bottom(segment: LinePart) -> float:
        initial = segment.chars <= 2 and segment.height > _JUMP * usual
        return segment.y0 + usual if initial else segment.y1

    rows: list[list[LinePart]] = []
    top = end = 0.0
    longest = 0
    for segment in sorted(segments, key=lambda segment: (segment.y0 + bottom(segment), segment.x0)):
        y0, y1 = segment.y0, bottom(segment)
        alone = segment.table >= 0 or (rows and rows[-1][0].table >= 0)
        if rows and not alone and min(y1, end) - max(y0, top) >= _OVERLAP * min(y1 - y0, end - top):
            rows[-1].append(segment)
        else:
            rows.append([segment])
            longest = 0
        if segment.chars > longest:
            top, end, longest = y0, y1, segment.chars
    return rows


def line_of(row: list[LinePart], place: tuple[int, float, float, int]) -> Line:
    """Return the line of segments; `place` is its column, the edges of the column, and the turn of the text."""
    if len(row) == 1:
        (main,) = row
        return Line(*main[:4], (main,), main.size, main.bold, main.fixed, main.rtl, main.chars, *place)
    main = max(row, key=lambda segment: (segment.chars, -segment.x0))
    rtl = sum(segment.chars if segment.rtl else -segment.chars for segment in row) > 0
    box = (
        min(segment.x0 for segment in row),
        min(segment.y0 for segment in row),
        max(segment.x1 for segment in row),
        max(segment.y1 for segment in row),
    )
    ordered = tuple(_leftward(row)) if rtl else tuple(sorted(row, key=attrgetter("x0", "first")))
    bold, fixed = all(segment.bold for segment in row), all(segment.fixed for segment in row)
    return Line(*box, ordered, main.size, bold, fixed, rtl, sum([segment.chars for segment in row]), *place)


def _leftward(row: Sequence[LinePart]) -> Iterator[LinePart]:
    """Yield segments from right to left, but neighbours without letters of such a script from left to right."""
    leftward = sorted(row, key=lambda segment: (-segment.x1, segment.first))
    for rtl, group in groupby(leftward, key=attrgetter("rtl")):
        yield from list(group)[:: 1 if rtl else -1]


def segments_of(words: PageWords, boxes: Boxes, taken: NDArray[np.bool_] | None = None) -> dict[int, list[LinePart]]:
    """Return the segments of a page by the turn of their text, without the words that are `taken` by tables.

    `boxes` are the reading boxes of the words.
    """
    count = len(words.texts)
    if not count:
        return {}
    rtl = np.zeros(count, dtype=bool)
    if RTL.search(" ".join(words.texts)):
        rtl[:] = [bool(RTL.search(text)) for text in words.texts]
    breaks = _breaks(words, boxes, rtl)
    if taken is not None:
        breaks |= taken[1:] != taken[:-1]
    starts = np.flatnonzero(np.concatenate([[True], breaks]))
    lengths = np.array(list(map(len, words.texts)))
    columns = (
        *np.minimum.reduceat(boxes[:, :2], starts).T.tolist(),
        *np.maximum.reduceat(boxes[:, 2:], starts).T.tolist(),
        starts.tolist(),
        [*starts[1:].tolist(), count],
        np.maximum.reduceat(words.sizes, starts).round(2).tolist(),
        np.logical_and.reduceat(words.bold, starts).tolist(),
        np.logical_and.reduceat(words.fixed, starts).tolist(),
        np.add.reduceat(lengths, starts).tolist(),
        (np.add.reduceat(lengths * rtl, starts) > 0).tolist(),
    )
    turned: dict[int, list[LinePart]] = {}
    left_out = [False] * len(starts) if taken is None else taken[starts].tolist()
    segments = map(partial(tuple.__new__, LinePart), zip(*columns, repeat(-1)))  # no call of Python per segment
    for segment, turn, out in zip(segments, words.turns[starts].tolist(), left_out, strict=True):
        if not out:
            turned.setdefault(turn, []).append(segment)
    return turned


def _breaks(words: PageWords, boxes: Boxes, rtl: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for each word but the first one if it begins a segment, (n - 1,)."""
    before, after = boxes[:-1], boxes[1:]
    size, smaller = np.maximum(words.sizes[1:], words.sizes[:-1]), np.minimum(words.sizes[1:], words.sizes[:-1])
    ahead, behind = after[:, 0] - before[:, 2], before[:, 0] - after[:, 2]
    backward = (after[:, 0] < before[:, 0] - 0.1 * size) & ~(rtl[1:] | rtl[:-1])
    overlap = np.minimum(after[:, 3], before[:, 3]) - np.maximum(after[:, 1], before[:, 1])
    lower = np.minimum(after[:, 3] - after[:, 1], before[:, 3] - before[:, 1])
    breaks: NDArray[np.bool_] = (
        (np.maximum(ahead, behind) > _GAP * size)
        | backward
        | (overlap < _OVERLAP_OF_WORDS * lower)
        | (words.turns[1:] != words.turns[:-1])
        | (size > _JUMP * smaller)
    )
    return breaks
