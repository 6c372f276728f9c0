"""Parts of a generation in Qdrant: searches.

Points of Qdrant: rows and their labels as payload, and conditions on rows as filters with bound values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from retrieve_cli.contracts.engines import Batch, Label, Within
from retrieve_cli.contracts.values import Json, Unit
from retrieve_cli.engines.collections import reading
from retrieve_cli.engines.qdrant.server import QdrantServer

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Vectors


OVERSAMPLING = 2.0
"""Candidates by quantised vectors that are rescored, for each row of the result."""


@reading("Qdrant")
class VectorPart:
    """Rows with vectors, in a separate collection."""

    def __init__(self, server: QdrantServer, collection: str, *, ef: int) -> None:
        self._server, self._collection, self._ef = server, collection, ef

    def nearest(self, query: Any, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        """Return rows with the highest inner products and these products as Qdrant computes them, best first."""
        rescored = {"rescore": True, "oversampling": OVERSAMPLING}
        params = {"hnsw_ef": max(self._ef, limit), "quantization": rescored}
        body = {"query": np.ascontiguousarray(query, np.float32), "using": VECTOR, "params": params}
        return _found(self._server, self._collection, body, limit, within)


@reading("Qdrant")
class TermPart:
    """Rows with term weights, in a separate collection."""

    def __init__(self, server: QdrantServer, collection: str) -> None:
        self._server, self._collection = server, collection

    def nearest(self, query: Any, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        """Return rows that share a term with the query, with the highest scores, and these, best first.

        Rows whose score is exactly 0 are missing: Qdrant does not count them as similar.
        """
        if not len(query.terms):
            return _nothing()
        weights = np.ascontiguousarray(query.weights, np.float32)
        body = {"query": {"indices": np.ascontiguousarray(query.terms), "values": weights}, "using": WEIGHTS}
        return _found(self._server, self._collection, body, limit, within)


def _found(
    server: QdrantServer, collection: str, body: Mapping[str, Json], limit: int, within: Within | None
) -> tuple[Rows, Vectors]:
    """Return the rows of a search and their scores, best first, ties by row."""
    if (conditions := where(within)) is None or limit < 1:
        return _nothing()
    whole = {**body, **conditions, "limit": limit, "with_payload": False, "with_vector": False}
    points = server.call("POST", f"/collections/{collection}/points/query", body=whole)["points"]
    rows = np.array([point["id"] for point in points], np.int64)
    scores = np.array([point["score"] for point in points], np.float32)
    order = np.lexsort((rows, -scores))
    return rows[order], scores[order]


def _nothing() -> tuple[Rows, Vectors]:
    return np.empty(0, np.int64), np.empty(0, np.float32)


VECTOR = "vector"
"""Name of the vector of a row."""
WEIGHTS = "weights"
"""Name of the sparse vector with the term weights of a row."""
FIELDS = "fields"
"""Key of the payload with the values by which records are filtered."""
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
            values = np.ascontiguousarray(weights.weights, np.float32)
            vector[WEIGHTS] = {"indices": np.ascontiguousarray(weights.terms), "values": values}
        yield orjson.dumps({"id": row, "vector": vector, "payload": payload}, option=orjson.OPT_SERIALIZE_NUMPY)


def _payload(label: Label, unit: Unit) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "doc_id": _text(label.doc_id),
        "section": _text(label.section),
        "title": _text(label.title),
        "content": _text(label.text),
        FIELDS: [_field_value(field, value) for field, values in label.fields.items() for value in values],
    }
    if unit == "chunk":
        payload["chunk_id"] = _text(label.id)
    if label.tenant is not None:
        payload["tenant_id"] = _text(label.tenant)
    return payload


def _text(text: str) -> str:
    """Return the text with replacements for lone surrogates, which UTF-8 does not have."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


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


def where(within: Within | None) -> Mapping[str, Json] | None:
    """Return the rows that a search may find as the part `filter` of a request, or an empty one; None if no row
    satisfies the conditions."""
    must: list[Json] = []
    must_not: list[Json] = []
    if within is not None and within.rows is not None:
        if not len(within.rows):
            return None
        must.append({"has_id": np.unique(within.rows)})
    elif within is not None:
        for condition in within.conditions:
            if not condition.values and not condition.negated:
                return None
            if condition.values:
                values = [_field_value(condition.field, value) for value in dict.fromkeys(condition.values)]
                (must_not if condition.negated else must).append({"key": FIELDS, "match": {"any": values}})
    conditions = {"must": must, "must_not": must_not}
    return {"filter": {name: held for name, held in conditions.items() if held}} if must or must_not else {}
