"""Words of a PDF page with their places and fonts, as pdfium reads them.

pdfium reports the hard hyphen (U+002D) and the soft one (U+00AD) at the end of a line alike, as U+0002, but only if
text follows on another line. So the object that ends with the hyphen is read once more, alone on the page, which
tells them apart.
"""

from __future__ import annotations

import ctypes
import re
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from math import hypot
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.sources.formats.pdf import raw
from retrieve_cli.sources.formats.pdf.raw import SKEWED
from retrieve_cli.sources.formats.pdf.word_splits import split_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TEXT = 1
"""Type of a text object."""
_MOST_OBJECTS, _MOST_HYPHENS = 3000, 50
"""Bounds of a page on which hyphens are told apart; beyond them they count as hard."""
_SOFT = 0xAD


def soft_hyphens(page: int, handle: int, places: Sequence[int]) -> set[int]:
    """Return the soft ones of the hyphens, which are given by their indices of characters."""
    count = raw.count_objects(page)
    if count > _MOST_OBJECTS or len(places) > _MOST_HYPHENS:
        return set()
    objects = [raw.page_object(page, number) for number in range(count)]
    texts = [drawn for drawn in objects if drawn and raw.object_kind(drawn) == _TEXT]
    own = {place: raw.char_object(handle, place) for place in places}
    if not own or not set(own.values()) & set(texts):
        return set()  # the text is in forms
    for drawn in texts:
        raw.show_object(drawn, 0)
    try:
        return {place for place, drawn in own.items() if drawn in texts and _ends_soft(page, drawn)}
    finally:
        for drawn in texts:
            raw.show_object(drawn, 1)


def _ends_soft(page: int, drawn: int) -> bool:
    """Return True if a text object, the only visible one, ends with a soft hyphen."""
    raw.show_object(drawn, 1)
    handle = raw.open_text(page)
    try:
        count = raw.count_chars(handle) if handle else 0
        while count and raw.char_code(handle, count - 1) in {0x20, 0x0D, 0x0A}:
            count -= 1
        return count > 0 and raw.char_code(handle, count - 1) == _SOFT
    finally:
        if handle:
            raw.close_text(handle)
        raw.show_object(drawn, 0)


_FIXED, _FORCED_BOLD = 1, 1 << 18
"""Flags of a font descriptor (ISO 32000-1, table 123)."""
_HEAVY = 550
"""Weight from which a font is bold; pdfium derives it from the width of the stems if the file has no weight."""
_BOLD = re.compile(r"bold|black|heavy|demi|cmb|medi$", re.IGNORECASE)
_MONO = re.compile(r"mono|courier|consol|typewriter|cmtt|menlo|lettergothic", re.IGNORECASE)
_LONGEST = 128


def font(handle: int) -> tuple[bool, bool]:
    """Return True if a font is bold, and True if it is monospaced; no font is neither."""
    if not handle:
        return False, False
    name = ctypes.create_string_buffer(_LONGEST)
    raw.font_name(handle, ctypes.addressof(name), _LONGEST)
    called = name.value.decode("latin-1").rpartition("+")[2]
    flags = max(0, raw.font_flags(handle))
    bold = raw.font_weight(handle) >= _HEAVY or bool(flags & _FORCED_BOLD) or bool(_BOLD.search(called))
    return bold, bool(flags & _FIXED) or bool(_MONO.search(called))


_WORD = re.compile(r"[^\s\x00-\x1f\x7f\xad\ufffe\uffff]+[\x02\xad]?")
"""A word; pdfium writes U+0002 for a hyphen at the end of a line and no line break behind it. A soft hyphen within a
line, which only some fonts have in place of the hard one, divides a word as well."""
_HYPHEN = re.compile("\x02")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LEVEL = 0.2
"""Tangent of the largest angle at which text counts as level."""
_FARTHEST = 1e5
"""No page is larger: coordinates beyond it are errors."""


class Word(NamedTuple):
    """A word, or the part of one that is on one line.

    Places are points from the top left corner of the visible page as displayed: y grows downward, `x0 <= x1` and
    `y0 <= y1`, rotation and crop box applied. They may lie outside the page.
    """

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    """Font size in points as displayed."""
    bold: bool = False
    fixed: bool = False
    """True in a monospaced font."""
    turn: int = 0
    """Degrees clockwise from left-to-right in which the text runs on the displayed page: 0, 90, 180 or 270."""


@dataclass(slots=True)
class PageWords:
    """The words of a page in the order of its content stream, in parallel arrays."""

    width: float
    height: float
    texts: list[str]
    boxes: NDArray[np.float32]
    """(n, 4): x0, y0, x1, y1 as displayed."""
    sizes: NDArray[np.float32]
    turns: NDArray[np.int16]
    bold: NDArray[np.bool_]
    fixed: NDArray[np.bool_]

    def __iter__(self) -> Iterator[Word]:
        columns = (
            *self.boxes.T.tolist(),
            self.sizes.tolist(),
            self.bold.tolist(),
            self.fixed.tolist(),
            self.turns.tolist(),
        )
        return map(partial(tuple.__new__, Word), zip(self.texts, *columns, strict=True))  # no call of Python per word

    def select(self, kept: NDArray[np.bool_]) -> PageWords:
        """Return the words for which `kept` is true."""
        texts = [text for text, keep in zip(self.texts, kept.tolist(), strict=True) if keep]
        return replace(
            self,
            texts=texts,
            boxes=self.boxes[kept],
            sizes=self.sizes[kept],
            turns=self.turns[kept],
            bold=self.bold[kept],
            fixed=self.fixed[kept],
        )


