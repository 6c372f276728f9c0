"""Tables of data as pipe tables, as distinct from tables that lay out a page."""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from typing import NamedTuple

from retrieve_cli.sources.formats.html.tree import CODE, HEADINGS, TABLE_PARTS, TEXT, Tree, flat

_CELLS = frozenset(("td", "th"))
_ROWS = frozenset(("tr",))
_EMPHASIS = frozenset(("b", "strong"))
_INSIDE_LAYOUT = frozenset(("table", *HEADINGS))
_LONGEST_CELL = 1000
"""Characters above which a cell without any header is a part of the page."""
_MOST_SPANNED = 100
_MOST_ROWS_SPANNED = 1000
_MOST_COLUMNS = 1000
_WIDENED = 8
"""Largest ratio of places in the grid to cells in the source; beyond, spans are ignored and rows are not filled up."""


class _Cell(NamedTuple):
    node: int
    header: bool
    columns: int
    rows: int


def is_data(tree: Tree, table: int) -> bool:
    """Return True if a table shows data: several rows and columns, or headers, without tables or headings inside."""
    if tree.value(table, "role") in ("presentation", "none"):
        return False
    rows = columns = cells = headers = 0
    bodies: list[int] = []
    for node in range(table + 1, tree.ends[table]):
        name = tree.names[node]
        if name in _INSIDE_LAYOUT or (name in CODE and "\n" in "".join(tree.texts[node : tree.ends[node]]).strip()):
            return False
        if name == "tr":
            rows, columns = rows + 1, max(columns, cells)
            cells = 0
        elif name in _CELLS:
            cells += 1
            headers += name == "th"
            if name == "td":
                bodies.append(node)
    columns = max(columns, cells)
    if headers:
        return columns > 1 or rows > 1
    longest = max((sum(map(len, tree.texts[node : tree.ends[node]])) for node in bodies), default=0)
    return columns > 1 and rows > 1 and longest <= _LONGEST_CELL


def is_line_numbers(tree: Tree, node: int) -> bool:
    """Return True if a block of code contains only consecutive numbers, the line numbers of the code beside it."""
    numbers = "".join(tree.texts[node : tree.ends[node]]).split()
    if len(numbers) < 2 or not all(number.isdecimal() and len(number) < 8 for number in numbers):
        return False
    first = int(numbers[0])
    return [int(number) for number in numbers] == list(range(first, first + len(numbers)))


def pipe_table(tree: Tree, table: int, *, skipped: AbstractSet[int] = frozenset()) -> str:
    """Return a table as lines of cells between `|`; a cell that spans several places leaves the other ones empty.

    The first row is the header if it belongs to `<thead>`, or if all its cells are headers or in bold type; otherwise
    the header is empty.
    """
    rows = [cells for row in _rows(tree, table, skipped) if (cells := list(_cells(tree, row, skipped)))]
    grid = [row for row in _grid(tree, rows, skipped) if any(row)]
    width = max((len(row) for row in grid), default=0)
    if not width:
        return ""
    if width * len(grid) <= _WIDENED * sum(len(row) for row in rows) + _MOST_COLUMNS:
        grid = [row + [""] * (width - len(row)) for row in grid]
    else:
        grid = [[text for text in row if text] for row in grid]
        width = max(len(row) for row in grid)
    lines = [f"| {' | '.join(row)} |" for row in grid]
    in_head = tree.names[tree.parents[tree.parents[rows[0][0].node]]] == "thead"
    if not in_head and not all(cell.header or _is_bold(tree, cell.node) for cell in rows[0]):
        lines.insert(0, f"|{'  |' * width}")
    return "\n".join((lines[0], f"|{'---|' * width}", *lines[1:]))


def _rows(tree: Tree, table: int, skipped: AbstractSet[int]) -> Iterator[int]:
    """Yield the rows as browsers display them: `<thead>` first and `<tfoot>` last."""
    parts = [part for part in tree.inside(table, TABLE_PARTS | _ROWS) if part not in skipped]
    order = {"thead": 0, "tfoot": 2}
    for part in sorted(parts, key=lambda part: order.get(tree.names[part], 1)):
        if tree.names[part] == "tr":
            yield part
        else:
            yield from (row for row in tree.inside(part, _ROWS) if row not in skipped)


def _cells(tree: Tree, row: int, skipped: AbstractSet[int]) -> Iterator[_Cell]:
    for node in tree.inside(row, _CELLS):
        if node not in skipped:
            columns = _span(tree.value(node, "colspan"), _MOST_SPANNED)
            rows = _span(tree.value(node, "rowspan"), _MOST_ROWS_SPANNED)
            yield _Cell(node, tree.names[node] == "th", columns, rows)


def _span(value: str, most: int) -> int:
    """Return a span between 1 and `most`; 1 if it is not a number."""
    if not (value.isascii() and value.isdecimal()):
        return 1
    return max(1, min(most, int(value[:6])))


def _grid(tree: Tree, rows: list[list[_Cell]], skipped: AbstractSet[int]) -> list[list[str]]:
    """Return the texts of the cells at their columns."""
    count = sum(len(row) for row in rows)
    grid: list[list[str]] = []
    taken: dict[int, int] = {}
    """Last row that a cell above occupies, by column."""
    places = 0
    for number, row in enumerate(rows):
        line: list[str] = []
        for cell in row:
            while len(line) < _MOST_COLUMNS and taken.get(len(line), -1) >= number:
                line.append("")
                places += 1
            spans = places < _WIDENED * count + _MOST_SPANNED
            columns = cell.columns if spans else 1
            if cell.rows > 1 and spans:
                taken.update((len(line) + offset, number + cell.rows - 1) for offset in range(columns))
            text = flat(tree, cell.node + 1, tree.ends[cell.node], skipped=skipped)
            line += [text.replace("|", "\\|"), *[""] * (columns - 1)]
            places += columns
        while line and not line[-1]:
            line.pop()
        grid.append(line)
    return grid


def _is_bold(tree: Tree, cell: int) -> bool:
    """Return True if all words of a cell are in bold type."""
    bold = 0
    words = False
    for node in range(cell + 1, tree.ends[cell]):
        if tree.names[node] in _EMPHASIS:
            bold = max(bold, tree.ends[node])
        elif tree.names[node] == TEXT and tree.texts[node].strip():
            words = True
            if node >= bold:
                return False
    return words
