"""Parts of a generation in OpenSearch, open for queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.engines import Part, Within
from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.contracts.values import Json
from retrieve_cli.engines.collections import reading
from retrieve_cli.engines.opensearch import documents
from retrieve_cli.engines.opensearch.server import OpensearchServer, RequestRejected, ResourceMissing, corrupt
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Terms, Vectors

MOST_NEAREST = 10_000
"""Neighbours that the k-NN plugin returns at most."""
_MOST_CLAUSES = 1_000
"""Terms of one query; OpenSearch takes 1,024 clauses, of which filters are some."""
_ROWS_AT_ONCE = 2_000
"""Documents of one request that reads them."""
_ROUNDED = (1 + 2**-8) * (1 + 1e-6)
"""Quotient of a score and the server's sum of rank features, at most: they keep 9 significant bits of a weight and drop
the others."""
_MORE = 32
"""Least number of rows that a list of terms is longer than its limit, as the server's order is not quite ours."""


class IndexReader:
    """Searches in one index, and documents read from it."""

    def __init__(self, server: OpensearchServer, index: str) -> None:
        self.server = server
        self.index = index

    def hits(self, query: Json, size: int) -> tuple[Rows, Vectors]:
        """Return the rows with the highest scores and these, best first; equal ones in order of the rows."""
        body = {"query": query, "size": min(size, documents.WINDOW), "_source": False, "track_total_hits": False}
        hits = self._search(body, "hits.hits._id,hits.hits._score")
        rows = np.array([int(hit["_id"]) for hit in hits], np.int64)
        scores = np.array([hit["_score"] for hit in hits], np.float64)
        order = np.lexsort((rows, -scores))
        return rows[order], scores[order].astype(np.float32)

    def sources(self, query: Json, size: int, fields: Sequence[str]) -> list[tuple[int, Json]]:
        """Return the rows with the highest scores, best first, each with some fields of its document."""
        body = {"query": query, "size": min(size, documents.WINDOW), "_source": fields, "track_total_hits": False}
        hits = self._search(body, "hits.hits._id,hits.hits._source")
        return [(int(hit["_id"]), hit.get("_source", {})) for hit in hits]

    def rows(self, query: Json, size: int) -> Rows:
        """Return the first rows that satisfy a query, ascending, from the columns of the index."""
        body = {"query": query, "size": size, "track_total_hits": False, "sort": [{"row": "asc"}], "_source": False}
        hits = self._search({**body, "stored_fields": "_none_"}, "hits.hits.sort")
        return np.array([hit["sort"][0] for hit in hits], np.int64)

    def count(self, query: Json, limit: int | None = None) -> int:
        """Return the number of rows that satisfy a query, or `limit` if there are as many or more."""
        body = {"query": query, "size": 0, "track_total_hits": limit or True}
        count = int(self._answer(body, "hits.total")["total"]["value"])
        return count if limit is None else min(count, limit)

    def stored(self, rows: Rows, field: str) -> list[Json]:
        """Return the documents of some rows, with a field that has their exact numbers."""
        found: list[Json] = []
        parameters = {"_source": f"exact,{field}", "realtime": "false", "filter_path": "docs.*"}
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            ids = [str(row) for row in rows[start : start + _ROWS_AT_ONCE].tolist()]
            answers = self._ask("_mget", {"ids": ids}, parameters).get("docs", [])
            by_id: Mapping[str, Json] = {answer["_id"]: answer for answer in answers if answer["found"]}
            if missing := [row for row in ids if row not in by_id]:
                raise corrupt(self.index, f"row {missing[0]} is missing")
            found += [by_id[row].get("_source", {}) for row in ids]
        return found

    def _search(self, body: Json, wanted: str) -> list[Json]:
        hits: list[Json] = self._answer(body, wanted).get("hits", [])
        return hits

    def _answer(self, body: Json, wanted: str) -> Json:
        """Return the hits of a search. An answer without some shards is a failure, not a short list."""
        parameters = {"filter_path": f"{wanted},timed_out", "allow_partial_search_results": "false"}
        answer = self._ask("_search", body, parameters)
        if answer.get("timed_out"):
            raise Unavailable(f"a search in {self.index} took too long", hint="check the load of the server")
        return answer.get("hits", {})

    def _ask(self, action: str, body: Json, parameters: Mapping[str, str]) -> Json:
        try:
            return self.server.ask("POST", f"/{self.index}/{action}", body, params=parameters)
        except ResourceMissing as error:
            raise corrupt(self.index) from error
        except RequestRejected as error:
            hint = "run: retrieve doctor"
            raise Unavailable(f"OpenSearch rejects a query in {self.index}: {error}", hint=hint) from error


