"""`retrieve engines verify`."""

from __future__ import annotations

import sys
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import Exit, RetrieveError, UsageError

_INTERVAL = 60.0
"""Seconds between two lines of progress off a terminal: a comparison may take minutes."""


def _path(name: str, help_: str, metavar: str = "FILE") -> Any:
    return typer.Option(name, metavar=metavar, help=help_)


class _BelowThreshold(RetrieveError):
    code = Exit.GATE_FAILED
    kind = "gate_failed"


@shared("text", "json")
def verify(
    context: typer.Context,
    gold: Annotated[Path | None, _path("--gold", "Gold file in JSON Lines.")] = None,
    beir: Annotated[Path | None, _path("--beir", "Folder in BEIR's format.", "DIR")] = None,
    split: Annotated[str, typer.Option("--split", metavar="NAME", help="Judgments of the BEIR folder.")] = "test",
    queries: Annotated[Path | None, _path("--queries", "Queries, JSONL or TSV.")] = None,
    qrels: Annotated[Path | None, _path("--qrels", "Judgments, TREC or BEIR.")] = None,
    queries_limit: Annotated[
        int | None, typer.Option("--queries-limit", metavar="N", min=1, help="Use the first N queries.")
    ] = None,
    min_overlap: Annotated[
        float, typer.Option("--min-overlap", metavar="X", help="Least overlap@10 of each retriever.")
    ] = 0.99,
    max_loss: Annotated[
        float | None, typer.Option("--max-loss", metavar="X", help="Largest loss of nDCG@10.  [default: any]")
    ] = None,
    *,
    shared: Shared,
) -> None:
    """Compare answers through the engines with the local index: overlap, quality, filters, latency, size.

    Exits with 9 if a retriever falls below --min-overlap, loses more than --max-loss, or a short list goes unnoticed.
    """
    from retrieve_cli.assemble.engines import expect_some
    from retrieve_cli.cli import judged
    from retrieve_cli.cli.progress import progress_for
    from retrieve_cli.evaluation.parity import ParityLimits, certify
    from retrieve_cli.evaluation.parity_report import print_certificate
    from retrieve_cli.output.formats import dump

    context.with_resource(progress_for(shared.talk, sys.stderr, interval=_INTERVAL))
    settings = shared.settings()
    expect_some(settings)
    limits = ParityLimits(_checked("--min-overlap", min_overlap), _checked("--max-loss", max_loss))
    topics, notes = judged.Input(gold, beir, split, queries, qrels).topics()
    with judged.corpus_hint(beir, shared):
        index, topics = judged.opened(shared, settings, topics[:queries_limit])
        found = certify(index.opened, topics, limits)
    if shared.format == "json":
        print(dump(found.to_json()))
    else:
        print_certificate(found, shared.console())
    for note in (*notes, *found.notes):
        shared.talk.say(f"note: {note}")
    if found.faults:
        raise _BelowThreshold("; ".join(found.faults), hint="raise hnsw_ef_search of the engine, or use index: none")


def _checked(flag: str, value: Any) -> Any:
    """Return a threshold. Raises: UsageError: it is not between 0 and 1."""
    if value is not None and not (isfinite(value) and 0 <= value <= 1):
        raise UsageError(f"{flag} is {value}; it takes a number from 0 to 1", hint=f"for example: {flag} 0.99")
    return value
