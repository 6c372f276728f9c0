"""Workbooks, Parquet and Arrow as rows, in the process that reads documents: their readers are libraries in C and Rust.

The rows are lines of JSON, `[number, [cell, …]]`, the names of the columns first; a text is a sentence on the file.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from itertools import count, islice
from math import isfinite
from typing import Any

import orjson

from retrieve_cli.errors import BadDocument, RetrieveError
from retrieve_cli.sources.catalogs.table_bounds import TableBounds
from retrieve_cli.untrusted import files

_COVER = 50
"""Rows of the largest sheet that may be the cover of a table."""
_BATCH = 256
"""Rows that are converted at a time."""
_PART = 1 << 20
"""Bytes of lines in a message."""
_INDEX = "__index_level_"
"""Beginning of the columns in which pandas stores the index of a table."""

os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # which does not reserve more than is used
Message = tuple[int, Sequence[Any]] | str


def parts(content: bytes, kind: str, sheet: str, *, max_cells: int) -> Iterator[bytes]:
    """Yield the lines of a table, some at a time; of a workbook, of the sheet with that name or number.

    Raises:
        UsageError: it has too many rows, columns, cells or bytes.
        BadDocument: it cannot be read.
    """
    bounds = TableBounds.of(max_cells, len(content))
    lines, unwritten, total = list[bytes](), 0, 0
    try:
        for message in _workbook(content, sheet, bounds) if kind == "workbook" else _columns(content, kind, bounds):
            line = orjson.dumps(_plain(message))
            if len(line) > files.LINE:
                line = orjson.dumps((message[0], f"it is longer than {files.LINE // files.MB} MB"))
            lines.append(line)
            unwritten, total = unwritten + len(line), total + len(line)
            bounds.check(unpacked=total)
            if unwritten > _PART:
                yield b"\n".join(lines)
                lines, unwritten = [], 0
    except (RetrieveError, MemoryError):
        raise
    except Exception as error:  # a library may fail in any way on a file from outside
        raise BadDocument(str(error) or type(error).__name__) from error
    yield b"\n".join(lines)


def _workbook(content: bytes, wanted: str, bounds: TableBounds) -> Iterator[Message]:
    """Yield the rows of a sheet, by default the first that is a table, numbered as its program shows them."""
    from python_calamine import CalamineWorkbook

    if content.startswith(b"PK"):
        with zipfile.ZipFile(BytesIO(content)) as archive:
            bounds.check(unpacked=sum(part.file_size for part in archive.infolist()))
    book = CalamineWorkbook.from_filelike(BytesIO(content))
    names = book.sheet_names
    if wanted and wanted not in names and not (wanted.isdigit() and 0 < int(wanted) <= len(names)):
        raise BadDocument(f"it has no sheet {wanted} (catalog.sheet); its sheets are {', '.join(names)}")
    sheets = {name: sheet for name in names if (sheet := book.get_sheet_by_name(name)).height or name == wanted}
    if not sheets:
        return
    first = next(iter(sheets))
    tables = [name for name in sheets if _is_table(sheets[name])]
    cover = tables and first not in tables and sheets[first].height <= _COVER
    read = (wanted if wanted in names else names[int(wanted) - 1]) if wanted else tables[0] if cover else first
    sheet = book.get_sheet_by_name(read)
    bounds.check(rows=sheet.height, columns=sheet.width, cells=sheet.height * sheet.width)
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


def _columns(content: bytes, kind: str, bounds: TableBounds) -> Iterator[Message]:
    """Yield the rows of a table that is stored by columns, numbered from 1; the names of the columns have 0."""
    import pyarrow as pa

    if kind == "parquet":
        from pyarrow import parquet

        table = parquet.ParquetFile(BytesIO(content), pre_buffer=False)
        schema, batches = table.schema_arrow, table.iter_batches(_BATCH, use_threads=False)
        bounds.check(rows=table.metadata.num_rows, cells=table.metadata.num_rows * len(schema))
    else:
        options = pa.ipc.IpcReadOptions(use_threads=False)
        try:
            opened = pa.ipc.open_file(content, options=options)
            schema, batches = opened.schema, map(opened.get_batch, range(opened.num_record_batches))
        except pa.ArrowInvalid:
            stream = pa.ipc.open_stream(content, options=options)
            schema, batches = stream.schema, iter(stream)
    bounds.check(columns=len(schema))
    names, types = schema.names, schema.types
    places = [place for place, name in enumerate(names) if not name.startswith(_INDEX)]
    for place in places:
        if pa.types.is_binary(types[place]) or pa.types.is_large_binary(types[place]):
            yield f"its column {names[place]} is not read: it holds bytes"
    yield 0, [names[place] for place in places]
    numbers, rows = count(1), 0
    for batch in batches:
        rows += batch.num_rows
        bounds.check(rows=rows, cells=rows * len(places))
        columns = [batch.column(place) for place in places]
        for start in range(0, batch.num_rows, _BATCH):
            values = [column.slice(start, _BATCH).to_pylist() for column in columns]
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
