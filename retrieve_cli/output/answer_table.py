"""Results as a table of rich: name, score, reasons, snippet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from retrieve_cli.errors import printable
from retrieve_cli.output.cells import cut
from retrieve_cli.output.formats import result_id
from retrieve_cli.output.pieces import title
from retrieve_cli.output.places import pages, span_of
from retrieve_cli.output.prose import percent
from retrieve_cli.output.reasons import reasons
from retrieve_cli.output.snippet import ROOM, snippet
from retrieve_cli.search.answer import Answer, Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_REASON = 32
"""Cells of a reason."""


def print_table(answer: Answer, console: Console) -> None:
    """Print the results of an answer."""
    console.print(_table(answer))


def _names(answer: Answer, result: Result) -> Iterator[tuple[str, str]]:
    """Name, id with pages, and section of a result, a line each, with its style."""
    yield printable(str(result.record["name"])), "bold"
    numbers = pages(span_of(result).place)
    yield printable(" ".join(filter(None, (result_id(answer, result), numbers)))), "dim"
    if result.chunk["section"]:
        yield printable(title(str(result.chunk["section"]))), "italic"


def _cells(answer: Answer, result: Result, rank: int) -> list[str]:
    """The cells on the score and the reasons of a result."""
    confidence = "" if result.confidence is None else percent(result.confidence)
    lines = "\n".join(cut(reason.text, _REASON) for reason in reasons(result, rank=rank))
    return [f"{result.hit.score:.3f}", *([confidence] if answer.confidence else []), lines]


def _table(answer: Answer) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, expand=True)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("name", ratio=3, overflow="fold")
    for header in ("score", *(["confidence"] if answer.confidence else [])):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("why", no_wrap=True)
    table.add_column("snippet", ratio=7)
    for rank, result in answer.ranked:
        name = Text()
        for place, (line, style) in enumerate(_names(answer, result)):
            name.append("\n" * (place > 0) + line, style=style)
        score, *others = _cells(answer, result, rank)
        table.add_row(str(rank), name, score, *map(Text, others), _marked(answer, result))
    return table


def _marked(answer: Answer, result: Result) -> Text:
    from rich.text import Text

    found = snippet(answer, result).cut(ROOM)
    text = Text(found.text)
    for start, end in found.marks:
        text.stylize("bold yellow", start, end)
    return text
