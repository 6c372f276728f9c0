"""Records of answers: saved runs, the log of queries, the stage that emptied an answer, and the log lines of `-v`.

The lines are candidates by stage and `key=value` pairs of each query.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, printable, shortened
from retrieve_cli.frozen import replace
from retrieve_cli.output import journal
from retrieve_cli.output.journal import numbers
from retrieve_cli.search.answer import Answer

if TYPE_CHECKING:
    from retrieve_cli.cli.options import Shared
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.options import SearchOptions


def saved(answers: Sequence[Answer], shared: Shared, *, opened: Opened, options: SearchOptions) -> list[Answer]:
    """Save a run; return its answers with its id."""
    recipe = opened.generation.manifest.recipe.to_json()
    run_id = journal.save(shared.store, answers, opened.settings, options, recipe=recipe)
    shared.talk.say(f"note: saved as run {run_id}: retrieve inspect run {run_id}")
    return [replace(answer, run_id=run_id) for answer in answers]


def log_queries(answers: Sequence[Answer], shared: Shared, settings: Settings) -> None:
    """Add to the log of queries; an answer is not withheld because that fails."""
    try:
        journal.log(shared.store.runs, answers, min_candidates=settings.log.min_candidates)
    except RetrieveError as error:
        shared.talk.say(f"note: the query was not logged: {error.message} ({error.hint})")


def explain_empty(opened: Opened, answers: Sequence[Answer], shared: Shared, *, ids: bool) -> None:
    """Name the stage that dropped the last hit of each of these empty answers: on stderr if stdout is for a program."""
    from retrieve_cli.operations.why import why_empty

    file = sys.stdout if shared.format in ("text", "table") and not ids else sys.stderr
    for answer in answers:
        lines = [f"query {answer.query.id} has no results:", *(f"  {line}" for line in why_empty(opened, answer))]
        print(*map(printable, lines), sep="\n", file=file)


def log_answers(answers: Sequence[Answer], *, min_candidates: int) -> None:
    """Print the lines of each answer on stderr."""
    for answer in answers:
        event = {
            "event": "answer",
            "query": answer.query.id,
            "generation": answer.generation,
            **numbers(answer, min_candidates=min_candidates),
            "total_ms": answer.timings_ms["total"],
        }
        print(*_lines(answer, event), sep="\n", file=sys.stderr)


def _lines(answer: Answer, event: Mapping[str, Json]) -> Iterator[str]:
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
    yield printable(" ".join(f"{key}={_value(value)}" for key, value in event.items()))


def _short(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.3g}"


def _value(value: Json) -> str:
    """Return a value of a pair: as JSON if it is compound or has blanks."""
    compound = isinstance(value, dict | list) or (isinstance(value, str) and len(value.split()) > 1)
    return json.dumps(value, ensure_ascii=False) if compound else str(value)
