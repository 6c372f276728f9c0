"""One shape: how its requests are read, how an answer is rendered, and how OpenAPI describes both.

Programs that expect scores from 0 to 1 get scores of a known, named scale; no score is invented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from retrieve_cli.api.asked import Asked, read_asked
from retrieve_cli.api.requests import checked
from retrieve_cli.contracts import Json
from retrieve_cli.search.answer import Answer, Result


class Read(NamedTuple):
    """A request that was read."""

    asked: Asked
    render: Callable[[Answer], Json]
    """Renders its answer."""


def body_of(payload: Json, schema: Mapping[str, Json], place: str = "the body") -> dict[str, Json]:
    """Return a body that its schema allows; null is the same as an absent key, in inner objects as well.

    Raises:
        UsageError: a key is unknown, or its value is invalid.
    """
    body: dict[str, Json] = checked(_present(payload), schema, place)
    return body


def _present(value: Json, levels: int = 4) -> Json:
    """A value without keys that are null, on the levels that a body has; deeper ones belong to a value."""
    if not levels:
        return value
    if isinstance(value, dict):
        return {key: _present(each, levels - 1) for key, each in value.items() if each is not None}
    return [_present(each, levels - 1) for each in value] if isinstance(value, list) else value


def asked_of(item: Mapping[str, Json], tenant: str | None) -> Asked:
    """Return the request that an object is; None chooses nothing. Raises: UsageError: as `read_asked` does."""
    return read_asked({key: value for key, value in item.items() if value is not None}, tenant=tenant)


def file_name(result: Result) -> str:
    """Return the name of the file that a result comes from, without its folders."""
    return str(result.chunk["source"]).rpartition("/")[2]


def text_schema(description: str, **more: Json) -> dict[str, Json]:
    """Return the JSON Schema of a text."""
    return {"type": "string", "description": description, **more}


def body_schema(properties: Mapping[str, Json], required: Sequence[str] = ()) -> dict[str, Json]:
    """Return the JSON Schema of an object with these keys and no others."""
    keys = {"properties": dict(properties), "required": list(required)}
    return {"type": "object", **keys, "additionalProperties": False}


# --------------------------------------------------------------------------------------------------- scores from 0 to 1


UnitScale = Literal["calibrated", "reranker", "cosine"]
"""`calibrated`: the probability that a result is relevant; `reranker`: the score of a reranker that ends in a sigmoid;
`cosine`: the cosine similarity of the query and the chunk, 0 if it is negative."""

_ROUNDING = 1e-3
"""Error of the cosine of two vectors of float32, or of quantised ones; more is an inner product of other vectors."""


class UnitScores(NamedTuple):
    """Scores of the results of one answer, all on one scale: from 0 to 1, or the scale of a reranker."""

    scale: UnitScale | None
    """None without such a scale: BM25 alone answered, or nothing was found."""
    values: tuple[float | None, ...]
    """By result, its score from 0 to 1; None if it has none on this scale, such as a hit below the reranked ones."""


def unit_scores(answer: Answer) -> UnitScores:
    """Return the scores of the results from 0 to 1.

    They are the calibrated confidence, else the score of a reranker that has this scale by itself, else the cosine
    similarity. Results keep the order of the ranking: a fused score orders better than a cosine.
    """
    results = answer.results
    if answer.confidence is not None:
        return UnitScores("calibrated", tuple(result.confidence for result in results))
    relevance = tuple(result.relevance for result in results)
    if any(value is not None for value in relevance):
        return UnitScores("reranker", relevance)
    cosines = [
        next((evidence.score for evidence in result.hit.evidence if evidence.source in answer.similar), None)
        for result in results
    ]
    if any(value is not None and abs(value) > 1 + _ROUNDING for value in cosines):  # of other vectors
        return UnitScores(None, (None,) * len(cosines))
    bounded = tuple(None if value is None else min(max(value, 0.0), 1.0) for value in cosines)
    return UnitScores("cosine" if any(value is not None for value in bounded) else None, bounded)


def deciding_scores(answer: Answer) -> UnitScores:
    """Return the deciding scores: the scores of the reranker, on its scale; without one, scores from 0 to 1."""
    if not answer.reranked:
        return unit_scores(answer)
    own = (result.hit.reranked for result in answer.results)
    return UnitScores("reranker", tuple(None if moved is None else moved.score for moved in own))
