"""Lines of words inside tables: their order, their runs, and which of them begin a row."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from retrieve_cli.sources.formats.pdf.page_words import Word

SAME_LINE = 0.5
"""Share of the lower of two words by which they overlap if they are on one line."""
RUN_GAP = 0.7
"""Widest space inside a run of words, in ems: justified text stretches its spaces to half an em."""
SPACE = 0.25
"""Least space between two words, in ems."""

Members = Sequence[int]
"""Numbers of words."""


class CellLine(NamedTuple):
    """Words of one line, from left to right."""

    members: tuple[int, ...]
    y0: float
    y1: float


def lines_of(words: Sequence[Word], members: Iterable[int]) -> list[CellLine]:
    """Return the lines of the given words, from the top."""
    lines: list[tuple[list[int], float, float]] = []
    for index in sorted(members, key=lambda index: (words[index].y0 + words[index].y1, words[index].x0, index)):
        top, bottom = words[index].y0, words[index].y1
        if lines:
            numbers, y0, y1 = lines[-1]
            if min(bottom, y1) - max(top, y0) > SAME_LINE * min(bottom - top, y1 - y0):
                numbers.append(index)
                lines[-1] = (numbers, min(y0, top), max(y1, bottom))
                continue
        lines.append(([index], top, bottom))
    return [CellLine(tuple(sorted(numbers, key=lambda n: (words[n].x0, n))), y0, y1) for numbers, y0, y1 in lines]


def in_reading_order(words: Sequence[Word], members: Members) -> tuple[int, ...]:
    """Return the words of a cell in the order in which they are read.

    Words that run in another direction than the table keep the order of the page; lines of a right-to-left script are
    read from the right.
    """
    if len(members) < 2:
        return tuple(members)
    if all(words[index].turn for index in members):
        return tuple(sorted(members))
    ordered: list[int] = []
    for line in lines_of(words, members):
        leftward = sum(_direction(words[index].text) for index in line.members) < 0
        ordered += reversed(line.members) if leftward else line.members
    return tuple(ordered)


def _direction(text: str) -> int:
    for letter in text[:8]:
        kind = unicodedata.bidirectional(letter)
        if kind in ("L", "R", "AL"):
            return 1 if kind == "L" else -1
    return 0


def runs_of(words: Sequence[Word], line: Members, gap: float = RUN_GAP) -> list[tuple[int, ...]]:
    """Return the stretches of a line, from left to right, that wider gaps (in ems) separate."""
    runs: list[list[int]] = []
    right = 0.0
    for index in line:
        word = words[index]
        if runs and word.x0 - right <= gap * word.size:
            runs[-1].append(index)
        else:
            runs.append([index])
            right = word.x1
        right = max(right, word.x1)
    return [tuple(run) for run in runs]


def by_column(cells: Sequence[Sequence[int]], lines: Sequence[CellLine]) -> list[list[list[int]]]:
    """Return the words of each line by the column that they have in `cells`."""
    column_of = {index: column for column, cell in enumerate(cells) for index in cell}
    parts: list[list[list[int]]] = []
    for line in lines:
        columns: list[list[int]] = [[] for _ in cells]
        for index in line.members:
            columns[column_of[index]].append(index)
        parts.append(columns)
    return parts


class Break(NamedTuple):
    """Evidence of a line break for a new row, from the columns that have text on both of its sides."""

    common: int
    """Columns with text on both sides."""
    chosen: int
    """Of these, columns with a deliberate break: the next word would have fitted on the line before, or a number
    follows a number, which running text does not do."""
    wrapped: int
    """Of these, columns of running text whose next word would not have fitted."""


def read_break(
    words: Sequence[Word], above: Sequence[Members], below: Sequence[Members], widths: Sequence[float]
) -> Break:
    """Return the evidence of the break between two lines, given as words by column, with the columns' inner widths."""
    common = chosen = wrapped = 0
    for first, second, width in zip(above, below, widths, strict=True):
        if not first or not second:
            continue
        common += 1
        left, right = words[first[0]].x0, max(words[index].x1 for index in first)
        following = words[second[0]]
        needed = right - left + SPACE * following.size + following.x1 - following.x0
        if needed <= width - 0.5 or (_is_number(words, first) and _is_number(words, second)):
            chosen += 1
        elif len(first) > 1 or len(second) > 1:
            wrapped += 1
    return Break(common, chosen, wrapped)


def _is_number(words: Sequence[Word], members: Members) -> bool:
    text = "".join(words[index].text for index in members)
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text)) and text[-1] not in "-–,/:"


def is_prose(words: Sequence[Word], lines: Sequence[Sequence[Members]], widths: Sequence[float]) -> bool:
    """Return True for columns of running text, as on the page of a paper: two of them filled on most of the lines."""
    filled = 0
    for columns in lines:
        full = 0
        for members, width in zip(columns, widths, strict=True):
            if len(members) >= 4 and words[members[-1]].x1 - words[members[0]].x0 >= 0.85 * width:
                full += 1
        filled += full >= 2
    return len(lines) >= 3 and 2 * filled > len(lines)
