"""Views of `inspect` as text for people; programs read the same values in JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import printable, shortened
from retrieve_cli.output.places import pages
from retrieve_cli.search.places import place_of

_LISTED = 10
"""Ids that a line names."""
_WIDEST, _MOST_LINES = 200, 40
"""Characters of a line, and lines, of the diff of a tool's definition that are shown."""
_LONG = 2000
"""Characters of a record's text that are shown."""


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """Return a table as lines: columns as wide as their longest cell, the columns in `right` aligned to the right."""
    cells = [list(header), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return [lines[0], "─" * max(map(len, lines)), *lines[1:]]


# ----------------------------------------------------------------------------------------------------- why


def why_lines(view: Mapping[str, Json]) -> Iterator[str]:
    """Yield the verdict, then the record's places among the retrievers and the stages."""
    yield printable(f"{view['id']}: {view['verdict']}")
    searched = view.get("answered_as", view["enhanced_query"])
    if searched != view["query"]:
        yield printable(f"searched for {searched!r}")
    for condition, passes in view["filters"].items():
        yield printable(f"{'passes' if passes else 'does not pass'} {condition}")
    yield ""
    yield from _retrievers(view)
    yield ""
    yield from aligned(
        ("stage", "rank", "hits", "score", ""), [_stage(stage) for stage in view["stages"]], right=(1, 2, 3)
    )


def _retrievers(view: Mapping[str, Json]) -> list[str]:
    """Return the record's place in each retriever and in their fusion, as if nothing were cut."""
    rows = []
    for name, place in view["retrievers"].items():
        if place["rank"] is None:
            rows.append((name, "–", "", "", "", "no match"))
            continue
        numbers = (figures.rounded(place[key]) for key in ("score", "normalized"))
        rows.append(
            (name, f"{place['rank']:,}", *numbers, f"{place['weight']:g}", "" if place["listed"] else "too deep")
        )
    fused = view["fused"]
    if fused["rank"] is not None:
        rows.append(("fused", f"{fused['rank']:,}", figures.rounded(fused["score"]), "", "", f"of {fused['of']:,}"))
    return aligned(("retriever", "rank", "score", "normalised", "weight", ""), rows, right=(1, 2, 3, 4))


def _stage(stage: Mapping[str, Json]) -> tuple[str, str, str, str, str]:
    rank, score = stage["rank"], stage.get("score")
    moved = ""
    if "rank_before" in stage:
        moved = f"from rank {stage['rank_before']}, reranker score {figures.rounded(stage['reranker_score'])}"
    return (
        stage["stage"],
        "–" if rank is None else f"{rank:,}",
        f"{stage['hits']:,}",
        "" if score is None else figures.rounded(score),
        moved,
    )


# --------------------------------------------------------------------------------------------- generations


def history_lines(rows: Sequence[Mapping[str, Json]], noun: str) -> list[str]:
    """Return a table of generations: state, date, contents, changes and size; `noun` names their records."""
    cells = []
    for row in rows:
        state = "current" if row["live"] else ""
        counts = (f"{row['records']:,}", f"{row['chunks']:,}")
        cells.append(
            (
                row["generation"],
                state,
                shortened(str(row["at"])[:16].replace("T", " "), 16),
                *counts,
                _changes(row["changes"]),
                figures.size(row["bytes"]),
            )
        )
    return aligned(
        ("generation", "state", "published", f"{noun}s", "chunks", "changes", "size"), cells, right=(3, 4, 6)
    )


def _changes(changes: Json) -> str:
    """Return the changes of a generation in words; empty if the manifest does not hold them."""
    if not isinstance(changes, Mapping):
        return ""
    counts = [
        (what, number) for what, number in changes.items() if what != "kept" and isinstance(number, int) and number
    ]
    return ", ".join(f"{number:,} {what}" for what, number in counts) or ("none" if changes else "")


def verify_lines(view: Mapping[str, Json]) -> Iterator[str]:
    """Yield the state of a generation, and the problems of each damaged part."""
    elsewhere = [name for name, state in view["files"].items() if state == "elsewhere"]
    files = figures.count(len(view["files"]) - len(elsewhere), "file")
    if view["ok"]:
        others = f"; the rows of {', '.join(elsewhere)} are in an engine" if elsewhere else ""
        yield f"generation {view['generation']} is intact: {files} verified{others}"
        return
    yield f"generation {view['generation']}, or what lies beside it, is damaged: {len(view['faults'])} of {files}"
    for name, fault in view["faults"].items():
        yield printable(f"  {name}: {fault}")


def diff_lines(view: Mapping[str, Json], noun: str) -> Iterator[str]:
    """Yield the differences of two generations: records, recipe, and the moves of each query."""
    counts = ", ".join(f"{view[what]:,} {what}" for what in ("added", "changed", "removed"))
    kept = figures.count(view["kept"], f"unchanged {noun}")
    yield f"{view['from']} → {view['to']}: {counts}, {kept}"
    for what, names in view["records"].items():
        if names:
            more = len(names) - _LISTED
            listed = ", ".join(shortened(name) for name in names[:_LISTED]) + (
                f" and {more:,} more" if more > 0 else ""
            )
            yield printable(f"{what:8} {listed}")
    for key, values in view["recipe"].items():
        yield printable(f"recipe   {key}: {shortened(str(values['from']))} → {shortened(str(values['to']))}")
    for name, lines in islice(view.get("tools", {}).items(), _LISTED):
        yield printable(f"tool     {shortened(name)}")
        yield from (printable(f"  {shortened(line, _WIDEST)}") for line in lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            yield f"  … {figures.count(len(lines) - _MOST_LINES, 'more line')} (--json)"
    if queries := view.get("queries"):
        overlap = next(value for key, value in queries.items() if key.startswith("overlap@"))
        asked = figures.count(queries["asked"], "query", "queries")
        answered = f"{queries['moved']:,} of {asked} answered differently"
        yield f"queries  {answered}, mean overlap of the top 10 is {overlap:.0%}"
        for move in queries["moves"]:
            yield printable(f"  {shortened(move['query'])}")
            for what, sign in (("entered", "+"), ("left", "−")):
                yield from (printable(f"    {sign} {each['id']} (rank {each['rank']})") for each in move[what])
            yield from (printable(f"    {each['id']}: rank {each['from']} → {each['to']}") for each in move["moved"])


# ------------------------------------------------------------------------------------------------- records


def record_text(view: Mapping[str, Json], *, whole: bool) -> str:
    """Return a record without its empty fields as YAML, its text cut to the first 2,000 characters unless `whole`."""
    shown = {key: value for key, value in view.items() if value not in (None, "", [], {})}
    shown["chunks"] = [_chunk_line(chunk) for chunk in view["chunks"]]
    text = view["text"]
    if not whole and len(text) > _LONG:
        shown["text"] = f"{text[:_LONG].rstrip()}\n… {figures.count(len(text) - _LONG, 'more character')} (-v)"
        more = len(shown["chunks"]) - _LISTED
        if more > 0:
            shown["chunks"] = [*shown["chunks"][:_LISTED], f"… {figures.count(more, 'more chunk')} (-v)"]
    return _yaml(shown)


def _chunk_line(chunk: Mapping[str, Json]) -> str:
    place = place_of(chunk)
    parts = [figures.count(chunk["tokens"], "token")]
    if place is not None:
        parts += [place.kind, pages(place) or (f"#{shortened(place.anchor)}" if place.anchor else "")]
    return f"{chunk['id']}: {', '.join(filter(None, (*parts, chunk['section'])))}"


def chunk_text(view: Mapping[str, Json]) -> str:
    """Return a chunk as YAML: its place, its text, the text that was embedded if it differs, and its terms."""
    shown = {key: value for key, value in view.items() if value not in (None, "", [], {}) and key != "terms"}
    if boxes := shown.get("boxes"):
        listed = [f"page {page}: {x0:g}, {y0:g} to {x1:g}, {y1:g}" for page, x0, y0, x1, y1 in boxes[:_LISTED]]
        more = len(boxes) - _LISTED
        shown["boxes"] = [
            *listed,
            *([f"… {figures.count(more, 'more box', 'more boxes')} (--json)"] if more > 0 else []),
        ]
    if view["embedded"] == view["text"]:
        shown["embedded"] = "the unchanged text"
    counted: Counter[str] = Counter(view["terms"])
    shown["terms"] = " ".join(f"{term}×{number}" if number > 1 else term for term, number in counted.items())
    return _yaml(shown)


def _yaml(value: Mapping[str, Any]) -> str:
    """Return values as YAML with texts of several lines as literal blocks."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts of several lines as blocks."""

    def text(dumper: yaml.SafeDumper, content: str) -> yaml.ScalarNode:
        lines = "\n".join(line.rstrip() for line in content.split("\n"))
        block = "\n" in lines.strip("\n")
        return dumper.represent_scalar(
            "tag:yaml.org,2002:str", lines if block else content, style="|" if block else None
        )

    Dumper.add_representer(str, text)
    written = yaml.dump(dict(value), Dumper=Dumper, allow_unicode=True, sort_keys=False, width=110)
    return "\n".join(map(printable, str(written).split("\n")))
