"""One JSON object as one request: lines of a batch, bodies of HTTP and arguments of MCP mean the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from retrieve_cli.api.requests import Choices, request_of
from retrieve_cli.contracts import Json, Request
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.untrusted.nearest import nearest


class Asked(NamedTuple):
    """A request, and its choices."""

    request: Request
    choices: Mapping[str, Any]
    """Choices by the names of `api.requests.Choices`, those that are part of the request excepted."""
    generation: str | None = None
    """Id of the generation that answers; None: the current one."""
    at_least: int | None = None
    """Sequence of a document that the generation must include."""


class Field(NamedTuple):
    """A key of a request."""

    schema: Mapping[str, Json]
    """Fragment of a JSON Schema (2020-12)."""
    description: str


_TEXT: Mapping[str, Json] = {"type": "string"}
_FLAG: Mapping[str, Json] = {"type": "boolean"}
_NUMBER: Mapping[str, Json] = {"type": "number"}
_COUNT: Mapping[str, Json] = {"type": "integer", "minimum": 0}
_TEXTS: Mapping[str, Json] = {"type": "array", "items": _TEXT}

FIELDS: Mapping[str, Field] = {
    "query": Field(_TEXT, "The query."),
    "id": Field(_TEXT, "Id of the query in the answer."),
    "limit": Field({"type": "integer", "minimum": 1, "maximum": 1000}, "Number of results."),
    "mode": Field(_TEXT, "`hybrid`, or the name of the only retriever."),
    "retrievers": Field(_TEXTS, "The only retrievers that answer."),
    "engine": Field(_TEXT, "`advanced`, or `naive`: the dense retriever alone."),
    "also": Field(_TEXTS, "Query variants, searched along with the query."),
    "filters": Field(_TEXTS, "Conditions on records: license=MIT, dims>=3."),
    "doc_ids": Field(_TEXTS, "The only records that may be found."),
    "tenant": Field(_TEXT, "The only tenant whose records take part."),
    "chunks": Field(_FLAG, "Rank chunks instead of records."),
    "context": Field(_COUNT, "Neighbouring chunks before and after each hit."),
    "max_tokens": Field(_COUNT, "Most tokens of an answer."),
    "max_chunks": Field(_COUNT, "Most chunks of an answer."),
    "min_score": Field(_NUMBER, "Drop results that score below this."),
    "min_confidence": Field(_NUMBER, "Drop results of less confidence."),
    "rerank": Field(_FLAG, "Rerank the top results."),
    "expand": Field(_FLAG, "Add records linked to the top results."),
    "route": Field(_FLAG, "Search only the groups that a first pass picks."),
    "dependencies": Field(_FLAG, "Add the dependencies of each result."),
    "boosts": Field(_TEXTS, "Factors for matching records: section=Results:1.2."),
    "deadline_ms": Field(_NUMBER, "Skip optional steps that do not fit into this time."),
    "generation": Field(_TEXT, "Generation that answers, while it is kept."),
    "at_least": Field(_COUNT, "Sequence of a document that the answer must include."),
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
}
_IN_REQUEST = ("query", "id", "generation", "at_least")


def schema(keys: Sequence[str] | None = None) -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of a request with these keys, by default all."""
    chosen = FIELDS if keys is None else {key: FIELDS[key] for key in keys}
    properties = {key: {**field.schema, "description": field.description} for key, field in chosen.items()}
    return {"type": "object", "properties": properties, "required": ["query"], "additionalProperties": False}


def read_asked(item: Mapping[str, Json], *, where: str = "the request", tenant: str | None = None) -> Asked:
    """Return the request that a JSON object is; `tenant` is that of the credential, which the object may only repeat.

    Raises:
        UsageError: a key is unknown, or its value is not one that it takes.
    """
    values = {_key(key, where): value for key, value in item.items() if value is not None}
    query = values.get("query")
    if not isinstance(query, str):
        raise UsageError(f"{where} has no query", hint='for example: {"query": "segment lungs in CT"}')
    if tenant is not None and values.setdefault("tenant", tenant) != tenant:
        raise UsageError(f"{where} names another tenant than its credential", hint="remove `tenant`")
    choices = {("k" if key == "limit" else key): value for key, value in values.items() if key not in _IN_REQUEST}
    request = request_of(query, choices, id_=str(values.get("id", "1")))
    left = {key: value for key, value in choices.items() if key in Choices.__annotations__}
    return Asked(request, left, values.get("generation"), values.get("at_least"))


def _key(key: str, where: str) -> str:
    name = ALIASES.get(key, key)
    if name not in FIELDS:
        near = nearest(key.casefold(), [*FIELDS, *ALIASES])
        hint = f"did you mean `{near}`?" if near else f"keys: {', '.join(FIELDS)}"
        raise UsageError(f"{where} has an unknown key {quoted(key)}", hint=hint)
    return name
