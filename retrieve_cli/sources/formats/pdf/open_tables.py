"""Tables with level lines only, as books set them: columns are the gaps between words that hold for all lines.

A line of words begins a row, or goes on the cells above.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from retrieve_cli.sources.formats.pdf.cells import Cells
from retrieve_cli.sources.formats.pdf.drawn_edges import CellLine, DrawnEdge, is_prose, lines_of, read_break, runs_of
from retrieve_cli.sources.formats.pdf.page_words import Word


class Band(NamedTuple):
    """Words between two level lines of the same width."""

    top: float
    bottom: float
    lines: list[CellLine]
    under: Mapping[int, float]
    """Words right above a shorter line, with the start of that line: headers that may span several columns."""


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


def rows_of(
    words: Sequence[Word], bands: Sequence[Band], shorter: Sequence[DrawnEdge], borders: Sequence[float]
) -> Cells:
    """Return the rows of a table: lines of the bands, those joined that go on a cell of the line before."""
    body = columns_of_lines(words, [line.members for band in bands[1:] for line in band.lines], borders)
    widths = widths_of(words, body)
    singles = sum(len(band.lines) <= 1 for band in bands[1:])
    is_ruled = len(bands) >= 4 and 2 * singles >= len(bands) - 1
    rows: Cells = []
    for number, band in enumerate(bands):
        under = _first_columns(words, band.under, body, borders)
        is_steady = number > 0 and not is_ruled and len(band.lines) > 2
        if is_steady:  # cells with several lines differ in their number
            is_steady = all(map(all, columns_of_lines(words, [line.members for line in band.lines], borders)))
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


Gaps = list[tuple[float, float]]
"""Stretches of x without words, from the left."""

SAME_ENDS = 6.0
"""Most points by which the ends of a table's lines differ: coloured rows reach that much over the lines in TeX."""
MOST_BANDS = 200
GAP = 0.7
"""Least gap between two columns, in ems, if four lines or more have it."""
GAP_OF_FEW = 1.0
"""The same, if fewer have it."""
CROSSING = 0.25
"""Largest share of lines that run across a gap: titles of groups of rows."""


OpenTable = tuple[tuple[float, float, float, float], Cells]
"""A table between level lines: its box, and the words of its cells."""


def find_open_tables(words: Sequence[Word], members: Sequence[int], level: Sequence[DrawnEdge]) -> list[OpenTable]:
    """Return the tables that level lines of one width make: two or more of them, with columns between."""
    tables: list[OpenTable] = []
    for group in _of_one_width(level):
        if not 2 <= len(group) <= MOST_BANDS or sum(line.drawn for line in group) < 2:
            continue
        left, right = min(line.start for line in group), max(line.end for line in group)
        inside = [n for n in members if left - 1 <= (words[n].x0 + words[n].x1) / 2 <= right + 1]
        shorter = [line for line in level if line not in group and left - 1 <= line.start and line.end <= right + 1]
        tables += _tables_of(words, _bands(words, inside, group, shorter), shorter, (left, right))
    return tables


def _of_one_width(level: Sequence[DrawnEdge]) -> list[list[DrawnEdge]]:
    groups: list[list[DrawnEdge]] = []
    for line in sorted(level, key=lambda line: (line.start, line.end)):
        for group in reversed(groups[-20:]):
            if abs(group[0].start - line.start) <= SAME_ENDS and abs(group[0].end - line.end) <= SAME_ENDS:
                group.append(line)
                break
        else:
            groups.append([line])
    return [sorted(group) for group in groups]


def _bands(
    words: Sequence[Word], members: Sequence[int], group: list[DrawnEdge], shorter: list[DrawnEdge]
) -> list[Band]:
    """Return the bands between the lines of a group; the first is above all of them, the last is below."""
    bands = []
    places = [-math.inf, *(line.at for line in group), math.inf]
    for top, bottom in pairwise(places):
        lines = lines_of(words, [n for n in members if top <= (words[n].y0 + words[n].y1) / 2 < bottom])
        under: dict[int, float] = {}
        for cut in shorter:
            if top < cut.at < bottom:
                under |= _under_cut(words, lines, cut)
        bands.append(Band(top, bottom, lines, under))
    return bands


def _under_cut(words: Sequence[Word], lines: Sequence[CellLine], cut: DrawnEdge) -> dict[int, float]:
    """Return the words right above a shorter line with the start of the line, or their own if it has several texts."""
    above = [line for line in lines if (line.y0 + line.y1) / 2 < cut.at]
    if not above:
        return {}
    over = [n for n in above[-1].members if cut.start - 2 <= (words[n].x0 + words[n].x1) / 2 <= cut.end + 2]
    is_single = len(runs_of(words, over)) == 1
    return {n: cut.start if is_single else words[n].x0 for n in over}


