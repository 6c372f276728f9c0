"""Tables as rows of text: merged cells have their text once, in their first place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from retrieve_cli.sources.formats.docx.inline import TRANSPARENT
from retrieve_cli.sources.formats.docx.markup import XmlNode
from retrieve_cli.sources.formats.docx.pages import PageEnd

_MOST_COLUMNS = 63
"""Maximum number of columns in Word."""
_MOST_MARKS = 100
"""Maximum number of pages on which a cell ends."""


class Cell(NamedTuple):
    """The text of a cell in one line, and the ends of pages within it."""

    text: str
    marks: tuple[PageEnd, ...] = ()


ReadCell = Callable[[XmlNode], Cell]


def only_cell(table: XmlNode) -> XmlNode | None:
    """Return the cell of a table that has only one: a frame around text. None for any other table."""
    cells = [cell for row in _rows(table) for cell in _parts(row, "w:tc")]
    return cells[0] if len(cells) == 1 else None


def pipe_table(table: XmlNode, read: ReadCell) -> tuple[str, list[PageEnd]]:
    """Return a pipe table with the first row as its header, and the ends of pages within it; empty without text."""
    rows = [list(map(_escaped, _row(row, read))) for row in _rows(table)]
    if not any(cell.text for row in rows for cell in row):
        return "", [mark._replace(offset=0) for row in rows for mark in _marks(row)]
    columns = min(max(map(len, rows)), _MOST_COLUMNS)
    lines: list[str] = []
    marks: list[PageEnd] = []
    start = 0
    for number, row in enumerate(rows):
        cells = row + [Cell("")] * (columns - len(row))
        marks += (mark._replace(offset=start + mark.offset) for mark in _marks(cells))
        line = f"| {' | '.join(cell.text for cell in cells)} |"
        if number == 0:
            line += "\n|" + "---|" * len(cells)
        lines.append(line)
        start += len(line) + 1
    return "\n".join(lines), marks


def flat_table(table: XmlNode, read: ReadCell) -> str:
    """Return the cells of a table within a cell, one after another."""
    return " ".join(cell.text for row in _rows(table) for cell in _row(row, read) if cell.text)


def one_line(text: str, marks: Iterable[PageEnd]) -> Cell:
    """Return a text as a cell: paragraphs and line breaks become spaces."""
    moved = (mark._replace(offset=len(" ".join(text[: mark.offset].split()))) for mark in islice(marks, _MOST_MARKS))
    return Cell(" ".join(text.split()), tuple(moved))


def _escaped(cell: Cell) -> Cell:
    """Return a cell without marks of the table in its text."""
    if "|" not in cell.text:
        return cell
    marks = (mark._replace(offset=mark.offset + cell.text.count("|", 0, mark.offset)) for mark in cell.marks)
    return Cell(cell.text.replace("|", "\\|"), tuple(marks))


def _rows(table: XmlNode) -> Iterator[XmlNode]:
    """Yield the rows, without deleted ones."""
    return (row for row in _parts(table, "w:tr") if row.child("w:trPr", "w:del") is None)


def _row(row: XmlNode, read: ReadCell) -> list[Cell]:
    """Return the cells of a row, one for each column: the further columns of a merged cell are empty."""
    properties = row.child("w:trPr")
    cells = [Cell("")] * _columns(properties.number("w:gridBefore") if properties else 0)
    for node in _parts(row, "w:tc"):
        if node.child("w:tcPr", "w:cellDel") is not None:
            continue
        merged = node.value("w:tcPr", "w:vMerge")
        cells.append(read(node) if merged in (None, "restart") else Cell(""))
        cells += [Cell("")] * (max(_columns(node.number("w:tcPr", "w:gridSpan")), 1) - 1)
    return cells


def _marks(row: list[Cell]) -> Iterator[PageEnd]:
    """Yield the ends of pages in a row. Its cells are side by side, so only the cell with the most ends counts."""
    most = max(row, key=lambda cell: len(cell.marks), default=Cell(""))
    start = len("| ")
    for cell in row:
        if cell is most:
            yield from (mark._replace(offset=start + mark.offset) for mark in cell.marks)
            return
        start += len(cell.text) + len(" | ")


def _parts(node: XmlNode, name: str) -> Iterator[XmlNode]:
    """Yield the rows or cells of a node, through content controls and marks of changes."""
    for child in node.children:
        if child.name == name:
            yield child
        elif child.name == "w:sdt" or child.name in TRANSPARENT:
            yield from _parts(child, name)


def _columns(number: int | None) -> int:
    return max(0, min(number or 0, _MOST_COLUMNS))
