"""Tables of a page: a grid of columns and rows, made of drawn lines where there are some, else of gaps between words.

Upright lines that touch level ones close a table off, so it is taken out of the page before its columns are found.
Other tables are stretches of lines within a column whose gaps go on from line to line; level lines among them part
their rows into bands. A line of a band begins a row, or goes on the cells above.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from operator import attrgetter
from typing import NamedTuple

from retrieve_cli.sources.formats.pdf.lines import Line
from retrieve_cli.sources.formats.pdf.words import RTL

SNAP, TOUCH = 3.0, 3.5
"""Points within which lines count as one, and a line touches another one: rules of booktabs leave 2 to 3 points."""
MOST_RULES, MOST_CELLS = 1_500, 20_000  # lines of one direction, and places of a grid; more are a drawing
BORDER, WHOLE = 0.5, 0.9
"""Least share of a cell's side that a border covers, and of a table's width or height that a whole line covers."""
LEAST_WORDS = 4  # two rows with two cells each
LEAST_FILLED, LARGEST_SHARE, LARGE = 0.2, 0.7, 60
"""Least share of cells with text, and largest share of a large table's words in one cell: a frame around a page."""
SAME_LINE = 0.5  # share of the lower of two words by which they overlap if they are on one line
RUN_GAP, GAP, SPACE = 0.7, 0.8, 0.25
"""In font sizes: the widest space in a run of words, the least gap between columns, the least space of two words."""
FAR = 2.6
"""Gap between two rows, in font sizes, that ends a table without lines, unless the rows are as far apart all along."""
ALIGNED = 0.6
"""Least share of the cells of a table without lines that share an edge or their middle with others of the column."""
MOST_LINES = 400
_MARKER = re.compile(r"(?:\W{1,2}|[(\[]?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)\]]?)")  # mark of an item of a list
_LEADER = re.compile(r"[.…·]{4}")  # dots that lead to the number of a page


class CellWord(NamedTuple):
    """A word in the direction in which it is read."""

    number: int
    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float


class RuledLine(NamedTuple):
    """A level or upright line: the coordinate that it keeps, and its two ends in the other one."""

    at: float
    start: float
    end: float


class PdfTable(NamedTuple):
    """A table: its box in the direction of its text, and by row and cell the numbers of its words.

    The text of a cell that spans others is in its first place, the other places are empty.
    """

    box: tuple[float, float, float, float]
    turn: int
    rows: tuple[tuple[tuple[int, ...], ...], ...]


Cells = list[list[CellWord]]  # words of a row or of one of its lines, by column


def join_rules(rules: Iterable[RuledLine]) -> list[RuledLine]:
    """Return the lines that pieces make: the same place within SNAP, gaps of at most TOUCH."""
    groups: list[list[RuledLine]] = []
    for rule in sorted(rules):
        if groups and rule.at - groups[-1][0].at <= SNAP:
            groups[-1].append(rule)
        else:
            groups.append([rule])
    joined: list[RuledLine] = []
    for group in groups:
        at = sum(rule.at for rule in group) / len(group)
        end_before = -inf
        for rule in sorted(group, key=attrgetter("start")):
            if rule.start - end_before <= TOUCH:
                last = joined.pop()
                joined.append(RuledLine(at, last.start, max(last.end, rule.end)))
            else:
                joined.append(rule._replace(at=at))
            end_before = joined[-1].end
    return joined


def closed_tables(
    words_of: Callable[[], Sequence[CellWord]], level: Sequence[RuledLine], upright: Sequence[RuledLine], turn: int
) -> tuple[list[PdfTable], list[RuledLine]]:
    """Return the tables that touching lines close off, and the level lines that may belong to other tables."""
    tables: list[PdfTable] = []
    free: list[RuledLine] = []
    if len(level) > MOST_RULES or len(upright) > MOST_RULES:
        return [], []
    for across, down in _touching(level, upright):
        grid = Grid.of(across, down) if across and down else None
        if not down:
            free += across
        elif grid is not None and len(grid.xs) <= 2:  # a frame
            free += () if len(grid.ys) <= 2 else across
        elif grid is not None:
            x0, y0, x1, y1 = box = grid.xs[0], grid.ys[0], grid.xs[-1], grid.ys[-1]
            words = [word for word in words_of() if x0 <= (word.x0 + word.x1) / 2 <= x1]
            inside = [word for word in words if y0 <= (word.y0 + word.y1) / 2 <= y1]
            rows = _closed_rows(inside, grid) if len(inside) >= LEAST_WORDS else []
            tables += _table(rows, box, turn)
    return tables, free


