"""Jupyter notebooks (nbformat 4) as Markdown: cells, and the text that code displayed, without pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Dropped
from retrieve_cli.errors import BadDocument
from retrieve_cli.frozen import replace
from retrieve_cli.sources.formats.composed import joined, piece
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.markdown import decoded, markdown_document

_LONGEST, _MOST = 20_000, 1_000_000
"""Characters of an output that are read, from its beginning, and of all outputs."""
_TEXTS = ("text/plain", "text/markdown", "text/latex", "text/html", "text")
"""Forms of a value that are read, best first; the last is of a stream."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)?+|[@-Z\\^_])")
"""Control sequences of terminals (ECMA-48)."""


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the cells in order.

    Raises:
        BadDocument: it is not a notebook, or has no text.
    """
    text, notices = decoded(content)
    notebook = _loaded(text)
    about = _mapping(notebook.get("metadata"))
    authors = [_name(author.get("name")) for author in _mappings(about.get("authors"))]
    kernel, language = _mapping(about.get("kernelspec")), _mapping(about.get("language_info"))
    metadata = {
        "title": _name(about.get("title")),
        "language": _name(kernel.get("language") or language.get("name")).lower(),
        "author": ", ".join(author for author in authors if author),
    }
    parts: list[Parsed] = []
    room = _MOST
    for cell in _mappings(notebook["cells"]):
        parts += _cell(cell, metadata["language"])
        for output in _mappings(cell.get("outputs")):
            parts.append(_output(output, min(room, _LONGEST)))
            room = max(0, room - len(parts[-1].text))
    made = joined(parts)
    if not any(map(str.isalnum, made.text)):
        raise BadDocument("it has no text in its cells")
    metadata = {key: value for key, value in metadata.items() if value}
    return replace(made, metadata=metadata, notices=(*notices, *made.notices))


def _loaded(text: str) -> Mapping[str, Json]:
    try:
        notebook = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadDocument(f"it is not valid JSON ({place}: {error.msg})") from error
    except (RecursionError, ValueError) as error:
        raise BadDocument("its JSON is nested too deeply, or has a number that is too long") from error
    if isinstance(notebook, dict) and "worksheets" in notebook:
        raise BadDocument("it is a notebook of format 3", hint="jupyter nbconvert --to notebook makes a new one of it")
    if not isinstance(notebook, dict) or "cells" not in notebook:
        raise BadDocument("it is not a notebook: it has no list of cells")
    return notebook


def _cell(cell: Mapping[str, Json], language: str) -> Iterator[Parsed]:
    """Yield the text of a cell, and the pictures that are attached to it."""
    kind, source = cell.get("cell_type"), _text(cell.get("source")).strip("\n")
    if kind == "code":
        yield _fenced(source, language)
    elif kind == "raw":
        yield piece(source)
    else:
        yield markdown_document(source, metadata={})
    yield _pictures(_mapping(cell.get("attachments")))


def _output(output: Mapping[str, Json], longest: int) -> Parsed:
    """Return the text of an output: a stream, an error, or a value that is not a picture."""
    values = _mapping(output.get("data", output))
    if pictures := [key for key in values if key.startswith("image/")]:
        return _pictures(pictures)
    text = next((_text(values[key]) for key in _TEXTS if key in values), "")
    if "ename" in output:
        text = f"{_text(output['ename'])}: {_text(output.get('evalue'))}"
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\r" in text:  # a terminal shows what overwrote the beginning of a line
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    cut = (f"its outputs are cut at {_LONGEST:,} characters each",) if len(text) > longest else ()
    return replace(_fenced(text[:longest]), notices=cut)


def _pictures(names: Iterable[str]) -> Parsed:
    return replace(piece(""), dropped=tuple(Dropped("picture", name) for name in names))


def _fenced(text: str, language: str = "") -> Parsed:
    lines = "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")
    fence = "`" * max([3, *(len(marks) + 1 for marks in re.findall(r"`{3,}", lines))])
    return piece(f"{fence}{language}\n{lines}\n{fence}" if lines else "", "code")


def _text(value: Json) -> str:
    """Return a text that may be divided into a list of lines."""
    return "".join(part for part in (value if isinstance(value, list) else [value]) if isinstance(part, str))


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Json) -> list[Mapping[str, Json]]:
    return list(map(_mapping, value)) if isinstance(value, list) else []


def _name(value: Json) -> str:
    return " ".join(value.split())[:200] if isinstance(value, str) else ""
