"""`retrieve eval`."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import Exit, RetrieveError, UsageError, printable

if TYPE_CHECKING:
    from retrieve_cli.config import Settings
    from retrieve_cli.evaluate import Evaluation
    from retrieve_cli.evaluation.differences import Difference
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
    with_: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="KEY=VALUE", help="Compare with this setting changed (several: a=1,b=2); repeatable."
        ),
    ] = None,
    with_run: Annotated[
        list[Path] | None, typer.Option("--with-run", metavar="FILE", help="Compare with this TREC run; repeatable.")
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
    """Measure the answers to judged queries: every query counts, every mean has its interval, latency stands beside.

    With --with or --with-run, compare: paired by query, each difference with its interval and how sure it is.
    """
    from retrieve_cli import evaluate as evaluation
    from retrieve_cli.evaluation import gates, judgments, measures
    from retrieve_cli.evaluation.differences import differences

    settings = shared.settings("search", mode=mode)
    topics, notes = _topics(gold, beir, split, queries, qrels)
    names = [name for text in metrics or () for name in text.replace(",", " ").split()]
    chosen = measures.parse(names or measures.DEFAULT)
    wanted = [gates.Gate.of(text) for text in gate or ()]
    before = _baseline(baseline)
    changed = {text: _changed(settings, text) for text in with_ or ()}
    runs = {str(path): judgments.read_run(path) for path in with_run or ()}

    def asked(settings: Settings) -> Evaluation:
        from retrieve_cli.search import Searcher

        return evaluation.evaluate(Searcher(shared.store, settings), topics, chosen, mode=settings.search.mode)

    found = (
        asked(settings) if run is None else evaluation.judge(judgments.read_run(run), topics, chosen, pipeline=str(run))
    )
    arms = {text: asked(each) for text, each in changed.items()}
    arms |= {name: evaluation.judge(each, topics, chosen, pipeline=name) for name, each in runs.items()}
    compared = differences(found.per_query, {name: arm.per_query for name, arm in arms.items()})
    figures = {**found.metrics, **found.latency_ms}
    gates.check_names(wanted, list(figures))
    if run_out is not None:
        evaluation.write_run(found.run, run_out, tag="retrieve")
    if per_query_out is not None:
        evaluation.write_per_query(found, topics, per_query_out)
    _print(found, arms, compared, shared, per_query_out)
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


def _changed(settings: Settings, text: str) -> Settings:
    """The settings with `section.key=value,…` in their place.

    Raises:
        UsageError: it is not that, or a key changes the index and not only the answers.
    """
    import yaml

    from retrieve_cli.config import override

    for part in text.split(","):
        key, equals, value = part.partition("=")
        section, dot, name = key.strip().partition(".")
        if not (equals and dot):
            raise UsageError(f"--with {text!r} is not SECTION.KEY=VALUE", hint="for example: --with fusion.method=rrf")
        if section not in _OF_ANSWERS and key.strip() != "dense.hnsw_ef_search":
            hint = "build another index with it, write its run (--run-out), and compare: --with-run FILE"
            raise UsageError(f"`{key.strip()}` changes the index, which this command only asks", hint=hint)
        settings = override(settings, {section: {name: yaml.safe_load(value)}}, where=f"--with {text}")
    return settings


_OF_ANSWERS = ("search", "fusion")
"""Sections of the configuration that change answers and not the index."""


def _print(
    found: Evaluation,
    arms: Mapping[str, Evaluation],
    compared: Sequence[Difference],
    shared: Shared,
    per_query: Path | None,
) -> None:
    from retrieve_cli import render

    if shared.format == "json":
        value = {**found.to_json(), "per_query": str(per_query) if per_query else None}
        if arms:
            value["arms"] = [
                {
                    "arm": name,
                    **arm.to_json(),
                    "differences": {each.measure: each.to_json() for each in compared if each.arm == name},
                }
                for name, arm in arms.items()
            ]
        print(render.dump(value))
        return
    rows: Sequence[tuple[str, str, str]] = [
        (name, f"{each.mean:.4f}", f"{each.low:.4f} - {each.high:.4f}") for name, each in found.intervals.items()
    ]
    render.print_measures(rows, shared.console())
    times = ", ".join(f"{name} {value:.1f}" for name, value in found.latency_ms.items())
    answered = f"{found.queries} queries, {len(found.unanswered)} without an answer"
    print(f"{answered}; {found.pipeline}" + (f"; ms of one: {times}" if times else ""))
    for name, arm in arms.items():
        late = found.latency_ms and arm.latency_ms
        added = f", p50 {arm.latency_ms['p50'] - found.latency_ms['p50']:+.1f} ms" if late else ""
        print(printable(f"with {name} ({arm.pipeline}{added})"))
        for each in compared:
            if each.arm == name:
                print(printable(f"  {each.sentence()}"))
                if each.losers:
                    print(printable("    lost most: " + ", ".join(f"{id_} {lost:+.3f}" for id_, lost in each.losers)))
