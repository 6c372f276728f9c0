"""Tables as catalogs: CSV, an array of JSON, spreadsheets, Parquet and Arrow, each row as a line of JSON Lines.

A row becomes the line that a catalog of the same record has: its cells by the names of the columns, in their order. A
table is recognised by its content, CSV by its suffix as well. Of CSV and JSON, little is in memory at a time. Formats
that need a package are read by the process that reads documents. All of them are within bounds (`table_bounds`).
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from gzip import BadGzipFile, GzipFile
from importlib.util import find_spec
from itertools import chain, count, islice, repeat
from math import isfinite
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple, TypeAlias

from retrieve_cli.contracts import Json
from retrieve_cli.errors import BadDocument, Unavailable, UsageError, quoted, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.sources.catalogs.inferred import NUMBERED, is_column
from retrieve_cli.sources.catalogs.json_ld import is_linked
from retrieve_cli.sources.catalogs.linked_catalog import graph_of_document, looks_linked, parsed
from retrieve_cli.sources.catalogs.shapes import is_around_records, records_in
from retrieve_cli.sources.catalogs.table_bounds import TableBounds
from retrieve_cli.sources.catalogs.table_text import Cells, cells_of, entries_of, objects_of
from retrieve_cli.sources.catalogs.tool_lists import LISTS, items_in
from retrieve_cli.sources.digests import BOM
from retrieve_cli.storage.manifest import canonical
from retrieve_cli.untrusted import files, yaml_text

_HEAD = 4096
_LONGEST_NAME = 200
"""Maximum characters of a column's name: a longer one is a value."""
_TOP, _WORDS = 50, 10
"""Rows from which the layout of a table is recognised; words of the longest name of a column."""
_UNNAMED: Final = "Unnamed: 0"
"""Name that pandas gives to a first column without one."""
_SEPARATORS, _PART = (";", "|"), 40
"""Separators of lists in cells, and characters of the longest part of one."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_TABS = (".tsv", ".tab")
YAML: Final = (".yaml", ".yml")
_API = re.compile(rb"^[\"']?(?:openapi|swagger)[\"']?[ \t]*:", re.MULTILINE)
"""The line that begins each document of an API."""
_MOST_VALUES = 2_000_000
"""Values of an API in YAML."""
_GZIP = b"\x1f\x8b"
_PACKAGES: Final = {"workbook": "python_calamine", "parquet": "pyarrow", "arrow": "pyarrow"}
"""Packages that read the formats of other processes."""


Filled = tuple[int, Sequence[Json]]
"""Number of a row and its cells, of which one is not empty."""


Row: TypeAlias = tuple[int, bytes, str]
"""A row of a table, or a line of a catalog: its number, its JSON, and the reason to reject it if there is one. A plain
tuple, because a catalog may have millions of them."""


class TableLayout(Frozen):
    """Layout of tables, as configured, and the way to read them."""

    header: int | None = None
    """Row that names the columns; 0 if none does; None: recognised."""
    sheet: str = ""
    """Name or number of the sheet of a workbook; empty: the first that is a table."""
    split: Mapping[str, str] = {}
    """Separators of lists in cells, by column."""
    max_cells: int = 1_000_000
    """Limit of `TableBounds`."""
    stored: Callable[[Path, str, str], Iterator[bytes]] | None = None
    """Returns the lines of a file that needs a package, given its kind and its sheet, from another process."""


TableKind = Literal["csv", "json", "lines", "workbook", "parquet", "arrow", "api"]
"""Formats of tables; `lines` is JSON Lines in gzip, `api` OpenAPI in YAML."""


class TableFile(NamedTuple):
    """A file that is a table."""

    path: Path
    kind: TableKind
    packed: bool
    layout: TableLayout = TableLayout()

    def rows(self) -> Iterator[Row | str]:
        """Yield the rows, and sentences on the file.

        Raises:
            UsageError: it is damaged, or not a table.
            Unavailable: a package is missing.
            OSError: it cannot be read.
        """
        if self.kind in _PACKAGES:
            yield from self._rows(self._of_process())
        elif self.kind == "csv":
            yield from self._rows(self._of_text(), numbers=lambda header: _numbers(self._of_text(), header))
        elif self.kind == "api":
            with _opened(self.path, self.bounds, packed=self.packed) as file:
                yield from _of_yaml(file.read(files.LINE), str(self.path))
        else:
            with _opened(self.path, self.bounds, packed=self.packed) as file:
                rows = _of_json(file, str(self.path)) if self.kind == "json" else lines_of(file)
                yield from self.bounds.counted(rows, lambda _: 0)

    @property
    def bounds(self) -> TableBounds:
        """Bounds of its rows, columns, cells and bytes. Raises: OSError."""
        return _bounds(self.path, self.layout)

    def _of_text(self) -> Iterator[Cells | str]:
        """Yield the cells of CSV."""
        opening, tabs = partial(_opened, self.path, self.bounds, packed=self.packed), _suffix_of(self.path) in _TABS
        return self.bounds.counted(cells_of(opening, str(self.path), tabs=tabs), lambda row: len(row[1]))

    def _rows(
        self, cells: Iterator[Cells | str], *, numbers: Callable[[int | None], Collection[int]] | None = None
    ) -> Iterator[Row | str]:
        """Yield the rows below the header. A table of text has numbers in the columns that `numbers` returns for the
        number of the header."""
        cells = (item for item in cells if isinstance(item, str) or _is_filled(item[1]))
        head = list(islice(cells, _TOP))
        top = [(number, row) for item in head if not isinstance(item, str) for number, row in [item]
               if not isinstance(row, str)]  # fmt: skip
        header, below = self._layout_of(top)
        columns: list[str] | None = None
        for found in chain(head, cells):
            if isinstance(found, str):
                yield found
                continue
            number, row = found
            if isinstance(row, str):
                yield (number, b"", row)
            elif header is not None and number < header:
                yield f"its row {number} is above the header and not read: {shortened(' '.join(map(str, row)).strip())}"
            elif columns is None:
                named = self._header(number, row) if header is not None else _numbered(top)
                columns, notes = _without_index(named, [row for _, row in below])
                yield from [*notes, *_separators(columns, [row for _, row in below], self.layout.split)]
                places = None if numbers is None else numbers(header)
                if header is None:
                    yield _row(number, columns, row, numbers=places, split=self.layout.split)
            else:
                yield _row(number, columns, row, numbers=places, split=self.layout.split)
        if columns is None:
            raise UsageError(f"{self.path} is empty: it has no header", hint="its first row names the columns")

    def _layout_of(self, top: Sequence[Filled]) -> tuple[int | None, Sequence[Filled]]:
        """Return the number of the header, None without one, and the rows below it.

        Raises:
            UsageError: the first row is a title, and the header below it is not certain.
        """
        if self.layout.header == 0:
            return None, top
        if self.layout.header is not None:
            return self.layout.header, [row for row in top if row[0] > self.layout.header]
        place = _header_place([row for _, row in top]) if self.kind in ("csv", "workbook") else 0
        if place and not _has_known(top[place][1]):
            first, header = top[0][0], top[place][0]
            message = f"{self.path}:{first} is not a header: it has one cell, and row {header} has more"
            hint = f"if row {header} names the columns, write in config.yaml: catalog: {{header: {header}}}"
            raise UsageError(message, hint=hint)
        return (top[place][0] if top else 1), top[place + 1 :]

    def _header(self, number: int, cells: Sequence[Json]) -> list[str]:
        """Return the names of the columns. Raises: UsageError: the row is not a header."""
        names = ["" if _is_empty(cell) else str(cell).strip() for cell in cells]
        place = f"{self.path}:{number}"
        hint = "if row N names the columns, write in config.yaml: catalog: {header: N}; 0 if none does"
        self.bounds._replace(subject=place).check(columns=len(names))
        filled = [name for name in names if name]
        odd = [name for name in filled if len(name) > _LONGEST_NAME or "://" in name]
        if self.layout.header is None and self.kind in ("csv", "workbook") and not _has_known(filled):
            odd += [name for name in filled if _is_value(name)]
        if odd or all(isinstance(_value(name, number=True), int | float) for name in filled):
            raise UsageError(f"{place} is not a header: {quoted((odd or filled)[0])} is a value", hint=hint)
        numbers: dict[str, int] = {}
        for number, name in enumerate(names, 1):
            if name and (one := numbers.setdefault(name, number)) < number:
                message = f"{place}: columns {one} and {number} are both called {quoted(name)}"
                raise UsageError(message, hint="rename one of them")
        return names

    def _of_process(self) -> Iterator[Cells | str]:
        """Yield the cells that the process of documents reads."""
        if self.layout.stored is None or find_spec(_PACKAGES[self.kind]) is None:
            name = _PACKAGES[self.kind].replace("_", "-")
            message = f"reading {self.path} needs the package {name}, which is not installed"
            raise Unavailable(message, hint="pip install 'retrieve-cli[tables]'")
        try:
            for line in self.layout.stored(self.path, self.kind, self.layout.sheet):
                message = parsed(line)
                if isinstance(message, list):
                    number, cells = message
                    yield number, cells
                elif isinstance(message, str):
                    yield message
        except BadDocument as error:
            hint = error.hint or "is it complete? Otherwise save it as CSV or JSON Lines"
            raise UsageError(f"cannot read {self.path}: {shortened(error.message)}", hint=hint) from error


def table_of(path: Path, layout: TableLayout = TableLayout()) -> TableFile | None:
    """Return the table in a file; None if it is not one.

    Raises:
        OSError: it cannot be read.
        UsageError: it is compressed and damaged, or unpacks to far too much.
    """
    with files.open_regular(path) as file:
        head = file.read(_HEAD)
        is_json = head.removeprefix(BOM).lstrip().startswith(b"{") and not file.seek(0) and _is_json(file)
    if packed := head.startswith(_GZIP):
        with _opened(path, _bounds(path, layout), packed=True) as file:
            head = file.peek(_HEAD)
            is_json = head.lstrip().startswith(b"{") and _is_json(file)
    kind: TableKind | None = "json" if is_json else _kind_of(head, path)
    if packed:
        text = kind == "csv" or (kind in (None, "json") and b"\0" not in head)
        return TableFile(path, kind or "lines", packed, layout) if text else None
    return TableFile(path, kind, packed, layout) if kind else None


def lines_of(file: IO[bytes]) -> Iterator[Row]:
    """Return the lines of an open file."""
    lines = files.lines(file)
    first = [line.removeprefix(BOM) for line in islice(lines, 1)]
    return _lines(chain(first, lines))


def _lines(lines: Iterable[bytes]) -> Iterator[Row]:
    return zip(count(1), lines, repeat(""), strict=False)


def _of_json(file: IO[bytes], path: str) -> Iterator[Row | str]:
    """Yield the entries of an array, the objects of a file, or the records within them."""
    head = file.peek(_HEAD).removeprefix(BOM).lstrip()  # type: ignore[attr-defined]
    if looks_linked(head):
        content = file.read(files.LINE + 1).removeprefix(BOM)
        if (graph := graph_of_document(content, path)) is not None:
            yield from ((1, canonical(record), "") for record in graph)
            return
        file = io.BytesIO(content)
    if head.startswith(b"["):
        yield from _lines(entries_of(file, path))
        return
    content = file.read(files.LINE + 1)
    values, marked = objects_of(io.BytesIO(content), path), any(mark in content for mark in LISTS)
    if marked and len(values) == 1 and (items := items_in(values[0])) is not None:
        yield from rows_of(items)
        return
    if len(values) > 1 and not is_around_records(values[0]):
        yield from _lines(map(_written, values))
        return
    found = [records_in(value, path) for value in values]
    if found and found[0][1]:
        keys = found[0][1].removeprefix(".")
        yield f"its records are the list `{shortened(keys, 80)}`" if keys else "its records are the values of an object"
    yield from _lines(_written(record) for records, _ in found for record in records)


def _of_yaml(content: bytes, path: str) -> Iterator[Row]:
    """Yield the operations of an API in YAML. Raises: UsageError: it cannot be read, or is something else."""
    try:
        document = yaml_text.load(content.decode("utf-8-sig"), values=_MOST_VALUES)
        items = items_in(json.loads(json.dumps(document)))  # keys that are numbers are texts in JSON
    except ValueError as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="save it as JSON") from error
    if items is None:
        raise UsageError(
            f"{path} is YAML without operations of an API", hint="a catalog is JSON Lines, JSON or a table"
        )
    yield from rows_of(items)


def rows_of(items: Iterable[Json]) -> Iterator[Row]:
    """Yield a row for each object; for a text, which is a reason, one that is rejected."""
    for number, item in enumerate(items, 1):
        yield (number, b"", item) if isinstance(item, str) else (number, _written(item), "")


def _written(value: Json) -> bytes:
    """Return a value as a line of JSON."""
    import orjson

    try:
        return orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits, half a character, or nested too deeply
        with suppress(RecursionError):
            return json.dumps(value).encode()
    return b"?"


def _is_json(file: IO[bytes]) -> bool:
    """Return True for a file of JSON that is not JSON Lines: its first object takes several lines, or is around a list
    of records."""
    first = file.readline(files.LINE).removeprefix(BOM).strip()
    value = parsed(first)
    if is_linked(value):
        return False
    if is_around_records(value):
        return True
    then = file.read(_HEAD).lstrip()
    if not then and isinstance(value, dict):
        return True
    if value is None and looks_linked(first[:_HEAD] + then) and not then.startswith(b"{"):
        return True
    return first.endswith((b"{", b"[")) or (first.endswith(b",") and then.startswith(b'"'))


def _kind_of(head: bytes, path: Path) -> TableKind | None:
    if head.startswith((b"PAR1", b"ARROW1")):
        return "parquet" if head.startswith(b"PAR1") else "arrow"
    if head.startswith(b"\xff\xff\xff\xff") and path.suffix.lower() in (".arrow", ".arrows", ".feather"):
        return "arrow"
    if head.startswith(b"PK\x03\x04"):
        return "workbook" if _is_workbook(path) else None
    if head.startswith(b"\xd0\xcf\x11\xe0") and path.suffix.lower() in (".xls", ".xlsx"):
        return "workbook"
    start = head.removeprefix(BOM).lstrip()
    if _suffix_of(path) in YAML and _API.search(head):
        return "api"
    if _suffix_of(path) in (".csv", *_TABS):
        json_lines = re.match(rb'\{\s*+["}]', start)
        return None if json_lines else "json" if re.match(rb"\[\s*+[{\]]", start) else "csv"
    return "json" if start.startswith(b"[") else None


def _suffix_of(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _is_workbook(path: Path) -> bool:
    """Return True if a zip archive is a workbook."""
    try:
        with files.open_regular(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False
    return path.suffix.lower() == ".ods" or any(name.startswith("xl/") for name in names)


class _Inflated(io.RawIOBase):
    """The content of a gzip file, within bounds."""

    def __init__(self, path: Path, file: IO[bytes], bounds: TableBounds) -> None:
        self._path, self._file, self._bounds = path, file, bounds
        self._content = GzipFile(fileobj=file)
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            piece = self._content.read(len(buffer))
        except (EOFError, zlib.error, BadGzipFile) as error:
            raise UsageError(f"{self._path} is damaged: {error}", hint="is it complete? Test it: gzip -t") from error
        self._size += len(piece)
        self._bounds.check(unpacked=self._size)
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()


def _opened(path: Path, bounds: TableBounds, *, packed: bool) -> io.BufferedReader:
    file = files.open_regular(path)
    return io.BufferedReader(_Inflated(path, file, bounds), 1 << 16) if packed else file


def _bounds(path: Path, layout: TableLayout) -> TableBounds:
    return TableBounds.of(layout.max_cells, path.stat().st_size, str(path))


def _header_place(rows: Sequence[Sequence[Json]]) -> int:
    """Return the place of the header among the first rows: of the first one with several cells, if the rows above have
    one and are titles, and most rows below have several, too."""
    widths = [len({str(cell).strip() for cell in row if not _is_empty(cell)}) for row in rows]
    place = next((place for place, width in enumerate(widths) if width > 1), 0)
    first = [cell for cell in rows[0] if " " not in str(cell).strip()] if rows else []
    if not place or _has_known(first) or any(map(_is_value, map(str, rows[place]))):
        return 0
    below = widths[place + 1 :]
    return place if sum(width > 1 for width in below) * 2 > len(below) else 0


def _has_known(cells: Sequence[Json]) -> bool:
    return any(is_column(str(cell)) for cell in cells if not _is_empty(cell))


def _is_value(text: str) -> bool:
    """Return True for a number, a date or a sentence; years and questions may be names of columns."""
    value = _value(text.strip() or "-", number=True)
    is_year = isinstance(value, int) and 1900 <= value <= 2100
    return (
        (isinstance(value, int | float) and not is_year)
        or bool(_DATE.match(text))
        or (len(text.split()) > _WORDS and "?" not in text)
    )


def _numbered(top: Sequence[Filled]) -> list[str]:
    """Return names for the columns of a table without a header."""
    return [f"{NUMBERED}{number}" for number in range(1, max((len(row) for _, row in top), default=0) + 1)]


def _without_index(columns: list[str], rows: Sequence[Sequence[Json]]) -> tuple[list[str], list[str]]:
    """Return the columns, the first one without a name if it is an index that pandas wrote, and notes on that."""
    if not columns or columns[0] not in ("", _UNNAMED):
        return columns, []
    cells = [str(row[0]) for row in rows if row and not _is_empty(row[0])]
    if cells and all(cell.removesuffix(".0").isdigit() for cell in cells):
        return [_UNNAMED, *columns[1:]], ["its first column is not read: it has no name, and numbers the rows"]
    if cells and "index" not in columns:
        return ["index", *columns[1:]], ["its first column has no name: it is read as index"]
    return columns, []


def _separators(columns: Sequence[str], rows: Sequence[Sequence[Json]], split: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence on each column whose cells look like lists."""
    for place, column in enumerate(columns):
        cells = [row[place] for row in rows if place < len(row) and not _is_empty(row[place])]
        for mark in _SEPARATORS if column and column not in split else ():
            lists = [cell.split(mark) for cell in cells if isinstance(cell, str) and mark in cell]
            short = all(len(part) <= _PART and part.strip() for parts in lists for part in parts)
            if len(lists) > 1 and len(lists) * 2 >= len(cells) and short:
                setting = f"catalog: {{split: {{{json.dumps(column)}: {json.dumps(mark)}}}}}"
                yield f"its column {shortened(column, 40)} looks like lists in cells; to split them: {setting}"


