"""Structure of a document: blocks, pages, the place of any stretch of its text, and marks on pictures of its pages.

Words of a text with their boxes on pages.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from math import ceil, floor
from typing import Literal, NamedTuple

Kind = Literal["heading", "paragraph", "list", "table", "code", "caption", "quote"]
ContentType = Literal["text", "table", "code", "list", "figure"]
"""Kind of most of a stretch of text; a figure is known by its caption."""
_CONTENT: dict[Kind, ContentType] = {"table": "table", "code": "code", "list": "list", "caption": "figure"}


class Block(NamedTuple):
    """A unit of text that should stay together; blocks are in order and do not overlap."""

    start: int
    end: int
    kind: Kind
    level: int = 0
    """Level of a heading, from 1 (outermost) to 6; 7 and 8 for lines that act as headings."""
    anchor: str = ""
    """Name that a link can lead to, without `#`."""
    title: str = ""
    """Words of a heading whose text has marks as well; empty: its text has none."""


class DocumentPage(NamedTuple):
    """A page; `start` and `end` are its characters of the text."""

    index: int  # type: ignore[assignment]  # it hides the method of tuples, which no page needs
    """Number of the page in the file, from 1."""
    label: str
    """Printed label, such as `viii`; empty if the pages have none."""
    width: float
    """Width in points as displayed; 0 if it is not known."""
    height: float
    start: int
    end: int
    image_only: bool = False
    """True if the page has no text layer."""
    alone: bool = False
    """True for a slide or a form, whose text belongs together: no chunk goes across its edges."""


class Dropped(NamedTuple):
    """Text of a document that its reader skipped; it is counted and shown."""

    reason: str
    """Kind of text, in the singular: `running head`, `navigation block`."""
    text: str
    """Its words, shortened."""
    page: int = 0
    """Its page, from 1; 0 if the document has no pages."""


class Place(NamedTuple):
    """Place of a stretch of text in its document."""

    page: int | None = None
    page_end: int | None = None
    page_label: str | None = None
    page_label_end: str | None = None
    anchor: str | None = None
    """The last anchor at or before the text of the stretch, whose own headings may have one."""
    kind: ContentType = "text"
    boxes: tuple[Box, ...] = ()
    in_lines: bool = False
    """True if lines of the text are lines of a file that one can open: then they name the place."""


class Layout:
    """Blocks, pages and words of one document's text."""

    def __init__(
        self,
        blocks: Sequence[Block],
        pages: Sequence[DocumentPage] = (),
        words: Words | None = None,
        *,
        in_lines: bool = False,
    ) -> None:
        """`in_lines` is True if lines of the text are lines of the file."""
        self.in_lines = in_lines
        self.blocks = tuple(blocks)
        self.pages = tuple(pages)
        self.words = words

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        same = (self.blocks, self.pages, self.in_lines) == (other.blocks, other.pages, other.in_lines)
        return same and list(self.words or ()) == list(other.words or ())

    __hash__ = None  # type: ignore[assignment]

    def place(self, start: int, end: int) -> Place:
        """Return the place of `text[start:end]`."""
        pages = self._pages(start, end)
        first, last = (pages[0], pages[-1]) if pages else (None, None)
        return Place(
            page=first and first.index,
            page_end=last and last.index,
            page_label=(first and first.label) or None,
            page_label_end=(last and last.label) or None,
            anchor=self._anchor(start, end),
            kind=self._kind(start, end),
            boxes=() if self.words is None else self.words.boxes(start, end),
            in_lines=self.in_lines,
        )

    def below(self, first: Block, shift: int) -> Layout:
        """Return the layout of a text with a block in front of it, which moves all others by `shift` characters."""
        blocks = [block._replace(start=block.start + shift, end=block.end + shift) for block in self.blocks]
        pages = [page._replace(start=page.start + shift, end=page.end + shift) for page in self.pages]
        if pages:
            pages[0] = pages[0]._replace(start=0)
        words = None if self.words is None else self.words.moved(shift)
        return Layout([first, *blocks], pages, words, in_lines=self.in_lines)

    def page_of(self, position: int) -> DocumentPage | None:
        """Return the page of a character; None if the document has no pages."""
        return self.pages[max(0, bisect_right(self._page_starts, position) - 1)] if self.pages else None

    def _pages(self, start: int, end: int) -> Sequence[DocumentPage]:
        """Return the pages with characters of the stretch; if it has none itself, the page before it."""
        first = max(0, bisect_right(self._page_starts, start) - 1)
        stop = max(bisect_right(self._page_starts, end - 1), first + 1)
        pages = [page for page in self.pages[first:stop] if page.end > start and page.start < page.end]
        return pages or self.pages[first : first + 1]

    def _anchor(self, start: int, end: int) -> str | None:
        place = bisect_left(self._block_starts, start)
        while place < len(self.blocks) and self.blocks[place].start < end and self.blocks[place].kind == "heading":
            start = self.blocks[place].start  # a section that begins below several headings is that of the last one
            place += 1
        number = bisect_right(self._anchors[0], start)
        return self._anchors[1][number - 1] if number else None

    def _kind(self, start: int, end: int) -> ContentType:
        """Return the content that has most of the characters."""
        sizes: Counter[ContentType] = Counter()
        first, stop = max(0, bisect_right(self._block_starts, start) - 1), bisect_left(self._block_starts, end)
        for block in self.blocks[first:stop]:
            if (kind := _CONTENT.get(block.kind)) is not None:
                sizes[kind] += max(0, min(block.end, end) - max(block.start, start))
        return next((kind for kind, size in sizes.most_common(1) if 2 * size > end - start), "text")

    @cached_property
    def _page_starts(self) -> list[int]:
        return [page.start for page in self.pages]

    @cached_property
    def _block_starts(self) -> list[int]:
        return [block.start for block in self.blocks]

    @cached_property
    def _anchors(self) -> tuple[list[int], list[str]]:
        anchored = [block for block in self.blocks if block.anchor]
        return [block.start for block in anchored], [block.anchor for block in anchored]


