"""`retrieve query`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from retrieve_cli.cli.options import MODES, GroupBy, Shape, Shared, shared
from retrieve_cli.errors import UsageError

_FLAGS = {"k": "-k", "dependencies": "--with-dependencies"}
"""Flags that are not called like the choice that they make."""
WITHOUT_VALUE = {"--save-run": "brief"}
"""Flags whose value may be left out, and the value that they have then."""


@shared("text", "table", "json", "jsonl", "csv", "md", "trec", "prompt", "prompt-table")
def query(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT...|-]", help="The query; - reads one per line from stdin, as text or JSON."),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", "-n", "--top-k", "--limit", metavar="N", help="Number of results.  [default: 10]"),
    ] = None,
    offset: Annotated[
        int | None, typer.Option("--offset", metavar="N", help="Skip the first N results: those of earlier pages.")
    ] = None,
    facets: Annotated[
        list[str] | None,
        typer.Option("--facet", metavar="FIELD", help="Count the values that matching records have; repeatable."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar=MODES, help="All retrievers, or one.  [default: hybrid]"),
    ] = None,
    retrievers: Annotated[
        str | None, typer.Option("--retrievers", metavar="A,B", help="Use these retrievers only.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="FIELD=VALUE",
            help="Keep records that match: dims>=3, '!group=x', section=Results; repeatable.",
        ),
    ] = None,
    boosts: Annotated[
        list[str] | None,
        typer.Option("--boost", metavar="FIELD=VALUE:1.2", help="Multiply the score of matching records; repeatable."),
    ] = None,
    doc_ids: Annotated[
        list[str] | None, typer.Option("--doc-id", metavar="ID", help="Search this record only; repeatable.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="X", help="Search the records of tenant X only.")
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file", metavar="PATH", help="Use its format, modality and dimensions, or title and abstract; repeatable."
        ),
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option("--also", metavar="TEXT", help="Search this query variant too; repeatable.")
    ] = None,
    rerank: Annotated[
        bool | None,
        typer.Option("--rerank/--no-rerank", help="Rerank the top results.  [default: in hybrid mode]"),
    ] = None,
    expand: Annotated[
        bool | None,
        typer.Option("--expand/--no-expand", help="Add records linked to the top results.  [default: in hybrid mode]"),
    ] = None,
    dependencies: Annotated[
        bool | None,
        typer.Option("--with-dependencies", "--bundle", help="Add the dependencies of each result, in order."),
    ] = None,
    route: Annotated[
        bool | None,
        typer.Option("--route/--no-route", "--gate/--no-gate", help="Search only the groups that a first pass picks."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="advanced|naive", help="All stages, or the dense retriever alone.  [default: advanced]"
        ),
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", metavar="N", help="Include N neighbouring chunks.")
    ] = None,
    max_chunks: Annotated[
        int | None, typer.Option("--max-chunks", metavar="N", help="Limit an answer to N chunks.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", help="Limit an answer to N tokens of text.")
    ] = None,
    min_score: Annotated[
        float | None, typer.Option("--min-score", metavar="S", help="Drop results that score below S.")
    ] = None,
    deadline_ms: Annotated[
        float | None,
        typer.Option("--deadline-ms", metavar="MS", help="Skip optional steps that do not fit into MS milliseconds."),
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            "--min-confidence", metavar="P", help="Drop results of lower confidence (after eval --calibrate)."
        ),
    ] = None,
    docs_dir: Annotated[
        Path | None, typer.Option("--docs-dir", metavar="DIR", help="Search this folder without an index.")
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
        typer.Option("--trec-ids", metavar="FILE", help="With --format trec: list the encoded ids in FILE."),
    ] = None,
    ids: Annotated[bool, typer.Option("--list", "-l", help="Print ids only, one per line.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Explain each score.")] = False,
    explain_empty: Annotated[
        bool, typer.Option("--explain-empty", help="If there are no results, name the stage that dropped the last.")
    ] = False,
    timing: Annotated[
        bool | None,
        typer.Option("--timing/--no-timing", help="Show the time of each step; --no-timing: none in JSON either."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", metavar="FILE", help="Draw the page of the first result, its passage marked, as .png."
        ),
    ] = None,
    picture_of: Annotated[
        int, typer.Option("--picture-of", metavar="N", help="With --picture: draw the page of result N.")
    ] = 1,
    save_run: Annotated[
        str | None,
        typer.Option("--save-run", metavar="[=full]", help="Save the run in runs/; =full includes its texts."),
    ] = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log each answer to stderr as a line of JSON.")] = False,
    strict_fresh: Annotated[
        bool, typer.Option("--strict-fresh", help="Exit with 10 if the source of a result has changed.")
    ] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Add results of the web and literature beneath; see retrieve web.")
    ] = False,
    exit_status: Annotated[bool, typer.Option("--exit-status", help="Exit with 3 if there are no results.")] = False,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="auto|never|URL", help="Who answers.  [default: a process that is ready]"),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Answer each line of stdin as it arrives, until stdin ends.")
    ] = False,
    *,
    shared: Shared,
) -> None:
    """Search the index and explain every result.

    With --json, one query prints one object and - prints an answer per line; --jsonl prints a result per line, and for
    - an answer per line. A line that is not a query is answered by {"query_id": ..., "error": {...}}; the others are
    answered, and the exit code is 8.
    """
    # First, while few calls are open: within the imports below it, NumPy's own make Python 3.11 map and unmap the same
    # piece of its stack 700 times.
    import numpy  # noqa: F401, ICN001

    from retrieve_cli.api.requests import KEYS, exact, names, sound
    from retrieve_cli.cli import answering
    from retrieve_cli.contracts import Request

    choices: dict[str, Any] = {
        "k": k, "mode": mode, "retrievers": names(retrievers), "engine": engine, "deadline_ms": deadline_ms,
        "min_score": min_score, "route": route, "expand": expand, "dependencies": dependencies, "context": context,
        "max_chunks": max_chunks, "max_tokens": max_tokens,
    }  # fmt: skip
    given: dict[str, str] = {}
    keys = {KEYS[name]: (_flag(name), value) for name, value in choices.items() if value is not None}
    if server is not None:
        keys["query.server"] = ("--server", server)
    settings = shared.with_keys(keys, given=given)
    asked = Request(
        text="",
        also=tuple(map(sound, also or ())),
        files=tuple(files or ()),
        filters=exact(filters, "--filter"),
        doc_ids=exact(doc_ids, "--doc-id") or None,
        typed_ids=bool(doc_ids),
        tenant=None if tenant is None else exact([tenant], "--tenant")[0],
        retrievers=() if retrievers is None else tuple(settings.search.retrievers),
    )
    if stream and text not in (None, [], ["-"]):
        raise UsageError("--stream reads its queries from stdin", hint="leave TEXT out: retrieve query - --stream")
    batch = stream or text == ["-"]
    shape = Shape(ids, explain, timing, batch, group_by, trec_ids, facets=bool(facets))
    shape.check(shared.format)
    run = answering.Run(
        shared,
        settings,
        asked,
        shape,
        {
            "k": k,
            "chunks": shared.format == "prompt" if chunks is None else chunks,
            "rerank": rerank,
            "min_confidence": min_confidence,
            "boosts": exact(boosts, "--boost"),
            "offset": offset,
            "facets": exact(facets, "--facet"),
            "explain": explain,
        },
        given=given,
        docs_dir=docs_dir,
        explain_empty=explain_empty,
        picture=None if picture is None else answering.picturing(picture, picture_of),
        web=answering.web_section(shared, settings, batch=batch) if web else None,
        save_run=save_run,
        log_json=log_json,
        strict_fresh=strict_fresh,
        exit_status=exit_status,
    )
    run.check()
    settings.expect_trusted("query")
    if settings.query.server != "auto":
        from retrieve_cli.cli import elsewhere

        if elsewhere.answer(run, choices, " ".join(text or ())):
            return
    if not batch:
        answering.answer_one(run, replace(asked, text=sound(" ".join(text or ())), id="1"))
        return
    from retrieve_cli.cli import batches

    (batches.answer_stream if stream else batches.answer_batch)(run)


def _flag(choice: str) -> str:
    return _FLAGS.get(choice, f"--{choice.replace('_', '-')}")
