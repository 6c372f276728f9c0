"""The name and the place of a result: what one opens, and what one passes on to other commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable
from retrieve_cli.output.cells import ELLIPSIS, cut, lines, width
from retrieve_cli.output.page import Line, Span, file_address
from retrieve_cli.output.pieces import title
from retrieve_cli.output.places import linked, located, span_of
from retrieve_cli.output.prose import one_line
from retrieve_cli.search.answer import Result

_BETWEEN = Span("  ")
_BELOW = " › "
_LEAST_SECTION = 24
"""Cells in which the path of a section is shown shortened; with fewer it has a line of its own."""


class Head(NamedTuple):
    """The parts of the first lines of a result."""

    parts: Sequence[Span]
    """Each stands on one line whole; a name of several words may be broken between them."""
    section: str = ""
    """The path of a section, which may be shortened from its start."""


def head_of(result: Result, *, chunk: bool) -> Head:
    """Return the head of a result; of a chunk, if the results are chunks, with the number it has in its record."""
    return _of_record(result, chunk=chunk) if result.record["kind"] == "catalog" else _of_file(result, chunk=chunk)


def _of_file(result: Result, *, chunk: bool) -> Head:
    """A document by its id, which is its path, and its lines, pages or anchor; one with a layout also by its address,
    if it has one."""
    record, span = result.record, span_of(result)
    link = linked(file_address(result.file), span) if result.file else ""
    parts = [Span(printable(located(str(record["id"]), span)), "name", link)]
    if chunk:
        parts.append(Span(f"#{result.chunk['index']}", "dim"))
    if span.place is not None and (address := web_address(record["url"])):
        parts.append(Span(printable(short_address(address)), "place", linked(address, span)))
    return Head(parts, printable(_sections(result) or (title(record["name"]) if _says_more(record) else "")))


def _sections(result: Result) -> str:
    """The path of the section that a passage begins in, and the last headings of others that it goes on in."""
    paths = result.chunk.get("sections") or [result.chunk["section"] or ""]
    cleaned = [[shown for part in str(path).split(" > ") if (shown := title(part))] for path in paths]
    first, *others = [path for path in cleaned if path] or [[]]
    return ", ".join([_BELOW.join(first), *(path[-1] for path in others)])


def _says_more(record: Mapping[str, Json]) -> bool:
    """Return True if the name of a document is not that of its file."""
    stem = str(record["id"]).rpartition("/")[2].rpartition(".")[0]
    return _plain(record["name"]) != _plain(stem)


def _of_record(result: Result, *, chunk: bool) -> Head:
    """A record of a catalog by its name, its id unless the name shows it, and its address."""
    record = result.record
    identifier = result.hit.id if chunk else str(record["id"])
    name = one_line(str(record["name"])) or identifier
    url = str(record["url"] or "")
    shown, link = short_address(url), web_address(url)
    parts = [Span(printable(name), "name", link)]
    same = short_address(identifier) == shown
    if chunk or not shown or _plain(name) != _plain(identifier):
        parts.append(Span(printable(f"id {one_line(identifier)}"), "dim", link if same else ""))
    if shown and not same:
        parts.append(Span(printable(shown), "place", link))
    return Head(parts)


def web_address(url: Json) -> str:
    """Return an address that a browser may be sent to; empty if it is another one, or none."""
    text = str(url or "")
    return text if text.startswith(("http://", "https://")) else ""


def short_address(url: str) -> str:
    """Return an address without its scheme."""
    text = one_line(url)
    for scheme in ("https://", "http://"):
        text = text.removeprefix(scheme)
    return text.removesuffix("/")


def _plain(text: Json) -> str:
    """Letters and digits of a name, as an id made from it has them."""
    return "".join(filter(str.isalnum, str(text).casefold()))


def laid_out(head: Head, room: int, *, end: Span | None = None) -> list[Line]:
    """Return the lines of a head within `room` cells, `end` at the right edge of the first one that has room for it.

    No part is broken: one that does not fit beside the others starts a line, and a longer one than a line exceeds it.
    """
    flow = _Flow(room, end)
    for part in head.parts:
        if part.width <= room:
            flow.add(part)
        else:
            for start, stop in lines(part.text, room):
                flow.add(part._replace(text=part.text[start:stop]))
    if head.section:
        flow.add_section(head.section)
    return flow.finished()


class _Flow:
    """Lines that are filled part by part."""

    def __init__(self, room: int, end: Span | None) -> None:
        self._room = room
        self._end = end
        self._lines: list[list[Span]] = [[]]
        self._used = 0
        self._reserved = 0

    def add(self, part: Span) -> None:
        """Add a part to the line, or to a new one."""
        if self._lines[-1] and part.width > self._left:
            self._break()
        if not self._lines[-1] and self._end is not None:
            reserved = self._end.width + _BETWEEN.width
            self._reserved = reserved if part.width + reserved <= self._room else 0
        self._append(part)

    def add_section(self, section: str) -> None:
        """Add the path of a section: whole, or without its outer headings, or cut."""
        path = section.split(_BELOW)
        marked = f"› {section}"
        if self._lines[-1] and width(marked) > self._left and self._left < _LEAST_SECTION:
            self._break()
            self._reserved = 0 if self._end is None else self._end.width + _BETWEEN.width
        while width(marked) > self._left and len(path) > 1:
            path.pop(0)
            marked = f"{ELLIPSIS} › {_BELOW.join(path)}"
        self._append(Span(cut(marked, self._left), "section"))

    @property
    def _left(self) -> int:
        gap = _BETWEEN.width if self._lines[-1] else 0
        return self._room - self._used - gap - self._reserved

    def _append(self, part: Span) -> None:
        if self._lines[-1]:
            self._lines[-1].append(_BETWEEN)
            self._used += _BETWEEN.width
        self._lines[-1].append(part)
        self._used += part.width

    def _break(self) -> None:
        """Finish a line, with the end if there is room for it."""
        if self._reserved:
            self._put_end()
        self._lines.append([])
        self._used = self._reserved = 0

    def _put_end(self) -> None:
        if self._end is not None:
            self._lines[-1] += [Span(" " * (self._room - self._used - self._end.width)), self._end]
            self._end = None

    def finished(self) -> list[Line]:
        """Return the lines; the end has one of its own if there was no room for it."""
        if self._end is not None:
            if not self._reserved:
                self._break()
            self._put_end()
        return list(self._lines)
