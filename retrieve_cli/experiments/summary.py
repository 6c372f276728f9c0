"""What came of an evaluation: as one JSON object, and as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable
from retrieve_cli.evaluation.calibration import Calibration
from retrieve_cli.evaluation.differences import Difference
from retrieve_cli.experiments.trial import Trial
from retrieve_cli.experiments.tuning import Tuned
from retrieve_cli.output.formats import dump

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDE = 116
"""Columns that the table of differences needs."""
_SHOWN = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Thresholds of confidence whose rates are shown; all of them are kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that one command found out."""

    trial: Trial
    per_query: Path | None
    """Where each query's figures are."""
    advice: str | None
    tuned: Tuned | None
    calibration: Calibration | None


def to_json(outcome: Outcome) -> str:
    """The contract's object, and a key for each further question that was asked."""
    trial = outcome.trial
    value: dict[str, Json] = {
        **trial.found.to_json(),
        "per_query": None if outcome.per_query is None else str(outcome.per_query),
        "notes": trial.notes,
    }
    if trial.runs:
        value["arms"] = [
            {
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
    """Tables of measures and differences, and a few lines for whatever else was asked."""
    found = outcome.trial.found
    console.print(_measures(outcome.trial))
    answered = f"{found.queries} queries, {len(found.unanswered)} without an answer"
    times = ", ".join(f"{name} {value:.1f}" for name, value in found.latency_ms.items())
    _say(console, f"{answered}; {found.pipeline}" + (f"; ms of one: {times}" if times else ""))
    if outcome.trial.runs:
        if console.width >= _WIDE:
            console.print(_differences(outcome.trial))
        else:
            for line in _stacked(outcome.trial):
                _say(console, line)
        for line in _losers(outcome.trial):
            _say(console, line)
    advice = [] if outcome.advice is None else [outcome.advice]
    for line in (*advice, *_tuning(outcome.tuned), *_calibration(outcome.calibration)):
        _say(console, line)


def _say(console: Console, line: str) -> None:
    console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _table(*columns: str, left: int) -> Table:
    """A plain table whose first `left` columns hold words, and the others numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for at, column in enumerate(columns):
        words = at < left
        table.add_column(column, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    return table


def _measures(trial: Trial) -> Table:
    table = _table("measure", "mean", "95 % interval", left=1)
    for name, each in trial.found.intervals.items():
        table.add_row(name, f"{each.mean:.4f}", f"{each.low:.4f} to {each.high:.4f}")
    return table


def _differences(trial: Trial) -> Table:
    """A row for each measure of each run: the gain, how sure it is, and what it costs in time."""
    from rich.text import Text

    table = _table(
        "compared", "measure", "difference", "95 % interval", "p", "p (Holm)", "won/lost/tied", "would show", "ms",
        left=2,
    )  # fmt: skip
    for name, run in trial.runs.items():
        late = trial.found.latency_ms and run.latency_ms
        added = f"{run.latency_ms['p50'] - trial.found.latency_ms['p50']:+.1f}" if late else ""
        for at, each in enumerate(found := [one for one in trial.compared if one.run == name]):
            first = at == 0
            table.add_row(
                Text(printable(name)) if first else "", each.measure, *_cells(each), added if first else "",
                end_section=at == len(found) - 1,
            )  # fmt: skip
    return table


def _stacked(trial: Trial) -> Iterator[str]:
    """The same in lines, for a terminal that has no room for a table: cut off, a figure is another figure."""
    titles = ("difference", "95 % interval", "p", "p (Holm)", "won/lost/tied", "would show")
    for each in trial.compared:
        told = (f"{title} {cell}" for title, cell in zip(titles, _cells(each), strict=True) if cell)
        yield f"{each.run}: {each.measure}: {', '.join(told)}"


def _cells(each: Difference) -> tuple[str, ...]:
    interval, wins = each.interval, each.wins
    counts = f"{wins.won}/{wins.lost}/{wins.tied}"
    if not (wins.won or wins.lost):
        return ("0", "the same for every query", "", "", counts, "")
    star = " *" if each.significant else ""
    would = f"{each.detectable:.4f}" if isfinite(each.detectable) else ""
    bounds = f"{interval.low:+.4f} to {interval.high:+.4f}"
    return (f"{interval.mean:+.4f}{star}", bounds, _chance(each.p), _chance(each.p_holm), counts, would)


def _chance(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _losers(trial: Trial) -> Iterator[str]:
    yield "* beyond noise (paired randomisation test, p <= 0.05 after Holm's correction for all rows)"
    for each in trial.compared:
        if each.losers and each.measure == next(iter(trial.found.per_query)):
            lost = ", ".join(f"{name} {difference:+.3f}" for name, difference in each.losers)
            yield f"{each.run}: lost most {each.measure}: {lost}"


def _tuning(tuned: Tuned | None) -> Iterator[str]:
    if tuned is None:
        return
    gain = tuned.held_out
    what = f"tuned {tuned.measure} of {tuned.what}"
    yield f"{what}, on {tuned.queries} queries: {tuned.tried} settings, {tuned.folds} folds"
    values = ", ".join(
        f"{section}.{key}={value}" for section, keys in tuned.changes.items() for key, value in keys.items()
    )
    here = f"{tuned.mean:.4f} to {tuned.mean_best:.4f} on the queries it was chosen on"
    yield f"best: {values or 'as configured'} ({here})"
    yield f"gain on held-out queries: {gain.mean:+.4f} ({gain.low:+.4f} to {gain.high:+.4f}), p {tuned.p:.4f}"
    yield "recommended: take it (--write)" if tuned.recommended else "not recommended: no gain beyond noise"


def _calibration(found: Calibration | None) -> Iterator[str]:
    if found is None:
        return
    yield (
        f"calibrated on {found.pairs} hits of {found.queries} queries, {found.relevant} relevant: {found.method}, "
        f"Brier score {found.brier:.4f} (of the base rate {found.brier_base:.4f}), "
        f"calibration error {found.calibration_error:.4f}, all held out"
    )
    for threshold in _SHOWN:
        accepted, rejected = found.at(threshold)
        yield (
            f"  --min-confidence {threshold:g}: takes {accepted:.1%} of the hits that are not relevant, "
            f"leaves out {rejected:.1%} of those that are"
        )


FORMATS: Mapping[str, Callable[[Outcome, Console], None]] = {
    "text": show,
    "json": lambda outcome, _: print(to_json(outcome)),
}
