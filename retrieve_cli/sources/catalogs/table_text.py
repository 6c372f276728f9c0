"""Texts of tables: the cells of CSV with their lines, and the entries of an array of JSON, with little in memory."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import IO, Final

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.texts import encoding_of, label_of

Cells = tuple[int, Sequence[Json] | str]
"""Number of a row and its cells, or the reason to reject it."""
_DELIMITERS: Final = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
_PIECE, _GUESSED, _SAMPLE, _ROWS = 1 << 18, 1 << 13, 1 << 16, 100
"""Bytes read at a time; bytes around the first of a legacy encoding, from which it is guessed; characters, and rows,
from which the delimiter is found."""
_STATED = re.compile(r"sep=(.)\r?\n")
"""First line in which spreadsheets state the delimiter."""
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[][{},"]', re.DOTALL)
"""A text, a bracket or a comma of JSON; a quotation mark alone begins a text whose end is not read yet."""

_BETWEEN = re.compile(r"[, \t\r\n]*+")


def cells_of(opening: Callable[[], IO[bytes]], path: str, *, tabs: bool) -> Iterator[Cells | str]:
    """Yield the cells of each row of CSV with the line where it begins, and sentences on its delimiter and encoding.

    Raises:
        UsageError: it is not a text, or a quotation mark is never closed.
        OSError: it cannot be read.
    """
    with opening() as file:
        encoding = _encoding(file)
    if encoding is None:
        raise UsageError(f"{path} is a binary file, not a table of text", hint="save it as CSV in UTF-8")
    if encoding not in ("utf-8", "utf-8-sig"):
        yield f"it is read as {encoding}, not UTF-8"
    with opening() as file:
        try:
            lines = _Lines(io.TextIOWrapper(file, encoding, errors="surrogateescape", newline=""))
            delimiter = _delimiter(lines, tabs=tabs)
            if delimiter != ("\t" if tabs else ","):
                yield f"its columns are separated by {_DELIMITERS.get(delimiter, quoted(delimiter))}"
            yield from _cells(lines, delimiter, path)
        except UnicodeDecodeError as error:
            message = f"{path} breaks off within a character of {label_of(encoding)} ({error.reason})"
            raise UsageError(message, hint="is it complete? Otherwise save it as UTF-8") from error


def _encoding(file: IO[bytes]) -> str | None:
    """Return the encoding of a text; None if it is not a text. If only later parts are not UTF-8, these decide, unless
    there are other characters of UTF-8 before: then it is UTF-8, and damaged there."""
    piece = file.read(_PIECE)
    if piece.startswith(codecs.BOM_UTF8) or b"\0" in piece:
        return encoding_of(piece)
    decoder = codecs.getincrementaldecoder("utf-8")()
    while piece:
        try:
            decoder.decode(piece)
        except UnicodeDecodeError as error:
            begin = max(error.start - _GUESSED, 0)
            return encoding_of(piece[begin : error.start + _GUESSED]) if piece[: error.start].isascii() else "utf-8"
        if not piece.isascii():
            break
        piece = file.read(_PIECE)
    return "utf-8"


class _Lines:
    """The physical lines of a text for `csv.reader`, bounded in length."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self.sample = text.read(_SAMPLE) + text.readline(files.LINE)
        """The first lines, which are read again."""
        self._again = io.StringIO(self.sample, newline="")
        self._size = 0
        self.number = 0
        self.ended = self.full = False

    def begin(self) -> int:
        """Begin a row; return the number of its first line."""
        self._size, self.full = 0, False
        return self.number + 1

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        """Return the next line. Raises: csv.Error: the row is too long."""
        line = self._again.readline(files.LINE + 1) or self._text.readline(files.LINE + 1)
        if not line:
            self.ended = True
            raise StopIteration
        self.number += 1
        self._size += len(line)
        if self._size > files.LINE:
            self.full = True
            while line and not line.endswith(("\n", "\r")):
                line = self._text.readline(files.LINE)
            raise csv.Error(f"it is longer than {files.LINE // files.MB} MB")
        return line


