"""Tables with upright lines: the lines make a grid, the grid makes cells, the words fall into them.

Lines are edges that were drawn in pieces, or twice, joined to whole ones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf
from operator import attrgetter
from typing import NamedTuple

from retrieve_cli.sources.formats.pdf.drawn_edges import (
    CellLine,
    DrawnEdge,
    Edges,
    by_column,
    is_prose,
    lines_of,
    read_break,
    runs_of,
)
from retrieve_cli.sources.formats.pdf.page_words import Word

SNAP = 3.0
"""Lines that are at most this far apart count as one: double rules are 2 points apart in TeX, rows 6 and more."""
TOUCH = 3.5
"""Lines that end this close to another one touch it: rules of booktabs leave 2 to 3 points to an upright line."""
MOST_RULES = 1_500
"""Lines of one direction. A page with more of them is a drawing."""


def join_edges(edges: Iterable[DrawnEdge]) -> list[DrawnEdge]:
    """Return the lines that pieces make: the same place within SNAP, gaps of at most TOUCH."""
    groups: list[list[DrawnEdge]] = []
    for edge in sorted(edges):
        if groups and edge.at - groups[-1][0].at <= SNAP:
            groups[-1].append(edge)
        else:
            groups.append([edge])
    lines: list[DrawnEdge] = []
    for group in groups:
        place = sum(edge.at for edge in group) / len(group)
        end_before = -inf
        for _, start, end, drawn in sorted(group, key=attrgetter("start")):
            if start - end_before <= TOUCH:
                last = lines.pop()
                lines.append(DrawnEdge(place, last.start, max(last.end, end), last.drawn or drawn))
            else:
                lines.append(DrawnEdge(place, start, end, drawn))
            end_before = lines[-1].end
    return lines


def touching_groups(rules: Edges) -> list[Edges]:
    """Return whole lines, sorted by place, in groups that touch one another, by the place of their first level line."""
    horizontal, vertical = rules
    leaders = list(range(len(horizontal) + len(vertical)))
    places = [line.at for line in vertical]
    for number, line in enumerate(horizontal):
        first = bisect_left(places, line.start - TOUCH)
        last = bisect_right(places, line.end + TOUCH)
        for index in range(first, last):
            if vertical[index].start - TOUCH <= line.at <= vertical[index].end + TOUCH:
                leaders[_leader(leaders, len(horizontal) + index)] = _leader(leaders, number)
    groups: dict[int, tuple[list[DrawnEdge], list[DrawnEdge]]] = {}
    for number, line in enumerate((*horizontal, *vertical)):
        group = groups.setdefault(_leader(leaders, number), ([], []))
        group[number >= len(horizontal)].append(line)
    return [Edges(*group) for group in groups.values()]


def _leader(leaders: list[int], number: int) -> int:
    while leaders[number] != number:
        leaders[number] = leaders[leaders[number]]
        number = leaders[number]
    return number


Cells = list[list[list[int]]]
"""Row, column, numbers of words."""

MOST_CELLS = 20_000
BORDER = 0.5
"""Least share of a cell's side that a line covers if it is a border."""
WHOLE = 0.9
"""Least share of the table's width or height that a whole line covers."""
LOOSE = 0.25
"""Largest share of places that belong to no rectangular cell: above, the lines are a drawing."""


class Grid(NamedTuple):
    """Places of the lines between columns and rows, the outer ones included, and the lines at each place."""

    xs: list[float]
    ys: list[float]
    upright: dict[float, list[DrawnEdge]]
    level: dict[float, list[DrawnEdge]]


