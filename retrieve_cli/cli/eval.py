"""`retrieve eval`."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import Exit, RetrieveError, UsageError

if TYPE_CHECKING:
    from retrieve_cli.evaluate import Evaluation
    from retrieve_cli.evaluation.judgments import Topic


@shared("text", "json")
def evaluate(
    gold: Annotated[Path | None, typer.Option("--gold", metavar="FILE", help="A gold file in JSON Lines.")] = None,
    beir: Annotated[Path | None, typer.Option("--beir", metavar="DIR", help="A folder in BEIR's form.")] = None,
    split: Annotated[str, typer.Option("--split", metavar="NAME", help="Its judgments.")] = "test",
    queries: Annotated[Path | None, typer.Option("--queries", metavar="FILE", help="Queries, JSONL or TSV.")] = None,
    qrels: Annotated[Path | None, typer.Option("--qrels", metavar="FILE", help="Judgments, TREC or BEIR.")] = None,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="FILE", help="Judge this TREC run; retrieve nothing.")
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics", metavar="NAMES", help="By their ir_measures names.  [default: nDCG@10 R@100 RR@10 AP@100]"
        ),
    ] = None,
    mode: Annotated[
        str | None, typer.Option("--mode", metavar="hybrid|dense|bm25", help="Which legs answer.  [default: hybrid]")
    ] = None,
    run_out: Annotated[
        Path | None, typer.Option("--run-out", metavar="FILE", help="Write the run as TREC has it.")
    ] = None,
    per_query_out: Annotated[
        Path | None, typer.Option("--per-query-out", metavar="FILE", help="Write every measure of every query, JSONL.")
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option("--gate", metavar="GATE", help="End with 9 unless it holds: 'nDCG@10>=0.6', 'p95<=300ms'."),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="End with 9 if worse than this earlier --json.")
    ] = None,
    tolerance: Annotated[float, typer.Option("--tolerance", metavar="X", help="How much worse is tolerated.")] = 0.0,
    *,
    shared: Shared,
) -> None:
    """Measure the answers to judged queries: every query counts, every mean has its interval, latency stands beside."""
    from retrieve_cli import evaluate as evaluation
    from retrieve_cli.evaluation import gates, judgments, measures

    settings = shared.settings("search", mode=mode)
    topics, notes = _topics(gold, beir, split, queries, qrels)
    names = [name for text in metrics or () for name in text.replace(",", " ").split()]
    chosen = measures.parse(names or measures.DEFAULT)
    wanted = [gates.Gate.of(text) for text in gate or ()]
    before = _baseline(baseline)
    if run is not None:
        found = evaluation.judge(judgments.read_run(run), topics, chosen, pipeline=str(run))
    else:
        from retrieve_cli.search import Searcher

        searcher = Searcher(shared.store, settings)
        found = evaluation.evaluate(searcher, topics, chosen, mode=settings.search.mode)
    figures = {**found.metrics, **found.latency_ms}
    gates.check_names(wanted, list(figures))
    if run_out is not None:
        evaluation.write_run(found.run, run_out, tag="retrieve")
    if per_query_out is not None:
        evaluation.write_per_query(found, topics, per_query_out)
    _print(found, shared, per_query_out)
    for note in (*notes, *found.notes):
        shared.talk.say(f"note: {note}")
    failed = [fault for each in wanted if (fault := each.fault(figures))]
    failed += gates.losses(found.metrics, before, tolerance)
    if failed:
        raise _GateFailed("; ".join(failed), hint="see which queries lost: --per-query-out FILE")


class _GateFailed(RetrieveError):
    code = Exit.GATE_FAILED
    kind = "gate_failed"


def _topics(
    gold: Path | None, beir: Path | None, split: str, queries: Path | None, qrels: Path | None
) -> tuple[list[Topic], list[str]]:
    """The judged queries of the one input that was named, and what is to be said of the others."""
    from retrieve_cli.evaluation import judgments

    given = [name for name, path in (("--gold", gold), ("--beir", beir), ("--queries", queries or qrels)) if path]
    if len(given) != 1 or (given == ["--queries"] and not (queries and qrels)):
        hint = "--gold FILE, or --beir DIR, or --queries FILE and --qrels FILE"
        raise UsageError("name one set of judged queries", hint=hint)
    if gold:
        return judgments.read_gold(gold), []
    if beir:
        topics, unjudged = judgments.read_beir(beir, split)
    elif queries and qrels:
        topics, unjudged = judgments.read_files(queries, qrels)
    return topics, [f"{unjudged} queries have no judgment: left out"] if unjudged else []


def _baseline(path: Path | None) -> dict[str, float]:
    if path is None:
        return {}
    try:
        found: Any = jsonlib.loads(path.read_text("utf-8"))["metrics"]
        return {str(name): float(value) for name, value in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "it is what `retrieve eval --json` printed, saved to a file"
        raise UsageError(f"{path} is no baseline ({error!r})", hint=hint) from error


def _print(found: Evaluation, shared: Shared, per_query: Path | None) -> None:
    from retrieve_cli import render

    if shared.format == "json":
        print(render.dump({**found.to_json(), "per_query": str(per_query) if per_query else None}))
        return
    rows: Sequence[tuple[str, str, str]] = [
        (name, f"{each.mean:.4f}", f"{each.low:.4f} - {each.high:.4f}") for name, each in found.intervals.items()
    ]
    render.print_measures(rows, shared.console())
    times = ", ".join(f"{name} {value:.1f}" for name, value in found.latency_ms.items())
    answered = f"{found.queries} queries, {len(found.unanswered)} without an answer"
    print(f"{answered}; {found.pipeline}" + (f"; ms of one: {times}" if times else ""))
