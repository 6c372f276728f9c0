"""The process that reads a workbook, Parquet or Arrow from its standard input: `python -m … KIND [SHEET]`.

It writes a line of JSON for each row, `[number, [cell, …]]`, the names of the columns first; a text is a sentence on
the file, an object an error, and null the end. Its memory is bounded: a few bytes of such a file can ask for terabytes.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import count, islice
from math import isfinite
from typing import Any

import orjson

_MEMORY = 2 << 30
_CPU_S = 900
_COVER = 50
"""Rows of the largest sheet that may be the cover of a table."""
_BATCH = 256
"""Rows that are converted at a time."""
_INDEX = "__index_level_"
"""Beginning of the columns in which pandas stores the index of a table."""

os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # which does not reserve more than is used
Message = tuple[int, Sequence[Any]] | str


def rows_of(kind: str, sheet: str = "") -> Iterator[Message]:
    """Yield the rows of standard input; of a workbook, the rows of a sheet by its name or number."""
    yield from _workbook(sheet) if kind == "workbook" else _columns(kind)


def _workbook(wanted: str) -> Iterator[Message]:
    """Yield the rows of a sheet, by default the first that is a table, numbered as its program shows them."""
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_filelike(sys.stdin.buffer)
    names = book.sheet_names
    if wanted and wanted not in names and not (wanted.isdigit() and 0 < int(wanted) <= len(names)):
        raise ValueError(f"it has no sheet {wanted} (catalog.sheet); its sheets are {', '.join(names)}")
    sheets = {name: sheet for name in names if (sheet := book.get_sheet_by_name(name)).height or name == wanted}
    if not sheets:
        return
    first = next(iter(sheets))
    tables = [name for name in sheets if _is_table(sheets[name])]
    cover = tables and first not in tables and sheets[first].height <= _COVER
    read = (wanted if wanted in names else names[int(wanted) - 1]) if wanted else tables[0] if cover else first
    sheet = book.get_sheet_by_name(read)
    fractions = {at for row in sheet.iter_rows() for at, cell in enumerate(row) if _is_fraction(cell)}
    for number, row in _unmerged(sheet):
        if any(cell != "" for cell in row):
            yield number, [_typed(cell, whole=at not in fractions) for at, cell in enumerate(row)]
    for name in sheets:
        if name != read:
            yield f"its sheet {name} is not read: a catalog is one sheet, here {read} (catalog.sheet names another)"


def _is_table(sheet: Any) -> bool:
    """Return True if two rows have several cells."""
    wide = (row for row in sheet.iter_rows() if len({cell for cell in row if cell != ""}) > 1)
    return len(list(islice(wide, 2))) == 2


def _unmerged(sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows with their numbers; the value of cells that are merged across rows is in each of them."""
    starts: dict[int, list[Any]] = {}
    for (top, left), (bottom, right) in sheet.merged_cell_ranges or ():
        if bottom > top:
            starts.setdefault(top, []).append((bottom, left, right))
    merged: list[Any] = []
    for place, row in enumerate(sheet.iter_rows()):
        merged = [area for area in merged if area[0] >= place]
        merged += [(*area, row[area[1]]) for area in starts.get(place, ()) if area[1] < len(row)]
        for _, left, right, value in merged:
            row[left : right + 1] = [value] * (min(right + 1, len(row)) - left)
        yield place + 1, row


def _is_fraction(cell: Any) -> bool:
    return isinstance(cell, float) and not (cell.is_integer() and abs(cell) < 2**53)


def _typed(cell: Any, *, whole: bool) -> Any:
    """Return a cell of a workbook, which has neither integers nor lists; `whole`: its column has no fractions."""
    if whole and isinstance(cell, float):
        return int(cell)
    if isinstance(cell, str) and cell[:1] in ("[", "{"):
        with suppress(ValueError):
            return orjson.loads(cell)
    return cell


def _columns(kind: str) -> Iterator[Message]:
    """Yield the rows of a table that is stored by columns, numbered from 1; the names of the columns have 0."""
    import pyarrow as pa

    if kind == "parquet":
        from pyarrow import parquet

        table = parquet.ParquetFile(sys.stdin.buffer)
        schema, batches = table.schema_arrow, table.iter_batches(_BATCH)
    else:
        try:
            opened = pa.ipc.open_file(sys.stdin.buffer)
            schema, batches = opened.schema, map(opened.get_batch, range(opened.num_record_batches))
        except pa.ArrowInvalid:
            sys.stdin.buffer.seek(0)
            stream = pa.ipc.open_stream(sys.stdin.buffer)
            schema, batches = stream.schema, iter(stream)
    places = [place for place, name in enumerate(schema.names) if not name.startswith(_INDEX)]
    for place in places:
        if pa.types.is_binary(schema.types[place]) or pa.types.is_large_binary(schema.types[place]):
            yield f"its column {schema.names[place]} is not read: it holds bytes"
    yield 0, [schema.names[place] for place in places]
    numbers = count(1)
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH):
            values = [batch.column(place).slice(start, _BATCH).to_pylist() for place in places]
            yield from ((next(numbers), row) for row in zip(*values, strict=True))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) < 2**53 else float(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    return None if isinstance(value, bytes) else value


def _write(message: Any) -> None:
    sys.stdout.buffer.write(orjson.dumps(message) + b"\n")


if __name__ == "__main__":
    with suppress(ValueError, OSError):  # where the system has other limits
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    try:
        for found in rows_of(*sys.argv[1:]):
            _write(_plain(found))
        _write(None)
    except Exception as error:  # noqa: BLE001  a library may fail in any way on a file from outside
        _write({"error": str(error) or type(error).__name__})
    sys.stdout.flush()