def grid_of(rules: Edges) -> Grid | None:
    """Return the grid of lines that touch; None for too many lines, and for lines that are no grid.

    A table may be open at its sides: then the ends of the lines are its sides. Two level lines as wide as the table, or
    two upright ones as high, are what boxes of a flow chart and bars of a diagram do not have.
    """
    level, upright = _by_place(rules.horizontal), _by_place(rules.vertical)
    lines = rules.horizontal
    xs = _with_ends(sorted(upright), min(line.start for line in lines), max(line.end for line in lines))
    lines = rules.vertical
    ys = _with_ends(sorted(level), min(line.start for line in lines), max(line.end for line in lines))
    if not 3 <= len(xs) * len(ys) <= MOST_CELLS:
        return None
    wide = sum(_covered(pieces, xs[0], xs[-1]) >= WHOLE for pieces in level.values())
    high = sum(_covered(pieces, ys[0], ys[-1]) >= WHOLE for pieces in upright.values())
    return Grid(xs, ys, upright, level) if wide >= 2 or high >= 2 or (wide and high) else None


def _by_place(lines: Sequence[DrawnEdge]) -> dict[float, list[DrawnEdge]]:
    places: dict[float, list[DrawnEdge]] = {}
    for line in lines:
        places.setdefault(line.at, []).append(line)
    return places


def _with_ends(places: list[float], start: float, end: float) -> list[float]:
    if start < places[0] - TOUCH:
        places.insert(0, start)
    if end > places[-1] + TOUCH:
        places.append(end)
    return places


def _covered(lines: Sequence[DrawnEdge], start: float, end: float) -> float:
    """Return the share of a stretch that lines cover."""
    total = sum(max(0.0, min(line.end, end) - max(line.start, start)) for line in lines)
    return total / (end - start) if end > start else 0.0


def fill_grid(words: Sequence[Word], members: Sequence[int], grid: Grid) -> Cells | None:
    """Return the cells of a grid with their words; None if the grid's cells are not rectangles."""
    rows, columns = len(grid.ys) - 1, len(grid.xs) - 1
    regions, loose = _regions(grid, rows, columns)
    if loose > LOOSE * rows * columns:
        return None
    cells: Cells = [[[] for _ in range(columns)] for _ in range(rows)]
    spans: dict[tuple[int, int, int, int], list[int]] = {}
    for index in members:
        word = words[index]
        row = _place(grid.ys, (word.y0 + word.y1) / 2)
        column = _place(grid.xs, (word.x0 + word.x1) / 2)
        spans.setdefault(regions[row][column], []).append(index)
    for (top, left, _, right), region in spans.items():
        parts = _parts_of_span(words, region, grid.xs, (left, right)) if right > left else {left: region}
        for column, part in parts.items():
            cells[top][column] += part
    return _split_bands(words, cells, grid, regions)


def _place(places: list[float], value: float) -> int:
    return min(max(bisect_right(places, value) - 1, 0), len(places) - 2)


def _regions(grid: Grid, rows: int, columns: int) -> tuple[list[list[tuple[int, int, int, int]]], int]:
    """Return the cell (top, left, bottom, right) of every place of the grid, and the number of loose places.

    Places are one cell if no line separates them. Places that do not make up a rectangle stay separate cells.
    """
    joined_right = [[False] * columns for _ in range(rows)]
    joined_down = [[False] * columns for _ in range(rows)]
    for row in range(rows):
        for column in range(columns):
            if column + 1 < columns:
                pieces = grid.upright.get(grid.xs[column + 1], ())
                joined_right[row][column] = _covered(pieces, grid.ys[row], grid.ys[row + 1]) < BORDER
            if row + 1 < rows:
                pieces = grid.level.get(grid.ys[row + 1], ())
                joined_down[row][column] = _covered(pieces, grid.xs[column], grid.xs[column + 1]) < BORDER
    regions = [[(row, column, row, column) for column in range(columns)] for row in range(rows)]
    seen = [[False] * columns for _ in range(rows)]
    loose = 0
    for row in range(rows):
        for column in range(columns):
            if not seen[row][column]:
                places = _flood(row, column, joined_right, joined_down, seen)
                top, bottom = row, max(place[0] for place in places)
                left, right = min(place[1] for place in places), max(place[1] for place in places)
                if len(places) == (bottom - top + 1) * (right - left + 1):
                    for at_row, at_column in places:
                        regions[at_row][at_column] = (top, left, bottom, right)
                else:
                    loose += len(places)
    return regions, loose