def _touching(
    level: Sequence[RuledLine], upright: Sequence[RuledLine]
) -> list[tuple[list[RuledLine], list[RuledLine]]]:
    """Return whole lines, sorted by place, in groups that touch one another, by the place of their first level line."""
    leaders = list(range(len(level) + len(upright)))

    def leader(number: int) -> int:
        while leaders[number] != number:
            leaders[number] = leaders[leaders[number]]
            number = leaders[number]
        return number

    places = [rule.at for rule in upright]
    for number, rule in enumerate(level):
        for index in range(bisect_left(places, rule.start - TOUCH), bisect_right(places, rule.end + TOUCH)):
            if upright[index].start - TOUCH <= rule.at <= upright[index].end + TOUCH:
                leaders[leader(len(level) + index)] = leader(number)
    groups: dict[int, tuple[list[RuledLine], list[RuledLine]]] = {}
    for number, rule in enumerate((*level, *upright)):
        groups.setdefault(leader(number), ([], []))[number >= len(level)].append(rule)
    return list(groups.values())


class Grid(NamedTuple):
    """Places of the lines between columns and rows, the outer ones included, and the lines at each place."""

    xs: list[float]
    ys: list[float]
    upright: dict[float, list[RuledLine]]
    level: dict[float, list[RuledLine]]

    @classmethod
    def of(cls, across: Sequence[RuledLine], down: Sequence[RuledLine]) -> Grid | None:
        """Return the grid of lines that touch; None for too many lines, and for boxes and bars of a diagram, which lack
        two lines as wide or as high as the whole. A table open at its sides ends with the lines.
        """
        level, upright = _by_place(across), _by_place(down)
        xs, ys = _with_ends(sorted(upright), across), _with_ends(sorted(level), down)
        if not 3 <= len(xs) * len(ys) <= MOST_CELLS:
            return None
        wide = sum(_covered(pieces, xs[0], xs[-1]) >= WHOLE for pieces in level.values())
        high = sum(_covered(pieces, ys[0], ys[-1]) >= WHOLE for pieces in upright.values())
        return cls(xs, ys, upright, level) if wide >= 2 or high >= 2 or (wide and high) else None

    def walls(self, row: int) -> list[bool]:
        """Return for each inner place x if a line parts the cells of a row there."""
        top, bottom = self.ys[row : row + 2]
        return [_covered(self.upright.get(x, ()), top, bottom) >= BORDER for x in self.xs[1:-1]]

    def floors(self, row: int) -> list[bool]:
        """Return for each column if a line is at the bottom of its cell of a row."""
        pieces = self.level.get(self.ys[row + 1], ())
        return [_covered(pieces, left, right) >= BORDER for left, right in pairwise(self.xs)]


def _by_place(rules: Sequence[RuledLine]) -> dict[float, list[RuledLine]]:
    places: dict[float, list[RuledLine]] = {}
    for rule in rules:
        places.setdefault(rule.at, []).append(rule)
    return places


def _with_ends(places: list[float], rules: Sequence[RuledLine]) -> list[float]:
    """Return places with the ends of the lines across them that reach beyond."""
    start, end = min(rule.start for rule in rules), max(rule.end for rule in rules)
    before, behind = start < places[0] - TOUCH, end > places[-1] + TOUCH
    return [*([start] if before else []), *places, *([end] if behind else [])]


def _covered(rules: Sequence[RuledLine], start: float, end: float) -> float:
    """Return the share of a stretch that lines cover."""
    total = sum(max(0.0, min(rule.end, end) - max(rule.start, start)) for rule in rules)
    return total / (end - start) if end > start else 0.0


