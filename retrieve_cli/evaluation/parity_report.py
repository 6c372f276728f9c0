"""A parity certificate for people: tables of at most 78 columns, and a line for each fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import printable, shortened
from retrieve_cli.evaluation.parity import MEASURE
from retrieve_cli.evaluation.parity_lists import CUTOFF
from retrieve_cli.evaluation.summary import WIDTH, difference, say, table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from retrieve_cli.evaluation.parity import Certificate
    from retrieve_cli.evaluation.parity_lists import Compared
    from retrieve_cli.evaluation.statistics import Difference

_CONDITION = 24
"""Columns of a condition."""


def print_certificate(found: Certificate, console: Console) -> None:
    """Print the measured values and the verdict."""
    width = min(console.width, WIDTH)
    queries = figures.count(found.queries, "query", "queries")
    say(console, f"generation {found.generation}, {queries}, compared with the local index")
    for name, facts in found.facts.items():
        say(console, f"{name}: {', '.join(f'{key} {value}' for key, value in facts.items())}")
    console.print()
    console.print(_answers(found), width=width)
    for each in found.retrievers:
        agreement = each.plain.agreement
        same = f"identical top {CUTOFF} on {agreement.identical:.1%} of queries"
        say(console, f"{each.name}: {same}, largest difference of a score {agreement.apart:.1e}")
    for line in _statistics(found):
        say(console, line)
    console.print()
    latency = table("ms per search", "local p50", "p95", "engine p50", "p95", "local size", words=1)
    for each in found.retrievers:
        cells = (figures.rounded(value) for times in each.plain.latency_ms.values() for value in times.values())
        latency.add_row(each.name, *cells, figures.size(each.local_bytes))
    console.print(latency, width=width)
    for name, size in found.engine_bytes.items():
        held = "does not report how much it stores" if size is None else f"stores {figures.size(size)}"
        say(console, f"{name} {held}")
    console.print()
    console.print(_lists(found), width=width)
    say(console, _shortfalls(found))
    for fault in found.faults:
        say(console, f"failed: {fault}")
    if not found.faults:
        say(console, f"passed: overlap@{CUTOFF} >= {found.limits.min_overlap:g} everywhere, no list is short")


def _answers(found: Certificate) -> Table:
    """Overlap and quality of each retriever, and the quality of the whole pipeline."""
    same, overlap = f"same top {CUTOFF}", f"overlap@{CUTOFF}"
    made = table("retriever", "engine", overlap, same, MEASURE, "difference", "p", words=2)
    for each in found.retrievers:
        agreement = each.plain.agreement
        shares = (f"{agreement.overlap:.4f}", f"{agreement.identical:.1%}")
        made.add_row(each.name, each.engine, *shares, f"{each.quality.ndcg:.4f}", *_apart(each.quality.difference))
    made.add_row("whole pipeline", "", "", "", f"{found.quality.ndcg:.4f}", *_apart(found.quality.difference))
    return made


def _apart(found: Difference) -> tuple[str, str]:
    """Difference and its p; `0` if no query differs."""
    if not (found.wins.won or found.wins.lost):
        return "0", ""
    return difference(found.interval.mean), figures.chance(found.p)


def _statistics(found: Certificate) -> Iterator[str]:
    apart, p = _apart(found.full_pass.difference)
    quality = f"{MEASURE} {apart}, p {p}" if p else "no query differs"
    yield "stored statistics instead of a pass over all rows, as the engines and this reference use:"
    yield f"  local pipeline with a pass over all rows: {quality}"
    for each in found.retrievers:
        mean, deviation = (_share(each.plain.statistics[key]) for key in ("mean", "deviation"))
        yield f"  {each.name}: mean off by {mean} of the deviation, deviation by {deviation}"


def _share(mean: float) -> str:
    value = 100 * mean
    return "less than 0.001 %" if value < 0.001 else f"{figures.rounded(value)} %"


def _lists(found: Certificate) -> Table:
    made = table("retriever", "records", "filter by", f"recall@{CUTOFF}", "listed", "short", "completed", words=3)
    for each in found.retrievers:
        made.add_row(each.name, "all", "", *_counts(each.plain))
        for selection, counts in each.filtered:
            kind = "rows" if selection.written is None else shortened(printable(selection.written), _CONDITION)
            made.add_row("", f"{selection.share:.2%}", kind, *_counts(counts))
    return made


def _counts(found: Compared) -> tuple[str, str, str, str]:
    agreement, lists = found.agreement, found.lists
    listed = f"{lists.listed / max(agreement.queries, 1):.0%}"
    return f"{agreement.overlap:.4f}", listed, f"{lists.short:,}", f"{lists.completed:,}"


def _shortfalls(found: Certificate) -> str:
    every = [counts.lists for each in found.retrievers for counts in (each.plain, *(own for _, own in each.filtered))]
    short, detected = sum(each.short for each in every), sum(each.detected for each in every)
    if not short:
        return "the engines left no list short"
    return f"the engines left {figures.count(short, 'list')} short: {detected:,} detected and completed"
