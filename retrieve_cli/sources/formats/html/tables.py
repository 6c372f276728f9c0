"""Tables of data as pipe tables, as distinct from tables that lay out a page."""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from typing import NamedTuple

from retrieve_cli.sources.formats.html.tree import CODE, HEADINGS, Tree, flat

_CELLS, _ROWS = frozenset(("td", "th")), frozenset(("tr",))
_PARTS = frozenset(("thead", "tbody", "tfoot", "tr"))
_LONGEST_CELL = 1000
"""Characters above which a cell without any header is a part of the page."""
_MOST_COLUMNS, _MOST_ROWS_SPANNED = 1000, 1000
_WIDENED, _LEAST_ROOM = 8, 10_000
"""Largest ratio of the grid to the source, in places and in characters; beyond, spans are ignored."""


class _Cell(NamedTuple):
    node: int
    columns: int
    rows: int


def is_data(tree: Tree, table: int) -> bool:
    """Return True if a table shows data: rows and columns, without headings or code inside.

    A table inside another one is a part of its cell if it is the smaller part of the text.
    """
    role = tree.value(table, "role")
    if role in ("presentation", "none"):
        return False
    rows = list(tree.inside(table, _ROWS))
    cells = [list(tree.inside(row, _CELLS)) for row in rows]
    columns = max(map(len, cells), default=0)
    if role == "table":
        return columns > 1 or len(rows) > 1
    names = tree.names[table + 1 : tree.ends[table]]
    if any(name in HEADINGS for name in names):
        return False
    nested = sum(_size(tree, inner) for inner in tree.inside(table, frozenset(("table",))))
    code = (node for node in tree.inside(table, CODE) if "\n" in _text(tree, node).strip())
    if 2 * nested > _size(tree, table) or next(code, None) is not None:
        return False
    if "th" in names:
        return columns > 1 or len(rows) > 1
    longest = max((_size(tree, cell) for row in cells for cell in row), default=0)
    return columns > 1 and len(rows) > 1 and longest <= _LONGEST_CELL


def _text(tree: Tree, node: int) -> str:
    return "".join(tree.texts[node : tree.ends[node]])


def _size(tree: Tree, node: int) -> int:
    return sum(map(len, tree.texts[node : tree.ends[node]]))


def is_line_numbers(tree: Tree, node: int) -> bool:
    """Return True if a block of code has only consecutive numbers: of the lines of code beside it."""
    numbers = _text(tree, node).split()
    if len(numbers) < 2 or not all(word.isdecimal() and len(word) < 8 for word in numbers):
        return False
    first = int(numbers[0])
    return [int(word) for word in numbers] == list(range(first, first + len(numbers)))


def pipe_table(tree: Tree, table: int, *, skipped: AbstractSet[int]) -> str:
    """Return a table as lines of cells between `|`; a merged cell is in every place that it covers.

    The first row is the header if it is in `<thead>`, if all its cells are headers or in bold type,
    or if the table has its role as an attribute; otherwise the header is empty.
    """
    rows = [list(_cells(tree, row, skipped)) for row in _rows(tree, table)]
    grid = [row for row in _grid(tree, rows, skipped) if any(row)]
    width = max((len(row) for row in grid), default=0)
    if not width:
        return ""
    if width * len(grid) <= _WIDENED * sum(len(row) for row in rows) + _MOST_COLUMNS:
        grid = [row + [""] * (width - len(row)) for row in grid]
    lines = [f"| {' | '.join(row)} |" for row in grid]
    first = next(filter(None, rows))
    header = tree.value(table, "role") == "table" or "thead" in tree.names[table : first[0].node]
    if not header and not all(_is_header(tree, cell.node) for cell in first):
        lines.insert(0, f"|{'  |' * width}")
    return "\n".join((lines[0], f"|{'---|' * width}", *lines[1:]))


def _rows(tree: Tree, table: int) -> Iterator[int]:
    """Yield the rows as browsers display them: `<thead>` first and `<tfoot>` last."""
    order = {"thead": 0, "tfoot": 2}
    for part in sorted(tree.inside(table, _PARTS), key=lambda part: order.get(tree.names[part], 1)):
        yield from (part,) if tree.names[part] == "tr" else tree.inside(part, _ROWS)


def _cells(tree: Tree, row: int, skipped: AbstractSet[int]) -> Iterator[_Cell]:
    for node in tree.inside(row, _CELLS):
        if node not in skipped:
            columns = _span(tree.value(node, "colspan"), _MOST_COLUMNS)
            yield _Cell(node, columns, _span(tree.value(node, "rowspan"), _MOST_ROWS_SPANNED))


def _span(value: str, most: int) -> int:
    """Return a span between 1 and `most`; 1 if it is not a number."""
    is_number = value.isascii() and value.isdecimal()
    return max(1, min(most, int(value[:6]))) if is_number else 1


def _grid(tree: Tree, rows: list[list[_Cell]], skipped: AbstractSet[int]) -> list[list[str]]:
    """Return the texts of the cells at their places; repeated ones up to a share of the table."""
    sizes = (_size(tree, cell.node) for row in rows for cell in row)
    room = _LEAST_ROOM + _WIDENED * sum(sizes)
    above: dict[int, tuple[int, str]] = {}
    """Last row and text of a cell that reaches down, by column."""
    grid: list[list[str]] = []
    for number, row in enumerate(rows):
        line: list[str] = []
        for cell in (*row, None):
            while above.get(len(line), (-1, ""))[0] >= number:
                line.append(above[len(line)][1])
            if cell is None:
                break
            text = flat(tree, cell.node, skipped=skipped).replace("|", "\\|")
            repeated = (cell.columns * cell.rows - 1) * (len(text) + len(" | "))
            columns, last = (cell.columns, number + cell.rows - 1) if repeated <= room else (1, number)
            room -= repeated if repeated <= room else 0
            above.update((len(line) + offset, (last, text)) for offset in range(columns))
            line += [text] * columns
        if row:
            grid.append(line)
    return grid


def _is_header(tree: Tree, cell: int) -> bool:
    """Return True for a header, and for a cell whose words are all in bold type."""
    bold = (flat(tree, node) for node in tree.inside(cell, frozenset(("b", "strong"))))
    words = "".join("".join(bold).split())
    return tree.names[cell] == "th" or (words != "" and words == "".join(flat(tree, cell).split()))