def _numbers(cells: Iterator[Cells | str], header: int | None) -> set[int]:
    """Return the columns in which each cell below the header is a number or empty."""
    found: set[int] | None = None
    for each in cells:
        number, row = (0, "") if isinstance(each, str) else each
        if isinstance(row, str) or not row or (header is not None and number < header):
            continue
        if found is None:
            found = set(range(len(row)))
            if header is not None:
                continue
        filled = [place for place in found if place < len(row) and not _is_empty(row[place])]
        found.difference_update(place for place in filled if isinstance(_value(str(row[place]), number=True), str))
        if not found:
            break
    return found or set()


def _row(
    number: int,
    columns: Sequence[str],
    cells: Sequence[Json],
    *,
    numbers: Collection[int] | None,
    split: Mapping[str, str],
) -> Row:
    """Return a row as a line of JSON."""
    import orjson

    values: dict[str, Json] = {}
    for place, cell in enumerate(cells):
        if _is_empty(cell):
            continue
        if place >= len(columns):
            return (number, b"", f"it has {len(cells)} cells and the header has {len(columns)}")
        if not (column := columns[place]):
            return (number, b"", f"it has a value in column {place + 1}, which has no name")
        if column in split and isinstance(cell, str):
            values[column] = [part.strip() for part in cell.split(split[column]) if part.strip()]
        elif column != _UNNAMED or place:
            values[column] = cell if numbers is None else _value(str(cell), number=place in numbers)
    try:
        return (number, orjson.dumps(values), "")
    except (TypeError, ValueError) as error:  # bytes of another encoding, or nested too deeply
        odd = next((char for char in "".join(map(str, cells)) if "\ud800" <= char < "\ue000"), None)
        bytes_ = f"byte 0x{ord(odd) & 0xFF:02x} is not in the encoding of the file" if odd else str(error)
        return (number, b"", f"it cannot be read: {bytes_}")


def _is_filled(cells: Sequence[Json] | str) -> bool:
    return isinstance(cells, str) or not all(map(_is_empty, cells))


def _is_empty(cell: Json) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _value(cell: str, *, number: bool) -> Json:
    """Return a cell as a `number` if JSON would write that number in the same way, as a list or object if it is one in
    JSON, and otherwise unchanged."""
    if cell[0] in "[{" and cell[-1] in "]}":
        import orjson

        with suppress(ValueError):
            value = orjson.loads(cell)
            return value if isinstance(value, list | dict) else cell
    elif number and len(cell) < 25 and cell[-1].isdigit() and (cell[0].isdigit() or cell[0] == "-"):
        with suppress(ValueError, OverflowError):
            if str(whole := int(cell)) == cell:
                return whole if -(2**63) <= whole < 2**64 else cell
        with suppress(ValueError):
            if repr(real := float(cell)) == cell and isfinite(real):
                return real
    return cell
