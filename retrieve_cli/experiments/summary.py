"""Outcome of an evaluation: as one JSON object, and as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable
from retrieve_cli.evaluation.calibration import Calibration
from retrieve_cli.experiments.comparison import difference, print_comparison, table
from retrieve_cli.experiments.trial import Trial
from retrieve_cli.experiments.tuning import Tuned
from retrieve_cli.frozen import Frozen
from retrieve_cli.output.formats import dump
from retrieve_cli.terms import figures

if TYPE_CHECKING:
    from rich.console import Console

    from retrieve_cli.evaluation.statistics import Interval
    from retrieve_cli.experiments.evaluate import Evaluation

_SHOWN = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Thresholds of confidence whose rates are shown; JSON has all of them."""


class Outcome(Frozen):
    """Everything that one command computed."""

    trial: Trial
    per_query: Path | None
    """File with the measures of each query."""
    advice: str | None
    tuned: Tuned | None
    calibration: Calibration | None


def to_json(outcome: Outcome) -> str:
    """Return the contract's object, and a key for each further result.

    `runs` and `run` are called `arms` and `arm` as well, their earlier names.
    """
    trial = outcome.trial
    value: dict[str, Json] = {
        **trial.found.to_json(),
        "per_query": None if outcome.per_query is None else str(outcome.per_query),
        "notes": trial.notes,
    }
    if trial.runs:
        value["runs"] = value["arms"] = [
            {
                "run": name,
                "arm": name,
                **run.to_json(),
                "differences": {each.measure: each.to_json() for each in trial.compared if each.run == name},
            }
            for name, run in trial.runs.items()
        ]
    if outcome.advice is not None:
        value["recommendation"] = outcome.advice
    if outcome.tuned is not None:
        value["tuning"] = outcome.tuned.to_json()
    if outcome.calibration is not None:
        value["calibration"] = outcome.calibration.to_json()
    return dump(value)


def show(outcome: Outcome, console: Console) -> None:
    """Print tables of measures and comparisons, and a few lines on everything else that was computed."""
    found = outcome.trial.found
    made = table("measure", "mean", "95 % interval", words=1)
    for name, interval in found.intervals.items():
        made.add_row(name, figures.rounded(interval.mean), _bounds(interval))
    console.print(made)
    for line in _account(found):
        _say(console, line)
    if outcome.trial.runs:
        print_comparison(outcome.trial, console)
    advice = [] if outcome.advice is None else [outcome.advice]
    for line in (*advice, *_tuning(outcome.tuned), *_calibration(outcome.calibration)):
        _say(console, line)


def _say(console: Console, line: str) -> None:
    console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _bounds(interval: Interval) -> str:
    return f"{figures.rounded(interval.low)} to {figures.rounded(interval.high)}"


def _account(found: Evaluation) -> Iterator[str]:
    """Yield lines on the queries, the pipeline that answered them, and its latency."""
    empty = len(found.unanswered)
    answered = f"{empty:,} without an answer" if empty else "all answered"
    yield f"{figures.count(found.queries, 'query', 'queries')}, {answered}"
    yield f"pipeline: {found.pipeline}"
    times = found.latency_ms
    if times:
        stages = {"encoding": "encode_p50", "search": "search_p50", "reranking": "rerank_p50"}
        parts = ", ".join(f"{stage} {figures.rounded(times[key])}" for stage, key in stages.items() if times.get(key))
        whole = f"p50 {figures.rounded(times['p50'])} ms" + (f" ({parts})" if parts else "")
        yield f"latency per query: {whole}, p95 {figures.rounded(times['p95'])} ms"


def _tuning(tuned: Tuned | None) -> Iterator[str]:
    if tuned is None:
        return
    gain = tuned.held_out
    queries = figures.count(tuned.queries, "query", "queries")
    yield f"tuned {tuned.measure} of {tuned.what} on {queries}: {tuned.tried:,} settings, {tuned.folds} folds"
    values = ", ".join(
        f"{section}.{key}={value}" for section, keys in tuned.changes.items() for key, value in keys.items()
    )
    here = f"{figures.rounded(tuned.mean)} to {figures.rounded(tuned.mean_best)} on the queries it was chosen on"
    yield f"best: {values or 'as configured'} ({here})"
    bounds = f"{difference(gain.low)} to {difference(gain.high)}"
    yield f"gain on held-out queries: {difference(gain.mean)} ({bounds}), p {figures.chance(tuned.p)}"
    if tuned.recommended:
        yield "recommended: add --write to put it into the configuration"
    else:
        yield "not recommended: the gain is not significant"


def _calibration(found: Calibration | None) -> Iterator[str]:
    if found is None:
        return
    hits = f"{figures.count(found.pairs, 'hit')} of {figures.count(found.queries, 'query', 'queries')}"
    yield f"calibrated on {hits}, {found.relevant:,} relevant: {found.method} curve"
    brier = f"Brier score {figures.rounded(found.brier)} (base rate {figures.rounded(found.brier_base)})"
    yield f"  {brier}, calibration error {figures.rounded(found.calibration_error)}, on held-out queries"
    for threshold in _SHOWN:
        accepted, rejected = found.at(threshold)
        cut, lost = f"{1 - accepted:.1%} of the hits that are not relevant", f"{rejected:.1%} of the relevant ones"
        yield f"  --min-confidence {threshold:g} drops {cut} and {lost}"


FORMATS: Mapping[str, Callable[[Outcome, Console], None]] = {
    "text": show,
    "json": lambda outcome, _: print(to_json(outcome)),
}
