"""Parts of a generation in Qdrant: searches, scores, and stored vectors and weights.

Points of Qdrant: rows and their labels as payload, and conditions on rows as filters with bound values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from retrieve_cli.contracts.engines import Batch, Label, Within
from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.contracts.values import Json, Unit
from retrieve_cli.engines.collections import reading
from retrieve_cli.engines.qdrant.server import QdrantServer
from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Terms, Vectors


OVERSAMPLING = 2.0
"""Candidates by quantised vectors that are rescored, for each row of the result."""
_EXACT = {"exact": True, "quantization": {"ignore": True}}
_SCORED = 10_000
"""Rows that are scored by one request."""
_READ = 2_000
"""Rows whose vectors are read by one request: 10 MB at 384 dimensions."""


@reading("Qdrant")
class VectorPart:
    """Rows with vectors, in a separate collection."""

    def __init__(self, server: QdrantServer, collection: str, *, dim: int, ef: int) -> None:
        self._server, self._collection = server, collection
        self._dim, self._ef = dim, ef

    def nearest(
        self, query: Vectors, limit: int, *, within: Within | None = None, exact: bool = False
    ) -> tuple[Rows, Vectors]:
        """Return rows with the highest inner products and these products as Qdrant computes them, best first."""
        rescored = {"rescore": True, "oversampling": OVERSAMPLING}
        params = _EXACT if exact else {"hnsw_ef": max(self._ef, limit), "quantization": rescored}
        body = {"query": np.ascontiguousarray(query, np.float32), "using": VECTOR, "params": params}
        return _found(self._server, self._collection, body, limit, within)

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        """Return the inner product with each of some rows, (m,) float32, from the vectors before quantisation."""
        products = np.empty(len(rows), np.float32)
        body = {"query": np.ascontiguousarray(query, np.float32), "using": VECTOR, "params": _EXACT}
        for start in range(0, len(rows), _SCORED):
            some = rows[start : start + _SCORED]
            found, scores = _found(self._server, self._collection, body, len(some), Within(rows=some))
            products[start : start + _SCORED] = scores[_places(found, some, self._collection)]
        return products

    def vectors(self, rows: Rows) -> Vectors:
        """Return stored vectors, (m, dim) float32.

        Raises:
            IndexCorrupt: a row is missing.
        """
        stored = np.empty((len(rows), self._dim), np.float32)
        for place, vector in enumerate(_stored(self._server, self._collection, rows, VECTOR)):
            if vector is None:
                raise _lost(self._collection, int(rows[place]))
            stored[place] = vector
        return stored


@reading("Qdrant")
class TermPart:
    """Rows with term weights, in a separate collection."""

    def __init__(self, server: QdrantServer, collection: str) -> None:
        self._server, self._collection = server, collection

    def nearest(self, query: TermWeights, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        """Return rows that share a term with the query, with the highest scores, and these, best first.

        Rows whose score is exactly 0 are missing: Qdrant does not count them as similar.
        """
        if not len(query.terms):
            return _nothing()
        weights = np.ascontiguousarray(query.weights, np.float32)
        body = {"query": {"indices": np.ascontiguousarray(query.terms), "values": weights}, "using": WEIGHTS}
        return _found(self._server, self._collection, body, limit, within)

    def scores(self, query: TermWeights, rows: Rows) -> Vectors:
        """Return the score of each of some rows, (m,) float32, 0 if it shares no term."""
        scores = np.zeros(len(rows), np.float32)
        for start in range(0, len(rows), _SCORED):
            some = rows[start : start + _SCORED]
            found, sums = self.nearest(query, len(some), within=Within(rows=some))
            order = np.argsort(found)
            places = np.searchsorted(found[order], some)
            held = np.isin(some, found)
            scores[start : start + _SCORED][held] = sums[order][places[held]]
        return scores

    def count(self, terms: Terms, limit: int, *, within: Within | None = None) -> int:
        """Return the number of rows that have one of the terms, `limit` at most."""
        if (conditions := _sharing(terms, within)) is None:
            return 0
        path = f"/collections/{self._collection}/points/count"
        return min(int(self._server.call("POST", path, body={"exact": True, **conditions})["count"]), limit)

    def matching(self, terms: Terms, limit: int, *, within: Within | None = None) -> Rows:
        """Return rows that have one of the terms, ascending, `limit` at most."""
        if (conditions := _sharing(terms, within)) is None or limit < 1:
            return _nothing()[0]
        body = {"limit": limit, "with_payload": False, "with_vector": False, **conditions}
        page = self._server.call("POST", f"/collections/{self._collection}/points/scroll", body=body)
        return np.sort(np.array([point["id"] for point in page["points"]], np.int64))


def _sharing(terms: Terms, within: Within | None) -> Mapping[str, Json] | None:
    """Return the condition that a row has one of some terms, beside others; None if no row can satisfy it."""
    shared = {"key": TERMS, "match": {"any": np.unique(terms).tolist()}}
    return where(within, shared) if len(terms) else None


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


def _stored(server: QdrantServer, collection: str, rows: Rows, name: str) -> Iterator[Json | None]:
    """Yield the vector of each row by that name; None if a row has none."""
    for start in range(0, len(rows), _READ):
        some = rows[start : start + _READ].tolist()
        body = {"ids": list(dict.fromkeys(some)), "with_payload": False, "with_vector": [name]}
        points = server.call("POST", f"/collections/{collection}/points", body=body)
        vectors = {point["id"]: point.get("vector") or {} for point in points}
        for row in some:
            if row not in vectors:
                raise _lost(collection, row)
            yield vectors[row].get(name)


def _places(found: Rows, rows: Rows, collection: str) -> Rows:
    """Return the place of each row among those that were found."""
    order = np.argsort(found, kind="stable")
    places = np.searchsorted(found[order], rows)
    inside = places < len(found)
    missing = ~inside
    missing[inside] = found[order][places[inside]] != rows[inside]
    if missing.any():
        raise _lost(collection, int(rows[missing][0]))
    return order[places]


def _nothing() -> tuple[Rows, Vectors]:
    return np.empty(0, np.int64), np.empty(0, np.float32)


def _lost(collection: str, row: int) -> IndexCorrupt:
    message = f"row {row} is missing in the collection {collection} of Qdrant"
    return IndexCorrupt(message, hint="run `retrieve engines push`")


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


def where(within: Within | None, *others: Json) -> Mapping[str, Json] | None:
    """Return the rows that a search may find, and other conditions, as the part `filter` of a request, or an empty one;
    None if no row satisfies the conditions."""
    must: list[Json] = list(others)
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
