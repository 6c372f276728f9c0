"""Text of one page, read without knowledge of the other pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.sources.formats.pdf import raw, tables
from retrieve_cli.sources.formats.pdf.columns import columns_of
from retrieve_cli.sources.formats.pdf.lines import Line, LinePart, line_of, lines_of, segments_of
from retrieve_cli.sources.formats.pdf.rules import read_rules
from retrieve_cli.sources.formats.pdf.tables import CellWord, PdfTable, RuledLine
from retrieve_cli.sources.formats.pdf.words import SKEWED, PageWords, empty_words, frame_of, read_words, reading_boxes

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pypdfium2 import PdfDocument

    from retrieve_cli.sources.formats.pdf.words import Boxes

_TABLE_CHARS = 40  # characters that a table counts as where columns are distinguished from cells: the length of a line


@dataclass(slots=True)
class PageText:
    """Segments and tables of a page; tables without upright lines are found when its lines are put in order."""

    index: int  # number of the page, from 1
    words: PageWords
    boxes: Boxes  # boxes of the words in the direction in which each is read
    segments: dict[int, list[LinePart]]  # segments by the turn of their text
    tables: list[PdfTable] = field(default_factory=list)
    level: dict[int, list[RuledLine]] = field(default_factory=dict)  # level lines by the turn in which they are level
    turn: int = 0  # turn of most of the text
    drawn: bool = False  # true if anything is drawn on it

    def text(self, segment: LinePart) -> str:
        """Return the words of a segment."""
        return " ".join(self.words.texts[segment.first : segment.last])

    def lines(self) -> list[Line]:
        """Return the lines in reading order: first the text in the main direction, then stamps in others."""
        lines: list[Line] = []
        column = 0
        for turn in sorted(self.segments, key=lambda turn: (turn != self.turn, turn == SKEWED, turn)):
            level = self.level.get(turn, [])
            for segments in columns_of(self.segments[turn]):
                of_column = lines_of(segments, column=column, turn=turn)
                lines += self._with_tables(of_column, level)
                column += 1
        return lines

    def _with_tables(self, lines: list[Line], level: Sequence[RuledLine]) -> list[Line]:
        """Return the lines of a column with a table in place of its rows."""
        for start, stop, table in [*tables.open_tables(lines, level, self._words_of)][::-1]:
            first = lines[start]
            lines[start:stop] = [line_of([stand_in(table, len(self.tables))], first[-4:])]
            self.tables.append(table)
        return lines

    def _words_of(self, line: Line) -> list[CellWord]:
        segments = [np.arange(segment.first, segment.last) for segment in line.segments]
        return self.words_of(np.concatenate(segments))

    def words_of(self, numbers: NDArray[np.intp]) -> list[CellWord]:
        """Return words by their numbers."""
        texts, boxes, sizes = self.words.texts, self.boxes[numbers].tolist(), self.words.sizes[numbers].tolist()
        fields = zip(numbers.tolist(), boxes, sizes, strict=True)
        return [CellWord(n, texts[n], x0, y0, x1, y1, size) for n, (x0, y0, x1, y1), size in fields]


def stand_in(table: PdfTable, number: int) -> LinePart:
    """Return a segment in place of a table: it is in the flow like a separate line, as high as its box."""
    return LinePart(*table.box, 0, 0, size=10.0, bold=False, fixed=False, chars=_TABLE_CHARS, table=number)


def empty_page(index: int) -> PageText:
    """Return a page that cannot be read."""
    words = empty_words()
    return PageText(index, words, words.boxes, {})


def read_page(document: PdfDocument, index: int) -> PageText:
    """Return the text of a page, by its number from 1.

    Raises:
        pypdfium2.PdfiumError: it cannot be read.
    """
    page = document[index - 1]
    try:
        handle = raw.address(page.raw)
        frame = frame_of(handle)
        words = read_words(handle, frame)
        count = raw.count_objects(handle)
        text = PageText(index, words, reading_boxes(words.boxes, words.turns), {}, drawn=count > 0)
        kinds = (raw.object_kind(raw.page_object(handle, number)) for number in range(count))
        # A path can rule a table, and so can a form, which has objects itself.
        if len(words.texts) >= tables.LEAST_WORDS and any(kind in {raw.PATH, raw.FORM} for kind in kinds):
            _find_closed_tables(text, read_rules(handle, frame))
        taken = np.zeros(len(words.texts), dtype=bool)
        for number, table in enumerate(text.tables):
            taken[[word for row in table.rows for cell in row for word in cell]] = True
            text.segments.setdefault(table.turn, []).append(stand_in(table, number))
        for turn, segments in segments_of(words, text.boxes, taken if text.tables else None).items():
            text.segments.setdefault(turn, []).extend(segments)
        sizes = {turn: sum([segment.chars for segment in own]) for turn, own in text.segments.items()}
        text.turn = min(sizes, key=lambda turn: (-sizes[turn], turn), default=0)
        return text
    finally:
        page.close()


def _find_closed_tables(text: PageText, boxes: Boxes) -> None:
    """Add the tables and level lines of a page in each direction of its text."""
    words = text.words
    turns, counts = np.unique(words.turns, return_counts=True)
    for turn in turns[(counts >= tables.LEAST_WORDS) & (turns != SKEWED)].tolist() if len(boxes) else ():
        turned = reading_boxes(boxes, np.full(len(boxes), turn, np.int16))
        level: list[RuledLine] = []
        upright: list[RuledLine] = []
        for x0, y0, x1, y1 in turned.tolist():
            if y1 - y0 > x1 - x0:
                upright.append(RuledLine(x0, y0, y1))
            else:
                level.append(RuledLine(y0, x0, x1))
        numbers = np.flatnonzero(words.turns == turn)
        words_of = partial(text.words_of, numbers)
        rules = tables.join_rules(level), tables.join_rules(upright)
        closed, text.level[turn] = tables.closed_tables(words_of, *rules, turn)
        text.tables += closed
