"""Log lines of `-v` for answers: candidates by stage, and a line per query as `key=value`; JSON with `--log-json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable, shortened
from retrieve_cli.output.numbers import numbers
from retrieve_cli.search.answer import Answer


def log_answers(answers: Sequence[Answer], *, as_json: bool, min_candidates: int) -> None:
    """Print the lines of each answer on stderr."""
    for answer in answers:
        event = _event(answer, min_candidates)
        lines = [json.dumps(event)] if as_json else [*_course(answer, event), _plain(event)]
        print(*lines, sep="\n", file=sys.stderr)


def _event(answer: Answer, min_candidates: int) -> dict[str, Json]:
    """Return the numbers of an answer."""
    return {
        "event": "answer",
        "query": answer.query.id,
        "generation": answer.generation,
        **numbers(answer, min_candidates=min_candidates),
        "total_ms": answer.timings_ms["total"],
    }


def _course(answer: Answer, event: Mapping[str, Json]) -> Iterator[str]:
    """Yield the candidates at each step, and the change of their scores."""
    course, text = answer.course, json.dumps(shortened(answer.query.text), ensure_ascii=False)
    for name, count in course.stages[:1]:
        best = f", top_score={_short(course.top_score)}"
        yield printable(f"INFO search: {name}: query={text}, results={count}{best}")
    if event["reranked"]:
        change = _short(course.top_score_change, "+")
        yield f"INFO reranker: Reranking {course.read} candidates, top_score_change={change}"
    yield f"INFO pipeline: Final candidates: {event['results']}, avg_score={_short(event['avg_score'])}"
    if event["warning"] is not None:
        yield f"WARNING pipeline: {event['warning']}"


def _short(value: float | None, sign: str = "") -> str:
    """Return a number rounded for people; `-` if there is none."""
    return "-" if value is None else f"{value:{sign}.3g}"


def _plain(event: Mapping[str, Json]) -> str:
    """Return the event as `key=value` pairs; values that are compound or hold blanks are JSON."""
    return printable(" ".join(f"{key}={_value(value)}" for key, value in event.items()))


def _value(value: Json) -> str:
    compound = isinstance(value, dict | list) or (isinstance(value, str) and len(value.split()) > 1)
    return json.dumps(value, ensure_ascii=False) if compound else str(value)
