"""Footnotes: read at the end of their page, not between the columns above them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from retrieve_cli.documents.pdf.styles import PageLines, Style

_SMALL = 0.93
"""Font size of footnotes relative to the body, at most."""
_MARK = re.compile(r"(?:\d{1,3}|[*†‡§¶‖]{1,3}|\[\d{1,3}\]|\(\d{1,3}\))(?![a-z])")


class Order(NamedTuple):
    numbers: Sequence[int]
    """Numbers of the lines of a page in the order of the text."""
    first_note: int
    """Position of the first line of a footnote."""
    begins: Collection[int]
    """Numbers of the lines that begin a footnote."""


def with_notes_last(item: PageLines, body: Style, headings: Collection[int]) -> Order:
    """Return the order of a page's lines with the footnotes of all columns at the end of the main text."""
    lines = item.lines
    notes: list[int] = []
    begins: set[int] = set()
    number = len(lines) - 1
    top, bottom = min((line.y0 for line in lines), default=0.0), max((line.y1 for line in lines), default=0.0)
    stamps = [n for n, line in enumerate(lines) if line.turn != item.page.turn]
    while number >= 0:
        column = lines[number].column
        last = number
        while number >= 0 and lines[number].column == column:
            number -= 1
        if lines[last].turn == item.page.turn:
            low = _notes(item, range(number + 1, last + 1), body, headings, below=(top + bottom) / 2)
            notes = [*low.numbers, *notes]
            begins |= set(low.begins)
    taken = {*notes, *stamps}
    text = [number for number in range(len(lines)) if number not in taken]
    return Order([*text, *notes, *stamps], len(text), begins)


def _notes(item: PageLines, column: range, body: Style, headings: Collection[int], *, below: float) -> Order:
    """Return the footnotes at the end of a column: small lines `below` a place, the first of which has a mark."""
    begins: list[int] = []
    first = column.stop
    for number in reversed(column):
        line = item.lines[number]
        if number in headings or line.table >= 0 or line.size > _SMALL * body.size or line.y0 <= below:
            break
        if _MARK.match(item.text(line)):
            begins.append(number)
            first = number
    return Order(range(first, column.stop), 0, begins)
