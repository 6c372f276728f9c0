"""`retrieve query`."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.cli.sync import sync_first
from retrieve_cli.contracts import Answer, Query
from retrieve_cli.errors import Exit, UsageError


@shared("text", "json", "jsonl", "csv", "md", "trec")
def query(
    text: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT...|-]", help="The question; - reads one a line from stdin.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", metavar="N", help="How many results.  [default: 10]")] = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar="hybrid|dense|bm25|splade", help="Which legs answer.  [default: hybrid]"),
    ] = None,
    rerank: Annotated[
        bool | None, typer.Option("--rerank/--no-rerank", help="Read the first hits again.  [default: in hybrid mode]")
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option("--min-confidence", metavar="P", help="Leave out what is less sure; needs eval --calibrate."),
    ] = None,
    chunks: Annotated[bool, typer.Option("--chunks", help="Rank chunks instead of whole records.")] = False,
    ids: Annotated[bool, typer.Option("--list", "-l", help="Print ids only, one a line.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score came about.")] = False,
    timing: Annotated[bool, typer.Option("--timing", help="Show where the time went.")] = False,
    strict_fresh: Annotated[
        bool, typer.Option("--strict-fresh", help="Exit with 10 where a hit's source has changed since the build.")
    ] = False,
    exit_status: Annotated[bool, typer.Option("--exit-status", help="Exit with 3 where nothing was found.")] = False,
    *,
    shared: Shared,
) -> None:
    """Answer a question from the live index, with a reason for every hit."""
    from retrieve_cli.search import Searcher

    settings = shared.settings("search", k=k, mode=mode)
    batch = text == ["-"]
    queries = list(read_queries(_stdin(), "stdin")) if batch else [Query(_sound(" ".join(text or ())), "1")]
    if settings.sources.auto_sync:
        sync_first(shared, settings)
    searcher = Searcher(shared.store, settings)
    answers = searcher.answer(
        queries,
        k=settings.search.k,
        mode=settings.search.mode,
        unit="chunk" if chunks else "record",
        rerank=rerank,
        min_confidence=min_confidence,
    )
    shared.talk.detail(f"generation {searcher.generation.manifest.id}, {len(searcher.generation.chunks)} chunks")
    for notice in searcher.notices:
        shared.talk.say(f"note: {notice}")
    _print(answers, shared, ids=ids, explain=explain, timing=timing, batch=batch)
    if strict_fresh and any(result.freshness != "fresh" for answer in answers for result in answer.results):
        raise typer.Exit(Exit.STALE)
    if exit_status and not any(answer.results for answer in answers):
        raise typer.Exit(Exit.NO_RESULT)


def _print(answers: list[Answer], shared: Shared, *, ids: bool, explain: bool, timing: bool, batch: bool) -> None:
    from retrieve_cli import render

    if ids:
        sys.stdout.write(render.as_ids(answers))
    elif shared.format == "text":
        render.print_answers(answers, shared.console(), explain=explain, timing=timing, batch=batch)
    else:
        formats = render.BATCH_FORMATS if batch else render.FORMATS
        sys.stdout.write(formats[shared.format](answers))


def _stdin() -> Iterable[bytes]:
    if sys.stdin is None:
        raise UsageError("stdin is closed, and - reads the queries from it", hint="echo TEXT | retrieve query -")
    return sys.stdin.buffer


def read_queries(lines: Iterable[bytes], where: str) -> Iterator[Query]:
    """A query a line: a JSON object with `query` (`text`) and `id` (`_id`), or plain text under its line number.

    Raises:
        UsageError: a line is neither; names it.
    """
    for number, raw in enumerate(lines, 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise UsageError(f"line {number} of {where} is not UTF-8", hint="convert it with iconv") from error
        if line.startswith("{"):
            yield _from_json(line, number, where)
        elif line:
            yield Query(line, str(number))


def _from_json(line: str, number: int, where: str) -> Query:
    hint = 'a line is plain text or {"id": "q1", "query": "…"}'
    try:
        item = jsonlib.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number} of {where} is not JSON ({error})", hint=hint) from error
    text = item.get("query", item.get("text"))
    if not isinstance(text, str):
        raise UsageError(f"line {number} of {where} has no query", hint=hint)
    return Query(_sound(text), _sound(str(item.get("id", item.get("_id", "")))) or str(number))


def _sound(text: str) -> str:
    """The text as UTF-8 can hold it: bytes of another encoding and halves of characters become question marks."""
    return text.encode("utf-8", "replace").decode()
