"""Straight edges that are drawn on a PDF page: strokes, thin filled bars, outlines of filled boxes.

Lines of words inside tables: their order, their runs, and which of them begin a row.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from retrieve_cli.sources.formats.pdf import raw
from retrieve_cli.sources.formats.pdf.page_words import Word, frame_of

Matrix = tuple[float, float, float, float, float, float]
"""(a, b, c, d, e, f): x' = a·x + c·y + e, y' = b·x + d·y + f (ISO 32000-1, 8.3.3)."""
Point = tuple[float, float]

THIN = 3.0
"""Widest bar, in points, that is drawn to be seen as a line. Wider bars are boxes."""
LEVEL = 0.5
"""Most points by which the ends of a level line may differ."""
SHORTEST = 1.0
TINIEST = 4.0
"""Objects that are smaller in both directions are marks of a chart, dots or glyphs drawn as paths."""
MOST_OBJECTS = 60_000
MOST_SEGMENTS = 60_000
MOST_SEGMENTS_OF_A_PATH = 4_000
"""A longer path is a curve or a map."""
DEEPEST = 8
"""Forms within forms that are followed."""
WHITE = 250
"""A filled box whose colour components all reach this cannot be seen on paper."""


class DrawnEdge(NamedTuple):
    """A level or upright line: the coordinate that it keeps, and its two ends in the other one."""

    at: float
    start: float
    end: float
    drawn: bool
    """True for a line, False for the outline of a filled box."""


class Edges(NamedTuple):
    """Edges of a page, or of a part of it, in displayed coordinates: points, from the top left corner."""

    horizontal: list[DrawnEdge]
    vertical: list[DrawnEdge]


class TooManyPaths(Exception):
    """The page is a drawing: reading all of it would cost more than its tables are worth."""


def display_matrix(page: int) -> Matrix:
    """Return the matrix from the space of a page, given by its address, to displayed coordinates."""
    left, bottom, right, top, turn = frame_of(page)
    matrices: tuple[Matrix, ...] = (
        (1, 0, 0, -1, -left, top),
        (0, 1, 1, 0, -bottom, -left),
        (-1, 0, 0, 1, right, -bottom),
        (0, -1, -1, 0, top, right),
    )
    return matrices[turn]


def read_edges(page: int) -> Edges:
    """Return the straight edges of a page, given by its address, those inside form XObjects included.

    Raises:
        TooManyPaths: the page has more objects or segments than are read.
    """
    reader = _Reader()
    reader.read(raw.count_objects(page), partial(raw.page_object, page), display_matrix(page), 0)
    return reader.edges


class _Reader:
    """One pass over the objects of a page, with the cost that is left to it."""

    def __init__(self) -> None:
        self.edges = Edges([], [])
        self.objects = MOST_OBJECTS
        self.segments = MOST_SEGMENTS
        self.floats = array("f", bytes(24))
        self.integers = array("I", bytes(16))
        floats, integers = self.floats.buffer_info()[0], self.integers.buffer_info()[0]
        self.float_places = tuple(floats + 4 * number for number in range(4))
        self.integer_places = tuple(integers + 4 * number for number in range(4))

    def read(self, count: int, object_at: Callable[[int], Any], matrix: Matrix, depth: int) -> None:
        """Read `count` objects of a page or form whose space `matrix` displays."""
        self.objects -= count
        if self.objects < 0:
            raise TooManyPaths
        for index in range(count):
            item = object_at(index)
            kind = raw.object_kind(item)
            if kind == raw.PATH:
                self._read_path(item, matrix)
            elif kind == raw.FORM and depth < DEEPEST:
                count_inside, inner = raw.count_form_objects(item), self._matrix(item, matrix)
                self.read(count_inside, partial(raw.form_object, item), inner, depth + 1)

    def _read_path(self, path: int, matrix: Matrix) -> None:
        if not raw.object_box(path, *self.float_places):
            return
        left, bottom, right, top = self.floats[:4]
        scale = max(abs(matrix[0]) + abs(matrix[2]), abs(matrix[1]) + abs(matrix[3]))
        if max(right - left, top - bottom) * scale < TINIEST:
            return
        count = raw.count_segments(path)
        if not 2 <= count <= MOST_SEGMENTS_OF_A_PATH or not raw.draw_mode(path, *self.integer_places[:2]):
            return
        self.segments -= count
        if self.segments < 0:
            raise TooManyPaths
        is_filled, is_stroked = self.integers[:2]
        matrix = self._matrix(path, matrix)
        if is_stroked:
            raw.line_width(path, self.float_places[0])
            if self.floats[0] * scale <= 2 * THIN:
                for points in self._lines(path, count, matrix):
                    self._add_lines(points, drawn=True)
        elif is_filled:
            self._add_fill(path, count, matrix)

    def _add_fill(self, path: int, count: int, matrix: Matrix) -> None:
        """Add bars that are as thin as lines, and outlines of boxes that can be seen."""
        seen: bool | None = None
        for points in self._lines(path, count, matrix):
            xs, ys = [point[0] for point in points], [point[1] for point in points]
            x0, x1, y0, y1 = min(xs), max(xs), min(ys), max(ys)
            if y1 - y0 <= THIN and x1 - x0 >= y1 - y0:
                self._add(((x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2)), drawn=True)
            elif x1 - x0 <= THIN:
                self._add((((x0 + x1) / 2, y0), ((x0 + x1) / 2, y1)), drawn=True)
            elif len(points) in (4, 5):
                seen = self._is_seen(path) if seen is None else seen
                if seen:
                    self._add_lines([*points, points[0]], drawn=False)

    def _lines(self, path: int, count: int, matrix: Matrix) -> Iterator[list[Point]]:
        """Yield the straight stretches of a path, as corners: a curve ends one and begins another."""
        x, y = self.float_places[:2]
        a, b, c, d, e, f = matrix
        corners: list[Point] = []
        first: Point = (0.0, 0.0)
        for index in range(count):
            segment = raw.path_segment(path, index)
            raw.segment_point(segment, x, y)
            px, py = self.floats[:2]
            point = (a * px + c * py + e, b * px + d * py + f)
            kind = raw.segment_kind(segment)
            if kind == raw.LINE_TO:
                corners.append(point)
            else:
                if len(corners) > 1:
                    yield corners
                corners = [point]
                first = point if kind == raw.MOVE_TO else first
            if raw.segment_closes(segment) and corners[-1] != first:
                corners.append(first)
        if len(corners) > 1:
            yield corners

    def _add_lines(self, points: list[Point], *, drawn: bool) -> None:
        for ends in pairwise(points):
            self._add(ends, drawn=drawn)

    def _add(self, ends: tuple[Point, Point], *, drawn: bool) -> None:
        (x0, y0), (x1, y1) = ends
        if abs(y1 - y0) <= LEVEL and abs(x1 - x0) >= SHORTEST:
            self.edges.horizontal.append(DrawnEdge((y0 + y1) / 2, min(x0, x1), max(x0, x1), drawn))
        elif abs(x1 - x0) <= LEVEL and abs(y1 - y0) >= SHORTEST:
            self.edges.vertical.append(DrawnEdge((x0 + x1) / 2, min(y0, y1), max(y0, y1), drawn))

    def _matrix(self, item: int, outer: Matrix) -> Matrix:
        if not raw.object_matrix(item, self.float_places[0]):
            return outer
        (a, b, c, d, e, f), own = outer, self.floats
        return (
            a * own[0] + c * own[1],
            b * own[0] + d * own[1],
            a * own[2] + c * own[3],
            b * own[2] + d * own[3],
            a * own[4] + c * own[5] + e,
            b * own[4] + d * own[5] + f,
        )

    def _is_seen(self, path: int) -> bool:
        """Return False for a box filled with white, or with nothing: paper shows neither."""
        if not raw.fill_color(path, *self.integer_places):
            return True
        red, green, blue, alpha = self.integers
        return alpha > 0 and min(red, green, blue) < WHITE


SAME_LINE = 0.5
"""Share of the lower of two words by which they overlap if they are on one line."""
RUN_GAP = 0.7
"""Widest space inside a run of words, in ems: justified text stretches its spaces to half an em."""
SPACE = 0.25
"""Least space between two words, in ems."""

Members = Sequence[int]
"""Numbers of words."""


class CellLine(NamedTuple):
    """Words of one line, from left to right."""

    members: tuple[int, ...]
    y0: float
    y1: float


def lines_of(words: Sequence[Word], members: Iterable[int]) -> list[CellLine]:
    """Return the lines of the given words, from the top."""
    lines: list[tuple[list[int], float, float]] = []
    for index in sorted(members, key=lambda index: (words[index].y0 + words[index].y1, words[index].x0, index)):
        top, bottom = words[index].y0, words[index].y1
        if lines:
            numbers, y0, y1 = lines[-1]
            if min(bottom, y1) - max(top, y0) > SAME_LINE * min(bottom - top, y1 - y0):
                numbers.append(index)
                lines[-1] = (numbers, min(y0, top), max(y1, bottom))
                continue
        lines.append(([index], top, bottom))
    return [CellLine(tuple(sorted(numbers, key=lambda n: (words[n].x0, n))), y0, y1) for numbers, y0, y1 in lines]


def in_reading_order(words: Sequence[Word], members: Members) -> tuple[int, ...]:
    """Return the words of a cell in the order in which they are read.

    Words that run in another direction than the table keep the order of the page; lines of a right-to-left script are
    read from the right.
    """
    if len(members) < 2:
        return tuple(members)
    if all(words[index].turn for index in members):
        return tuple(sorted(members))
    ordered: list[int] = []
    for line in lines_of(words, members):
        leftward = sum(_direction(words[index].text) for index in line.members) < 0
        ordered += reversed(line.members) if leftward else line.members
    return tuple(ordered)


def _direction(text: str) -> int:
    for letter in text[:8]:
        kind = unicodedata.bidirectional(letter)
        if kind in ("L", "R", "AL"):
            return 1 if kind == "L" else -1
    return 0


def runs_of(words: Sequence[Word], line: Members, gap: float = RUN_GAP) -> list[tuple[int, ...]]:
    """Return the stretches of a line, from left to right, that wider gaps (in ems) separate."""
    runs: list[list[int]] = []
    right = 0.0
    for index in line:
        word = words[index]
        if runs and word.x0 - right <= gap * word.size:
            runs[-1].append(index)
        else:
            runs.append([index])
            right = word.x1
        right = max(right, word.x1)
    return [tuple(run) for run in runs]


def by_column(cells: Sequence[Sequence[int]], lines: Sequence[CellLine]) -> list[list[list[int]]]:
    """Return the words of each line by the column that they have in `cells`."""
    column_of = {index: column for column, cell in enumerate(cells) for index in cell}
    parts: list[list[list[int]]] = []
    for line in lines:
        columns: list[list[int]] = [[] for _ in cells]
        for index in line.members:
            columns[column_of[index]].append(index)
        parts.append(columns)
    return parts


class Break(NamedTuple):
    """Evidence of a line break for a new row, from the columns that have text on both of its sides."""

    common: int
    """Columns with text on both sides."""
    chosen: int
    """Of these, columns with a deliberate break: the next word would have fitted on the line before, or a number
    follows a number, which running text does not do."""
    wrapped: int
    """Of these, columns of running text whose next word would not have fitted."""


def read_break(
    words: Sequence[Word], above: Sequence[Members], below: Sequence[Members], widths: Sequence[float]
) -> Break:
    """Return the evidence of the break between two lines, given as words by column, with the columns' inner widths."""
    common = chosen = wrapped = 0
    for first, second, width in zip(above, below, widths, strict=True):
        if not first or not second:
            continue
        common += 1
        left, right = words[first[0]].x0, max(words[index].x1 for index in first)
        following = words[second[0]]
        needed = right - left + SPACE * following.size + following.x1 - following.x0
        if needed <= width - 0.5 or (_is_number(words, first) and _is_number(words, second)):
            chosen += 1
        elif len(first) > 1 or len(second) > 1:
            wrapped += 1
    return Break(common, chosen, wrapped)


def _is_number(words: Sequence[Word], members: Members) -> bool:
    text = "".join(words[index].text for index in members)
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text)) and text[-1] not in "-–,/:"


def is_prose(words: Sequence[Word], lines: Sequence[Sequence[Members]], widths: Sequence[float]) -> bool:
    """Return True for columns of running text, as on the page of a paper: two of them filled on most of the lines."""
    filled = 0
    for columns in lines:
        full = sum(
            len(members) >= 4 and words[members[-1]].x1 - words[members[0]].x0 >= 0.85 * width
            for members, width in zip(columns, widths, strict=True)
        )
        filled += full >= 2
    return len(lines) >= 3 and 2 * filled > len(lines)
