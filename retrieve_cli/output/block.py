"""Results as blocks of text: name and place, a sentence, the reasons.

1  lungmask  github.com/JoHof/lungmask                                                      4.69
   Small package with pretrained U-Nets that outline the left and right lung …
   bm25 #1 · dense #1 · reranked #1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable
from retrieve_cli.output.places import linked, located, span_of
from retrieve_cli.output.plain_text import one_line, percent, significant, title
from retrieve_cli.output.reasons import ALSO_NEEDED, SEPARATOR, Reason, path_in_words, rank_before_budget, reasons
from retrieve_cli.output.snippet import Snippet, snippet
from retrieve_cli.output.styled_lines import ELLIPSIS, Line, StyledText, cell_width, cut, file_address, wrap
from retrieve_cli.search.answer import Answer, Bundle, Result
from retrieve_cli.storage.records.sections import facets_of

_WIDE = 76
"""Cells in which a snippet has one line; in fewer it has two."""
_MOST = 110
"""Cells of a line of a snippet: longer ones are hard to read."""


def block(answer: Answer, result: Result, *, rank: int, width: int) -> Iterator[Line]:
    """Yield the lines of a result."""
    number = _number(rank, answer)
    indent = StyledText(" " * len(number))
    room = width - indent.width
    head = head_of(result, chunk=answer.unit == "chunk")
    for place, line in enumerate(laid_out(head, room, end=StyledText(worth(result), "score"))):
        yield [indent if place else StyledText(number), *line]
    # More than is shown, so that a sentence whose match is a little farther on counts as well.
    found = snippet(answer, result, room=(1 if room >= _WIDE else 2) * min(room, _MOST))
    yield from ([indent, *line] for line in _sentence(found, room))
    if named := [f"{name}: {text}" for name, text in facets_of(result.chunk).items()]:
        yield [indent, StyledText(cut(printable(SEPARATOR.join(named)), min(room, _MOST)), "dim")]
    yield from ([indent, *line] for line in _reasons(reasons(result, rank=rank_before_budget(answer, rank)), room))
    if result.bundle is not None:
        yield from ([indent, *line] for line in needs(result.bundle, room))


def _number(rank: int, answer: Answer) -> str:
    return f"{rank:>{max(2, len(str(answer.offset + len(answer.results))))}}  "


def indent_of(answer: Answer) -> int:
    """Return the cells before the lines of a result."""
    return len(_number(1, answer))


def worth(result: Result) -> str:
    """Return the confidence of a result if its score is calibrated, and its score if not."""
    if result.confidence is None:
        is_listed = not (result.hit.evidence or result.hit.path)  # of a list without a query
        return "" if is_listed else significant(result.hit.score)
    return percent(result.confidence)


def _sentence(found: Snippet, room: int) -> Iterator[Line]:
    room, most = min(room, _MOST), 1 if room >= _WIDE else 2
    places = wrap(found.text, room, breaks_words=True)
    if len(places) > most:
        start = places[most - 1][0]
        rest = Snippet(found.text[start:], [(begin - start, stop - start) for begin, stop in found.marks])
        shown = [_marked(found, *place) for place in places[: most - 1]]
        yield from [*shown, _marked(last := rest.cut(room), 0, len(last.text))]
    else:
        yield from (_marked(found, *place) for place in places)


def _marked(found: Snippet, start: int, end: int) -> list[StyledText]:
    spans, place = [], start
    for begin, stop in found.marks:
        if place <= begin and stop <= end:
            spans += [StyledText(found.text[place:begin]), StyledText(found.text[begin:stop], "match")]
            place = stop
    return [*spans, StyledText(found.text[place:end])]


def _reasons(found: Sequence[Reason], room: int) -> Iterator[Line]:
    """The reasons on one line, or on several, none of them broken."""
    line: list[StyledText] = []
    used = 0
    for reason in found:
        size = cell_width(reason.text)
        if line and used + len(SEPARATOR) + size > room:
            yield line
            line, used = [], 0
        if line:
            line.append(StyledText(SEPARATOR, "dim"))
            used += len(SEPARATOR)
        line.append(StyledText(reason.text, reason.style))
        used += size
    if line:
        yield line


def needs(bundle: Bundle, room: int) -> Iterator[Line]:
    """Yield what a result requires, in an order that can be run, and what of it needs one another."""
    marks = (f"{need.id}{' (outside the filter)' if need.outside_filter else ''}" for need in bundle.needs)
    yield from _hanging("needs: ", ", ".join(marks) or "nothing else", room)
    for circle in bundle.cycles:
        yield from _hanging("need one another: ", ", ".join(circle), room)


def _hanging(label: str, text: str, room: int) -> Iterator[Line]:
    for place, (start, end) in enumerate(wrap(text, room - len(label))):
        yield [StyledText(" " * len(label) if place else label, "dim"), StyledText(text[start:end])]


def related(answer: Answer, width: int) -> Iterator[Line]:
    """Yield the records that the results lead to, under a heading; nothing without such records."""
    if not answer.related:
        return
    indent = StyledText(" " * indent_of(answer))
    yield [StyledText(ALSO_NEEDED, "heading")]
    for result in answer.related:
        head = head_of(result, chunk=answer.unit == "chunk")
        reason = StyledText(path_in_words(result.hit.path or ""), "dim")
        parts = Head([*head.parts, *([reason] if reason.text else [])])
        yield from ([indent, *line] for line in laid_out(parts, width - indent.width))


_BETWEEN = StyledText("  ")
_BELOW = " › "
_LEAST_SECTION = 24
"""Least number of cells for a shortened path of a section; with fewer it goes on a separate line."""


class Head(NamedTuple):
    """The parts of the first lines of a result."""

    parts: Sequence[StyledText]
    """Each part is kept on one line; a name of several words may be broken between them."""
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
    parts = [StyledText(printable(located(str(record["id"]), span)), "name", link)]
    if chunk:
        parts.append(StyledText(f"#{result.chunk['index']}", "dim"))
    if span.place is not None and (address := web_address(record["url"])):
        parts.append(StyledText(printable(short_address(address)), "place", linked(address, span)))
    stem = str(record["id"]).rpartition("/")[2].rpartition(".")[0]
    name = "" if _plain(record["name"]) == _plain(stem) else title(record["name"])
    return Head(parts, printable(_sections(result) or name))


def _sections(result: Result) -> str:
    """The path of the section that a passage begins in, and the last headings of others that it goes on in."""
    paths = result.chunk.get("sections") or [result.chunk["section"] or ""]
    cleaned = [[shown for part in str(path).split(" > ") if (shown := title(part))] for path in paths]
    first, *others = [path for path in cleaned if path] or [[]]
    return ", ".join([_BELOW.join(first), *(path[-1] for path in others)])


def _of_record(result: Result, *, chunk: bool) -> Head:
    """A record of a catalog by its name, its id unless the name shows it, and its address."""
    record = result.record
    identifier = result.hit.id if chunk else str(record["id"])
    name = one_line(str(record["name"])) or identifier
    url = str(record["url"] or "")
    shown, link = short_address(url), web_address(url)
    parts = [StyledText(printable(name), "name", link)]
    same = short_address(identifier) == shown
    if chunk or not shown or _plain(name) != _plain(identifier):
        parts.append(StyledText(printable(f"id {one_line(identifier)}"), "dim", link if same else ""))
    if shown and not same:
        parts.append(StyledText(printable(shown), "place", link))
    return Head(parts)


def web_address(url: Json) -> str:
    """Return an address that a browser may be sent to; empty for any other value."""
    text = str(url or "")
    return text if text.startswith(("http://", "https://")) else ""


def short_address(url: str) -> str:
    """Return an address without its scheme."""
    return one_line(url).removeprefix("https://").removeprefix("http://").removesuffix("/")


def _plain(text: Json) -> str:
    """Letters and digits of a name, as an id made from it has them."""
    return "".join(filter(str.isalnum, str(text).casefold()))


def laid_out(head: Head, room: int, *, end: StyledText | None = None) -> list[Line]:
    """Return the lines of a head within `room` cells, `end` at the right edge of the first one that has room for it.

    No part is broken: one that does not fit beside the others starts a line, and a longer one than a line exceeds it.
    """
    flow = _Flow(room, end)
    for part in head.parts:
        if part.width <= room:
            flow.add(part)
        else:
            for start, stop in wrap(part.text, room):
                flow.add(part._replace(text=part.text[start:stop]))
    if head.section:
        flow.add_section(head.section)
    return flow.finished()


class _Flow:
    """Lines that are filled part by part."""

    def __init__(self, room: int, end: StyledText | None) -> None:
        self._room = room
        self._end = end
        self._lines: list[list[StyledText]] = [[]]
        self._used = 0
        self._reserved = 0

    def add(self, part: StyledText) -> None:
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
        if self._lines[-1] and cell_width(marked) > self._left and self._left < _LEAST_SECTION:
            self._break()
            self._reserved = 0 if self._end is None else self._end.width + _BETWEEN.width
        while cell_width(marked) > self._left and len(path) > 1:
            path.pop(0)
            marked = f"{ELLIPSIS} › {_BELOW.join(path)}"
        self._append(StyledText(cut(marked, self._left), "section"))

    @property
    def _left(self) -> int:
        gap = _BETWEEN.width if self._lines[-1] else 0
        return self._room - self._used - gap - self._reserved

    def _append(self, part: StyledText) -> None:
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
            self._lines[-1] += [StyledText(" " * (self._room - self._used - self._end.width)), self._end]
            self._end = None

    def finished(self) -> list[Line]:
        """Return the lines; the end goes on a separate line if there was no room for it."""
        if self._end is not None:
            if not self._reserved:
                self._break()
            self._put_end()
        return list(self._lines)
