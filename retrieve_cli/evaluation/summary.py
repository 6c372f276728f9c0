"""Outcome of an evaluation: as one JSON object, and as tables for a terminal.

Runs are compared in a table of the primary measure, which decides, and in others for information. No line of a table is
wider than `WIDTH`. A terminal with less room than a table needs gets a line for each run: a number that is cut off is
another number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import printable
from retrieve_cli.evaluation.statistics import SIGNIFICANT, Difference, Interval
from retrieve_cli.evaluation.trial import Trial
from retrieve_cli.evaluation.tuning import FOLDS, Tuned
from retrieve_cli.frozen import Frozen
from retrieve_cli.output.formats import dump
from retrieve_cli.retrieval.calibration import Calibration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


_SHOWN = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Thresholds of confidence whose rates are shown; JSON has all of them."""
WIDTH = 78
_ROOMY = 70
"""Columns that the table of the primary measure needs for a name of a run that can be read."""
_NAME = 24
"""Columns of the names of runs beside several measures."""
_DROPS = 3
"""Queries with the largest drops that are named for each run."""
_SAME = "no query differs"


class EvaluationOutcome(Frozen):
    """Everything that one command computed."""

    trial: Trial
    per_query: Path | None
    """File with the measures of each query."""
    advice: str | None
    tuned: Tuned | None
    calibration: Calibration | None


