"""Points of Qdrant: rows and their labels as payload, and conditions on rows as filters with bound values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from retrieve_cli.contracts.engines import AnyOf, Batch, Label, Within
from retrieve_cli.contracts.values import Json, Unit

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows

VECTOR = "vector"
"""Name of the vector of a row."""
WEIGHTS = "weights"
"""Name of the sparse vector with the term weights of a row."""
FIELDS = "fields"
"""Key of the payload with the values by which records are filtered."""
TERMS = "terms"
"""Key of the payload with the terms of a row. A sparse search is no substitute: it does not return rows whose score is
0, such as those whose weights cancel each other."""
KEYWORDS = ("doc_id", "chunk_id", "tenant_id", "section", FIELDS)
"""Keys of the payload that are indexed as keywords."""

_REQUEST_BYTES = 4 << 20
"""Size of a request with rows; a server accepts 32 MiB unless it is configured otherwise."""


def requests(batch: Batch, unit: Unit) -> Iterator[bytes]:
    """Yield bodies of requests that store the rows of a batch, each of some MiB."""
    points: list[bytes] = []
    size = 0
    for point in _points(batch, unit):
        if points and size + len(point) > _REQUEST_BYTES:
            yield b'{"points":[' + b",".join(points) + b"]}"
            points, size = [], 0
        points.append(point)
        size += len(point)
    if points:
        yield b'{"points":[' + b",".join(points) + b"]}"


def _points(batch: Batch, unit: Unit) -> Iterator[bytes]:
    vectors = None if batch.vectors is None else np.ascontiguousarray(batch.vectors, np.float32)
    for place, (row, label) in enumerate(zip(batch.rows.tolist(), batch.labels, strict=True)):
        payload = _payload(label, unit)
        vector: dict[str, Any] = {}
        if vectors is not None:
            vector[VECTOR] = vectors[place]
        if batch.weights:
            weights = batch.weights[place]
            terms = np.ascontiguousarray(weights.terms)
            vector[WEIGHTS] = {"indices": terms, "values": np.ascontiguousarray(weights.weights, np.float32)}
            payload[TERMS] = terms
        yield orjson.dumps({"id": row, "vector": vector, "payload": payload}, option=orjson.OPT_SERIALIZE_NUMPY)


def _payload(label: Label, unit: Unit) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "doc_id": _text(label.doc_id),
        "section": _text(label.section),
        "title": _text(label.title),
        "content": _text(label.text),
        FIELDS: [value for field, values in label.fields.items() for value in _field_values(field, values)],
    }
    if unit == "chunk":
        payload["chunk_id"] = _text(label.id)
    if label.tenant is not None:
        payload["tenant_id"] = _text(label.tenant)
    return payload


def _text(text: str) -> str:
    """Return the text with replacements for lone surrogates, which UTF-8 does not have."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _field_values(field: str, values: Iterable[str]) -> list[str]:
    return [_field_value(field, value) for value in values]


def _field_value(field: str, value: str) -> str:
    """Return a field and one of its values as one text, different for any other field or value.

    The length of the name comes first, since a name may hold any separator. Texts with lone surrogates, which cannot
    be sent, are written as JSON in ASCII, which begins with another character.
    """
    text = f"{len(field)}:{field}={value}"
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps([field, value])
    return text


class NoRow(Exception):
    """Conditions that no row satisfies."""


def where(within: Within | None, *others: Json) -> Mapping[str, Json]:
    """Return the rows that a search may find, and other conditions, as the part `filter` of a request, or nothing.

    Raises:
        NoRow: no row satisfies the conditions.
    """
    must: list[Json] = list(others)
    must_not: list[Json] = []
    if within is not None and within.rows is not None:
        if not len(within.rows):
            raise NoRow
        must.append(among(within.rows))
    elif within is not None:
        for condition in within.conditions:
            if not condition.values and not condition.negated:
                raise NoRow
            if condition.values:
                (must_not if condition.negated else must).append(_any_of(condition))
    conditions = {"must": must, "must_not": must_not}
    return {"filter": {name: held for name, held in conditions.items() if held}} if must or must_not else {}


def among(rows: Rows) -> Json:
    """Return the condition that a row is one of some."""
    return {"has_id": np.unique(rows)}


def with_terms(terms: Sequence[int]) -> Json:
    """Return the condition that a row has one of some terms."""
    return {"key": TERMS, "match": {"any": list(terms)}}


def _any_of(condition: AnyOf) -> Json:
    return {"key": FIELDS, "match": {"any": _field_values(condition.field, dict.fromkeys(condition.values))}}
