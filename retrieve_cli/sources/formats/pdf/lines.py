"""Lines of a column, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from retrieve_cli.sources.formats.pdf.segments import Segment

_OVERLAP = 0.5
"""Share of the lower segment's height by which two segments of one line overlap."""
_GLUE = 0.1
"""Gap in font sizes below which two segments are parts of one word, such as the letters of a logo drawn one by one."""
_INITIAL = 1.6
"""Height of an initial, in heights of its line; it is beside several lines and belongs to the first one."""


class Line(NamedTuple):
    """A line of text, or a table in place of one; places as its reader sees them."""

    x0: float
    y0: float
    x1: float
    y1: float
    segments: tuple[Segment, ...]
    size: float
    bold: bool
    fixed: bool
    rtl: bool
    column: int
    """Number of the column on the page, in reading order."""
    left: float
    right: float
    """Edges of the column."""
    turn: int
    chars: int

    @property
    def table(self) -> int:
        """Number of the table; -1 for text."""
        return self.segments[0].table

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    def tokens(self) -> list[list[int]]:
        """Return the numbers of the words of the page; several if they are parts of one word."""
        if len(self.segments) == 1:
            return [[number] for number in range(self.segments[0].first, self.segments[0].last)]
        tokens: list[list[int]] = []
        token: list[int] = []
        before: Segment | None = None
        for segment in self.segments:
            glued = before is not None and not self.rtl and segment.x0 - before.x1 < _GLUE * self.size
            if token and not (glued and before is not None and before.last != segment.first):
                tokens.append(token)
                token = []
            token.append(segment.first)
            for number in range(segment.first + 1, segment.last):
                tokens.append(token)
                token = [number]
            before = segment
        return [*tokens, token] if token else tokens


def lines_of(segments: Sequence[Segment], *, column: int, turn: int) -> list[Line]:
    """Return the lines of a column from top to bottom."""
    left, right = min(segment.x0 for segment in segments), max(segment.x1 for segment in segments)
    return [_line(row, column=column, left=left, right=right, turn=turn) for row in _rows(segments)]


def _rows(segments: Sequence[Segment]) -> list[list[Segment]]:
    usual = median(segment.height for segment in segments)

    def bottom(segment: Segment) -> float:
        initial = segment.chars <= 2 and segment.height > _INITIAL * usual
        return segment.y0 + usual if initial else segment.y1

    rows: list[list[Segment]] = []
    top, end = 0.0, 0.0
    longest = 0
    for segment in sorted(segments, key=lambda segment: (segment.y0 + bottom(segment), segment.x0)):
        y0, y1 = segment.y0, bottom(segment)
        overlap = min(y1, end) - max(y0, top)
        alone = segment.table >= 0 or (rows and rows[-1][0].table >= 0)
        if rows and not alone and overlap >= _OVERLAP * min(y1 - y0, end - top):
            rows[-1].append(segment)
        else:
            rows.append([segment])
            longest = 0
        if segment.chars > longest:
            top, end, longest = y0, y1, segment.chars
    return rows


def _line(row: list[Segment], *, column: int, left: float, right: float, turn: int) -> Line:
    if len(row) == 1:
        (main,) = row
        return Line(
            *main[:4], (main,), main.size, main.bold, main.fixed, main.rtl, column, left, right, turn, main.chars
        )
    main = max(row, key=lambda segment: (segment.chars, -segment.x0))
    rtl = sum(segment.chars if segment.rtl else -segment.chars for segment in row) > 0
    return Line(
        min(segment.x0 for segment in row),
        min(segment.y0 for segment in row),
        max(segment.x1 for segment in row),
        max(segment.y1 for segment in row),
        tuple(_leftward(row) if rtl else sorted(row, key=lambda segment: (segment.x0, segment.first))),
        main.size,
        all(segment.bold for segment in row),
        all(segment.fixed for segment in row),
        rtl,
        column,
        left,
        right,
        turn,
        sum([segment.chars for segment in row]),
    )


def _leftward(row: Sequence[Segment]) -> Iterator[Segment]:
    """Yield segments from right to left, but neighbours without letters of such a script from left to right."""
    waiting: list[Segment] = []
    for segment in sorted(row, key=lambda segment: (-segment.x1, segment.first)):
        if segment.rtl:
            yield from reversed(waiting)
            waiting = []
            yield segment
        else:
            waiting.append(segment)
    yield from reversed(waiting)
