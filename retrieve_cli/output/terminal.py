"""Answers, records and generations for people at a terminal: tables and explanations, straight to a console."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable
from retrieve_cli.output import plain_table
from retrieve_cli.output.formats import result_id, snippet, why
from retrieve_cli.output.plain_table import Column
from retrieve_cli.search.answer import Answer, Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


def print_answers(
    answers: Sequence[Answer],
    console: Callable[[], Console],
    *,
    plain: int | None,
    explain: bool,
    timing: bool,
    batch: bool,
) -> None:
    """A table a query: name, score, why, and a snippet with the matched words.

    `plain` is the width of a table that goes into a file or a pipe, None for one on a `console`.
    """
    for answer in answers:
        if batch:
            _say(f"{answer.query.id}: {answer.query.text}")
        if not answer.results:
            _say("no results")
        elif (text := None if plain is None else _plain(answer, plain)) is not None:
            sys.stdout.write(text)
        else:
            console().print(_table(answer))
        for line in (*_bundles(answer), *(_explanation(answer) if explain else ())):
            _say(line)
        if timing:
            _say(", ".join(f"{name} {value:.1f} ms" for name, value in answer.timings_ms.items()))


def _say(line: str) -> None:
    sys.stdout.write(printable(line) + "\n")


_RANK, _SCORE, _SURE, _WHY = (
    Column("#", right=True),
    Column("score", right=True),
    Column("sure", right=True),
    Column("why"),
)
_NAME, _SNIPPET = Column("name", ratio=3, fold=True), Column("snippet", ratio=7)


def _columns(answer: Answer) -> list[Column]:
    return [_RANK, _NAME, _SCORE, *([_SURE] if answer.confidence else []), _WHY, _SNIPPET]


def _names(answer: Answer, result: Result) -> Iterator[tuple[str, str]]:
    """The lines that say what a result is, each with its style."""
    yield printable(str(result.record["name"])), "bold"
    yield printable(result_id(answer, result)), "dim"
    if result.freshness != "fresh":
        yield f"{result.freshness} since the build", "red"
    if result.hit.topped_up is not None:
        yield "topped up", "yellow"
    if result.chunk["section"]:
        yield printable(str(result.chunk["section"])), "italic"


def _sure(answer: Answer, result: Result) -> list[str]:
    """The cell on a result's confidence, if answers have one."""
    return [] if not answer.confidence else ["" if result.confidence is None else f"{result.confidence:.0%}"]


def _plain(answer: Answer, width: int) -> str | None:
    """The table of an answer without styles; None if its characters are not all of one width."""
    rows = [
        (
            str(rank),
            "\n".join(line for line, _ in _names(answer, result)),
            f"{result.hit.score:.3f}",
            *_sure(answer, result),
            why(result),
            printable(snippet(result.text, answer.matches(result.text))[0]),
        )
        for rank, result in enumerate(answer.results, 1)
    ]
    return plain_table.table(_columns(answer), rows, width=width)


def _table(answer: Answer) -> Table:
    from rich.text import Text

    table = grid(_columns(answer))
    for rank, result in enumerate(answer.results, 1):
        (first, style), *others = _names(answer, result)
        name = Text(first, style=style)
        for line, style in others:
            name.append(f"\n{line}", style=style)
        score, sure = f"{result.hit.score:.3f}", _sure(answer, result)
        table.add_row(str(rank), name, score, *sure, Text(why(result)), _marked(answer, result))
    return table


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


def _bundles(answer: Answer) -> Iterator[str]:
    """What each result requires, in an order that can be run."""
    for rank, result in enumerate(answer.results, 1):
        if result.bundle is None:
            continue
        marks = (" (outside the filter)" if need.outside_filter else "" for need in result.bundle.needs)
        needs = (
            ", ".join(f"{need.id}{mark}" for need, mark in zip(result.bundle.needs, marks, strict=True)) or "nothing"
        )
        yield f"{rank}. {result.record['id']} needs: {needs}"
        yield from (f"   these need one another: {', '.join(circle)}" for circle in result.bundle.cycles)


