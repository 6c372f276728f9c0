"""Tables of data as pipe tables, as distinct from tables that lay out a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.sources.formats.html.text import flat

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_PARTS, _CELLS = ("thead", "tbody", "tfoot"), ("td", "th")
_LONGEST_CELL = 1000
"""Characters above which a cell without any header is a part of the page."""
_MOST_COLUMNS, _MOST_ROWS_SPANNED = 1000, 1000
_WIDENED, _LEAST_ROOM = 8, 10_000
"""Largest ratio of the grid to the source, in places and characters; beyond, spans are ignored."""


class _Cell(NamedTuple):
    node: LexborNode
    text: str
    columns: int
    rows: int


def pipe_table(table: LexborNode) -> str:
    """Return a table of data as lines of cells between `|`; empty if the table lays out a page.

    A merged cell is in every place that it covers. The first row is the header if it is in
    `<thead>`, if all its cells are headers or in bold type, or if the table has its role as an
    attribute; otherwise the header is empty.
    """
    if not _is_data(table):
        return ""
    rows = [list(_cells(row)) for row in _rows(table)]
    grid = [row for row in _grid(rows) if any(row)]
    width = max((len(row) for row in grid), default=0)
    if not width:
        return ""
    if width * len(grid) <= _WIDENED * sum(map(len, rows)) + _MOST_COLUMNS:
        grid = [row + [""] * (width - len(row)) for row in grid]
    lines = [f"| {' | '.join(row)} |" for row in grid]
    first = next(filter(None, rows))
    has_header = table.attributes.get("role") == "table" or table.css_first("thead td, thead th")
    if not has_header and not all(map(_is_header, first)):
        lines.insert(0, f"|{'  |' * width}")
    return "\n".join((lines[0], f"|{'---|' * width}", *lines[1:]))


def _rows(table: LexborNode) -> Iterator[LexborNode]:
    """Yield the rows as browsers display them: `<thead>` first and `<tfoot>` last."""
    parts = [part for part in table.iter() if part.tag in _PARTS]
    order = {"thead": 0, "tfoot": 2}
    for part in sorted(parts, key=lambda part: order.get(part.tag or "", 1)):
        yield from (row for row in part.iter() if row.tag == "tr")


def _cells(row: LexborNode) -> Iterator[_Cell]:
    for node in row.iter():
        if node.tag in _CELLS:
            columns = _span(node.attributes.get("colspan"), _MOST_COLUMNS)
            rows = _span(node.attributes.get("rowspan"), _MOST_ROWS_SPANNED)
            yield _Cell(node, flat(node).replace("|", "\\|"), columns, rows)


def _span(value: str | None, most: int) -> int:
    """Return a span between 1 and `most`; 1 if it is not a number."""
    is_number = value is not None and value.isascii() and value.isdecimal()
    return max(1, min(most, int(value[:6]))) if value and is_number else 1


def _is_data(table: LexborNode) -> bool:
    """Return True for rows and columns without headings or code inside.

    A table inside another one is a part of its cell if it is the smaller part of the text.
    """
    rows = [[cell for cell in row.iter() if cell.tag in _CELLS] for row in _rows(table)]
    columns = max(map(len, rows), default=0)
    role = table.attributes.get("role")
    if role in ("presentation", "none", "table"):
        return role == "table" and (columns > 1 or len(rows) > 1)
    nested = sum(len(inner.text()) for inner in table.css("table")) - len(table.text())
    code = any("\n" in node.text().strip() for node in table.css("pre, xmp, listing"))
    if code or 2 * nested > len(table.text()) or table.css_first("h1, h2, h3, h4, h5, h6"):
        return False
    if any(cell.tag == "th" for row in rows for cell in row):
        return columns > 1 or len(rows) > 1
    longest = max((len(cell.text()) for row in rows for cell in row), default=0)
    return columns > 1 and len(rows) > 1 and longest <= _LONGEST_CELL


def _grid(rows: list[list[_Cell]]) -> Iterator[list[str]]:
    """Yield the texts of the cells at their places; repeated ones up to a share of the table."""
    room = _LEAST_ROOM + _WIDENED * sum(len(cell.text) for row in rows for cell in row)
    above: dict[int, tuple[int, str]] = {}
    """Last row and text of a cell that reaches down, by column."""
    for number, row in enumerate(rows):
        line: list[str] = []
        for cell in (*row, None):
            while above.get(len(line), (-1, ""))[0] >= number:
                line.append(above[len(line)][1])
            if cell is None:
                break
            repeated = (cell.columns * cell.rows - 1) * (len(cell.text) + len(" | "))
            columns, last = 1, number
            if repeated <= room:
                columns, last = cell.columns, number + cell.rows - 1
                room -= repeated
            above.update((len(line) + offset, (last, cell.text)) for offset in range(columns))
            line += [cell.text] * columns
        if row:
            yield line


def _is_header(cell: _Cell) -> bool:
    """Return True for a header, and for a cell whose words are all in bold type."""
    bold = "".join("".join(flat(node) for node in cell.node.css("b, strong")).split())
    words = "".join(cell.text.split())
    return cell.node.tag == "th" or (words != "" and bold == words)
