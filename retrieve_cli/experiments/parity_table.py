"""A parity certificate for people: tables of at most 78 columns, and a line for each fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.errors import printable, shortened
from retrieve_cli.experiments.comparison import WIDTH, difference, table
from retrieve_cli.experiments.parity import MEASURE
from retrieve_cli.experiments.parity_lists import CUTOFF
from retrieve_cli.terms import figures

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from retrieve_cli.evaluation.differences import Difference
    from retrieve_cli.experiments.parity import Certificate, Measured
    from retrieve_cli.experiments.parity_lists import Compared, Selection

_CONDITION = 24
"""Columns of a condition."""


def print_certificate(found: Certificate, console: Console) -> None:
    """Print what was measured, and whether it passes."""
    width = min(console.width, WIDTH)
    for line in _head(found):
        _say(console, line)
    console.print()
    console.print(_answers(found), width=width)
    for line in _statistics(found):
        _say(console, line)
    console.print()
    console.print(_latency(found), width=width)
    for name, size in found.engine_bytes.items():
        held = "does not say how much it stores" if size is None else f"stores {figures.size(size)}"
        _say(console, f"{name} {held}")
    console.print()
    console.print(_lists(found), width=width)
    _say(console, _shortfalls(found))
    for fault in found.faults:
        _say(console, f"failed: {fault}")
    if not found.faults:
        _say(console, f"passed: overlap@{CUTOFF} >= {found.limits.min_overlap:g} everywhere, no list is short")


def _say(console: Console, line: str) -> None:
    console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _head(found: Certificate) -> Iterator[str]:
    queries = figures.count(found.queries, "query", "queries")
    yield f"generation {found.generation}, {queries}, compared with the local index"
    for name, facts in found.facts.items():
        yield f"{name}: {', '.join(f'{key} {value}' for key, value in facts.items())}"


def _answers(found: Certificate) -> Table:
    """Overlap and quality of each retriever, and the quality of the whole pipeline."""
    same, overlap = f"same top {CUTOFF}", f"overlap@{CUTOFF}"
    made = table("retriever", "engine", overlap, same, MEASURE, "difference", "p", words=2)
    for each in found.retrievers:
        shares = (f"{each.plain.mean_overlap:.4f}", f"{each.plain.identical / max(each.plain.searches, 1):.1%}")
        made.add_row(each.name, each.engine, *shares, *_quality(each.ndcg, each.difference))
    made.add_row("whole pipeline", "", "", "", *_quality(found.ndcg, found.difference))
    return made


def _quality(ndcg: float, apart: Difference) -> tuple[str, str, str]:
    if not (apart.wins.won or apart.wins.lost):
        return f"{ndcg:.4f}", "0", ""
    return f"{ndcg:.4f}", difference(apart.interval.mean), figures.chance(apart.p)


def _statistics(found: Certificate) -> Iterator[str]:
    """Lines on the statistics by which scores are normalised in a fusion."""
    apart = found.full_pass
    quality = "no query differs"
    if apart.wins.won or apart.wins.lost:
        quality = f"{MEASURE} {difference(apart.interval.mean)}, p {figures.chance(apart.p)}"
    yield "stored statistics instead of a pass over all rows, as the engines and this reference use:"
    yield f"  local pipeline with a pass over all rows: {quality}"
    for each in found.retrievers:
        mean, deviation = _share(each.timed.means), _share(each.timed.deviations)
        yield f"  {each.name}: mean off by {mean} of the deviation, deviation by {deviation}"


def _share(differences: Sequence[float]) -> str:
    """Return a mean of small shares in per cent."""
    value = 100 * sum(differences) / max(len(differences), 1)
    return "less than 0.001 %" if value < 0.001 else f"{figures.rounded(value)} %"


def _latency(found: Certificate) -> Table:
    made = table("ms per search", "local p50", "p95", "engine p50", "p95", "local size", words=1)
    for each in found.retrievers:
        value = each.to_json()["latency_ms"]
        cells = (figures.rounded(value[place][share]) for place in ("local", "engine") for share in ("p50", "p95"))
        made.add_row(each.name, *cells, figures.size(each.local_bytes))
    return made


def _lists(found: Certificate) -> Table:
    """Recall under filters, and short lists."""
    made = table("retriever", "records", "filter by", f"recall@{CUTOFF}", "listed", "short", "completed", words=3)
    for each in found.retrievers:
        made.add_row(each.name, "all", "", *_counts(each.plain))
        for selection, counts in each.filtered:
            made.add_row("", f"{selection.share:.2%}", _kind(selection), *_counts(counts))
    return made


def _kind(selection: Selection) -> str:
    return "rows" if selection.written is None else shortened(printable(selection.written), _CONDITION)


def _counts(counts: Compared) -> tuple[str, str, str, str]:
    listed = f"{counts.listed / max(counts.searches, 1):.0%}"
    return f"{counts.mean_overlap:.4f}", listed, f"{counts.short:,}", f"{counts.completed:,}"


def _shortfalls(found: Certificate) -> str:
    counts = [counts for each in found.retrievers for counts in _all_counts(each)]
    short, detected = sum(each.short for each in counts), sum(each.detected for each in counts)
    if not short:
        return "the engines left no list short"
    return f"the engines left {figures.count(short, 'list')} short: {detected:,} detected and completed"


def _all_counts(measured: Measured) -> Iterator[Compared]:
    yield measured.plain
    yield from (counts for _, counts in measured.filtered)
