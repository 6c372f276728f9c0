"""`retrieve query`."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from retrieve_cli.cli.options import MODES, GroupBy, Shape, Shared, shared
from retrieve_cli.errors import Exit, UsageError, printable, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retrieve_cli.config.settings import Settings
    from retrieve_cli.output.run_account import Texts
    from retrieve_cli.search.answer import Answer
    from retrieve_cli.search.options import SearchOptions
    from retrieve_cli.search.searcher import Searcher

_KEYS = {
    "-k": "search.k",
    "--mode": "search.mode",
    "--retrievers": "search.retrievers",
    "--engine": "search.engine",
    "--deadline-ms": "search.deadline_ms",
    "--min-score": "search.min_score",
    "--gate": "gating.enabled",
    "--expand": "expansion.enabled",
    "--bundle": "expansion.bundle",
    "--context": "context.window",
    "--max-chunks": "budget.max_chunks",
    "--max-tokens": "budget.max_tokens",
}
"""Flags that stand for a key of the configuration."""
WITHOUT_VALUE = {"--save-run": "brief"}
"""Flags whose value may be left out, and the value that they have then."""


@shared("text", "table", "json", "jsonl", "csv", "md", "trec", "prompt", "prompt-table")
def query(
    text: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT...|-]", help="The question; - reads one a line from stdin.")
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", "-n", "--top-k", "--limit", metavar="N", help="How many results.  [default: 10]"),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar=MODES, help="Which retrievers answer: all, or one.  [default: hybrid]"),
    ] = None,
    retrievers: Annotated[
        str | None, typer.Option("--retrievers", metavar="A,B", help="Only these retrievers answer.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="FIELD=VALUE",
            help="Only records like that: dims>=3, '!group=x', section=Results; repeatable.",
        ),
    ] = None,
    boosts: Annotated[
        list[str] | None,
        typer.Option("--boost", metavar="FIELD=VALUE:1.2", help="Multiply the score of what matches; repeatable."),
    ] = None,
    doc_ids: Annotated[
        list[str] | None, typer.Option("--doc-id", metavar="ID", help="Only this record; repeatable.")
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="X", help="Only records whose tenant is X.")] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="PATH", help="What it is about: its format counts; repeatable."),
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option("--also", metavar="TEXT", help="The same in other words; repeatable.")
    ] = None,
    rerank: Annotated[
        bool | None, typer.Option("--rerank/--no-rerank", help="Read the first hits again.  [default: in hybrid mode]")
    ] = None,
    expand: Annotated[
        bool | None, typer.Option("--expand/--no-expand", help="Bring in what hits lead to.  [default: in hybrid mode]")
    ] = None,
    bundle: Annotated[
        bool | None, typer.Option("--bundle", help="Add what each result requires, in an order to run.")
    ] = None,
    gate: Annotated[
        bool | None, typer.Option("--gate/--no-gate", help="Search only the groups that a first pass picks.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="advanced|naive", help="All stages, or the dense leg alone.  [default: advanced]"
        ),
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", metavar="N", help="Take in N chunks before and after each hit.")
    ] = None,
    max_chunks: Annotated[
        int | None, typer.Option("--max-chunks", metavar="N", help="At most so many chunks in an answer.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", help="At most so many tokens of text in an answer.")
    ] = None,
    min_score: Annotated[
        float | None, typer.Option("--min-score", metavar="S", help="Leave out what ends with a lower score.")
    ] = None,
    deadline_ms: Annotated[
        float | None,
        typer.Option("--deadline-ms", metavar="MS", help="Leave out costly steps that have no room in so much time."),
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option("--min-confidence", metavar="P", help="Leave out what is less sure; needs eval --calibrate."),
    ] = None,
    docs_dir: Annotated[
        Path | None, typer.Option("--docs-dir", metavar="DIR", help="Search this folder, without an index of it.")
    ] = None,
    chunks: Annotated[
        bool | None,
        typer.Option("--chunks/--no-chunks", help="Rank chunks instead of whole records.  [default: for a prompt]"),
    ] = None,
    group_by: Annotated[
        GroupBy | None,
        typer.Option("--group-by", metavar="document|group", help="Headings of --format prompt.  [default: document]"),
    ] = None,
    trec_ids: Annotated[
        Path | None,
        typer.Option("--trec-ids", metavar="FILE", help="With --format trec: write which ids it has encoded."),
    ] = None,
    ids: Annotated[bool, typer.Option("--list", "-l", help="Print ids only, one a line.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score came about.")] = False,
    explain_empty: Annotated[
        bool, typer.Option("--explain-empty", help="Where nothing was found, say which stage took the last.")
    ] = False,
    timing: Annotated[bool, typer.Option("--timing", help="Show where the time went.")] = False,
    save_run: Annotated[
        str | None,
        typer.Option("--save-run", metavar="[=full]", help="Keep how it was answered in runs/; =full: with its texts."),
    ] = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="A line of JSON for each answer on stderr.")] = False,
    strict_fresh: Annotated[
        bool, typer.Option("--strict-fresh", help="Exit with 10 where a hit's source has changed since the build.")
    ] = False,
    exit_status: Annotated[bool, typer.Option("--exit-status", help="Exit with 3 where nothing was found.")] = False,
    *,
    shared: Shared,
) -> None:
    """Answer a question from the live index, with a reason for every hit."""
    # First, while few calls are open: within the imports below it, NumPy's own make Python 3.11 map and unmap the same
    # piece of its stack 700 times.
    import numpy  # noqa: F401, ICN001

    from retrieve_cli.cli import printing, requests
    from retrieve_cli.contracts import Request
    from retrieve_cli.search.searcher import Searcher

    flags = {
        "-k": k, "--mode": mode, "--retrievers": requests.names(retrievers), "--engine": engine,
        "--deadline-ms": deadline_ms, "--min-score": min_score, "--gate": gate, "--expand": expand, "--bundle": bundle,
        "--context": context, "--max-chunks": max_chunks, "--max-tokens": max_tokens,
    }  # fmt: skip
    texts = None if save_run is None else _texts(save_run)
    settings = shared.with_keys({_KEYS[flag]: (flag, value) for flag, value in flags.items() if value is not None})
    asked = Request(
        text="",
        also=tuple(map(requests.sound, also or ())),
        files=tuple(files or ()),
        filters=requests.exact(filters, "--filter"),
        doc_ids=requests.exact(doc_ids, "--doc-id"),
        tenant=None if tenant is None else requests.exact([tenant], "--tenant")[0],
        retrievers=() if retrievers is None else tuple(settings.search.retrievers),
    )
    batch = text == ["-"]
    shape = Shape(ids, explain, timing, batch, group_by, trec_ids)
    shape.check(shared.format)
    found = requests.from_stdin(asked) if batch else [requests.from_words(text or (), asked)]
    all_records = all(request.tenant is None for request in found)
    unindexed = docs_dir is not None or settings.docs.mode == "standard_chunking"
    if unindexed and texts is not None:
        raise UsageError("--save-run keeps a run beside its index, and there is none", hint="retrieve build")
    answering = {
        "k": k,
        "unit": "chunk" if (shared.format == "prompt" if chunks is None else chunks) else "record",
        "rerank": rerank,
        "min_confidence": min_confidence,
        "boosts": requests.exact(boosts, "--boost") or None,
    }
    if unindexed:
        from retrieve_cli.cli.unindexed import answered

        searcher, answers = answered(found, shared, settings, folder=docs_dir, choices=answering)
    else:
        _sync_first(shared, settings, show_reason=all_records)
        searcher = Searcher(shared.store, settings)
        answers = searcher.answer(found, searcher.options(**answering))
    chunks_of_all = f", {len(searcher.generation.chunks)} chunks" if all_records else ""
    shared.talk.detail(f"generation {searcher.generation.manifest.id}{chunks_of_all}")
    if texts is not None:
        answers = _kept(answers, shared, searcher, searcher.options(**answering), texts)
    for notice in dict.fromkeys(notice for answer in answers for notice in answer.notices):
        shared.talk.say(f"note: {notice}")
    printing.print_answers(answers, shared, shape)
    if explain_empty:
        _explain_empty(searcher, answers, sys.stdout if shared.format in ("text", "table") and not ids else sys.stderr)
    if (shared.talk.verbose or log_json) and not shared.talk.quiet:
        from retrieve_cli.cli import logs

        logs.log_answers(answers, as_json=log_json, min_candidates=settings.log.min_candidates)
    if settings.log.queries and not unindexed:
        with suppress(BrokenPipeError):  # which ends the command when all is done
            sys.stdout.flush()
        _log(answers, shared, settings)
    if strict_fresh and any(result.freshness != "fresh" for answer in answers for result in answer.results):
        raise typer.Exit(Exit.STALE)
    if exit_status and not any(answer.results for answer in answers):
        raise typer.Exit(Exit.NO_RESULT)


def _sync_first(shared: Shared, settings: Settings, *, show_reason: bool) -> None:
    """Sync, if the configuration wants every query to look first."""
    if settings.syncs_each_time or settings.sync.every_hours:
        from retrieve_cli.cli.sync import sync_first

        sync_first(shared, settings, show_reason=show_reason)


def _texts(given: str) -> Texts:
    """The value of --save-run."""
    values: Mapping[str, Texts] = {"brief": "brief", "full": "full"}
    if given not in values:
        from retrieve_cli.config.values import unknown

        raise unknown(f"value {quoted(given)} of --save-run", given, values)
    return values[given]


def _kept(
    answers: Sequence[Answer], shared: Shared, searcher: Searcher, options: SearchOptions, texts: Texts
) -> list[Answer]:
    """The answers, which now know where they are kept."""
    from dataclasses import replace

    from retrieve_cli.output import journal

    recipe = searcher.generation.manifest.recipe.to_json()
    run_id = journal.save(shared.store, answers, searcher.settings, options, recipe=recipe, texts=texts)
    shared.talk.say(f"note: kept as run {run_id}: retrieve inspect run {run_id}")
    return [replace(answer, run_id=run_id) for answer in answers]


def _log(answers: Sequence[Answer], shared: Shared, settings: Settings) -> None:
    """Adds to the log of queries; an answer is not withheld because that fails."""
    from retrieve_cli.errors import RetrieveError
    from retrieve_cli.output import journal

    try:
        journal.log(shared.store.runs, answers, min_candidates=settings.log.min_candidates)
    except RetrieveError as error:
        shared.talk.say(f"note: the query was not logged: {error.message} ({error.hint})")


def _explain_empty(searcher: Searcher, answers: Sequence[Answer], file: TextIO) -> None:
    """Says of each answer without results where the last hit went: on stderr, where stdout is for a program."""
    from retrieve_cli.inspect.why import why_empty

    for answer in answers:
        if not answer.results:
            lines = [f"query {answer.query.id} found nothing:", *(f"  {each}" for each in why_empty(searcher, answer))]
            print(*map(printable, lines), sep="\n", file=file)
