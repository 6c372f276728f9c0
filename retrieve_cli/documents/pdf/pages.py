"""Pages of an open file, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.documents.pdf import raw
from retrieve_cli.documents.pdf.directions import reading_boxes
from retrieve_cli.documents.pdf.page_text import PageText
from retrieve_cli.documents.pdf.page_words import Frame, PageWords, empty_words, read_words
from retrieve_cli.documents.pdf.segments import Segment, segments_of
from retrieve_cli.documents.pdf.tables import Table, find_tables

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

_PATH, _FORM = 2, 5
"""Types of objects that can rule a table: a path, a form with objects of its own."""
_TABLE_CHARS = 40
"""Characters with which a table counts where columns are told from cells: those of a line."""


def read_page(document: PdfDocument, index: int) -> tuple[PageText, bool]:
    """Return the text of a page, by its number from 1, and True if anything is drawn on it.

    Raises:
        pypdfium2.PdfiumError: it cannot be read.
    """
    page = document[index - 1]
    try:
        handle = raw.address(page.raw)
        words = read_words(handle)
        tables: Sequence[Table] = ()
        if words.texts and _has_rules(handle):
            tables = find_tables(handle, list(words), (words.width, words.height))
        return _page_text(index, words, tables), raw.count_objects(handle) > 0
    finally:
        page.close()


def empty_page(index: int) -> PageText:
    """Return a page without text."""
    return PageText(index, empty_words(Frame(0.0, 0.0, 0.0, 0.0, 0)), {})


def _has_rules(page: int) -> bool:
    count = raw.count_objects(page)
    return any(raw.object_kind(raw.page_object(page, number)) in {_PATH, _FORM} for number in range(count))


def _page_text(index: int, words: PageWords, tables: Sequence[Table]) -> PageText:
    if not tables:
        return PageText(index, words, segments_of(words))
    taken = np.zeros(len(words.texts), dtype=bool)
    segments: dict[int, list[Segment]] = {}
    for number, table in enumerate(tables):
        members = [word for row in table.rows for cell in row for word in cell]
        taken[members] = True
        turns, counts = np.unique(words.turns[members], return_counts=True)
        turn = turns[np.argmax(counts)] if members else np.int16(0)
        box = reading_boxes(np.array([table.box], dtype=np.float32), np.array([turn]))[0].tolist()
        # A table stands in the flow like a line of its own, as high as its box.
        x0, y0, x1, y1 = box
        stand_in = Segment(x0, y0, x1, y1, 0, 0, size=10.0, bold=False, fixed=False, chars=_TABLE_CHARS, table=number)
        segments.setdefault(int(turn), []).append(stand_in)
    for turn, of_turn in segments_of(words, taken).items():
        segments.setdefault(turn, []).extend(of_turn)
    return PageText(index, words, segments, tables)