def _delimiter(lines: _Lines, *, tabs: bool) -> str:
    """Return the delimiter with which the most of the first rows have as many cells as the header, and the header the
    most; `tabs`: a tab, if the header has one."""
    if stated := _STATED.match(lines.sample):
        next(lines)
        return stated[1]
    best, most = ("\t" if tabs else ","), (0.0, 1)
    for delimiter in sorted(_DELIMITERS, key=lambda each: tabs and each != "\t"):
        counts: list[int] = []
        with suppress(csv.Error):
            rows = csv.reader(io.StringIO(lines.sample, newline=""), delimiter=delimiter)
            counts.extend(len(cells) for cells in islice(filter(any, rows), _ROWS))
        if counts and counts[0] > 1:
            if tabs and delimiter == "\t":
                return delimiter
            score = (counts.count(counts[0]) / len(counts), counts[0])
            best, most = (delimiter, score) if score > most else (best, most)
    return best


def _cells(lines: _Lines, delimiter: str, path: str) -> Iterator[Cells]:
    csv.field_size_limit(max(csv.field_size_limit(), files.LINE))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        begin = lines.begin()
        try:
            yield begin, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if lines.ended or (lines.full and lines.number > begin):
                hint = "close it, or double a quotation mark inside of a cell"
                raise UsageError(f"{path}:{begin}: a quotation mark is opened and never closed", hint=hint) from error
            yield begin, str(error) if lines.full else f"it is not CSV ({error})"


def entries_of(file: IO[bytes], path: str) -> Iterator[bytes]:
    """Yield the entries of an array of JSON, each without white space around its values.

    Raises:
        UsageError: it does not end, goes on after its end, or has an entry that is too long.
    """
    buffer, place, begin, depth = b"", 0, 0, 0
    while piece := file.read(max(_PIECE, len(buffer) - begin)):  # not many times over the same long text
        buffer, place, begin = buffer[begin:] + piece, place - begin, 0
        for token in _TOKEN.finditer(buffer, place):
            if (mark := token[0]) == b'"':
                break
            place = token.end()
            depth += (mark in b"[{") - (mark in b"]}") if len(mark) == 1 else 0
            if depth == 1 and mark == b"[":
                begin = place
            elif depth == 0 or (depth == 1 and mark == b","):
                entry = buffer[begin : place - 1]
                begin = place
                if entry.strip() or depth:
                    yield _one_line(entry)
                if depth == 0:
                    if buffer[place:].strip() or file.read(_PIECE).strip():
                        raise UsageError(f"{path} goes on after its array", hint="a file has one array of JSON")
                    return
        else:
            place = len(buffer)
        if len(buffer) - begin > files.LINE:
            size = f"{files.LINE // files.MB} MB"
            raise UsageError(f"an entry of {path} is longer than {size}", hint="a record has at most as much")
    raise UsageError(f"{path} is cut off: its array does not end", hint="write the file again")


def objects_of(file: IO[bytes], path: str) -> list[Json]:
    """Return the objects of a file of JSON, one after the other. Raises: UsageError: it is not JSON, or too large."""
    import json

    if len(content := file.read(files.LINE + 1)) > files.LINE:
        message = f"{path} is one object of JSON, longer than {files.LINE // files.MB} MB"
        raise UsageError(message, hint="save its list as JSON Lines: jq -c '.LIST[]'")
    objects, decoder = list[Json](), json.JSONDecoder()
    try:
        text = content.decode("utf-8-sig")
        place, after = 0, _BETWEEN.match(text)
        while after and (place := after.end()) < len(text):
            value, place = decoder.raw_decode(text, place)
            objects.append(value)
            after = _BETWEEN.match(text, place)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}", hint="is it complete? Write it again") from error
    return objects


def _one_line(entry: bytes) -> bytes:
    """Return an entry without white space around its values, or on one line if it is not JSON."""
    import orjson

    with suppress(TypeError, ValueError):
        return orjson.dumps(orjson.loads(entry))
    return entry.replace(b"\n", b" ").strip() or b"?"