def _closed_rows(words: Sequence[CellWord], grid: Grid) -> list[Cells]:
    """Return the rows of a grid: bands between level lines, those parted whose lines are rows."""
    columns, count = len(grid.xs) - 1, len(grid.ys) - 1
    bands: list[list[CellWord]] = [[] for _ in range(count)]
    for word in words:
        bands[_place(grid.ys, (word.y0 + word.y1) / 2)].append(word)
    cells: list[Cells] = [[[] for _ in range(columns)] for _ in range(count)]
    tops = [0] * columns
    merged = [False] * count  # with a cell that goes on in another band
    for row, band in enumerate(bands):
        for column, part in enumerate(_by_column(band, grid, row)):
            cells[tops[column]][column] += part
        for column, floor in enumerate(grid.floors(row) if row + 1 < count else ()):
            tops[column] = row + 1 if floor else tops[column]
            if not floor:
                merged[row] = merged[row + 1] = True
    few = sum(any(row) for row in cells) <= 2
    lines = [[row] if whole else _lines_by_column(row) for row, whole in zip(cells, merged, strict=True) if any(row)]
    lefts, rights = [inf] * columns, [-inf] * columns
    for column, word in ((column, word) for row in cells for column, cell in enumerate(row) for word in cell):
        lefts[column], rights[column] = min(lefts[column], word.x0), max(rights[column], word.x1)
    return _rows(lines, [right - left for left, right in zip(lefts, rights, strict=True)], ruled=not few)


def _place(places: Sequence[float], value: float) -> int:
    return min(max(bisect_right(places, value) - 1, 0), len(places) - 2)


def _by_column(band: Sequence[CellWord], grid: Grid, row: int) -> Cells:
    """Return the words of a band by column; text of a cell that spans others is in its first column."""
    cells: Cells = [[] for _ in grid.xs[1:]]
    firsts = [0]
    for column, wall in enumerate(grid.walls(row), start=1):
        firsts.append(column if wall else firsts[-1])
    for word in band:
        cells[firsts[_place(grid.xs, (word.x0 + word.x1) / 2)]].append(word)
    return cells


def lines_of(words: Iterable[CellWord]) -> list[list[CellWord]]:
    """Return words by line from the top, each from left to right."""
    lines: list[list[CellWord]] = []
    y0 = y1 = -inf
    for word in sorted(words, key=lambda word: (word.y0 + word.y1, word.x0, word.number)):
        if lines and min(word.y1, y1) - max(word.y0, y0) > SAME_LINE * min(word.y1 - word.y0, y1 - y0):
            lines[-1].append(word)
            y0, y1 = min(y0, word.y0), max(y1, word.y1)
        else:
            lines.append([word])
            y0, y1 = word.y0, word.y1
    return [sorted(line, key=attrgetter("x0", "number")) for line in lines]


def _runs(line: Sequence[CellWord]) -> list[list[CellWord]]:
    """Return the stretches of a line that wide gaps separate."""
    runs: list[list[CellWord]] = []
    right = -inf
    for word in line:
        if runs and word.x0 - right <= RUN_GAP * word.size:
            runs[-1].append(word)
        else:
            runs.append([word])
        right = max(right, word.x1)
    return runs


def _lines_by_column(row: Cells) -> list[Cells]:
    """Return the lines of a row, each by column."""
    columns = {word.number: column for column, cell in enumerate(row) for word in cell}
    return [
        [[word for word in line if columns[word.number] == column] for column in range(len(row))]
        for line in lines_of(word for cell in row for word in cell)
    ]


def _evidence(above: Cells, below: Cells, widths: Sequence[float]) -> tuple[int, int]:
    """Return how many columns show that a line begins a row, and how many that it goes on the one above: the next word
    would not have fitted there. Running text has no number below a number.
    """
    begun = wrapped = 0
    for first, second, width in zip(above, below, widths, strict=True):
        if first and second:
            needed = max(word.x1 for word in first) - first[0].x0 + SPACE * second[0].size
            fits = needed + second[0].x1 - second[0].x0 <= width - 0.5 or (_is_number(first) and _is_number(second))
            begun += fits
            wrapped += not fits and len(first) + len(second) > 2
    return begun, wrapped


def _is_number(cell: Sequence[CellWord]) -> bool:
    text = "".join(word.text for word in cell)
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text)) and text[-1] not in "-–,/:"