Style = Kind | Literal["cell", "passage"]


class Mark(NamedTuple):
    """A box to draw on the picture of its page."""

    box: Box
    style: Style
    label: str = ""
    """Text at its upper left corner; empty: none."""


def surrounding(boxes: Sequence[Box], page: int) -> Box | None:
    """Return the smallest box around all boxes of a page; None if none is on it."""
    here = [box for box in boxes if box.page == page]
    if not here:
        return None
    return Box(
        page,
        min(box.x0 for box in here),
        min(box.y0 for box in here),
        max(box.x1 for box in here),
        max(box.y1 for box in here),
    )


def cell_boxes(text: str, block: Block, *, words: Words, page: int) -> list[list[Box | None]]:
    """Return the boxes of a pipe table's cells on a page, row by row; None for a cell without words there."""
    return [
        [surrounding(words.boxes(start, end), page) if end > start else None for start, end in row]
        for row in _rows(text, block)
    ]


def _rows(text: str, block: Block) -> Iterator[list[tuple[int, int]]]:
    """Yield the spans of the cells of each row, without the row of dashes below the header."""
    start = block.start
    for line in text[block.start : block.end].split("\n"):
        if line.strip("|-: "):
            yield _cells(line, start)
        start += len(line) + 1


def _cells(line: str, start: int) -> list[tuple[int, int]]:
    """Return the spans between the bars of a line that are not escaped by a backslash."""
    bars = [place for place, char in enumerate(line) if char == "|" and line[place - 1 : place] != "\\"]
    return [(start + left + 1, start + right) for left, right in pairwise(bars)]


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

    def moved(self, shift: int) -> Words:
        """Return the words of the text if it begins `shift` characters further on."""
        starts = array("I", (start + shift for start in self._starts))
        ends = array("I", (end + shift for end in self._ends))
        return Words.of(starts, ends, self._pages, self._boxes)

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
