"""Answers to text, json, jsonl, csv, md and trec. Every function gives the text; nobody prints here but a rich table."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import orjson

from retrieve_cli.contracts import Answer, Evidence, Json, Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

SCHEMA_VERSION = 1
RUN_TAG = "retrieve"
_SNIPPET = 220
"""Characters of a snippet."""


def dump(value: Json) -> str:
    """One line of JSON."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def answer_json(answer: Answer) -> dict[str, Json]:
    """The contract's JSON object for one answer."""
    return {
        "schema_version": SCHEMA_VERSION,
        "query_id": answer.query.id,
        "query": answer.query.text,
        "clean_query": answer.query.text,
        "enhanced_query": answer.query.text,
        "excluded": [],
        "filters": {},
        "results": [_result_json(rank, result) for rank, result in enumerate(answer.results, 1)],
        "total_results": len(answer.results),
        "strategies_used": list(answer.strategies_used),
        "strategies_skipped": dict(answer.strategies_skipped),
        "fusion_method": answer.fusion_method,
        "reranked": False,
        "pipeline": answer.pipeline,
        "generation": answer.generation,
        "timings_ms": dict(answer.timings_ms),
    }


def _result_json(rank: int, result: Result) -> dict[str, Json]:
    record, chunk = result.record, result.chunk
    return {
        "rank": rank,
        "id": result.hit.id,
        "doc_id": record["id"],
        "score": result.hit.score,
        "retrieval_score": result.hit.score,
        **{key: record[key] for key in ("name", "description", "url", "keywords", "license", "group")},
        "supporting_data": {"modalities": [], "dimensions": [], "formats": [], "demo_url": None, **record["supporting_data"]},
        "content": chunk["text"],
        "section": chunk["section"],
        "metadata": {
            **record["metadata"],
            "source": chunk["source"],
            "chunk_index": chunk["index"],
            **{key: chunk[key] for key in ("start_line", "end_line", "start", "end")},
        },
        "source_scores": {evidence.leg: _evidence_json(evidence) for evidence in result.hit.evidence},
    }


def _evidence_json(evidence: Evidence) -> dict[str, Json]:
    return {
        "rank": evidence.rank,
        "score": evidence.score,
        "normalized": evidence.normalized,
        "weight": evidence.weight,
    }


def why(result: Result) -> str:
    """The evidence in a few words: each leg's rank and raw score."""
    return ", ".join(
        f"{evidence.leg} {'#' + str(evidence.rank) if evidence.rank else 'asked'} ({evidence.score:.3g})"
        for evidence in result.hit.evidence
    )


def explanation(result: Result) -> list[str]:
    """The evidence as the sum that made the score."""
    lines = []
    for evidence in result.hit.evidence:
        rank = f"rank {evidence.rank}" if evidence.rank else "not in its list, asked for its score"
        lines.append(
            f"{evidence.leg}: {rank}, score {evidence.score:.6g}, normalized {evidence.normalized:.6g}, "
            f"weight {evidence.weight:g} → {evidence.normalized * evidence.weight:.6g}"
        )
    return lines