def to_json(outcome: EvaluationOutcome) -> str:
    """Return the contract's object, and a key for each further result."""
    trial = outcome.trial
    value: dict[str, Json] = {
        **trial.found.to_json(),
        "per_query": None if outcome.per_query is None else str(outcome.per_query),
        "notes": trial.notes,
    }
    if trial.runs:
        value["runs"] = [
            {
                "run": name,
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


def show(outcome: EvaluationOutcome, console: Console) -> None:
    """Print tables of measures and comparisons, and a few lines on everything else that was computed."""
    found = outcome.trial.found
    made = table("metric", "mean", "95 % interval", words=1)
    for name, interval in found.intervals.items():
        low, high = figures.rounded(interval.low), figures.rounded(interval.high)
        made.add_row(name, figures.rounded(interval.mean), f"{low} to {high}")
    console.print(made)
    empty = len(found.unanswered)
    answered = f"{empty:,} without an answer" if empty else "all answered"
    say(console, f"{figures.count(found.queries, 'query', 'queries')}, {answered}")
    say(console, f"pipeline: {found.pipeline}")
    if times := found.latency_ms:
        stages = {"encoding": "encode_p50", "search": "search_p50", "reranking": "rerank_p50"}
        parts = ", ".join(f"{stage} {figures.rounded(times[key])}" for stage, key in stages.items() if times.get(key))
        whole = f"p50 {figures.rounded(times['p50'])} ms" + (f" ({parts})" if parts else "")
        say(console, f"latency per query: {whole}, p95 {figures.rounded(times['p95'])} ms")
    if outcome.trial.runs:
        _print_comparison(outcome.trial, console)
    advice = [] if outcome.advice is None else [outcome.advice]
    for line in (*advice, *_tuning(outcome.tuned), *_calibration(outcome.calibration)):
        say(console, line)


def _tuning(tuned: Tuned | None) -> Iterator[str]:
    if tuned is None:
        return
    gain = tuned.gain
    queries = figures.count(tuned.queries, "query", "queries")
    tried = figures.count(tuned.tried, "setting")
    yield f"tuned {tuned.measure} on {queries}: tried {tried}, checked on {FOLDS} held-out folds"
    configured, best = figures.rounded(tuned.mean), figures.rounded(tuned.mean_best)
    yield f"as configured {configured}, best setting {best} on the queries it was chosen on"
    yield f"on held-out queries: {_bounded(tuned.held_out, figures.rounded)}"
    yield f"gain on held-out queries: {_bounded(gain, difference)}, p {figures.chance(tuned.p)}"
    if not tuned.best:
        yield "not recommended: no setting is better than the configured one"
        return
    if tuned.recommended:
        build = ", then run retrieve sync" if tuned.changes_index else ""
        yield f"recommended: put these lines into config.yaml{build}:"
    else:
        yield "not recommended, the gain is not significant; the best setting:"
    yield from (f"  {line}" for line in tuned.lines)


def _bounded(found: Interval, written: Callable[[float], str]) -> str:
    """Return a mean with its 95 % interval."""
    return f"{written(found.mean)} ({written(found.low)} to {written(found.high)})"


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


# ----------------------------------------------------------------------------------------------- compared runs


def _print_comparison(trial: Trial, console: Console) -> None:
    primary = [each for each in trial.compared if each.primary]
    others = [each for each in trial.compared if not each.primary]
    if primary:
        measure = primary[0].measure
        mean = figures.rounded(trial.found.intervals[measure].mean)
        console.print()
        say(console, f"{measure} of {figures.count(len(primary), 'run')}, compared with {trial.base!r} ({mean}):")
        if console.width >= _ROOMY:
            console.print(_table_of_primary(trial, primary), width=min(console.width, WIDTH))
        else:
            for each in primary:
                say(console, _line(trial, each))
        for line in _legend(primary):
            say(console, line)
        dropped = [each for each in primary if each.losers]
        if dropped:
            say(console, f"largest drops of {measure}:")
        for each in dropped:
            listed = ", ".join(f"{name} {drop:+.3f}" for name, drop in each.losers[:_DROPS])
            say(console, f"  {each.run}: {listed}")
    if others:
        console.print()
        say(console, "other metrics, for information (intervals: --json, --report):")
        for table in _tables_of_others(others, width=min(console.width, WIDTH)):
            console.print(table, width=min(console.width, WIDTH))


def _table_of_primary(trial: Trial, primary: Sequence[Difference]) -> Table:
    from rich.text import Text

    titles = ["run", "difference", "95 % interval", "p", "won/lost"]
    timed = bool(_added(trial, primary[0]))
    made = table(*titles, *(["p50 ms"] if timed else []), words=1)
    for each in primary:
        cells = _cells(each)
        made.add_row(Text(printable(each.run)), *cells, *([_added(trial, each)] if timed else []))
    return made


def _cells(each: Difference) -> tuple[str, str, str, str]:
    """Difference, interval, adjusted p, and how many queries are better and worse."""
    if not (each.wins.won or each.wins.lost):
        return "0  ", _SAME, "", "0/0"
    bounds = f"{difference(each.interval.low)} to {difference(each.interval.high)}"
    p = "" if each.p_holm is None else figures.chance(each.p_holm)
    mark = " *" if each.significant else "  "
    return f"{difference(each.interval.mean)}{mark}", bounds, p, f"{each.wins.won}/{each.wins.lost}"


def _added(trial: Trial, each: Difference) -> str:
    """Return how much longer the median query takes than with the baseline; empty if either is not timed."""
    before, after = trial.found.latency_ms.get("p50"), trial.runs[each.run].latency_ms.get("p50")
    return "" if before is None or after is None else f"{after - before:+.1f}"


def _line(trial: Trial, each: Difference) -> str:
    value, bounds, p, wins = _cells(each)
    added = _added(trial, each)
    parts = [value.strip(), bounds, f"p {p}" if p else "", f"won/lost {wins}", f"p50 {added} ms" if added else ""]
    return f"{each.run}: {', '.join(part for part in parts if part)}"


def _legend(primary: Sequence[Difference]) -> Iterator[str]:
    test = f"p <= {SIGNIFICANT:g}, randomisation test"
    test += f", Holm's correction for {len(primary)} runs" if len(primary) > 1 else ""
    yield f"* significant: {test}" if any(each.significant for each in primary) else f"not significant ({test})"
    found = sorted(each.detectable for each in primary if isfinite(each.detectable) and each.detectable > 0)
    if found:
        reach = dict.fromkeys(f"{value:.4f}" for value in (found[0], found[-1]))
        yield f"minimum detectable difference: {' to '.join(reach)}"


def _tables_of_others(others: Sequence[Difference], *, width: int) -> Iterator[Table]:
    """Yield tables of differences with a column for each measure, as many as fit beside one another."""
    from rich.text import Text

    values = {(each.run, each.measure): each for each in others}
    runs, measures = (list(dict.fromkeys(key[place] for key in values)) for place in (0, 1))
    widest = max(len("+0.0000"), *map(len, measures)) + 2
    beside = max(1, (width - _NAME) // widest)
    for start in range(0, len(measures), beside):
        names = measures[start : start + beside]
        made = table("run", *names, words=1)
        for run in runs:
            cells = (_value(values.get((run, name))) for name in names)
            made.add_row(Text(printable(run)), *cells)
        yield made


def _value(each: Difference | None) -> str:
    if each is None:
        return ""
    return difference(each.interval.mean) if each.wins.won or each.wins.lost else "0"


# ------------------------------------------------------------------------------------------------------ tables


def table(*columns: str, words: int) -> Table:
    """Return a plain table whose first columns hold words, and the others numbers that are never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for place, column in enumerate(columns):
        is_words = place < words
        made.add_column(column, justify="left" if is_words else "right", no_wrap=not is_words, overflow="fold")
    return made


def difference(value: float) -> str:
    """Return a signed difference with four decimals, so that a column of them is aligned."""
    return f"{value:+.4f}"


def say(console: Console, line: str) -> None:
    """Print a line, however long it is."""
    console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


FORMATS: Mapping[str, Callable[[EvaluationOutcome, Console], None]] = {
    "text": show,
    "json": lambda outcome, _: print(to_json(outcome)),
}
