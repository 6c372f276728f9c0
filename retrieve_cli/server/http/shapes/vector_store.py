"""`POST /v1/vector_stores/{name}/search` of OpenAI: https://platform.openai.com/docs/api-reference/vector-stores/search

`query` may be a list: the first text, and variants of it. `rewrite_query` has no effect, which
`search_query` shows: it has the texts that were searched.
"""

from __future__ import annotations

from typing import Any

from retrieve_cli.api.comparisons import Comparison, Junction, Relation, filters_of
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.output.places import known_keys, span_of
from retrieve_cli.search.answer import Answer, Result
from retrieve_cli.server.http.shapes import shape

_RELATIONS: dict[str, Relation] = {
    "eq": "=",
    "ne": "!=",
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
    "in": "=",
    "nin": "!=",
}
_DEFAULT, _MOST = 10, 50
"""Results, as OpenAI documents them."""
_MOST_PARTS, _DEEPEST = 64, 8
"""Parts of a compound filter, and levels of them."""
_MOST_ATTRIBUTES, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512
"""Attributes of a file, as OpenAI documents them."""

_QUERY: Json = {
    "type": ["string", "array"],
    "items": {"type": "string"},
    "minItems": 1,
    "description": "The query, or several variants of it.",
}
_RANKER = shape.text_schema("`none` does not rerank.", enum=["none", "auto", "default-2024-11-15"])
_THRESHOLD: Json = {"type": "number", "minimum": 0, "maximum": 1}
_RELATION: Json = {"type": "string", "enum": list(_RELATIONS)}
_COMPARISON = shape.body_schema({"type": _RELATION, "key": {"type": "string"}, "value": {}}, ("type", "key", "value"))
_PARTS: Json = {"type": "array", "items": {}, "maxItems": _MOST_PARTS}
_JUNCTION = shape.body_schema(
    {"type": {"type": "string", "enum": ["and", "or"]}, "filters": _PARTS}, ("type", "filters")
)
SCHEMA = shape.body_schema(
    {
        "query": _QUERY,
        "filters": {"type": "object", "description": "A comparison {type, key, value}, or {type: and|or, filters}."},
        "max_num_results": {"type": "integer", "minimum": 1, "maximum": _MOST, "default": _DEFAULT},
        "ranking_options": shape.body_schema({"ranker": _RANKER, "score_threshold": _THRESHOLD}),
        "rewrite_query": {"type": "boolean"},
    },
    ("query",),
)


def read(payload: Json, tenant: str | None, settings: Settings) -> shape.Read:
    """Return a request. Raises: UsageError."""
    body = shape.body_of(payload, SCHEMA)
    query, *also = dict.fromkeys([body["query"]] if isinstance(body["query"], str) else body["query"])
    k, ranking = body.get("max_num_results", _DEFAULT), body.get("ranking_options", {})
    threshold = ranking.get("score_threshold", 0.0)
    item = {
        "query": query,
        "also": also or None,
        "filters": list(filters_of(_tree(body["filters"]))) if "filters" in body else None,
        "limit": shape.enough(k, threshold, settings.search.depth),
        "rerank": False if ranking.get("ranker") == "none" else None,
        "chunks": True,
    }
    return shape.Read(shape.asked_of(item, tenant), lambda answer: render(answer, threshold=threshold, k=k))


def _tree(item: Json, levels: int = _DEEPEST) -> Comparison | Junction:
    """The comparisons of a filter. Raises: UsageError."""
    if isinstance(item, dict) and (joined := item.get("type")) in ("and", "or"):
        parts = shape.body_of(item, _JUNCTION, "a filter")["filters"]
        if not levels:
            raise UsageError(f"filters are on more than {_DEEPEST} levels", hint="join fewer of them")
        return Junction("or" if joined == "or" else "and", [_tree(part, levels - 1) for part in parts])
    body = shape.body_of(item, _COMPARISON, "a filter")
    kind, value = body["type"], body["value"]
    several = kind in ("in", "nin")
    if isinstance(value, list) is not several:
        wanted = "a list" if several else "one value"
        raise UsageError(f"`value` of a filter is not {wanted}", hint=f"`{kind}` takes one")
    return Comparison(body["key"], _RELATIONS[kind], value if several else [value])


def render(answer: Answer, *, threshold: float = 0.0, k: int = _MOST) -> dict[str, Json]:
    """Return an answer: the first `k` results whose score reaches the threshold.

    Scores are from 0 to 1, on the scale that `score_scale` names; null without a scale. There is no further page.
    """
    return {
        "object": "vector_store.search_results.page",
        "search_query": [answer.query.text, *answer.query.also],
        "data": [
            {
                "file_id": result.doc_id,
                "filename": shape.file_name(result),
                "score": score,
                "attributes": attributes(result),
                "content": [{"type": "text", "text": result.text}],
            }
            for result, score in shape.above(answer, threshold, k)
        ],
        "has_more": False,
        "next_page": None,
        "score_scale": shape.unit_scores(answer).scale,
    }


def attributes(result: Result) -> dict[str, Json]:
    """Return the first fields of a record that are texts, numbers or flags of a size that attributes may have, behind
    the pages or the anchor of the passage, if it has them."""
    record = result.record
    own, pages = {key: record[key] for key in ("name", "url", "license", "group")}, known_keys(span_of(result).place)
    values: dict[str, Any] = pages | own | record["metadata"] | pages
    kept = [
        (key, value)
        for key, value in values.items()
        if len(key) <= _LONGEST_KEY
        and (len(value) <= _LONGEST_VALUE if isinstance(value, str) else isinstance(value, int | float))
    ]
    return dict(kept[:_MOST_ATTRIBUTES])
