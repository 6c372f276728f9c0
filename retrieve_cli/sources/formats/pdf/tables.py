"""Tables of a PDF page, found by their ruled lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from retrieve_cli.sources.formats.pdf.cells import (
    MOST_RULES,
    SNAP,
    Cells,
    fill_grid,
    grid_of,
    join_edges,
    touching_groups,
)
from retrieve_cli.sources.formats.pdf.drawn_edges import DrawnEdge, Edges, TooManyPaths, in_reading_order, read_edges
from retrieve_cli.sources.formats.pdf.open_tables import find_open_tables
from retrieve_cli.sources.formats.pdf.page_words import Word

Box = tuple[float, float, float, float]

LEAST_WORDS = 4
"""Two rows with two cells each."""
LEAST_FILLED = 0.2
"""Least share of cells with text: grids of diagrams have a few labels."""
LARGEST_SHARE = 0.7
"""Largest share of a large table's words in one cell: above, the lines are a frame around a page."""
LARGE = 60


class PdfTable(NamedTuple):
    """A table: its box in displayed coordinates, and by row and cell the numbers of its words in reading order.

    The text of a cell that spans others is in its first place, the other places are empty.
    """

    box: Box
    rows: tuple[tuple[tuple[int, ...], ...], ...]


def find_tables(page: int, words: Sequence[Word], size: tuple[float, float]) -> list[PdfTable]:
    """Return the tables with ruled lines of a page, given by its address, from the top; no two share a word.

    `size` is the width and height of the page as displayed, in points.
    """
    if len(words) < LEAST_WORDS:
        return []
    try:
        edges = read_edges(page)
    except TooManyPaths:
        return []
    if not edges.horizontal:
        return []
    tables: list[PdfTable] = []
    counts = Counter([word.turn for word in words])
    for turn in sorted(counts, key=lambda turn: (-counts[turn], turn)):
        if counts[turn] < LEAST_WORDS:
            break
        back = size if turn % 180 == 0 else (size[1], size[0])
        turned = [_turn_word(word, turn, size) for word in words] if turn else words
        for table in _tables_of_frame(_turn_edges(edges, turn, size), turned):
            box = _turn_box(table.box, -turn % 360, back)
            if not any(_overlap(box, other.box) for other in tables):
                tables.append(PdfTable(box, table.rows))
    return sorted(tables, key=lambda table: (table.box[1], table.box[0]))


def _tables_of_frame(edges: Edges, words: Sequence[Word]) -> Iterator[PdfTable]:
    """Yield the tables whose text runs from left to right in this frame: closed ones first."""
    rules = Edges(join_edges(edges.horizontal), join_edges(edges.vertical))
    if len(rules.horizontal) > MOST_RULES or len(rules.vertical) > MOST_RULES:
        return
    level: list[DrawnEdge] = []
    for group in touching_groups(rules):
        if not group.horizontal or not group.vertical:
            level += group.horizontal
            continue
        grid = grid_of(group)
        if grid is None:
            continue
        if len(grid.xs) <= 2:  # without lines across, a frame; a coloured box may be the header of a table
            is_frame = len(grid.ys) <= 2 and any(line.drawn for line in group.vertical)
            level += () if is_frame else group.horizontal
            continue
        x0, y0, x1, y1 = box = (grid.xs[0], grid.ys[0], grid.xs[-1], grid.ys[-1])
        middles = (((word.x0 + word.x1) / 2, (word.y0 + word.y1) / 2) for word in words)
        members = [index for index, (x, y) in enumerate(middles) if x0 <= x <= x1 and y0 <= y <= y1]
        cells = fill_grid(words, members, grid) if len(members) >= LEAST_WORDS else None
        if cells is not None:
            yield from _table(words, box, cells)
    if len(level) >= 2:
        for box, cells in find_open_tables(words, range(len(words)), level):
            several = sum(sum(map(bool, row)) > 1 for row in cells)
            if 2 * several >= len(cells):
                yield from _table(words, box, cells)


def _table(words: Sequence[Word], box: Box, cells: Cells) -> Iterator[PdfTable]:
    """Yield the table without its empty rows and columns, if it is one: text in two rows and two columns."""
    columns = [number for number in range(len(cells[0])) if any(row[number] for row in cells)] if cells else []
    rows = [[row[number] for number in columns] for row in cells if any(row)]
    sizes = [len(cell) for row in rows for cell in row if cell]
    upright = sum(words[index].turn == 0 for row in rows for cell in row for index in cell)
    if len(rows) < 2 or len(columns) < 2 or 2 * upright <= sum(sizes):
        return
    if sum(sum(map(bool, row)) > 1 for row in rows) < 2 or len(sizes) < LEAST_FILLED * len(rows) * len(columns):
        return
    if sum(sizes) > LARGE and max(sizes) > LARGEST_SHARE * sum(sizes):
        return
    yield PdfTable(box, tuple(tuple(in_reading_order(words, cell) for cell in row) for row in rows))


def _overlap(first: Box, second: Box) -> bool:
    return (
        min(first[2], second[2]) - max(first[0], second[0]) > SNAP
        and min(first[3], second[3]) - max(first[1], second[1]) > SNAP
    )


def _turn_box(box: Box, turn: int, size: tuple[float, float]) -> Box:
    """Return a box of the displayed page in the frame in which text of this direction runs from left to right."""
    (x0, y0, x1, y1), (width, height) = box, size
    if turn == 90:
        return (y0, width - x1, y1, width - x0)
    if turn == 180:
        return (width - x1, height - y1, width - x0, height - y0)
    if turn == 270:
        return (height - y1, x0, height - y0, x1)
    return box


def _turn_word(word: Word, turn: int, size: tuple[float, float]) -> Word:
    x0, y0, x1, y1 = _turn_box((word.x0, word.y0, word.x1, word.y1), turn, size)
    return word._replace(x0=x0, y0=y0, x1=x1, y1=y1, turn=(word.turn - turn) % 360)


def _turn_edges(edges: Edges, turn: int, size: tuple[float, float]) -> Edges:
    if not turn:
        return edges
    turned = Edges([], [])
    ends = [((start, at, end, at), drawn) for at, start, end, drawn in edges.horizontal]
    ends += [((at, start, at, end), drawn) for at, start, end, drawn in edges.vertical]
    for box, drawn in ends:
        x0, y0, x1, y1 = _turn_box(box, turn, size)
        if y0 == y1:
            turned.horizontal.append(DrawnEdge(y0, x0, x1, drawn))
        else:
            turned.vertical.append(DrawnEdge(x0, y0, y1, drawn))
    return turned