def _flood(
    row: int, column: int, joined_right: list[list[bool]], joined_down: list[list[bool]], seen: list[list[bool]]
) -> list[tuple[int, int]]:
    """Return the places that are one with a place, and mark them as seen."""
    waiting, places = [(row, column)], []
    seen[row][column] = True
    while waiting:
        y, x = waiting.pop()
        places.append((y, x))
        for ny, nx, joined in (
            (y, x + 1, joined_right[y][x]),
            (y, x - 1, x > 0 and joined_right[y][x - 1]),
            (y + 1, x, joined_down[y][x]),
            (y - 1, x, y > 0 and joined_down[y - 1][x]),
        ):
            if joined and not seen[ny][nx]:
                seen[ny][nx] = True
                waiting.append((ny, nx))
    return places


def _parts_of_span(
    words: Sequence[Word], members: Sequence[int], xs: list[float], span: tuple[int, int]
) -> dict[int, list[int]]:
    """Return the words of a cell over several columns, by column if wide gaps put every run of them into one.

    Lines elsewhere mark the columns of a header or body that has no upright lines: its words belong to these
    columns. The text of a cell that spans columns crosses their borders and stays whole, in the first one.
    """
    parts: dict[int, list[int]] = {}
    for line in lines_of(words, members):
        for run in runs_of(words, line.members):
            left, right = words[run[0]].x0, max(words[index].x1 for index in run)
            column = _place(xs, (left + right) / 2)
            if left < xs[column] - 1 or right > xs[column + 1] + 1:
                return {span[0]: list(members)}
            parts.setdefault(column, []).extend(run)
    return parts if len(parts) > 1 else {span[0]: list(members)}


def _split_bands(
    words: Sequence[Word], cells: Cells, grid: Grid, regions: list[list[tuple[int, int, int, int]]]
) -> Cells:
    """Return the cells with bands between level lines split into rows where their lines are rows.

    Groups of rows between level lines are common in TeX. A cell that reaches into the next band keeps its band whole.
    """
    widths = _inner_widths(words, cells, grid)
    bands = sum(any(row) for row in cells)
    rows: Cells = []
    for number, row in enumerate(cells):
        is_whole = all(top == number == bottom for top, _, bottom, _ in regions[number])
        lines = lines_of(words, [index for cell in row for index in cell]) if is_whole else []
        if len(lines) > 1 and _are_rows(words, row, lines, widths, only=number > 0 and bands <= 2):
            rows += by_column(row, lines)
        else:
            rows.append(row)
    return rows


def _inner_widths(words: Sequence[Word], cells: Cells, grid: Grid) -> list[float]:
    """Return the width of each column less the space that its words keep to the lines."""
    widths = []
    for column, (left, right) in enumerate(pairwise(grid.xs)):
        inside = [words[index] for row in cells for index in row[column]]
        inside = [word for word in inside if word.x1 <= right + 1]
        before = min((word.x0 - left for word in inside), default=0.0)
        after = min((right - word.x1 for word in inside), default=0.0)
        widths.append(right - left - max(before, 0.0) - max(min(after, before), 0.0))
    return widths


def _are_rows(
    words: Sequence[Word], row: list[list[int]], lines: list[CellLine], widths: list[float], *, only: bool
) -> bool:
    """Return True if the lines of a band are rows: its columns share the lines, and the breaks come from no wrapping.

    `only` is true if the header has no other band below it: then rows are likely, and a few columns suffice.
    """
    parts = by_column(row, lines)
    filled = [column for column, cell in enumerate(row) if cell]
    steady = sum(all(line[column] for line in parts) for column in filled)
    if len(filled) < 2 or steady < (2 if only else max(2, len(filled) - 1)) or is_prose(words, parts, widths):
        return False
    breaks = [read_break(words, above, below, widths) for above, below in pairwise(parts)]
    chosen, wrapped = sum(found.chosen for found in breaks), sum(found.wrapped for found in breaks)
    if only:
        return chosen >= wrapped
    return chosen > wrapped and 2 * sum(found.chosen > 0 for found in breaks) > len(breaks)
