"""Words of a text with their boxes on pages."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from math import ceil, floor
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle on a displayed page, in points (1/72 inch) from the top left corner of its visible part."""

    page: int
    """Number of the page, from 1."""
    x0: float
    y0: float
    x1: float
    y1: float


_TENTH = 10.0
_SAME_LINE = 0.5
"""Share of the lower height by which two neighbouring words overlap if they are on one line."""
_WIDEST_GAP = 4.0
"""Gap between words of one box, as a multiple of their height: each column of a table has its own boxes."""


class Words:
    """Boxes of the words of a text, in the order of the text; a word that is divided over two lines has two entries."""

    __slots__ = ("_boxes", "_ends", "_pages", "_starts")

    def __init__(self) -> None:
        self._starts, self._ends, self._pages = array("I"), array("I"), array("I")
        self._boxes = array("f")

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int, Box]]:
        return ((self._starts[number], self._ends[number], self.box(number)) for number in range(len(self)))

    def add(self, start: int, end: int, page: int, x0: float, y0: float, x1: float, y1: float) -> None:
        """Add the word `text[start:end]`, which follows all others."""
        self._starts.append(start)
        self._ends.append(end)
        self._pages.append(page)
        self._boxes.extend((x0, y0, x1, y1))

    def box(self, number: int) -> Box:
        """Return the box of a word."""
        x0, y0, x1, y1 = self._boxes[4 * number : 4 * number + 4]
        return Box(self._pages[number], x0, y0, x1, y1)

    def boxes(self, start: int, end: int) -> tuple[Box, ...]:
        """Return one box for each line of `text[start:end]`, in order; coordinates are multiples of 0.1, rounded
        outwards."""
        first = max(0, bisect_right(self._starts, start) - 1)
        stop = bisect_left(self._starts, end)
        while first < stop and self._ends[first] <= start:
            first += 1
        coordinates = iter(self._boxes[4 * first : 4 * stop])
        words = zip(self._pages[first:stop], coordinates, coordinates, coordinates, coordinates, strict=True)
        lines: list[Box] = []
        page, left, top, right, bottom = next(words, (0, 0.0, 0.0, 0.0, 0.0))
        for number, x0, y0, x1, y1 in words:  # all words of all chunks: min and max would take twice as long
            height, word = bottom - top, y1 - y0
            lower, higher = (word, height) if word < height else (height, word)
            overlap = (y1 if y1 < bottom else bottom) - (y0 if y0 > top else top)  # noqa: FURB136
            near = x0 - right <= _WIDEST_GAP * higher and left - x1 <= _WIDEST_GAP * higher
            if near and overlap >= _SAME_LINE * lower and number == page:
                left, top = x0 if x0 < left else left, y0 if y0 < top else top  # noqa: FURB136
                right, bottom = x1 if x1 > right else right, y1 if y1 > bottom else bottom  # noqa: FURB136
            else:
                lines.append(_rounded(page, left, top, right, bottom))
                page, left, top, right, bottom = number, x0, y0, x1, y1
        return (*lines, _rounded(page, left, top, right, bottom)) if page else ()

    def arrays(self) -> tuple[array[int], array[int], array[int], array[float]]:
        """Return the arrays themselves: starts, ends, pages (n,) and boxes (4 n,)."""
        return self._starts, self._ends, self._pages, self._boxes

    @classmethod
    def of(cls, starts: array[int], ends: array[int], pages: array[int], boxes: array[float]) -> Words:
        """Return the words that `arrays` returned.

        Raises:
            ValueError: the lengths differ.
        """
        if not len(starts) == len(ends) == len(pages) == len(boxes) / 4:
            raise ValueError("the arrays of words have different lengths")
        words = cls()
        words._starts, words._ends, words._pages, words._boxes = starts, ends, pages, boxes
        return words


def _rounded(page: int, x0: float, y0: float, x1: float, y1: float) -> Box:
    low = floor(x0 * _TENTH) / _TENTH, floor(y0 * _TENTH) / _TENTH
    return Box(page, *low, ceil(x1 * _TENTH) / _TENTH, ceil(y1 * _TENTH) / _TENTH)
