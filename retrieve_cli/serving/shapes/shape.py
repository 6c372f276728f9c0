"""One shape: how its requests are read, how an answer is rendered, and how OpenAPI describes both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from retrieve_cli.api.asked import Asked, read_asked
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.output.unit_scores import UnitScores, unit_scores
from retrieve_cli.search.answer import Answer, Result


class Read(NamedTuple):
    """A request that was read."""

    asked: Asked
    render: Callable[[Answer], Json]
    """Renders its answer."""


def asked_of(item: Mapping[str, Json], tenant: str | None, **choices: Any) -> Asked:
    """Return the request that an object is, with more choices by their names in the Python API; None chooses nothing.

    Raises:
        UsageError: as `read_asked` does.
    """
    given = {key: value for key, value in item.items() if value is not None}
    asked = read_asked(given, tenant=tenant)
    more = {key: value for key, value in choices.items() if value is not None}
    return asked._replace(choices={**asked.choices, **more})


def enough(k: int, threshold: float, depth: int) -> int:
    """Return the number of results to ask for, so that `k` remain above a threshold that is applied to them."""
    return max(k, depth) if threshold > 0 else k


def above(answer: Answer, threshold: float, k: int) -> list[tuple[Result, float | None]]:
    """Return the first `k` results whose score from 0 to 1 reaches a threshold, with that score.

    Raises:
        UsageError: there is a threshold, and no score from 0 to 1 that it could be compared with.
    """
    scores: UnitScores = unit_scores(answer)
    rows = list(zip(answer.results, scores.values, strict=True))
    if threshold > 0 and rows:
        if scores.scale is None:
            message = "these results have no score from 0 to 1: they were found by words alone"
            raise UsageError(message, hint="omit `score_threshold`, or build the index with vectors")
        rows = [(result, score) for result, score in rows if score is not None and score >= threshold]
    return rows[:k]


def file_name(result: Result) -> str:
    """Return the name of the file that a result comes from, without its folders."""
    return str(result.chunk["source"]).rpartition("/")[2]


def text_schema(description: str, **more: Json) -> dict[str, Json]:
    """Return the JSON Schema of a text."""
    return {"type": "string", "description": description, **more}


def body_schema(properties: Mapping[str, Json], required: Sequence[str]) -> dict[str, Json]:
    """Return the JSON Schema of an object with these keys and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }
