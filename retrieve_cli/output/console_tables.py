"""Records, generations and the summary of the query log for people at a terminal: tables and outlines of rich.

Results as a table of rich: name, score, reasons, snippet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable
from retrieve_cli.output import styled_lines
from retrieve_cli.output.formats import result_id
from retrieve_cli.output.places import pages, span_of
from retrieve_cli.output.plain_text import percent, title
from retrieve_cli.output.reasons import reasons
from retrieve_cli.output.snippet import ROOM, snippet
from retrieve_cli.output.styled_lines import cut
from retrieve_cli.search.answer import Answer, Result

if TYPE_CHECKING:
    from rich.console import Console


_WITH_LINES = ("catalog", "markdown", "text")
"""Kinds of records whose line numbers lead somewhere."""


def print_records(rows: Sequence[Mapping[str, Json]], console: Console) -> None:
    """A table of records: id, name, group, source and, of catalogs and texts, the line."""
    cells = []
    for row in rows:
        source = f"{row['source']}:{row['line']}" if row["kind"] in _WITH_LINES else row["source"]
        cells.append([str(cell) for cell in (row["id"], row["name"], row["group"] or "", source)])
    styled_lines.print_table(console, ("id", "name", "group", "source"), cells)


def outline(value: Mapping[str, Json]) -> str:
    """Nested values as indented `key: value` lines (YAML)."""
    import yaml

    text = str(yaml.safe_dump(dict(value), allow_unicode=True, sort_keys=False, width=110))
    return "\n".join(map(printable, text.split("\n")))


_COLUMNS = ("day", "queries", "p50 ms", "p95 ms", "no results", "relaxed", "reranked", "few hits", "top score")


def print_queries(report: Mapping[str, Json], console: Console) -> None:
    """Print a report, as `inspect queries` has it."""
    rows = [*report["by_day"], {**report, "day": "all"}] if report["queries"] else []
    if not rows:
        console.print("no queries in the log")
        return
    styled_lines.print_table(console, _COLUMNS, map(_cells, rows), right=_COLUMNS[1:])
    for heading, key in (("most frequent queries", "frequent"), ("queries without results", "found_nothing")):
        if report[key]:
            console.print()
            counted = [(str(each["count"]), each["query"]) for each in report[key]]
            styled_lines.print_table(console, ("times", heading), counted, right=("times",))


def _cells(row: Mapping[str, Json]) -> Sequence[str]:
    share, top = row["reranked_share"], row["top_score"]
    latency = [f"{row['latency_ms'][name]:g}" for name in ("p50", "p95")]
    counts = [str(row[key]) for key in ("empty", "relaxed")]
    reranked, best = "" if share is None else f"{share:.0%}", "" if top is None else f"{top:.3g}"
    return [row["day"], str(row["queries"]), *latency, *counts, reranked, str(row["few_candidates"]), best]


_REASON = 32
"""Cells of a reason."""


def _names(answer: Answer, result: Result) -> Iterator[tuple[str, str]]:
    yield printable(str(result.record["name"])), "bold"
    numbers = pages(span_of(result).place)
    yield printable(" ".join(filter(None, (result_id(answer, result), numbers)))), "dim"
    if result.chunk["section"]:
        yield printable(title(str(result.chunk["section"]))), "italic"


def print_table(answer: Answer, console: Console) -> None:
    """Print the results of an answer."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, expand=True)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("name", ratio=3, overflow="fold")
    for header in ("score", *(["confidence"] if answer.confidence else [])):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("why", no_wrap=True)
    table.add_column("snippet", ratio=7)
    for rank, result in answer.ranked:
        name = Text()
        for place, (line, style) in enumerate(_names(answer, result)):
            name.append("\n" * (place > 0) + line, style=style)
        confidence = "" if result.confidence is None else percent(result.confidence)
        lines = "\n".join(cut(reason.text, _REASON) for reason in reasons(result, rank=rank))
        found = snippet(answer, result).cut(ROOM)
        shown = Text(found.text)
        for start, end in found.marks:
            shown.stylize("bold yellow", start, end)
        others = map(Text, (*([confidence] if answer.confidence else []), lines))
        table.add_row(str(rank), name, f"{result.hit.score:.3f}", *others, shown)
    console.print(table)