def _table(rows: Sequence[Cells], box: tuple[float, float, float, float], turn: int) -> Iterator[PdfTable]:
    """Yield the table without its empty rows and columns, if it is one: text in two rows and two columns."""
    columns = [number for number in range(len(rows[0])) if any(row[number] for row in rows)] if rows else []
    kept = [[row[number] for number in columns] for row in rows if any(row)]
    sizes = [len(cell) for row in kept for cell in row if cell]
    several = sum(sum(map(bool, row)) > 1 for row in kept)
    sparse = several < max(2, len(kept) / 3 + 0.1) or len(sizes) < LEAST_FILLED * len(kept) * len(columns)
    frame = sum(sizes) > LARGE and max(sizes) > LARGEST_SHARE * sum(sizes)
    if len(columns) > 1 and not sparse and not frame:
        yield PdfTable(box, turn, tuple(tuple(_in_order(cell) for cell in row) for row in kept))


def _in_order(cell: Sequence[CellWord]) -> tuple[int, ...]:
    """Return the numbers of the words of a cell in reading order: lines of a right-to-left script from the right."""
    lines = [line[::-1] if any(RTL.search(word.text) for word in line) else line for line in lines_of(cell)]
    return tuple(word.number for line in lines for word in line)


# ---------------------------------------------------------------------------------- tables without upright lines

Span = tuple[float, float]


def open_tables(
    lines: Sequence[Line], level: Sequence[RuledLine], words_of: Callable[[Line], list[CellWord]]
) -> Iterator[tuple[int, int, PdfTable]]:
    """Yield the tables among the lines of a column: the numbers of their first line and of the one after the last."""
    left, right = min(line.x0 for line in lines), max(line.x1 for line in lines)
    near = [rule for rule in level if rule.start < right and rule.end > left]
    spans = [_spans(line) for line in lines]
    start = 0
    while start < len(lines):
        stop, columns = (start, []) if len(spans[start]) < 2 else _stretch(lines, spans, start)
        several = len(columns) > 1 and stop > start + 1
        table = _open_table(lines[start:stop], columns, near, words_of) if several else None
        if table is not None:
            yield start, stop, table
        start = max(stop, start + 1)


def _spans(line: Line) -> list[Span]:
    """Return the stretches of a line that wide gaps separate; none for code and tables."""
    if line.table >= 0 or line.fixed or len(line.segments) < 2:
        return [] if line.table >= 0 or line.fixed else [(line.x0, line.x1)]
    return _merged(((segment.x0, segment.x1) for segment in line.segments), GAP * line.size)


def _merged(spans: Iterable[Span], gap: float) -> list[Span]:
    merged: list[Span] = []
    for x0, x1 in sorted(spans):
        if merged and x0 - merged[-1][1] < gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], x1))
        else:
            merged.append((x0, x1))
    return merged


def _stretch(lines: Sequence[Line], spans: Sequence[Sequence[Span]], start: int) -> tuple[int, list[Span]]:
    """Return the end of the stretch of lines that share the gaps of its first one, and its columns."""
    columns, stop, waiting, pitch = list(spans[start]), start + 1, 0, 0.0
    gap = GAP * lines[start].size
    for number in range(start + 1, min(len(lines), start + MOST_LINES)):
        line, before, own = lines[number], lines[number - 1], spans[number]
        distance, free = line.y1 - before.y1, line.y0 - before.y1
        if stop == start + 1 and number + 1 < len(lines):
            pitch = lines[number + 1].y1 - line.y1
        if not own or (free > FAR * line.size and abs(distance - pitch) > 0.1 * distance):
            break
        pitch = distance
        wider = _merged([*columns, *own], gap)
        tight = free < 0.6 * line.size
        keeps = all(len(_inside(columns, span)) < 2 for span in wider)
        if keeps and len({_inside(wider, span)[0] for span in own}) == 1:
            if len(own) > 1 and stop == start + 1:
                columns, stop = list(own), number + 1  # below a header that spans columns
            elif waiting == 3:
                break
            else:
                waiting += 1
        elif keeps or (len(wider) > 1 and (len(own) > 1 or tight) and stop - start < 3):
            columns, stop, waiting = wider, number + 1, 0  # gaps that go are by chance, between the words of a cell
        else:
            break
    return stop, columns


