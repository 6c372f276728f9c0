"""Results as a table: name, score, reasons, snippet. For a file or a pipe it is laid out without rich."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from retrieve_cli.errors import printable
from retrieve_cli.output import plain_table
from retrieve_cli.output.cells import cut
from retrieve_cli.output.formats import result_id
from retrieve_cli.output.pieces import title
from retrieve_cli.output.places import pages, span_of
from retrieve_cli.output.plain_table import Column
from retrieve_cli.output.prose import percent
from retrieve_cli.output.reasons import reasons
from retrieve_cli.output.snippet import ROOM, snippet
from retrieve_cli.search.answer import Answer, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_REASON = 32
"""Cells of a reason."""


def print_table(answer: Answer, console: Callable[[], Console], *, plain: int | None) -> None:
    """Print the results of an answer; `plain` is the width of a table that goes into a file or a pipe, None for one on
    a `console`."""
    text = None if plain is None else _plain(answer, plain)
    if text is None:
        console().print(_table(answer))
    else:
        sys.stdout.write(text)


_RANK, _SCORE, _CONFIDENCE = (Column(header, right=True) for header in ("#", "score", "confidence"))
_NAME, _WHY, _SNIPPET = Column("name", ratio=3, fold=True), Column("why"), Column("snippet", ratio=7)


def _columns(answer: Answer) -> list[Column]:
    return [_RANK, _NAME, _SCORE, *([_CONFIDENCE] if answer.confidence else []), _WHY, _SNIPPET]


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


def _plain(answer: Answer, width: int) -> str | None:
    """The table of an answer without styles; None if its characters are not all of one width."""
    rows = [
        (
            str(rank),
            "\n".join(line for line, _ in _names(answer, result)),
            *_cells(answer, result, rank),
            snippet(answer, result).cut(ROOM).text,
        )
        for rank, result in answer.ranked
    ]
    return plain_table.table(_columns(answer), rows, width=width)


def _table(answer: Answer) -> Table:
    from rich.text import Text

    table = grid(_columns(answer))
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


def grid(columns: Sequence[Column]) -> Table:
    """Return a table of rich with these columns and no rows."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, expand=True)
    for column in columns:
        table.add_column(
            column.header,
            justify="right" if column.right else "left",
            no_wrap=not column.ratio,
            ratio=column.ratio or None,
            overflow="fold" if column.fold else "ellipsis",
        )
    return table