@reading("OpenSearch")
class OpensearchVectors:
    """A part with vectors, indexed by the k-NN plugin with Lucene's HNSW."""

    def __init__(self, reader: IndexReader, part: Part, *, ef_search: int) -> None:
        self._reader, self._server = reader, reader.server
        self._field = documents.PartFields.of(part.name).vector
        self._dim = part.dim or 0
        self._ef_search = ef_search

    def nearest(
        self, query: Vectors, limit: int, *, within: Within | None = None, exact: bool = False
    ) -> tuple[Rows, Vectors]:
        if limit < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        restriction = documents.conditions(within)
        if exact:
            return self._products(self._scored(query, restriction), limit)
        limit = min(limit, MOST_NEAREST)
        clause = {
            "vector": np.ascontiguousarray(query, np.float32),
            "k": limit,
            "method_parameters": {"ef_search": max(limit, self._ef_search)},
        }
        if any(restriction.values()):
            clause["filter"] = {"bool": restriction}
        return self._products({"knn": {self._field: clause}}, limit)

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), documents.WINDOW):
            piece = rows[start : start + documents.WINDOW]
            restriction = documents.conditions(Within(rows=np.sort(piece)))
            hits, products = self._products(self._scored(query, restriction), len(piece))
            order = np.argsort(hits)
            places = np.searchsorted(hits[order], piece)
            found = places < len(hits)
            if not found.all() or not np.array_equal(hits[order][places], piece):
                raise corrupt(self._reader.index, "rows are missing")
            scores[start : start + len(piece)] = products[order][places]
        return scores

    def vectors(self, rows: Rows) -> Vectors:
        return documents.read_vectors([each["exact"] for each in self._reader.stored(rows, "exact")], self._dim)

    def _scored(self, query: Vectors, restriction: Json) -> Json:
        """Return a query that scores all allowed rows without the graph."""
        vector = np.ascontiguousarray(query, np.float32)
        parameters = {"field": self._field, "query_value": vector, "space_type": "innerproduct"}
        script = {"lang": "knn", "source": "knn_score", "params": parameters}
        return {"script_score": {"query": {"bool": restriction}, "script": script}}

    def _products(self, query: Json, limit: int) -> tuple[Rows, Vectors]:
        """Return rows and inner products. Scores of OpenSearch are above 0: 1 + p for a product p of at least 0, and
        1 / (1 - p) for others."""
        rows, scores = self._reader.hits(query, limit)
        exact = scores.astype(np.float64)
        products = np.where(exact >= 1, exact - 1, 1 - 1 / np.maximum(exact, np.finfo(np.float32).tiny))
        return rows, products.astype(np.float32)


