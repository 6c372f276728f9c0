"""Answers as text for people: results as blocks or as a table, what they lead to, and how it all came about."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.errors import shortened
from retrieve_cli.output import block, cells
from retrieve_cli.output.page import Line, Page, Span
from retrieve_cli.search.answer import Answer

if TYPE_CHECKING:
    from retrieve_cli.search.facets import Facet

_VALUES, _LONGEST = 8, 40
"""Values of a facet that are shown; characters of a field or value."""

Table = Callable[[Answer], None]
"""Prints the results of an answer as a table."""


def print_answers(
    answers: Sequence[Answer],
    page: Page,
    *,
    explain: bool,
    timing: bool,
    batch: bool,
    table: Table | None = None,
) -> None:
    """Print answers one after the other, each under its query if they are a batch; results as blocks without a
    `table`."""
    for place, answer in enumerate(answers):
        _write(page, _heading(answer, first=place == 0) if batch else ())
        if table is None or not answer.results:
            _write(page, _blocks(answer, page.width, explain=explain))
        else:
            table(answer)
            _write(page, _below_table(answer, page.width, explain=explain))
        _write(page, _end(answer, page.width, explain=explain, timing=timing))


def as_text(answer: Answer, page: Page, *, explain: bool) -> str:
    """Return what is printed of one answer."""
    blocks = page.render(_blocks(answer, page.width, explain=explain))
    return blocks + page.render(_end(answer, page.width, explain=explain, timing=False))


def _write(page: Page, lines: Sequence[Line] | Iterator[Line]) -> None:
    sys.stdout.write(page.render(lines))


def _heading(answer: Answer, *, first: bool) -> Iterator[Line]:
    if not first:
        yield []
    yield [Span(f"{answer.query.id}: {' '.join(answer.query.text.split())}", "heading")]


def _blocks(answer: Answer, width: int, *, explain: bool) -> Iterator[Line]:
    if not answer.results:
        yield [Span("no results")]
    indent = block.indent_of(answer)
    for rank, result in answer.ranked:
        yield from block.block(answer, result, rank=rank, width=width)
        if explain:
            from retrieve_cli.output import explanation

            yield from _rows(explanation.of_result(answer, result), indent + 2, width)


def _below_table(answer: Answer, width: int, *, explain: bool) -> Iterator[Line]:
    """Lines for which a table has no room: the dependencies of each result, and the explanation of its score."""
    from retrieve_cli.output import explanation

    for rank, result in answer.ranked:
        if result.bundle is None and not explain:
            continue
        yield [Span(f"{rank}. {result.hit.id if explain else result.record['id']}")]
        if result.bundle is not None:
            yield from ([Span("   "), *line] for line in block.needs(result.bundle, width - 3))
        if explain:
            yield from _rows(explanation.of_result(answer, result), 3, width)


def _end(answer: Answer, width: int, *, explain: bool, timing: bool) -> Iterator[Line]:
    """The lines below all results."""
    yield from block.related(answer, width)
    facets = [(shortened(field, _LONGEST), _counts(facet)) for field, facet in answer.facets.items()]
    yield from _rows(facets, 0, width)
    if explain:
        from retrieve_cli.output import explanation

        yield from _rows(explanation.of_answer(answer), 0, width)
    if timing:
        yield [Span(", ".join(f"{name} {value:.1f} ms" for name, value in answer.timings_ms.items()), "dim")]


def _counts(facet: Facet) -> str:
    """The most frequent values of a facet with their numbers of records."""
    parts = [f"{shortened(value, _LONGEST)} {count:,}" for value, count in facet.values[:_VALUES]]
    more = len(facet.values) - len(parts) + facet.others
    return ", ".join([*parts, *([f"{more:,} more"] if more else [])]) or "none"


def _rows(rows: Sequence[tuple[str, str]], indent: int, width: int) -> Iterator[Line]:
    """Labels and their texts, these in a column."""
    column = max((cells.width(label) for label, _ in rows), default=0) + 2
    for label, text in rows:
        room = max(width - indent - column, 20)
        for place, (start, end) in enumerate(cells.lines(text, room)):
            shown = "" if place else label
            padding = " " * (column - cells.width(shown))
            yield [Span(" " * indent), Span(shown, "dim"), Span(padding), Span(text[start:end])]
