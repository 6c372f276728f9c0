"""`retrieve eval`."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import Exit, RetrieveError, UsageError, printable

if TYPE_CHECKING:
    from ir_measures import Measure

    from retrieve_cli.config import Settings
    from retrieve_cli.evaluation.differences import Difference
    from retrieve_cli.evaluation.judgments import Topic
    from retrieve_cli.experiments.evaluate import Evaluation


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
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Compare with every active stage switched off in turn.")
    ] = False,
    latency_budget_ms: Annotated[
        float | None,
        typer.Option("--latency-budget-ms", metavar="MS", help="With --ablate: recommend what ends in time (p95)."),
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
    from retrieve_cli.evaluation import gates, measures
    from retrieve_cli.evaluation.differences import differences
    from retrieve_cli.experiments.ablation import ablations, recommendation

    settings = shared.settings("search", mode=mode)
    topics, notes = _topics(gold, beir, split, queries, qrels)
    chosen = measures.parse([name for text in metrics or measures.DEFAULT for name in text.replace(",", " ").split()])
    asker = _Asker(shared, topics, chosen)
    wanted = [gates.Gate.of(text) for text in gate or ()]
    gates.check_names(wanted, asker.figures(retrieving=run is None))
    before = _baseline(baseline)
    switched_off = ablations(settings) if ablate and run is None else {}
    if ablate and not switched_off:
        raise UsageError("--ablate needs an index and several stages to switch off", hint="leave --run and --mode out")
    if latency_budget_ms is not None and not ablate:
        raise UsageError("--latency-budget-ms goes with --ablate", hint="add --ablate")
    changes = {**{text: text for text in with_ or ()}, **switched_off}
    changed = {name: _changed(settings, change) for name, change in changes.items()}
    found = asker.retrieve(settings) if run is None else asker.judge(run)
    arms = {name: asker.retrieve(each) for name, each in changed.items()}
    arms |= {str(path): asker.judge(path) for path in with_run or ()}
    compared = differences(found.per_query, {name: arm.per_query for name, arm in arms.items()})
    _write(found, topics, run_out, per_query_out)
    advice = None
    if latency_budget_ms is not None:
        advice = recommendation(found, {name: arms[name] for name in switched_off}, compared, latency_budget_ms)
    _print(found, arms, compared, shared, per_query_out, switched_off=tuple(switched_off), advice=advice)
    for note in (*notes, *found.notes):
        shared.talk.say(f"note: {note}")
    figures = {**found.metrics, **found.latency_ms}
    failed = [fault for each in wanted if (fault := each.fault(figures))]
    failed += gates.losses(found.metrics, before, tolerance)
    if failed:
        raise _GateFailed("; ".join(failed), hint="see which queries lost: --per-query-out FILE")


@dataclass(frozen=True, slots=True)
class _Asker:
    """Evaluates configurations and runs on the same topics, by the same measures."""

    shared: Shared
    topics: Sequence[Topic]
    measures: Sequence[Measure]

    def figures(self, *, retrieving: bool) -> list[str]:
        """Names of what will be known in the end."""
        from retrieve_cli.experiments.evaluate import GROUPS, LATENCY

        names = [str(measure) for measure in self.measures]
        chunks = [f"chunk {name}" for name in names] if any(topic.quote for topic in self.topics) else []
        groups = list(GROUPS) if any(topic.group for topic in self.topics) else []
        return [*names, *chunks, *groups, *LATENCY] if retrieving else names

    def retrieve(self, settings: Settings) -> Evaluation:
        """What the index answers under these settings."""
        from retrieve_cli.experiments.evaluate import evaluate
        from retrieve_cli.search import Searcher

        return evaluate(Searcher(self.shared.store, settings), self.topics, self.measures, mode=settings.search.mode)

    def judge(self, path: Path) -> Evaluation:
        """A TREC run from a file."""
        from retrieve_cli.evaluation.judgments import read_run
        from retrieve_cli.experiments.evaluate import judge

        return judge(read_run(path), self.topics, self.measures, pipeline=str(path))


def _write(found: Evaluation, topics: Sequence[Topic], run_out: Path | None, per_query_out: Path | None) -> None:
    from retrieve_cli.experiments.evaluate import write_per_query, write_run

    if run_out is not None:
        write_run(found.run, run_out, tag="retrieve")
    if per_query_out is not None:
        write_per_query(found, topics, per_query_out)


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
    *,
    switched_off: Sequence[str],
    advice: str | None,
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
        if advice is not None:
            value["recommendation"] = advice
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
        print(printable(f"{'without' if name in switched_off else 'with'} {name} ({arm.pipeline}{added})"))
        for each in compared:
            if each.arm == name:
                print(printable(f"  {each.sentence()}"))
                if each.losers:
                    print(printable("    lost most: " + ", ".join(f"{id_} {lost:+.3f}" for id_, lost in each.losers)))
    if advice is not None:
        print(printable(advice))