def _explanation(answer: Answer) -> Iterator[str]:
    """How each score came about, then the pipeline and what it left out."""
    for rank, result in enumerate(answer.results, 1):
        yield f"{rank}. {result.hit.id} {result.hit.score:.6g}"
        yield from _account(result)
    yield f"{answer.pipeline}, {answer.fusion_method}, generation {answer.generation}"
    yield from _reading(answer)
    if answer.confidence:
        yield "sure: " + ", ".join(f"{name} {value}" for name, value in answer.confidence.items())
    for leg, reason in answer.strategies_skipped.items():
        yield f"{leg} skipped: {reason}"
    for attempt in answer.attempts:
        yield f"asked as {attempt.text!r}: {attempt.results} results"
    if answer.spent is not None:
        tokens = "" if answer.spent.tokens is None else f", {answer.spent.tokens} tokens by {answer.spent.tokenizer}"
        yield f"budget: {answer.spent.chunks} chunks{tokens}"
        yield from (f"   {name}: {reason}" for name, reason in answer.spent.cut)
    if answer.deadline:
        met = "met" if answer.deadline["met"] else "not met"
        yield f"deadline of {answer.deadline['ms']:g} ms {met}: {', '.join(answer.deadline['done'])}"


def _account(result: Result) -> Iterator[str]:
    """Lines that add up to the score of a result."""
    for evidence in result.hit.evidence:
        place = f"rank {evidence.rank}" if evidence.rank else "not in its list, asked for its score"
        part = f"{evidence.weight:g} × {evidence.normalized:.6g} = {evidence.weight * evidence.normalized:.6g}"
        yield f"   {evidence.source}: {place}, score {evidence.score:.6g}, normalized and weighted {part}"
    if result.hit.path is not None:
        yield f"   {result.hit.path}"
    if result.hit.topped_up is not None:
        yield f"   topped up: {result.hit.topped_up}, and there are too few results without it"
    if (moved := result.hit.reranked) is not None:
        before = f"rank {moved.before} before with {moved.retrieval_score:.6g}"
        yield f"   {moved.scorer}: {before}, score {moved.score:.6g}"


def _reading(answer: Answer) -> Iterator[str]:
    """What the question was read as, and what its filters and the gate let through."""
    question = answer.question
    if question.enhanced != question.request.text:
        yield f"asked as {question.enhanced!r}"
    if question.excluded:
        yield f"excluded: {', '.join(question.excluded)}"
    for _, condition in question.filters:
        yield f"filter: {condition}"
    for leg, counts in answer.trace.get("filter", {}).items():
        passed, candidates = counts["candidates_after_filter"], counts["candidates_before_filter"]
        yield f"   {leg}: {passed} of {candidates} candidates pass"
    if gate := answer.trace.get("gate"):
        chosen = ", ".join(str(each["group"]) for each in gate["chosen"])
        yield f"gate: {gate['passes']} passes, {gate['left_out']} of {gate['groups_seen']} groups left out; {chosen}"


def _marked(answer: Answer, result: Result) -> Text:
    from rich.text import Text

    line, matches = snippet(result.text, answer.matches(result.text))
    text = Text(printable(line))
    for start, end in matches:
        text.stylize("bold yellow", start, end)
    return text


def print_records(rows: Sequence[Mapping[str, Json]], console: Console) -> None:
    """A table of records: id, name, group, source and line."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("id", "name", "group", "source"):
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = (row["id"], row["name"], row["group"] or "", f"{row['source']}:{row['line']}")
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
    console.print(table)


def print_history(rows: Sequence[Mapping[str, Json]], console: Console) -> None:
    """A table of generations: which is live, when each was published, what it has and what it changed."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("generation", "", "published", "records", "chunks", "changes", "MiB"):
        table.add_column(column, justify="right" if column in ("records", "chunks", "MiB") else "left")
    for row in rows:
        state = ", ".join(word for word, holds in (("live", row["live"]), ("in use", row["in_use"])) if holds)
        changes = ", ".join(f"{count} {what}" for what, count in row["changes"].items() if count and what != "kept")
        size = f"{row['bytes'] / 2**20:.1f}"
        cells = (row["generation"], state, row["at"], row["records"], row["chunks"], changes, size)
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
    console.print(table)


def outline(value: Mapping[str, Json]) -> str:
    """Nested values as indented `key: value` lines (YAML)."""
    import yaml

    text = str(yaml.safe_dump(dict(value), allow_unicode=True, sort_keys=False, width=110))
    return "\n".join(map(printable, text.split("\n")))