def _inside(columns: Sequence[Span], span: Span) -> list[int]:
    """Return the numbers of the columns that a stretch overlaps."""
    return [number for number, (x0, x1) in enumerate(columns) if x0 <= span[1] and x1 >= span[0]]


def _open_table(
    lines: Sequence[Line],
    columns: Sequence[Span],
    level: Sequence[RuledLine],
    words_of: Callable[[Line], list[CellWord]],
) -> PdfTable | None:
    """Return the table of lines with these columns; None if they are running text, a list, or cells by chance."""
    borders = [-inf, *((left[1] + right[0]) / 2 for left, right in pairwise(columns)), inf]
    width = columns[-1][1] - columns[0][0]
    bands: list[list[Cells]] = [[]]
    before = -inf
    for line in lines:
        cells: Cells = [[] for _ in columns]
        for run in _runs(sorted(words_of(line), key=attrgetter("x0"))):
            cells[_place(borders, run[0].x0)] += run
        between = [rule for rule in level if before < rule.at < line.y1 - 0.3 * line.size]
        if before > -inf and any(rule.end - rule.start > 0.5 * width for rule in between):
            bands.append([])
        bands[-1].append(cells)
        before = line.y1 - 0.3 * line.size
    flat = [cells for band in bands for cells in band]
    widths = [right - left for left, right in columns]
    ruled = len(bands) >= 4 and 2 * sum(len(band) <= 1 for band in bands[1:]) >= len(bands) - 1
    rows = _rows(bands, widths, ruled=ruled)
    several = sum(sum(map(bool, row)) > 1 for row in rows)
    filled = sum(bool(cell) for row in rows for cell in row)
    if 2 * several < len(rows) or 2 * filled < len(rows) * len(columns) or not (len(bands) > 1 or _is_regular(flat)):
        return None
    box = min(line.x0 for line in lines), lines[0].y0, max(line.x1 for line in lines), lines[-1].y1
    return next(_table(rows, box, lines[0].turn), None)


def _is_regular(lines: Sequence[Cells]) -> bool:
    """Return True if cells without any drawn line are a table's: aligned, in three rows, no items or leaders."""
    rows = [line for line in lines if sum(map(bool, line)) > 1]
    marks = sum(bool(_MARKER.fullmatch("".join(word.text for word in row[0]))) for row in rows)
    leaders = sum(any(_LEADER.search("".join(word.text for word in cell)) for cell in row) for row in rows)
    if len(rows) < 3 or (len(rows[0]) == 2 and 2 * marks > len(rows)) or 3 * leaders > len(rows):
        return False
    aligned = total = 0
    for column in range(len(rows[0])):
        cells = [row[column] for row in rows if row[column]]
        edges = [(cell[0].x0, cell[-1].x1, (cell[0].x0 + cell[-1].x1) / 2) for cell in cells]
        counts = [Counter(round(edge / 2) for edge in places) for places in zip(*edges, strict=True)]
        aligned += max((max(count.values()) for count in counts), default=0)
        total += len(cells)
    return aligned >= ALIGNED * total


def _rows(bands: Sequence[Sequence[Cells]], widths: Sequence[float], *, ruled: bool) -> list[Cells]:
    """Return the rows of bands of lines: lines joined that go on the cells of the line before.

    `ruled` is true if the bands are the rows; else all but the first of several bands, a header, may have more of them.
    """
    rows: list[Cells] = []
    for number, band in enumerate(bands):
        whole = ruled or (number == 0 and len(bands) > 1)
        rows += [[list(cell) for cell in line] for line in band[:1]]
        for above, below in pairwise(band):
            if not whole and (all(below) or _starts_row(above, below, widths)):
                rows.append([list(cell) for cell in below])
            else:
                rows[-1] = [[*cell, *part] for cell, part in zip(rows[-1], below, strict=True)]
    return rows


def _starts_row(above: Cells, below: Cells, widths: Sequence[float]) -> bool:
    """Return True if a line begins a row, False if it goes on the cells of the line before."""
    begun, wrapped = _evidence(above, below, widths)
    more = below[0] and any(part and not before for part, before in zip(below, above, strict=True))
    if more or not (below[0] and above[0]) or sum(map(bool, below)) > 1:
        return bool(more) or (begun >= wrapped and sum(map(bool, below)) > 1)
    return not wrapped