def _tables_of(
    words: Sequence[Word], bands: list[Band], shorter: list[DrawnEdge], ends: tuple[float, float]
) -> list[OpenTable]:
    """Return the longest stretches of bands that share columns, from the top: each band belongs to one at most."""
    tables: list[OpenTable] = []
    first = 1
    while first < len(bands) - 1:
        last, gaps = first + 1, _column_gaps(words, bands[first : first + 1])
        while last < len(bands) - 1 and bands[last].lines:
            shared = _column_gaps(words, bands[first : last + 1])
            if not shared or (len(shared) < len(gaps) > 1 and last > first + 1):
                break
            gaps, last = shared, last + 1
        chosen, gaps = _with_open_ends(words, bands, (first, last), gaps) if gaps and bands[first].lines else ([], gaps)
        if chosen:
            cells = rows_of(words, chosen, shorter, [(start + end) / 2 for start, end in gaps])
            tables.append(((ends[0], chosen[0].top, ends[1], chosen[-1].bottom), cells))
        first = last if chosen else first + 1
    return tables


def _with_open_ends(
    words: Sequence[Word], bands: list[Band], stretch: tuple[int, int], gaps: Gaps
) -> tuple[list[Band], Gaps]:
    """Return the bands of a table with a header above its first line and rows below its last one, and its gaps.

    Many tables have a line below every row and none above the header; a table may go on below the line of its header,
    and one that the end of the page cuts has no last line. Two lines alone, as at the head and the foot of a page, make
    a table only with a header in every column above them, or rows below: without either, there are no bands.
    """
    first, last = stretch
    chosen = bands[first:last]
    size = words[chosen[0].lines[0].members[0]].size
    for head in bands[first - 1].lines[-1:]:
        narrowed = _narrowed(words, head, gaps, GAP * size) if chosen[0].top - head.y1 <= size else []
        if narrowed and _columns_with_text(words, head, narrowed) > max(1, len(gaps) - 1):
            chosen, gaps = [Band(head.y0, chosen[0].top, [head], {}), *chosen], narrowed
    bottom = chosen[-1].bottom
    tail: list[CellLine] = []
    for line in bands[last].lines if last == len(bands) - 1 and len(chosen[-1].lines) <= 3 else ():
        narrowed = _narrowed(words, line, gaps, GAP * size) if line.y0 - bottom <= size else []
        if not narrowed or _columns_with_text(words, line, narrowed) < 2:
            break
        gaps, bottom = narrowed, line.y1
        tail.append(line)
    if len(tail) >= 2:
        chosen = [*chosen, Band(chosen[-1].bottom, bottom, tail, {})]
    return (chosen if len(chosen) > 1 else []), gaps


def _narrowed(words: Sequence[Word], line: CellLine, gaps: Gaps, least: float) -> Gaps:
    """Return the gaps less what words of another line take of them; empty if one gets too narrow."""
    narrowed: Gaps = []
    for gap in gaps:
        left, right = gap
        for n in line.members:
            x0, x1 = words[n].x0, words[n].x1
            if x0 >= right or x1 <= left:
                continue
            if x1 - left < right - x0:
                left = x1
            else:
                right = x0
        if right - left < least:
            return []
        narrowed.append((left, right))
    return narrowed


def _columns_with_text(words: Sequence[Word], line: CellLine, gaps: Gaps) -> int:
    [columns] = columns_of_lines(words, [line.members], [(start + end) / 2 for start, end in gaps])
    return sum(map(bool, columns))


def _column_gaps(words: Sequence[Word], bands: Sequence[Band]) -> Gaps:
    """Return the gaps between columns: no word of any line is in them, but for titles that run across.

    Empty if too many lines run across, or if the columns are columns of running text.
    """
    lines = [tuple(n for n in line.members if n not in band.under) for band in bands for line in band.lines]
    lines = [line for line in lines if line]
    runs = [runs_of(words, line) for line in lines]
    several = [number for number, line in enumerate(runs) if len(line) > 1]
    if not several:
        return []
    sizes = sorted(words[n].size for line in lines for n in line)
    least = sizes[len(sizes) // 2] * (GAP if len(several) >= 4 else GAP_OF_FEW)
    gaps = _free_stretches(words, [n for number in several for n in lines[number]], least)
    crossing = 0
    kept = [n for number in several for n in lines[number]]
    for number, line in enumerate(lines):
        if len(runs[number]) > 1:
            continue
        left, right = words[line[0]].x0, max(words[n].x1 for n in line)
        if any(left < start and right > end for start, end in gaps):
            crossing += 1
        else:
            kept += line
    gaps = _free_stretches(words, kept, least)
    if crossing > max(CROSSING * len(lines), 1 if len(several) >= 3 else 0) or not gaps:
        return []
    columns = columns_of_lines(words, lines, [(start + end) / 2 for start, end in gaps])
    return [] if is_prose(words, columns, widths_of(words, columns)) else gaps


def _free_stretches(words: Sequence[Word], members: Sequence[int], least: float) -> Gaps:
    """Return the stretches of x at least this wide between words that no word covers."""
    stretches: Gaps = []
    right: float | None = None
    for x0, x1 in sorted((words[n].x0, words[n].x1) for n in members):
        if right is not None and x0 - right >= least:
            stretches.append((right, x0))
        right = x1 if right is None else max(right, x1)
    return stretches
