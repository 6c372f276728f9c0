"""Results as blocks of text: name and place, a sentence, the reasons.

1  lungmask  github.com/JoHof/lungmask                                                      4.69
   Small package with pretrained U-Nets that outline the left and right lung …
   bm25 #1 · dense #1 · reranked #1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrieve_cli.errors import printable
from retrieve_cli.output import cells
from retrieve_cli.output.heads import Head, head_of, laid_out
from retrieve_cli.output.page import Line, Span
from retrieve_cli.output.reasons import ALSO_NEEDED, SEPARATOR, Reason, path_in_words, rank_before_budget, reasons
from retrieve_cli.output.significant import percent, significant
from retrieve_cli.output.snippet import Snippet, snippet
from retrieve_cli.records.facets import facets_of
from retrieve_cli.search.answer import Answer, Bundle, Result

_WIDE = 76
"""Cells in which a snippet has one line; in fewer it has two."""
_MOST = 110
"""Cells of a line of a snippet: longer ones are hard to read."""


def block(answer: Answer, result: Result, *, rank: int, width: int) -> Iterator[Line]:
    """Yield the lines of a result."""
    number = _number(rank, answer)
    indent = Span(" " * len(number))
    room = width - indent.width
    head = head_of(result, chunk=answer.unit == "chunk")
    for place, line in enumerate(laid_out(head, room, end=Span(worth(result), "score"))):
        yield [indent if place else Span(number), *line]
    # More than is shown, so that a sentence whose match is a little farther on counts as well.
    found = snippet(answer, result, room=(1 if room >= _WIDE else 2) * min(room, _MOST))
    yield from ([indent, *line] for line in _sentence(found, room))
    yield from ([indent, *line] for line in _facets(result, room))
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
    return significant(result.hit.score) if result.confidence is None else percent(result.confidence)


def _sentence(found: Snippet, room: int) -> Iterator[Line]:
    """The lines of a snippet."""
    room, most = min(room, _MOST), 1 if room >= _WIDE else 2
    if not found.text:
        return
    places = cells.lines(found.text, room, breaks_words=True)
    if len(places) > most:
        start = places[most - 1][0]
        rest = Snippet(found.text[start:], [(begin - start, stop - start) for begin, stop in found.marks])
        shown = [_marked(found, *place) for place in places[: most - 1]]
        yield from [*shown, _marked(last := rest.cut(room), 0, len(last.text))]
    else:
        yield from (_marked(found, *place) for place in places)


def _facets(result: Result, room: int) -> Iterator[Line]:
    """The facets of the chunk on one line."""
    if named := [f"{name}: {text}" for name, text in facets_of(result.chunk).items()]:
        yield [Span(cells.cut(printable(SEPARATOR.join(named)), min(room, _MOST)), "dim")]


def _marked(found: Snippet, start: int, end: int) -> list[Span]:
    """A line of a snippet, its matches marked."""
    spans, place = [], start
    for begin, stop in found.marks:
        if place <= begin and stop <= end:
            spans += [Span(found.text[place:begin]), Span(found.text[begin:stop], "match")]
            place = stop
    return [*spans, Span(found.text[place:end])]


def _reasons(found: Sequence[Reason], room: int) -> Iterator[Line]:
    """The reasons on one line, or on several, none of them broken."""
    line: list[Span] = []
    used = 0
    for reason in found:
        size = cells.width(reason.text)
        if line and used + len(SEPARATOR) + size > room:
            yield line
            line, used = [], 0
        if line:
            line.append(Span(SEPARATOR, "dim"))
            used += len(SEPARATOR)
        line.append(Span(reason.text, reason.style))
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
    """A text behind a label, below itself where it has several lines."""
    for place, (start, end) in enumerate(cells.lines(text, room - len(label))):
        yield [Span(" " * len(label) if place else label, "dim"), Span(text[start:end])]


def related(answer: Answer, width: int) -> Iterator[Line]:
    """Yield the records that the results lead to, under a heading; nothing if there are none."""
    if not answer.related:
        return
    indent = Span(" " * indent_of(answer))
    yield [Span(ALSO_NEEDED, "heading")]
    for result in answer.related:
        head = head_of(result, chunk=answer.unit == "chunk")
        reason = Span(path_in_words(result.hit.path or ""), "dim")
        parts = Head([*head.parts, *([reason] if reason.text else [])])
        yield from ([indent, *line] for line in laid_out(parts, width - indent.width))
