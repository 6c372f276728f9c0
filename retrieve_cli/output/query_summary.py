"""A summary of the log of queries for people: the whole, a table of days, and the most frequent queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = ("day", "queries", "p50 ms", "p95 ms", "no results", "relaxed", "reranked", "few hits", "top score")


def print_queries(report: Mapping[str, Json], console: Console) -> None:
    """Print a report, as `inspect queries` has it."""
    rows = [*report["by_day"], {**report, "day": "all"}] if report["queries"] else []
    if not rows:
        console.print("no queries in the log")
        return
    _table(_COLUMNS, [_cells(row) for row in rows], console)
    for title, key in (("most frequent queries", "frequent"), ("queries without results", "found_nothing")):
        if report[key]:
            console.print()
            _table(("times", title), [(str(each["count"]), each["query"]) for each in report[key]], console)


def _cells(row: Mapping[str, Json]) -> Sequence[str]:
    share, top = row["reranked_share"], row["top_score"]
    latency = [f"{row['latency_ms'][name]:g}" for name in ("p50", "p95")]
    counts = [str(row[key]) for key in ("empty", "relaxed")]
    reranked, best = "" if share is None else f"{share:.0%}", "" if top is None else f"{top:.3g}"
    return [row["day"], str(row["queries"]), *latency, *counts, reranked, str(row["few_candidates"]), best]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    words = ("day", "most frequent queries", "queries without results")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in words else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)
