"""Bounds of a table by one limit, `catalog.max_cells`: a few bytes of a file can ask for billions of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from retrieve_cli.errors import UsageError

Item = TypeVar("Item")
_PER_BYTE = 16
"""Cells for each byte of a file that is larger than the limit allows for."""
_PER_ROW, _PER_COLUMN, _PER_CELL = 10, 60, 16
"""Cells that a row and a column count as, and unpacked bytes for each cell of the limit."""
_RATIO = 200
"""Ratio of the largest content to the size of the file."""


class TableBounds(NamedTuple):
    """Maximum rows, columns, cells and bytes of one table. A text that is not compressed never has too many rows, cells
    or bytes, because each of its cells takes a byte."""

    rows: int
    columns: int
    cells: int
    bytes: int
    subject: str
    """Name of the table in an error."""

    @classmethod
    def of(cls, max_cells: int, size: int, subject: str = "it") -> TableBounds:
        """Return the bounds of a file of a size."""
        cells = max(max_cells, _PER_BYTE * size)
        most = max(_PER_CELL * max_cells, _RATIO * size)
        return cls(cells // _PER_ROW, max_cells // _PER_COLUMN, cells, most, subject)

    def check(self, *, rows: int = 0, columns: int = 0, cells: int = 0, unpacked: int = 0) -> None:
        """Raises: UsageError: one of these is above its bound."""
        numbers = (rows, columns, cells, unpacked)
        names = ("rows", "columns", "cells", "bytes when unpacked")
        for number, most, name in zip(numbers, self[:4], names, strict=True):
            if number > most:
                hint = "if you trust the file, raise the limit: catalog.max_cells in config.yaml"
                raise UsageError(f"{self.subject} has more than {most:,} {name}", hint=hint)

    def counted(self, items: Iterable[Item], cells: Callable[[Item], int]) -> Iterator[Item]:
        """Yield rows while they and their cells are within the bounds. Raises: UsageError: they are not."""
        total = 0
        for number, item in enumerate(items, 1):
            total += cells(item)
            if number > self.rows or total > self.cells:
                self.check(rows=number, cells=total)
            yield item
