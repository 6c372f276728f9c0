"""Rows of tables with level lines only: lines of words that begin a row, and those that go on the cells above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from retrieve_cli.documents.pdf.cell_lines import Line, read_break, runs_of
from retrieve_cli.documents.pdf.cells import Cells
from retrieve_cli.documents.pdf.drawn_edges import Edge
from retrieve_cli.documents.pdf.page_words import Word


class Band(NamedTuple):
    """Words between two level lines of the same width."""

    top: float
    bottom: float
    lines: list[Line]
    under: Mapping[int, float]
    """Words right above a shorter line, with the start of that line: headers that may stand over several columns."""


def columns_of_lines(
    words: Sequence[Word],
    lines: Sequence[Sequence[int]],
    borders: Sequence[float],
    under: Mapping[int, float] = MappingProxyType({}),
) -> list[list[list[int]]]:
    """Return the words of each line by column; a run that crosses a border belongs to the column where it starts.

    A header above a shorter line starts where that line does.
    """
    columns: list[list[list[int]]] = []
    for line in lines:
        parts: list[list[int]] = [[] for _ in range(len(borders) + 1)]
        for run in runs_of(words, line):
            left = under.get(run[0], words[run[0]].x0)
            parts[sum(left > border for border in borders)].extend(run)
        columns.append(parts)
    return columns


def widths_of(words: Sequence[Word], columns: Sequence[Sequence[Sequence[int]]]) -> list[float]:
    """Return the width of each column from its first to its last word."""
    widths = []
    for number in range(len(columns[0]) if columns else 0):
        inside = [words[n] for line in columns for n in line[number]]
        widths.append(max((w.x1 for w in inside), default=0.0) - min((w.x0 for w in inside), default=0.0))
    return widths


def rows_of(words: Sequence[Word], bands: Sequence[Band], shorter: Sequence[Edge], borders: Sequence[float]) -> Cells:
    """Return the rows of a table: lines of the bands, those joined that go on a cell of the line before."""
    body = columns_of_lines(words, [line.members for band in bands[1:] for line in band.lines], borders)
    widths = widths_of(words, body)
    singles = sum(len(band.lines) <= 1 for band in bands[1:])
    is_ruled = len(bands) >= 4 and 2 * singles >= len(bands) - 1
    rows: Cells = []
    for number, band in enumerate(bands):
        under = _first_columns(words, band.under, body, borders)
        is_steady = number > 0 and not is_ruled and len(band.lines) > 2 and _is_steady(words, band, borders)
        previous: list[list[int]] | None = None
        top = 0.0
        for line in band.lines:
            [parts] = columns_of_lines(words, [line.members], borders, under)
            is_cut = any(top < rule.at < line.y0 + 2 for rule in shorter)
            if (
                previous is None
                or is_cut
                or is_steady
                or _starts_row(words, previous, parts, widths, is_header=number == 0, is_ruled=is_ruled)
            ):
                rows.append([list(part) for part in parts])
            else:
                rows[-1] = [[*cell, *part] for cell, part in zip(rows[-1], parts, strict=True)]
            previous, top = parts, line.y0
    return rows


def _is_steady(words: Sequence[Word], band: Band, borders: Sequence[float]) -> bool:
    """Return True if every line has text in every column: cells with several lines differ in their number."""
    return all(all(parts) for parts in columns_of_lines(words, [line.members for line in band.lines], borders))


def _first_columns(
    words: Sequence[Word], under: Mapping[int, float], body: Sequence[Sequence[Sequence[int]]], borders: Sequence[float]
) -> dict[int, float]:
    """Return for each header above a shorter line the middle of the first column that the line covers."""
    if not under:
        return {}
    middles = []
    for column in range(len(borders) + 1):
        inside = [words[n] for line in body for n in line[column]]
        if inside:
            middles.append((min(word.x0 for word in inside) + max(word.x1 for word in inside)) / 2)
    return {
        n: next((middle for middle in middles if middle >= start), start)
        for n, start in under.items()
        if start != words[n].x0
    }


def _starts_row(
    words: Sequence[Word],
    above: list[list[int]],
    below: list[list[int]],
    widths: Sequence[float],
    *,
    is_header: bool,
    is_ruled: bool,
) -> bool:
    """Return True if a line begins a row, False if it goes on the cells of the line before.

    In a table with a line below every row, and in a header, a line goes on the one before unless the breaks were made.
    """
    evidence = read_break(words, above, below, widths)
    filled = sum(map(bool, below))
    if is_header:
        return evidence.common == evidence.chosen == len(widths)
    if below[0] and any(part and not before for part, before in zip(below, above, strict=True)):
        return True
    if is_ruled:
        return filled > 1 and evidence.chosen > evidence.wrapped and bool(below[0])
    if not below[0] or not above[0]:
        return filled > 1 and evidence.chosen >= evidence.wrapped
    if filled == 1:
        return not evidence.wrapped
    return evidence.chosen >= evidence.wrapped or evidence.common > evidence.wrapped
