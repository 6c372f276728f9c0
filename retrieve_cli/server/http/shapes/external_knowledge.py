"""`POST /retrieval` of Dify's external knowledge API: https://docs.dify.ai/en/self-host/use-dify/knowledge/external-knowledge-api"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from retrieve_cli.api.choices import MOST_RESULTS, SEARCH
from retrieve_cli.api.comparisons import Comparison, Junction, Relation, filters_of
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.output.places import known_keys, span_of
from retrieve_cli.search.answer import Answer, Result
from retrieve_cli.server.http.shapes import shape

_MOST_CONDITIONS = 64
_RELATIONS: dict[str, Relation] = {
    "contains": "contains",
    "not contains": "not contains",
    "start with": "starts",
    "end with": "ends",
    "is": "=",
    "is not": "!=",
    "in": "=",
    "not in": "!=",
    "empty": "empty",
    "not empty": "not empty",
    "=": "=",
    "≠": "!=",
    ">": ">",
    "<": "<",
    "≥": ">=",
    "≤": "<=",
}
_DATES = ("before", "after")

_THRESHOLD: Json = {"type": "number", "minimum": 0, "maximum": 1}
_NAME: Json = {"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1, "maxItems": 1}
"""The field of a condition: a text, or a list of one, as older versions of Dify send it."""
_OPERATOR = shape.text_schema("The relation.", enum=[*_RELATIONS, *_DATES])
_CONDITION = shape.body_schema(
    {"name": _NAME, "comparison_operator": _OPERATOR, "value": {}}, ("name", "comparison_operator")
)
_CONDITIONS: Mapping[str, Json] = {
    "logical_operator": shape.text_schema("How conditions are joined.", enum=["and", "or"]),
    "conditions": {"type": "array", "maxItems": _MOST_CONDITIONS, "items": _CONDITION},
}
_SETTING: Mapping[str, Json] = {"top_k": SEARCH.rows["limit"].schema, "score_threshold": _THRESHOLD}
SCHEMA = shape.body_schema(
    {
        "knowledge_id": shape.text_schema("Name of the index: the name of its folder, or `default`."),
        "query": shape.text_schema("The query."),
        "retrieval_setting": shape.body_schema(_SETTING),
        "metadata_condition": shape.body_schema(_CONDITIONS, ("conditions",)),
    },
    ("knowledge_id", "query", "retrieval_setting"),
)


def read(payload: Json, tenant: str | None, settings: Settings) -> shape.Read:
    """Return a request. Raises: UsageError."""
    body = shape.body_of(payload, SCHEMA)
    setting, condition = body["retrieval_setting"], body.get("metadata_condition")
    k, threshold = setting.get("top_k", settings.search.k), setting.get("score_threshold", 0.0)
    filters = None
    if condition is not None:
        parts = [_comparison(part) for part in condition["conditions"]]
        operator: Literal["and", "or"] = "or" if condition.get("logical_operator") == "or" else "and"
        filters = list(filters_of(Junction(operator, parts))) if parts else []
    item = {
        "query": body["query"],
        "filters": filters,
        "limit": shape.enough(k, threshold, settings.search.depth),
        "chunks": True,
    }
    return shape.Read(shape.asked_of(item, tenant), lambda answer: render(answer, threshold=threshold, k=k))


def knowledge_of(payload: Json) -> str:
    """Return the name of the index that a request names. Raises: UsageError."""
    return str(shape.body_of(payload, SCHEMA)["knowledge_id"])


def _comparison(condition: Mapping[str, Json]) -> Comparison:
    """A condition. Raises: UsageError if it cannot be expressed."""
    operator, value, name = condition["comparison_operator"], condition.get("value"), condition["name"]
    if operator in _DATES:
        message = f"`{operator}` compares dates, which are stored as text and have no order"
        raise UsageError(message, hint="compare a number: > and <")
    if isinstance(value, list) is not (operator in ("in", "not in")) and value is not None:
        raise UsageError(f"the value of `{operator}` is of the wrong kind", hint="`in` and `not in` take a list")
    values = value if isinstance(value, list) else [] if value is None else [value]
    return Comparison(name if isinstance(name, str) else name[0], _RELATIONS[operator], values)


def render(answer: Answer, *, threshold: float = 0.0, k: int = MOST_RESULTS) -> dict[str, Json]:
    """Return an answer: the first `k` results whose score reaches the threshold.

    A score is from 0 to 1, on the scale that `metadata.score_scale` names; without a scale, records have no score.
    """
    scale = shape.unit_scores(answer).scale
    return {
        "records": [
            {
                "content": result.text,
                **({} if score is None else {"score": score}),
                "title": result.name,
                "metadata": _metadata(result, None if score is None else scale),
            }
            for result, score in shape.above(answer, threshold, k)
        ]
    }


def _metadata(result: Result, scale: str | None) -> dict[str, Json]:
    span = span_of(result)
    values: dict[str, Json] = {
        "document_id": result.doc_id,
        "chunk_id": result.id,
        "path": result.chunk["source"],
        "url": result.url,
        "section": result.chunk["section"],
        "lines": f"{span.start_line}-{span.end_line}" if span.place is None else None,
        **known_keys(span.place),
        "license": result.record["license"],
        "score_scale": scale,
    }
    return {key: value for key, value in values.items() if value is not None}


def error(status: int, message: str, *, unauthorized: bool, malformed: bool) -> dict[str, Json]:
    """Return a failure: 1001 for a malformed Authorization header, 1002 for a wrong key, 2001 for an unknown index,
    else the status."""
    code = 1001 if malformed else 1002 if unauthorized else 2001 if status == 404 else status
    return {"error_code": code, "error_msg": message}
