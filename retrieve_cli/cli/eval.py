"""`retrieve eval`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.cli.options import Shared, option, option_of, shared
from retrieve_cli.errors import UsageError

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.evaluation.gates import QualityGate
    from retrieve_cli.evaluation.judgments import Topic
    from retrieve_cli.evaluation.runs import Answers, NamedRun
    from retrieve_cli.evaluation.trial import Trial
    from retrieve_cli.evaluation.tuning import Tuned
    from retrieve_cli.retrieval.calibration import Calibration


@shared("text", "json")
def command(
    context: typer.Context,
    gold: Annotated[Path | None, option("--gold", "Gold file in JSON Lines or CSV.", "FILE")] = None,
    beir: Annotated[Path | None, option("--beir", "Folder in BEIR's format.", "DIR")] = None,
    split: Annotated[str, option("--split", "Judgments of the BEIR folder.", "NAME")] = "test",
    queries: Annotated[Path | None, option("--queries", "Queries, JSONL or TSV.", "FILE")] = None,
    qrels: Annotated[Path | None, option("--qrels", "Judgments, TREC or BEIR.", "FILE")] = None,
    run: Annotated[
        list[Path] | None,
        option("--run", "Evaluate this TREC run instead of an index; repeated: fused by reciprocal ranks.", "FILE"),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        option(
            "--metrics --measure",
            "Names as in ir_measures, in any case; the first decides.  [default: nDCG@10 R@100 RR@10 AP@100]",
            "NAMES",
        ),
    ] = None,
    mode: Annotated[str | None, option_of(SEARCH.rows["mode"])] = None,
    run_out: Annotated[Path | None, option("--run-out", "Write the run as a TREC run file.", "FILE")] = None,
    per_query_out: Annotated[
        Path | None, option("--per-query-out", "Write the metrics of every query.  [default: ARTIFACTS/runs]", "FILE")
    ] = None,
    report: Annotated[Path | None, option("--report", "Write an HTML report to DIR/index.html.", "DIR")] = None,
    compare: Annotated[bool, option("--compare", "Compare with the runs of --with.")] = False,
    with_: Annotated[
        list[str] | None,
        option(
            "--with",
            "SECTION.KEY=VALUE (several: a.b=1,c.d=2), a config.yaml, a TREC run, or artifacts; repeatable.",
            "WHAT",
        ),
    ] = None,
    ablate: Annotated[bool, option("--ablate", "Compare with each active stage switched off in turn.")] = False,
    latency_budget_ms: Annotated[
        float | None, option("--latency-budget-ms", "With --ablate: recommend the best run within MS (p95).", "MS")
    ] = None,
    tune: Annotated[
        bool, option("--tune", "Try a grid of settings; the gain is measured on held-out queries.")
    ] = False,
    calibrate: Annotated[bool, option("--calibrate", "Calibrate scores; query then reports a confidence.")] = False,
    gate: Annotated[
        list[str] | None, option("--gate", "Exit with 9 if it fails: 'nDCG@10>=0.6', 'p95<=300ms'.", "GATE")
    ] = None,
    baseline: Annotated[
        Path | None, option("--baseline", "Exit with 9 if worse than this earlier --json.", "FILE")
    ] = None,
    tolerance: Annotated[float, option("--tolerance", "Tolerated loss against --baseline.", "X")] = 0.0,
    *,
    shared: Shared,
) -> None:
    """Evaluate on judged queries: means over all queries with 95 % intervals, and latency.

    --with and --ablate compare runs, paired by query: differences with intervals and significance of the first metric.
    """
    from retrieve_cli.cli import judged
    from retrieve_cli.cli.progress import progress_for
    from retrieve_cli.evaluation import measures, summary
    from retrieve_cli.evaluation.runs import Runs, named_run
    from retrieve_cli.evaluation.trial import Trial, ablations

    context.with_resource(progress_for(shared.talk, sys.stderr))
    settings = shared.settings("search", mode=mode)
    given = judged.Input(gold, beir, split, queries, qrels)
    topics, notes = given.topics()
    chosen = measures.parse(measures.names(metrics or measures.DEFAULT))
    wanted = _gates(gate or (), settings, topics, chosen, retrieving=not run)
    before = judged.baseline(baseline, tolerance)
    asked = {"--ablate": ablate, "--tune": tune, "--calibrate": calibrate, "--run": run, "--with": with_}
    companions = {"--compare": compare, "--latency-budget-ms": latency_budget_ms is not None}
    _check_company(asked, companions)
    written = _Written(run_out, per_query_out, report)
    written.check([gold, queries, qrels, *(run or ())])
    rrf_k = settings.fusion.rrf_k
    with judged.corpus_hint(beir, shared):
        index, topics = (None, topics) if run else judged.opened(shared, settings, topics)
        base = index or Runs.of(", ".join(map(str, run or ())), run or (), rrf_k=rrf_k)
        without = ablations(index) if index and ablate else []
        others = [named_run(text, index, rrf_k=rrf_k) for text in with_ or ()]
        trial = Trial.of(base, [*others, *without], topics, chosen, notes)
    advice = None if latency_budget_ms is None else _advice(trial, without, latency_budget_ms)
    tuned = _tune(index, topics, chosen) if index and tune else None
    calibration = _calibrate(index, topics) if index and calibrate else None
    per_query = written.write(trial, index, settings, shared, judgments=given.name)
    outcome = summary.EvaluationOutcome(trial, per_query, advice, tuned, calibration)
    summary.FORMATS[shared.format](outcome, shared.console())
    for note in trial.notes:
        shared.talk.say(f"note: {note}")
    if calibration and index:
        _keep(calibration, index, shared)
    _expect_gates(trial, wanted, before, tolerance)


class _Written(NamedTuple):
    """Files that an evaluation writes, by their flags."""

    run: Path | None
    per_query: Path | None
    report: Path | None

    def check(self, read: Sequence[Path | None]) -> None:
        """Raises: UsageError if a file cannot be written, or is one of those that are read."""
        from retrieve_cli.evaluation.trial import check_places

        names = {"--run-out": self.run, "--per-query-out": self.per_query}
        check_places(self.report, names, read)

    def write(
        self, trial: Trial, index: Answers | None, settings: Settings, shared: Shared, *, judgments: str
    ) -> Path | None:
        """Write them, and return the file with the measures of every query."""
        per_query = trial.write_per_query(self.per_query, shared.store.runs if index else None)
        if self.run is not None:
            trial.write_run(self.run)
        if self.report is not None:
            command = shlex.join(["retrieve", *sys.argv[1:]])
            page = trial.write_report(self.report, index, settings, command=command, judgments=judgments)
            shared.talk.say(f"report: {page}")
        return per_query


def _gates(
    texts: Sequence[str], settings: Settings, topics: list[Topic], measures: list[Any], *, retrieving: bool
) -> list[QualityGate]:
    from retrieve_cli.evaluation import gates, trial

    active = {"gated": settings.gating.enabled, "related": settings.expansion.lists_related}
    figures = trial.figures(topics, measures, retrieving=retrieving, **active)
    return gates.resolved([gates.QualityGate.of(text) for text in texts], figures)


def _advice(trial: Trial, without: Sequence[NamedRun], budget_ms: float) -> str:
    """Return a recommendation: the best run without a stage, within a budget of time."""
    from retrieve_cli.evaluation.trial import recommendation

    runs = {each.name: trial.runs[each.name] for each in without}
    return recommendation(trial.found, runs, trial.compared, budget_ms)


def _expect_gates(trial: Trial, wanted: Sequence[QualityGate], before: Mapping[str, float], tolerance: float) -> None:
    """Raises: GateFailed: a measure misses its gate, or is worse than the baseline by more than the tolerance."""
    from retrieve_cli.cli.judged import GateFailed
    from retrieve_cli.evaluation import gates

    known = {**trial.found.metrics, **trial.found.latency_ms}
    failed = [fault for each in wanted if (fault := each.fault(known))]
    failed += gates.losses(trial.found.metrics, before, tolerance)
    if failed:
        raise GateFailed("; ".join(failed), hint="see the metrics of each query: --per-query-out FILE")


_COMPANION = {
    "--compare": "--with",
    "--latency-budget-ms": "--ablate",
}
"""Options that need another one."""


def _check_company(given: Mapping[str, object], companions: Mapping[str, object]) -> None:
    """Check combinations. Raises: UsageError: an option lacks the one that it needs, or excludes another."""
    for name, there in companions.items():
        if there and not given[_COMPANION[name]]:
            raise UsageError(f"{name} needs {_COMPANION[name]}", hint=f"add {_COMPANION[name]}, or omit {name}")
    asks = [name for name in ("--ablate", "--tune", "--calibrate") if given[name]]
    if asks and given["--run"]:
        raise UsageError(f"{asks[0]} needs an index, and --run uses none", hint="omit --run")


def _tune(index: Answers, topics: list[Topic], measures: list[Any]) -> Tuned:
    from retrieve_cli.evaluation.evaluate import looked_at
    from retrieve_cli.evaluation.tuning import tune

    return tune(index, topics, measures[0], k=looked_at(topics, measures))


def _calibrate(index: Answers, topics: list[Topic]) -> Calibration:
    from retrieve_cli.evaluation.calibrate import calibrate

    return calibrate(index.opened, index.settings, topics)


def _keep(found: Calibration, index: Answers, shared: Shared) -> None:
    from retrieve_cli.retrieval import calibration

    store = shared.store
    with store.writer(wait=index.settings.sync.wait, say=shared.talk.say):
        aside = calibration.write(store.calibration, [found])
    if aside is not None:
        shared.talk.say(f"note: {store.calibration} could not be read and was renamed to {aside}")
