"""Keys of a request as JSON, with the schema and the meaning of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrieve_cli.api.requests import MOST_OFFSET
from retrieve_cli.config.bounds import LARGEST
from retrieve_cli.config.plugins import answering_names, modes
from retrieve_cli.contracts import Json
from retrieve_cli.search.questions import LONGEST_TEXT

MOST_RESULTS = 1000
"""Results of one answer."""
HEAD_BYTES = 1_000_000
"""Bytes of the beginning of a file: more are never read of one."""
_HEAD_CHARACTERS = (HEAD_BYTES + 2) // 3 * 4
_MOST_FILES = 8
_MOST_FACETS = 20
_MOST_FILTERS = 100
_MOST_VALUES = 1000
_MOST_IDS = 100_000
_LONGEST_VALUE = 10_000
_LONGEST_NAME = 1000


class Field(NamedTuple):
    """A key of a request."""

    schema: Mapping[str, Json]
    """Fragment of a JSON Schema (2020-12)."""
    description: str


def _text(longest: int) -> dict[str, Json]:
    return {"type": "string", "maxLength": longest}


def _texts(longest: int, *, most: int) -> dict[str, Json]:
    return {"type": "array", "items": _text(longest), "maxItems": most}


def _whole(low: int, high: int) -> dict[str, Json]:
    return {"type": "integer", "minimum": low, "maximum": high}


def _number(low: float, high: float) -> dict[str, Json]:
    return {"type": "number", "minimum": low, "maximum": high}


_FLAG: Mapping[str, Json] = {"type": "boolean"}
_VALUE: Mapping[str, Json] = {"type": ["string", "number", "boolean"], "maxLength": _LONGEST_VALUE}
_VALUES: Mapping[str, Json] = {"type": "array", "items": _VALUE, "minItems": 1, "maxItems": _MOST_VALUES}
_ONE_OR_SEVERAL: Mapping[str, Json] = {**_VALUE, **_VALUES, "type": ["string", "number", "boolean", "array"]}
_COMPARED: Mapping[str, Json] = {"type": ["string", "number"], "maxLength": _LONGEST_NAME}
_CONDITION: Mapping[str, Json] = {
    **_ONE_OR_SEVERAL,
    "type": ["string", "number", "boolean", "array", "object"],
    "properties": {
        **dict.fromkeys(("eq", "in", "not"), _ONE_OR_SEVERAL),
        **dict.fromkeys(("gt", "gte", "lt", "lte"), _COMPARED),
    },
    "additionalProperties": False,
    "minProperties": 1,
}
_FILTERS: Mapping[str, Json] = {
    "type": ["array", "string", "object"],
    "items": _text(_LONGEST_VALUE),
    "maxItems": _MOST_FILTERS,
    "maxLength": _LONGEST_VALUE,
    "additionalProperties": _CONDITION,
    "maxProperties": _MOST_FILTERS,
}
# Behind `$`, `(?!\n)` is for engines in which that also matches before a line feed at the end.
_HEAD: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": r"^(?!\.{1,2}$)[^/\\\x00-\x1f\x7f]{1,255}$(?!\n)"},
        "head_base64": {
            "type": "string",
            "contentEncoding": "base64",
            "maxLength": _HEAD_CHARACTERS,
            "pattern": r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$(?!\n)",
        },
    },
    "required": ["name", "head_base64"],
    "additionalProperties": False,
}
_RETRIEVERS: Mapping[str, Json] = {
    "type": "array",
    "items": {"title": "retriever", "type": "string", "enum": list(answering_names())},
    "minItems": 1,
    "maxItems": 16,
}

FIELDS: Mapping[str, Field] = {
    "query": Field(_text(LONGEST_TEXT), "The query."),
    "id": Field({"type": ["string", "integer"], "maxLength": _LONGEST_NAME}, "Id of the query in the answer."),
    "limit": Field(_whole(1, MOST_RESULTS), "Number of results."),
    "offset": Field(_whole(0, MOST_OFFSET), "Results to skip: those of earlier pages."),
    "mode": Field({"type": "string", "enum": list(modes())}, "All retrievers, or the only one."),
    "retrievers": Field(_RETRIEVERS, "The only retrievers that answer."),
    "engine": Field({"type": "string", "enum": ["advanced", "naive"]}, "All stages, or the dense retriever alone."),
    "also": Field(_texts(LONGEST_TEXT, most=_MOST_VALUES), "Query variants, searched along with the query."),
    "files": Field(
        {"type": "array", "items": _HEAD, "maxItems": _MOST_FILES},
        "Files that the query is about, by the first bytes of each: their format, modality and dimensions count, and "
        "the title and abstract of documents.",
    ),
    "filters": Field(
        _FILTERS,
        'Conditions on records, all of which must hold: ["license=MIT", "dims>=3"] or {"license": "MIT", "modality": '
        '["CT", "MRI"], "dims": {"gte": 3}, "group": {"not": "archive"}}.',
    ),
    "doc_ids": Field(_texts(_LONGEST_VALUE, most=_MOST_IDS), "The only records that may be found; none if empty."),
    "tenant": Field(_text(_LONGEST_NAME), "The only tenant whose records take part."),
    "chunks": Field(_FLAG, "Rank chunks instead of records."),
    "context": Field(_whole(0, 1000), "Neighbouring chunks before and after each hit."),
    "max_tokens": Field(_whole(1, int(LARGEST)), "Most tokens of an answer."),
    "max_chunks": Field(_whole(1, int(LARGEST)), "Most chunks of an answer."),
    "min_score": Field(_number(-LARGEST, LARGEST), "Drop results that score below this."),
    "grade": Field(_number(-1, 1), "Drop results of a lower cosine similarity, unless a reranker scored them."),
    "similarity_top_k": Field(_whole(1, 100_000), "Candidates of the dense retriever; of the engine `naive`, results."),
    "rerank_keep": Field(_whole(1, 100_000), "Results that the reranker passes on."),
    "rerank_min_score": Field(_number(-LARGEST, LARGEST), "Drop results that the reranker scores below this."),
    "rerank_depth": Field(_whole(1, 10_000), "Results that the reranker scores."),
    "rerank_interpolate": Field(_number(0, 1), "Share of the reranker's score: 1 takes its order alone."),
    "min_confidence": Field(_number(0, 1), "Drop results of less confidence, if the scores are calibrated."),
    "rerank": Field(_FLAG, "Rerank the top results."),
    "expand": Field(_FLAG, "Add records linked to the top results."),
    "route": Field(_FLAG, "Search only the groups that a first pass picks."),
    "dependencies": Field(_FLAG, "Add the dependencies of each result."),
    "boosts": Field(_texts(_LONGEST_VALUE, most=_MOST_FILTERS), "Factors for matching records: section=Results:1.2."),
    "deadline_ms": Field(_number(1, LARGEST), "Skip optional steps that do not fit into this time."),
    "facets": Field(_texts(_LONGEST_NAME, most=_MOST_FACETS), "Fields of which the values of matches are counted."),
    "explain": Field(_FLAG, "Say of each result why it stands where it does."),
    "generation": Field(_text(100), "Generation that answers, while it is kept."),
    "at_least": Field(_whole(0, 2**53), "Sequence of a document that the answer must include."),
}
ALIASES: Mapping[str, str] = {
    "q": "query",
    "question": "query",
    "text": "query",
    "k": "limit",
    "top_k": "limit",
    "n": "limit",
    "_id": "id",
    "strategies": "retrievers",
    "tenant_id": "tenant",
}
"""Other spellings of keys."""


def schema(keys: Sequence[str] | None = None) -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of a request with these keys, by default with all keys in all their spellings.

    A key with the value null counts as absent; the schema has none, so that a program that follows it sends none.
    """
    chosen = (*FIELDS, *ALIASES) if keys is None else keys
    properties = {key: _property(key) for key in chosen}
    spellings = [key for key in chosen if ALIASES.get(key, key) == "query"]
    required: dict[str, Json] = {"required": spellings}
    if len(spellings) > 1:
        required = {"anyOf": [{"required": [key]} for key in spellings]}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _property(key: str) -> dict[str, Json]:
    name = ALIASES.get(key, key)
    described = FIELDS[name].description if name == key else f"Another name of `{name}`."
    return {**FIELDS[name].schema, "description": described}
