"""A table for a file or a pipe, to the character as rich lays it out there, without loading rich for it.

Only text whose every character is one cell wide is laid out here, as in most catalogs; other text is left to rich.
tests/program/test_plain_table.py holds both to the same characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple

_ONE_CELL = re.compile("[\n -~\xa1-\xac\xae-\u02ff\u0370-\u0373\u0384-\u038a\u0391-\u03a1\u03a3-\u0482\u2013-\u2026]*")
"""Latin, Greek, Cyrillic, dashes, quotation marks, the ellipsis."""
_WORD = re.compile(r"(?:\A\s*+)?\S++\s*+")
_LEAST = 24
"""Columns that texts which may be broken need to be laid out here."""


class Column(NamedTuple):
    """A column: one with a ratio takes its share of what the others leave, and breaks its texts."""

    header: str
    right: bool = False
    """Its texts stand at its right edge."""
    ratio: int = 0
    fold: bool = False
    """A word that is longer than a line goes on in the next one; otherwise it is cut."""


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, width: int) -> str | None:
    """Return the lines of a table that is `width` characters wide; None if it is for rich to lay out."""
    headers = [column.header for column in columns]
    cells = [headers, *rows]
    if not all(_ONE_CELL.fullmatch(text) for row in cells for text in row):
        return None
    texts = [_padding(place, len(columns)) for place in range(len(columns))]
    widths = _widths(columns, cells, width - (len(columns) - 1), texts)
    if widths is None:
        return None
    lines = [*_row(headers, columns, widths), "─" * width]
    for row in rows:
        lines += _row(row, columns, widths)
    return "".join(f"{line}\n" for line in lines)


def _padding(place: int, count: int) -> int:
    """Blanks beside a column: one on each side, none at the edges of the table."""
    return int(place > 0) + int(place < count - 1)


def _widths(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], room: int, padding: Sequence[int]
) -> list[int] | None:
    """The width of each column without its padding; None if they do not fit."""
    widths = [
        0 if column.ratio else max(len(line) for row in cells for line in row[place].split("\n"))
        for place, column in enumerate(columns)
    ]
    left = room - sum(widths) - sum(padding)
    if left < _LEAST:
        return None
    left += sum(blanks for column, blanks in zip(columns, padding, strict=True) if column.ratio)
    shares = sum(column.ratio for column in columns)
    for place, column in enumerate(columns):
        if column.ratio:
            share = ceil(column.ratio * left / shares)
            widths[place] = share - padding[place]
            left, shares = left - share, shares - column.ratio
    return widths


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> Iterator[str]:
    """The lines of a row."""
    blocks = [_lines(text, column, width) for text, column, width in zip(cells, columns, widths, strict=True)]
    for place in range(max(map(len, blocks))):
        parts = (block[place] if place < len(block) else "" for block in blocks)
        # Between columns there are the blanks of both and one for the line that rich would draw.
        yield "   ".join(
            part.rjust(width) if column.right and part else part.ljust(width)
            for part, column, width in zip(parts, columns, widths, strict=True)
        )


def _lines(text: str, column: Column, width: int) -> list[str]:
    """A cell's lines, none longer than its width."""
    if not column.ratio:
        return [line.rstrip() if column.right else line for line in text.split("\n")]
    return [
        broken if len(broken) <= width else f"{broken[: width - 1]}…"
        for line in text.split("\n")
        for broken in _broken(line, width, fold=column.fold)
    ]


def _broken(line: str, width: int, *, fold: bool) -> Iterator[str]:
    """A line broken between its words, blanks that do not fit dropped."""
    breaks, used = [0], 0
    for match in _WORD.finditer(line):
        start, word = match.start(), match.group()
        length = len(word.rstrip())
        if length <= width - used:
            used += len(word)
        elif length > width:
            pieces = range(start, start + len(word), width) if fold else [start]
            breaks += [place for place in pieces if place]
            used = start + len(word) - pieces[-1]
        elif used and start:
            breaks.append(start)
            used = len(word)
    for begin, end in zip(breaks, [*breaks[1:], len(line)], strict=True):
        part = line[begin:end]
        yield part if len(part) <= width else part[: max(width, len(part.rstrip()))]
