"""Straight lines that are drawn on a PDF page: strokes, and filled bars as thin as a line."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.sources.formats.pdf import raw

if TYPE_CHECKING:
    from retrieve_cli.sources.formats.pdf.words import Boxes, Frame

    Matrix = tuple[float, float, float, float, float, float]
    """(a, b, c, d, e, f): x' = a·x + c·y + e, y' = b·x + d·y + f (ISO 32000-1, 8.3.3)."""
    Point = tuple[float, float]

THIN = 3.0  # widest bar, in points, that is drawn to be seen as a line. Wider bars are boxes
LEVEL = 0.5  # most points by which the ends of a level line may differ
SHORTEST = 1.0
TINIEST = 4.0  # objects that are smaller in both directions are marks of a chart, dots or glyphs drawn as paths
MOST_OBJECTS, MOST_SEGMENTS, MOST_SEGMENTS_OF_A_PATH = 60_000, 60_000, 4_000
"""A page with more is a drawing, a path with more is a curve or a map."""
DEEPEST = 8  # forms within forms that are followed


class TooManyPaths(Exception):
    """The page is a drawing: reading all of it would cost more than its tables are worth."""


def read_rules(page: int, frame: Frame) -> Boxes:
    """Return the level and upright lines of a page by its address, its forms included, as flat boxes; none if the page
    has more objects than are read.
    """
    reader = _Reader()
    try:
        reader.read(raw.count_objects(page), partial(raw.page_object, page), (1, 0, 0, 1, 0, 0), 0)
    except TooManyPaths:
        reader.lines.clear()
    return frame.displayed(np.array(reader.lines, dtype=np.float32).reshape(-1, 4))


class _Reader:
    """One pass over the objects of a page, with the cost that is left to it."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, float, float, float]] = []  # left, top, right, bottom in the page's coordinates
        self.objects, self.segments = MOST_OBJECTS, MOST_SEGMENTS
        self.floats, self.integers = array("f", bytes(24)), array("I", bytes(8))
        floats, integers = self.floats.buffer_info()[0], self.integers.buffer_info()[0]
        self.float_places = tuple(floats + 4 * number for number in range(4))
        self.integer_places = integers, integers + 4

    def read(self, count: int, object_at: Callable[[int], Any], matrix: Matrix, depth: int) -> None:
        """Read `count` objects of a page or of a form with its matrix."""
        self.objects -= count
        if self.objects < 0:
            raise TooManyPaths
        for index in range(count):
            item = object_at(index)
            kind = raw.object_kind(item)
            if kind == raw.PATH:
                self._read_path(item, matrix)
            elif kind == raw.FORM and depth < DEEPEST:
                inner = self._matrix(item, matrix)
                self.read(raw.count_form_objects(item), partial(raw.form_object, item), inner, depth + 1)

    def _read_path(self, path: int, matrix: Matrix) -> None:
        if not raw.object_box(path, *self.float_places):
            return
        left, bottom, right, top = self.floats[:4]
        scale = max(abs(matrix[0]) + abs(matrix[2]), abs(matrix[1]) + abs(matrix[3]))
        if max(right - left, top - bottom) * scale < TINIEST:
            return
        count = raw.count_segments(path)
        if not 2 <= count <= MOST_SEGMENTS_OF_A_PATH or not raw.draw_mode(path, *self.integer_places):
            return
        self.segments -= count
        if self.segments < 0:
            raise TooManyPaths
        is_filled, is_stroked = self.integers
        stretches = self._stretches(path, count, self._matrix(path, matrix))
        if is_stroked:
            raw.line_width(path, self.float_places[0])
            if self.floats[0] * scale <= 2 * THIN:
                for points in stretches:
                    self._add(points)
        elif is_filled:
            for points in stretches:
                self._add_bar(points)

    def _add_bar(self, points: list[Point]) -> None:
        """Add a filled bar that is as thin as a line."""
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        x0, x1, y0, y1 = min(xs), max(xs), min(ys), max(ys)
        if y1 - y0 <= THIN and x1 - x0 >= y1 - y0:
            self._add([(x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2)])
        elif x1 - x0 <= THIN:
            self._add([((x0 + x1) / 2, y0), ((x0 + x1) / 2, y1)])

    def _stretches(self, path: int, count: int, matrix: Matrix) -> Iterator[list[Point]]:
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

    def _add(self, points: list[Point]) -> None:
        """Add the level and the upright ones of the lines between points."""
        for (x0, y0), (x1, y1) in pairwise(points):
            if abs(y1 - y0) <= LEVEL and abs(x1 - x0) >= SHORTEST:
                middle = (y0 + y1) / 2
                self.lines.append((min(x0, x1), middle, max(x0, x1), middle))
            elif abs(x1 - x0) <= LEVEL and abs(y1 - y0) >= SHORTEST:
                middle = (x0 + x1) / 2
                self.lines.append((middle, max(y0, y1), middle, min(y0, y1)))

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
