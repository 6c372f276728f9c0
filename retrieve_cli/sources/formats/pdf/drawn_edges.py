"""Straight edges that are drawn on a PDF page: strokes, thin filled bars, outlines of filled boxes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from retrieve_cli.sources.formats.pdf import raw
from retrieve_cli.sources.formats.pdf.page_words import frame_of

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
    """Edges of a page in displayed coordinates: points, from the top left corner."""

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
    reader.read(raw.count_objects(page), lambda index: raw.page_object(page, index), display_matrix(page), 0)
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
                self._read_form(item, matrix, depth + 1)

    def _read_form(self, form: int, matrix: Matrix, depth: int) -> None:
        inner = self._matrix(form, matrix)
        self.read(raw.count_form_objects(form), lambda index: raw.form_object(form, index), inner, depth)

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
