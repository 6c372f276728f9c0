"""Words of a PDF page with their places and fonts, as pdfium reads them."""

from __future__ import annotations

import ctypes
import re
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from math import hypot
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.sources.formats.pdf import raw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Boxes = NDArray[np.float32]  # (n, 4): x0, y0, x1, y1

SKEWED = 45  # turn of text that is neither level nor upright, such as a watermark
RTL = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
"""A letter of a script that is written from right to left."""
_WORD = re.compile(r"[^\s\x00-\x1f\x7f\xad\ufffe\uffff]+[\x02\xad]?")
"""A word; pdfium writes U+0002 for a hyphen, hard or soft, at the end of a line and no line break behind it."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LEVEL = 0.2  # tangent of the largest angle at which text counts as level
_FARTHEST = 1e5  # no page is larger: coordinates beyond it are errors
_FIXED, _FORCED_BOLD = 1, 1 << 18  # flags of a font descriptor (ISO 32000-1, table 123)
_HEAVY = 550
"""Weight from which a font is bold; pdfium derives it from the width of the stems if the file has no weight."""
_BOLD = re.compile(r"bold|black|heavy|demi|cmb|medi$", re.IGNORECASE)
_MONO = re.compile(r"mono|courier|consol|typewriter|cmtt|menlo|lettergothic", re.IGNORECASE)
_LONGEST_NAME = 128
_WIDE = 0.75  # width of a character, in font sizes, above which the characters of a word are looked at one by one
_APART = 0.35  # gap within a word, in font sizes: more than a word space is never part of a word
_HIGH = 1.7  # height of a word, in font sizes, above which they are looked at: more than a superscript adds
_MOST_LOOKED_AT = 20_000  # characters of a page that are looked at one by one


@dataclass(slots=True)
class PageWords:
    """The words of a page in the order of its content stream, in parallel arrays.

    Places are points from the top left corner of the visible page as displayed; they may lie outside the page.
    """

    width: float
    height: float
    texts: list[str]
    boxes: Boxes
    sizes: NDArray[np.float32]
    turns: NDArray[np.int16]
    """Degrees clockwise from left-to-right in which the text runs on the displayed page: 0, 90, 180, 270, SKEWED."""
    bold: NDArray[np.bool_]
    fixed: NDArray[np.bool_]  # true in a monospaced font


class Frame(NamedTuple):
    """The visible rectangle of a page in its own coordinates, and the quarter turns clockwise of its display."""

    x0: float
    y0: float
    x1: float
    y1: float
    turn: int

    @property
    def size(self) -> tuple[float, float]:
        """Width and height as displayed."""
        width, height = self.x1 - self.x0, self.y1 - self.y0
        return (height, width) if self.turn % 2 else (width, height)

    def displayed(self, rectangles: Boxes) -> Boxes:
        """Return rectangles (n, 4: left, top, right, bottom of the page's own coordinates) as displayed."""
        left, right = rectangles[:, 0] - self.x0, rectangles[:, 2] - self.x0
        bottom, top = rectangles[:, 3] - self.y0, rectangles[:, 1] - self.y0
        width, height = self.x1 - self.x0, self.y1 - self.y0
        corners = {
            0: (left, height - top, right, height - bottom),
            1: (bottom, left, top, right),
            2: (width - right, bottom, width - left, top),
            3: (height - top, width - right, height - bottom, width - left),
        }[self.turn]
        return np.stack(corners, axis=1)


def frame_of(page: int) -> Frame:
    """Return the frame of a page by its address."""
    rectangle = array("f", (0.0, 0.0, 0.0, 0.0))
    raw.page_box(page, rectangle.buffer_info()[0])
    left, top, right, bottom = (value if abs(value) < _FARTHEST else 0.0 for value in rectangle)
    return Frame(min(left, right), min(bottom, top), max(left, right), max(bottom, top), raw.page_turn(page) % 4)


def reading_boxes(boxes: Boxes, turns: NDArray[np.int16]) -> Boxes:
    """Return displayed boxes as a reader sees them who turns the page until the text runs from left to right."""
    if not turns.any():
        return boxes
    x0, y0, x1, y1 = boxes.T
    turned = boxes.copy()
    for turn, sides in ((90, (y0, -x1, y1, -x0)), (180, (-x1, -y1, -x0, -y0)), (270, (-y1, x0, -y0, x1))):
        chosen = turns == turn
        if chosen.any():
            turned[chosen] = np.stack(sides, axis=1)[chosen]
    return turned


def read_words(page: int, frame: Frame) -> PageWords:
    """Return the words of a page by its address, without those outside of the visible page."""
    handle = raw.open_text(page)
    if not handle:
        return empty_words(*frame.size)
    try:
        characters = _characters(handle)
        spans = [match.span() for match in _WORD.finditer(characters)]
        return _words(handle, characters, spans, frame) if spans else empty_words(*frame.size)
    finally:
        raw.close_text(handle)


def empty_words(width: float = 0.0, height: float = 0.0) -> PageWords:
    """Return the words of a page without text."""
    none, flags = np.zeros(0, dtype=np.float32), np.zeros(0, dtype=bool)
    return PageWords(width, height, [], np.zeros((0, 4), np.float32), none, none.astype(np.int16), flags, flags)


def _characters(handle: int) -> str:
    """Return one character per index of pdfium: the two halves of a surrogate pair are two."""
    count = raw.count_chars(handle)
    if count <= 0:
        return ""
    units = array("H", bytes(2 * (count + 1)))
    copied = raw.copy_text(handle, 0, count, units.buffer_info()[0]) - 1
    text = units[: max(copied, 0)].tobytes().decode("utf-16-le", "surrogatepass")
    if len(text) == count:
        return text.replace("\ufffe", "\x02")
    if copied == count:
        return "".join(map(chr, units[:count])).replace("\ufffe", "\x02")
    return "".join([chr(min(code, 0xFFFF)) for code in map(raw.char_code, repeat(handle), range(count))])


def _words(handle: int, characters: str, spans: list[tuple[int, int]], frame: Frame) -> PageWords:
    heads, boxes = _word_boxes(handle, spans, frame)
    if cuts := _cuts(handle, spans, (heads, boxes, frame)):
        bounds = [[start, *cuts.get(number, ()), end] for number, (start, end) in enumerate(spans)]
        spans = [piece for places in bounds for piece in pairwise(places)]
        _, boxes = _word_boxes(handle, spans, frame)
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    visible = ((middle >= 0) & (middle <= frame.size)).all(axis=1)  # false for what is not a number
    if not visible.all():
        spans, boxes = [spans[number] for number in np.flatnonzero(visible)], boxes[visible]
    if not spans:
        return empty_words(*frame.size)
    texts = [characters[start:end] for start, end in spans]
    if "\x02" in characters or not characters.isascii():
        texts = list(map(_spelled, texts))
    return PageWords(*frame.size, texts, boxes, *_styles(handle, [start for start, _ in spans], frame))


def _word_boxes(handle: int, spans: list[tuple[int, int]], frame: Frame) -> tuple[Boxes, Boxes]:
    """Return the boxes of the first characters of words, and of the words."""
    heads = _boxes(handle, [start for start, _ in spans], frame)
    tails = _boxes(handle, [end - 1 for _, end in spans], frame)
    return heads, np.concatenate([np.minimum(heads, tails)[:, :2], np.maximum(heads, tails)[:, 2:]], axis=1)


def _boxes(handle: int, indices: Sequence[int], frame: Frame) -> Boxes:
    """Return the boxes of characters as displayed, (n, 4)."""
    rectangles = np.zeros((len(indices), 4), dtype=np.float32)
    base = rectangles.ctypes.data
    deque(map(raw.char_box, repeat(handle), indices, range(base, base + rectangles.nbytes, 16)), maxlen=0)
    return frame.displayed(rectangles)


def _cuts(handle: int, spans: list[tuple[int, int]], places: tuple[Boxes, Boxes, Frame]) -> dict[int, list[int]]:
    """Return by the number of a word the characters at which it is divided, because its parts are far apart.

    pdfium adds a space between two characters only if the second one is further on in the same line. A running head
    that is drawn after its page number, at the other side of the page, continues the number.
    """
    heads, boxes, frame = places
    sizes = (heads[:, 2:] - heads[:, :2]).max(axis=1)
    sides = boxes[:, 2:] - boxes[:, :2]
    lengths = np.array([end - start for start, end in spans])
    large = (sides.max(axis=1) > (_WIDE * lengths + 0.5) * sizes) | (sides.min(axis=1) > _HIGH * sizes)
    cuts: dict[int, list[int]] = {}
    remaining = _MOST_LOOKED_AT
    for number in np.flatnonzero(large & (lengths > 1)).tolist():
        start, end = spans[number]
        remaining -= end - start
        if remaining < 0:
            break
        own = _boxes(handle, range(start, end), frame)
        ahead, behind = own[1:, :2] - own[:-1, 2:], own[:-1, :2] - own[1:, 2:]
        apart = np.maximum(ahead, behind).max(axis=1) > _APART * sizes[number]
        if apart.any():
            cuts[number] = [start + position + 1 for position in np.flatnonzero(apart).tolist()]
    return cuts


def _styles(handle: int, firsts: Sequence[int], frame: Frame) -> tuple[NDArray[Any], ...]:
    """Return sizes, turns, bold and fixed of words by the text objects of their first characters."""
    fonts: dict[int, tuple[bool, bool]] = {}
    table: list[tuple[float, int, bool, bool]] = []
    matrix = array("f", bytes(24))
    place = matrix.buffer_info()[0]
    objects: list[int | None] = list(map(raw.char_object, repeat(handle), firsts))
    starts = dict(zip(reversed(objects), reversed(firsts), strict=True))  # of each object the first character
    for drawn, index in starts.items():
        raw.char_matrix(handle, index, place)
        typeface: int = (raw.object_font(drawn) if drawn else None) or 0
        if typeface not in fonts:
            fonts[typeface] = _font(typeface)
        size = raw.char_size(handle, index) * hypot(matrix[2], matrix[3])
        turn = _turn(matrix[0], matrix[1], frame.turn)
        table.append((size if 0 < size < _FARTHEST else 1.0, turn, *fonts[typeface]))
    rows = dict(zip(starts, range(len(starts)), strict=True))
    numbers = np.fromiter(map(rows.__getitem__, objects), dtype=np.intp, count=len(objects))
    sizes, turns, bold, fixed = zip(*table, strict=True)
    kinds = np.array(sizes, np.float32), np.array(turns, np.int16), np.array(bold, bool), np.array(fixed, bool)
    return tuple(kind[numbers] for kind in kinds)


def _font(handle: int) -> tuple[bool, bool]:
    """Return True if a font is bold, and True if it is monospaced; no font is neither."""
    if not handle:
        return False, False
    name = ctypes.create_string_buffer(_LONGEST_NAME)
    raw.font_name(handle, ctypes.addressof(name), _LONGEST_NAME)
    called = name.value.decode("latin-1").rpartition("+")[2]
    flags = max(0, raw.font_flags(handle))
    bold = raw.font_weight(handle) >= _HEAVY or bool(flags & _FORCED_BOLD) or bool(_BOLD.search(called))
    return bold, bool(flags & _FIXED) or bool(_MONO.search(called))


def _turn(a: float, b: float, turned: int) -> int:
    """Return the degrees clockwise in which text with this matrix runs on the displayed page; the nearest quarter."""
    if min(abs(a), abs(b)) > _LEVEL * max(abs(a), abs(b)):
        return SKEWED
    level, upright = (0 if a >= 0 else 2), (1 if b > 0 else 3)
    return (turned - (level if abs(a) >= abs(b) else upright)) % 4 * 90


def _spelled(text: str) -> str:
    """Return a word as Unicode text."""
    if text[-1] == "\x02":
        text = text[:-1] + "-"
    if not text.isascii() and _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