@reading("OpenSearch")
class OpensearchTerms:
    """A part with term weights. Rank features, which keep 9 bits of a weight, list the rows; the same answer has the
    exact weights of the query's terms, of which their scores are computed here."""

    def __init__(self, reader: IndexReader, part: Part, *, lowered: bool) -> None:
        """`lowered` is True if some row has a weight of 0 or below."""
        self._reader, self._server = reader, reader.server
        self._field = documents.PartFields.of(part.name).features
        self._lowered = lowered

    def nearest(self, query: TermWeights, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        heaviest = np.sort(np.argsort(-query.weights, kind="stable")[:_MOST_CLAUSES])
        if limit < 1 or not len(heaviest):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        should = self._clauses(query.terms[heaviest], query.weights[heaviest])
        search = {"bool": {"should": should, "minimum_should_match": 1, **documents.conditions(within)}}
        # A list is asked for once more if a row beyond it may be better than one of it, but not without end: if so many
        # rows are that close to one another, it matters little which are listed. Weights below 0 may matter much.
        length = limit + max(limit // 8, _MORE)
        longest = documents.WINDOW if self._lowered else min(2 * length, documents.WINDOW)
        while True:
            length = min(length, longest)
            found = self._reader.sources(search, length, _fields(query))
            rows, scores = _scored(query, found)
            order = np.lexsort((rows, -scores))[:limit]
            if len(found) < length or length == longest or self._bound(query, found[-1][1]) <= scores[order[-1]]:
                return rows[order], scores[order]
            length *= 2

    def scores(self, query: TermWeights, rows: Rows) -> Vectors:
        scores = np.zeros(len(rows), np.float32)
        for start in range(0, len(rows), documents.WINDOW):
            piece = rows[start : start + documents.WINDOW]
            search = self._any(query.terms, Within(rows=np.sort(piece)))
            some, theirs = _scored(query, self._reader.sources(search, len(piece), _fields(query)))
            found = dict(zip(some.tolist(), theirs.tolist(), strict=True))
            scores[start : start + len(piece)] = [found.get(row, 0.0) for row in piece.tolist()]
        return scores

    def count(self, terms: Terms, limit: int, *, within: Within | None = None) -> int:
        if limit < 1 or not len(terms):
            return 0
        if len(terms) > _MOST_CLAUSES:
            return len(self.matching(terms, limit, within=within))
        return self._reader.count(self._any(terms, within), limit)

    def matching(self, terms: Terms, limit: int, *, within: Within | None = None) -> Rows:
        found = np.empty(0, np.int64)
        for start in range(0, len(terms) if limit > 0 else 0, _MOST_CLAUSES):
            search = self._any(terms[start : start + _MOST_CLAUSES], within)
            rows = self._reader.rows(search, min(limit, documents.WINDOW))
            found = np.union1d(found, rows)[:limit] if len(found) else rows
        return found

    def _any(self, terms: Terms, within: Within | None) -> Json:
        """Return a query, without scores, for rows of which those have one of some terms that do, if these are not too
        many."""
        restriction = documents.conditions(within)
        if len(terms) > _MOST_CLAUSES:
            return {"bool": restriction}
        should = self._clauses(terms, np.ones(len(terms), np.float32))
        restriction["filter"].append({"bool": {"should": should, "minimum_should_match": 1}})
        return {"bool": restriction}

    def _clauses(self, terms: Terms, weights: Vectors) -> list[Json]:
        """Return clauses that add, for each term, the row's weight times the query's weight to the row's score."""
        names = [documents.feature(term) for term in terms.tolist()]
        clauses: list[Json] = [
            {"rank_feature": {"field": f"{self._field}.{name}", "linear": {}, "boost": max(weight, 0.0)}}
            for name, weight in zip(names, weights.tolist(), strict=True)
        ]
        if self._lowered:
            clauses.append({"constant_score": {"filter": {"terms": {"lowered": names}}, "boost": 0.0}})
        return clauses

    def _bound(self, query: TermWeights, last: Json) -> float:
        """Return the highest score that a row may have which the server lists after another: it adds the products of
        weights above 0, of which it has 9 bits."""
        if self._lowered and (query.weights < 0).any():
            return float("inf")
        stored = documents.stored_weights(last)
        weights = [stored.get(documents.feature(term), 0.0) for term in query.terms.tolist()]
        features = (np.maximum(np.array(weights, np.float32), 0).view(np.int32) & ~0x7FFF).view(np.float32)
        return float(np.dot(features.astype(np.float64), np.maximum(query.weights, 0))) * _ROUNDED


def _fields(query: TermWeights) -> list[str]:
    """Return the fields with the exact weights of a query's terms."""
    if len(query.terms) > _MOST_CLAUSES:
        return ["weights"]
    return [f"weights.{documents.feature(term)}" for term in query.terms.tolist()]


def _scored(query: TermWeights, found: Sequence[tuple[int, Json]]) -> tuple[Rows, Vectors]:
    asked = dict(zip(map(documents.feature, query.terms.tolist()), query.weights.tolist(), strict=True))
    scores = [
        sum(asked.get(name, 0.0) * weight for name, weight in documents.stored_weights(source).items())
        for _, source in found
    ]
    return np.array([row for row, _ in found], np.int64), np.array(scores, np.float32)
