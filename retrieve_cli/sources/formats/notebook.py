"""Jupyter notebooks (nbformat 3 and 4): text of Markdown cells, code, and text that the code displayed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Kind, Layout
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.markdown import BlockText, utf8

_LONGEST_OUTPUT = 20_000
"""Characters of the longest output that is kept whole; of a longer one, the beginning is kept."""
_MOST_OUTPUT = 1_000_000
"""Characters of all outputs."""
_LONGEST_NAME = 200
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)?+|[@-Z\\^_])")
"""Control sequences of terminals (ECMA-48)."""


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the cells of a notebook in order, without images.

    Raises:
        BadDocument: it is not a notebook, or has no text.
    """
    notebook = _loaded(content)
    about = _mapping(notebook.get("metadata"))
    authors = about.get("authors")
    kernel, language = _mapping(about.get("kernelspec")), _mapping(about.get("language_info"))
    names = [_name(_mapping(author).get("name")) for author in (authors if isinstance(authors, list) else [])[:50]]
    written = _Cells()
    for cell in _cells(notebook):
        written.cell(cell)
    text = written.text
    if not any(char.isalnum() for char in text):
        raise BadDocument("it has no text in its cells")
    titles = [block for block in written.blocks if block.kind == "heading"]
    top = next((block for block in titles if block.level == 1), titles[0] if titles else None)
    metadata = {
        "title": _name(about.get("title")) or (text[top.start : top.end] if top else ""),
        "language": (_name(kernel.get("language")) or _name(language.get("name"))).lower(),
        "author": ", ".join(filter(None, names)),
    }
    metadata = {key: value for key, value in metadata.items() if value}
    notices = (f"its outputs are cut at {_LONGEST_OUTPUT:,} characters each",) if written.cut else ()
    return Parsed(text, layout=Layout(written.blocks), metadata=metadata, notices=notices)


def _loaded(content: bytes) -> Mapping[str, Json]:
    """Return the object of a notebook. Raises: BadDocument if it is not one."""
    try:
        notebook = json.loads(utf8(content).removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadDocument(f"it is not valid JSON ({place}: {error.msg})") from error
    except (RecursionError, ValueError) as error:
        raise BadDocument("its JSON is nested too deeply, or has a number that is too long") from error
    if not isinstance(notebook, dict) or not any(
        isinstance(notebook.get(key), list) for key in ("cells", "worksheets")
    ):
        raise BadDocument("it is not a notebook: it has no list of cells")
    return notebook


def _cells(notebook: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Yield the cells; nbformat 3 keeps them in worksheets."""
    sheets = notebook.get("worksheets") if not isinstance(notebook.get("cells"), list) else None
    groups = [notebook.get("cells")] if sheets is None else [_mapping(sheet).get("cells") for sheet in sheets]
    for group in groups:
        for cell in group if isinstance(group, list) else ():
            if isinstance(cell, dict):
                yield cell


class _Cells(BlockText):
    """Writer of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = False
        self._room = _MOST_OUTPUT

    def cell(self, cell: Mapping[str, Json]) -> None:
        """Write a cell of any kind."""
        kind, source = cell.get("cell_type"), _text(cell.get("source"))
        if kind == "heading":  # nbformat 3
            level = cell.get("level")
            self.add(" ".join(source.split()), "heading", level=min(6, max(1, level)) if isinstance(level, int) else 1)
        elif kind == "code":
            self.add(_lines(source or _text(cell.get("input"))), "code")
            outputs = cell.get("outputs")
            for output in outputs if isinstance(outputs, list) else ():
                self._output(_mapping(output))
        elif kind == "raw":
            self.add(_lines(source), "code")
        else:
            add_markdown(self, source)

    def _output(self, output: Mapping[str, Json]) -> None:
        text = _ESCAPES.sub("", _output_text(output)).replace("\r\n", "\n")
        if "\r" in text:  # a terminal shows what overwrote the beginning of a line
            text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
        room = min(_LONGEST_OUTPUT, self._room)
        self.cut = self.cut or len(text) > room
        self._room -= min(len(text), room)
        self.add(_lines(text[:room]), "code")


def _output_text(output: Mapping[str, Json]) -> str:
    """Return the text of an output: a stream, an error, or a value that is not an image."""
    kind = output.get("output_type")
    if kind == "stream":
        return _text(output.get("text"))
    if kind in ("error", "pyerr"):
        return f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    data = _mapping(output.get("data", output))  # nbformat 3 keeps the forms of a value in the output itself
    image = any(str(key).startswith("image/") or key in ("png", "jpeg", "svg") for key in data)
    return "" if image else _text(data.get("text/plain", data.get("text")))


def _lines(text: str) -> str:
    """Return lines without blank ones around them."""
    return "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").strip("\n").split("\n")).strip("\n")


def _text(value: Json) -> str:
    """Return a text that may be divided into a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _name(value: Json) -> str:
    return " ".join(value.split())[:_LONGEST_NAME] if isinstance(value, str) else ""


_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]++(.*))?+")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r"[ ]{0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_RULE = re.compile(r" {0,3}(?:=+|-+)[ \t]*+")
_DELIMITER = re.compile(r"[ \t:|-]++")


def add_markdown(written: BlockText, text: str) -> None:
    """Add the headings, code fences, lists, tables and paragraphs of a text; only headings are changed."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    number = 0
    while number < len(lines):
        atx = _ATX.fullmatch(lines[number])
        if not lines[number].strip():
            number += 1
        elif atx:
            title = (atx[2] or "").rstrip()
            closing = title.rstrip("#")
            written.add(
                (closing if closing[-1:].isspace() or not closing else title).strip(), "heading", level=len(atx[1])
            )
            number += 1
        elif fence := _FENCE.match(lines[number]):
            stop = _closed(lines, number, fence[1])
            written.add("\n".join(lines[number:stop]), "code")
            number = stop
        else:
            number = _add_stretch(written, lines, number)


def _closed(lines: Sequence[str], number: int, fence: str) -> int:
    """Return the line after the fence that opens on a line."""
    for after in range(number + 1, len(lines)):
        line = lines[after].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return after + 1
    return len(lines)


def _add_stretch(written: BlockText, lines: Sequence[str], number: int) -> int:
    """Add the lines up to a blank line or the next block; return the line after them."""
    stop = number + 1
    while stop < len(lines) and lines[stop].strip() and not (_ATX.fullmatch(lines[stop]) or _FENCE.match(lines[stop])):
        stop += 1
    stretch = lines[number:stop]
    if len(stretch) == 2 and _RULE.fullmatch(stretch[1]) and not _ITEM.match(stretch[0]):
        written.add(stretch[0].strip(), "heading", level=1 if "=" in stretch[1] else 2)
    else:
        kind: Kind = "paragraph"
        if _ITEM.match(stretch[0]):
            kind = "list"
        elif len(stretch) > 1 and "|" in stretch[0] and "-" in stretch[1] and _DELIMITER.fullmatch(stretch[1]):
            kind = "table"
        written.add("\n".join(stretch).strip("\n"), kind)
    return stop