def snippet(text: str, matches: Sequence[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """The stretch of `text` with the most matches, as one line, and where the matches lie in it."""
    start = 0
    if len(text) > _SNIPPET and matches:
        starts = [begin for begin, _ in matches]
        inside = [sum(begin <= other < begin + _SNIPPET - 40 for other in starts) for begin in starts]
        start = max(0, starts[inside.index(max(inside))] - 40)
        start = 0 if start < 40 else text.find(" ", start, start + 40) + 1 or start
    end = min(len(text), start + _SNIPPET)
    before, after = "… " if start else "", " …" if end < len(text) else ""
    line = before + "".join(" " if char.isspace() else char for char in text[start:end]) + after
    shift = len(before) - start
    return line, [(begin + shift, stop + shift) for begin, stop in matches if start <= begin and stop <= end]


# ------------------------------------------------------------------------------------------------- formats


def as_json(answers: Sequence[Answer], *, batch: bool) -> str:
    """One indented object for a single query, one object a line for a batch."""
    if batch:
        return as_json_lines(map(answer_json, answers))
    return "".join(orjson.dumps(answer_json(answer), option=orjson.OPT_INDENT_2).decode() + "\n" for answer in answers)


def as_json_lines(values: object) -> str:
    """One value a line."""
    return "".join(dump(value) + "\n" for value in values)  # type: ignore[attr-defined]


def as_jsonl(answers: Sequence[Answer], *, batch: bool) -> str:
    """One result a line, each with its query's id; a batch gives one answer a line instead, as the contract has it."""
    if batch:
        return as_json(answers, batch=True)
    return as_json_lines(
        {"query_id": answer.query.id, **_result_json(rank, result)}
        for answer in answers
        for rank, result in enumerate(answer.results, 1)
    )


def as_csv(answers: Sequence[Answer], *, batch: bool) -> str:
    """A header and one result a row (RFC 4180)."""
    columns = ["query_id", "rank", "id", "doc_id", "score", "name", "url", "section", "source", "start_line", "content"]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore")
    writer.writeheader()
    for answer in answers:
        for rank, result in enumerate(answer.results, 1):
            row = _result_json(rank, result)
            writer.writerow({**row, **row["metadata"], "query_id": answer.query.id})
    return out.getvalue()


def as_markdown(answers: Sequence[Answer], *, batch: bool) -> str:
    """A numbered list under each query."""
    lines = []
    for answer in answers:
        lines += [f"## {answer.query.text}", ""]
        for rank, result in enumerate(answer.results, 1):
            name, url = result.record["name"], result.record["url"]
            text, _ = snippet(result.chunk["text"], answer.matches(result.chunk["text"]))
            lines.append(f"{rank}. **{f'[{name}]({url})' if url else name}** `{result.hit.id}` {result.hit.score:.4f}")
            lines += [f"   - {why(result)}", f"   > {text}"]
        lines.append("")
    return "\n".join(lines)


def as_trec(answers: Sequence[Answer], *, batch: bool) -> str:
    """A TREC run, `qid Q0 docid rank score tag`; white space within an id becomes %20."""
    lines = []
    for answer in answers:
        for rank, result in enumerate(answer.results, 1):
            id_ = _result_id(answer, result).replace(" ", "%20")
            lines.append(f"{answer.query.id.replace(' ', '%20')} Q0 {id_} {rank} {result.hit.score!r} {RUN_TAG}\n")
    return "".join(lines)


def as_ids(answers: Sequence[Answer]) -> str:
    """Ids alone, one a line."""
    return "".join(_result_id(answer, result) + "\n" for answer in answers for result in answer.results)


def _result_id(answer: Answer, result: Result) -> str:
    return result.hit.id if answer.unit == "chunk" else str(result.record["id"])


FORMATS: Mapping[str, Callable[..., str]] = {
    "json": as_json,
    "jsonl": as_jsonl,
    "csv": as_csv,
    "md": as_markdown,
    "trec": as_trec,
}


# ---------------------------------------------------------------------------------------------------- text


def print_answers(answers: Sequence[Answer], console: Console, *, explain: bool, timing: bool, batch: bool) -> None:
    """A table a query: name, score, why, and a snippet with the matched words."""
    for answer in answers:
        if batch:
            console.print(f"{answer.query.id}: {answer.query.text}", style="bold", markup=False, highlight=False)
        if answer.results:
            console.print(_table(answer, explain=explain))
        else:
            console.print("no results", markup=False)
        if explain:
            legs = "".join(f"; {leg} skipped: {reason}" for leg, reason in answer.strategies_skipped.items())
            line = f"{answer.pipeline}, {answer.fusion_method}, generation {answer.generation}{legs}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        if timing:
            line = ", ".join(f"{name} {value:.1f} ms" for name, value in answer.timings_ms.items())
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def _table(answer: Answer, *, explain: bool) -> object:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, expand=True)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("name", ratio=3, overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("why", ratio=3)
    table.add_column("snippet", ratio=8)
    for rank, result in enumerate(answer.results, 1):
        name = Text(printable(str(result.record["name"])), style="bold")
        name.append("\n" + printable(_result_id(answer, result)), style="dim")
        if result.chunk["section"]:
            name.append("\n" + printable(str(result.chunk["section"])), style="italic")
        reasons = "\n".join(explanation(result)) if explain else why(result)
        table.add_row(str(rank), name, f"{result.hit.score:.3f}", Text(reasons), _marked(answer, result))
    return table


def _marked(answer: Answer, result: Result) -> Text:
    from rich.text import Text

    line, matches = snippet(result.chunk["text"], answer.matches(result.chunk["text"]))
    text = Text(printable(line))
    for start, end in matches:
        text.stylize("bold yellow", start, end)
    return text


def printable(text: str) -> str:
    """Control characters as a visible placeholder: a catalog must not drive somebody's terminal."""
    return "".join("\ufffd" if ord(char) < 32 or 127 <= ord(char) < 160 else char for char in text)


def print_records(rows: Sequence[Mapping[str, Json]], console: Console) -> None:
    """A table of records: id, name, group, source and line."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("id", "name", "group", "source"):
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = (row["id"], row["name"], row["group"] or "", f"{row['source']}:{row['line']}")
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
    console.print(table)


def outline(value: Mapping[str, Json]) -> str:
    """Nested values as indented `key: value` lines (YAML)."""
    import yaml

    return str(yaml.safe_dump(dict(value), allow_unicode=True, sort_keys=False, width=110))
