"""Text of one page, read without knowledge of the other pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.sources.formats.pdf import raw
from retrieve_cli.sources.formats.pdf.columns import columns_of
from retrieve_cli.sources.formats.pdf.lines import Line, Segment, line_of, lines_of, segments_of
from retrieve_cli.sources.formats.pdf.rules import read_rules
from retrieve_cli.sources.formats.pdf.tables import (
    LEAST_WORDS,
    CellWord,
    PdfTable,
    RuledLine,
    closed_tables,
    join_rules,
    open_tables,
)
from retrieve_cli.sources.formats.pdf.words import (
    SKEWED,
    Frame,
    PageWords,
    empty_words,
    frame_of,
    read_words,
    reading_boxes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pypdfium2 import PdfDocument

    from retrieve_cli.sources.formats.pdf.words import Boxes

_TABLE_CHARS = 40
"""Characters that a table counts as where columns are distinguished from cells: the length of a line."""


@dataclass(slots=True)
class PageText:
    """Segments and tables of a page; tables without upright lines are found when its lines are put in order."""

    index: int
    """Number of the page, from 1."""
    words: PageWords
    boxes: Boxes
    """Boxes of the words in the direction in which each is read."""
    segments: dict[int, list[Segment]]
    """Segments by the turn of their text."""
    tables: list[PdfTable] = field(default_factory=list)
    level: dict[int, list[RuledLine]] = field(default_factory=dict)
    """Level lines by the turn in which they are level."""
    turn: int = 0
    """Turn of most of the text."""

    def text(self, segment: Segment) -> str:
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
        for start, stop, table in [*open_tables(lines, level, self._words_of)][::-1]:
            first = lines[start]
            lines[start:stop] = [line_of([stand_in(table, len(self.tables))], first[-4:])]
            self.tables.append(table)
        return lines

    def _words_of(self, line: Line) -> list[CellWord]:
        texts, boxes, sizes = self.words.texts, self.boxes, self.words.sizes
        numbers = [number for segment in line.segments for number in range(segment.first, segment.last)]
        return [CellWord(number, texts[number], *boxes[number].tolist(), float(sizes[number])) for number in numbers]


def stand_in(table: PdfTable, number: int) -> Segment:
    """Return a segment in place of a table: it is in the flow like a separate line, as high as its box."""
    return Segment(*table.box, 0, 0, size=10.0, bold=False, fixed=False, chars=_TABLE_CHARS, table=number)


def empty_page(index: int) -> PageText:
    """Return a page that cannot be read."""
    words = empty_words(Frame(0.0, 0.0, 0.0, 0.0, 0))
    return PageText(index, words, words.boxes, {})


def read_page(document: PdfDocument, index: int) -> tuple[PageText, bool]:
    """Return the text of a page, by its number from 1, and True if anything is drawn on it.

    Raises:
        pypdfium2.PdfiumError: it cannot be read.
    """
    page = document[index - 1]
    try:
        handle = raw.address(page.raw)
        frame = frame_of(handle)
        words = read_words(handle, frame)
        text = PageText(index, words, reading_boxes(words.boxes, words.turns), {})
        count = raw.count_objects(handle)
        kinds = (raw.object_kind(raw.page_object(handle, number)) for number in range(count))
        # A path can rule a table, and so can a form, which has objects itself.
        if len(words.texts) >= LEAST_WORDS and any(kind in {raw.PATH, raw.FORM} for kind in kinds):
            _find_closed_tables(text, *read_rules(handle, frame))
        taken = np.zeros(len(words.texts), dtype=bool)
        for number, table in enumerate(text.tables):
            taken[[word for row in table.rows for cell in row for word in cell]] = True
            text.segments.setdefault(table.turn, []).append(stand_in(table, number))
        for turn, segments in segments_of(words, text.boxes, taken if text.tables else None).items():
            text.segments.setdefault(turn, []).extend(segments)
        sizes = {turn: sum([segment.chars for segment in own]) for turn, own in text.segments.items()}
        text.turn = min(sizes, key=lambda turn: (-sizes[turn], turn), default=0)
        return text, count > 0
    finally:
        page.close()


def _find_closed_tables(text: PageText, boxes: Boxes, drawn: NDArray[np.bool_]) -> None:
    """Add the tables and level lines of a page in each direction of its text; no two tables share a word."""
    if not len(boxes):
        return
    words = text.words
    turns, counts = np.unique(words.turns, return_counts=True)
    taken: set[int] = set()
    for turn, count in sorted(zip(turns.tolist(), counts.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0])):
        if count < LEAST_WORDS or turn == SKEWED:
            continue
        turned = reading_boxes(boxes, np.full(len(boxes), turn, np.int16))
        rules: tuple[list[RuledLine], list[RuledLine]] = ([], [])
        for (x0, y0, x1, y1), line in zip(turned.tolist(), drawn.tolist(), strict=True):
            rules[y1 - y0 > x1 - x0].append(
                RuledLine(x0, y0, y1, line) if y1 - y0 > x1 - x0 else RuledLine(y0, x0, x1, line)
            )
        places = reading_boxes(words.boxes, np.full(len(words.texts), turn, np.int16)).tolist()
        sideways = (words.turns != turn).tolist()
        fields = zip(words.texts, places, words.sizes.tolist(), sideways, strict=True)
        members = [CellWord(n, word, *box, size, other) for n, (word, box, size, other) in enumerate(fields)]
        tables, text.level[turn] = closed_tables(members, join_rules(rules[0]), join_rules(rules[1]), turn)
        for table in tables:
            own = {number for row in table.rows for cell in row for number in cell}
            if not own & taken:
                text.tables.append(table)
                taken |= own