class Frame(NamedTuple):
    """The visible rectangle of a page in its own coordinates, and the turn with which it is displayed."""

    x0: float
    y0: float
    x1: float
    y1: float
    turn: int
    """Quarter turns clockwise."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height as displayed."""
        width, height = self.x1 - self.x0, self.y1 - self.y0
        return (height, width) if self.turn % 2 else (width, height)

    def displayed(self, rectangles: NDArray[np.float32]) -> NDArray[np.float32]:
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


def read_words(page: int) -> PageWords:
    """Return the words of a page by its address, without those outside of the visible page."""
    frame = frame_of(page)
    handle = raw.open_text(page)
    if not handle:
        return empty_words(frame)
    try:
        characters = _characters(handle)
        if "\x02" in characters:
            soft = soft_hyphens(page, handle, [match.start() for match in _HYPHEN.finditer(characters)])
            if soft:
                characters = "".join("\xad" if place in soft else char for place, char in enumerate(characters))
        spans = [match.span() for match in _WORD.finditer(characters)]
        return _words(handle, characters, spans, frame) if spans else empty_words(frame)
    finally:
        raw.close_text(handle)


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
    firsts = [start for start, _ in spans]
    style = _styles(handle, firsts, frame)
    heads = _boxes(handle, firsts, frame)
    tails = _boxes(handle, [end - 1 for _, end in spans], frame)
    pieces = split_words(
        heads,
        tails,
        characters=characters,
        spans=spans,
        sizes=style.sizes,
        turns=style.turns,
        boxes_of=lambda indices: _boxes(handle, indices, frame),
    )
    if pieces is not None:
        spans, source, heads, tails = pieces
        style = style.at(source)
    width, height = frame.size
    boxes = np.concatenate([np.minimum(heads, tails)[:, :2], np.maximum(heads, tails)[:, 2:]], axis=1)
    texts = [characters[start:end] for start, end in spans]
    if "\x02" in characters or not characters.isascii():
        texts = list(map(_spelled, texts))
    words = PageWords(width, height, texts, boxes, style.sizes, style.turns, style.bold, style.fixed)
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    visible = ((middle >= 0) & (middle <= (width, height))).all(axis=1)  # false for what is not a number
    return words if visible.all() else words.select(visible)


def _boxes(handle: int, indices: Sequence[int], frame: Frame) -> NDArray[np.float32]:
    """Return the boxes of characters as displayed, (n, 4)."""
    rectangles = np.zeros((len(indices), 4), dtype=np.float32)
    base = rectangles.ctypes.data
    deque(map(raw.char_box, repeat(handle), indices, range(base, base + rectangles.nbytes, 16)), maxlen=0)
    return frame.displayed(rectangles)


class _Styles(NamedTuple):
    sizes: NDArray[np.float32]
    turns: NDArray[np.int16]
    bold: NDArray[np.bool_]
    fixed: NDArray[np.bool_]

    def at(self, numbers: NDArray[np.intp]) -> _Styles:
        return _Styles(self.sizes[numbers], self.turns[numbers], self.bold[numbers], self.fixed[numbers])


def _styles(handle: int, firsts: Sequence[int], frame: Frame) -> _Styles:
    """Return the styles of words by the text objects of their first characters."""
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
            fonts[typeface] = font(typeface)
        size = raw.char_size(handle, index) * hypot(matrix[2], matrix[3])
        turn = _turn(matrix[0], matrix[1], frame.turn)
        table.append((size if 0 < size < _FARTHEST else 1.0, turn, *fonts[typeface]))
    rows = dict(zip(starts, range(len(starts)), strict=True))
    numbers = np.fromiter(map(rows.__getitem__, objects), dtype=np.intp, count=len(objects))
    sizes, turns, bold, fixed = zip(*table, strict=True)
    return _Styles(
        np.array(sizes, dtype=np.float32),
        np.array(turns, dtype=np.int16),
        np.array(bold, dtype=bool),
        np.array(fixed, dtype=bool),
    ).at(numbers)


def _turn(a: float, b: float, turned: int) -> int:
    """Return the degrees clockwise in which text with this matrix runs on the displayed page; the nearest quarter."""
    if min(abs(a), abs(b)) > _LEVEL * max(abs(a), abs(b)):
        return SKEWED
    quarters = (0 if a >= 0 else 2) if abs(a) >= abs(b) else (1 if b > 0 else 3)
    return (turned - quarters) % 4 * 90


def _spelled(text: str) -> str:
    """Return a word as Unicode text."""
    if text[-1] == "\x02":
        text = text[:-1] + "-"
    if not text.isascii() and _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def empty_words(frame: Frame) -> PageWords:
    """Return the words of a page without text."""
    width, height = frame.size
    none = np.zeros(0, dtype=np.float32)
    flags = np.zeros(0, dtype=bool)
    return PageWords(width, height, [], np.zeros((0, 4), np.float32), none, none.astype(np.int16), flags, flags)
