"""Parts of a generation in OpenSearch, open for queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts.engines import Within
from retrieve_cli.contracts.values import Json
from retrieve_cli.engines.collections import reading
from retrieve_cli.engines.opensearch import documents
from retrieve_cli.engines.opensearch.server import OpensearchServer, RequestRejected, ResourceMissing, corrupt
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Vectors

MOST_NEAREST = 10_000
"""Hits of an answer at most, by default and of the k-NN plugin."""
_MOST_CLAUSES = 1_000
"""Terms of one query; OpenSearch takes 1,024 clauses, of which filters are some."""


class IndexReader:
    """Searches in one index."""

    def __init__(self, server: OpensearchServer, index: str) -> None:
        self.server = server
        self.index = index

    def hits(self, query: Json, size: int) -> tuple[Rows, Vectors]:
        """Return the rows with the highest scores and these, best first; equal ones in order of the rows."""
        body = {"query": query, "size": min(size, MOST_NEAREST), "_source": False, "track_total_hits": False}
        hits = self._answer(body, "hits.hits._id,hits.hits._score").get("hits", [])
        rows = np.array([int(hit["_id"]) for hit in hits], np.int64)
        scores = np.array([hit["_score"] for hit in hits], np.float64)
        order = np.lexsort((rows, -scores))
        return rows[order], scores[order].astype(np.float32)

    def count(self) -> int:
        """Return the number of rows."""
        body = {"query": {"match_all": {}}, "size": 0, "track_total_hits": True}
        return int(self._answer(body, "hits.total")["total"]["value"])

    def _answer(self, body: Json, wanted: str) -> Json:
        """Return the hits of a search. An answer without some shards is a failure, not a short list."""
        parameters = {"filter_path": f"{wanted},timed_out", "allow_partial_search_results": "false"}
        try:
            answer = self.server.ask("POST", f"/{self.index}/_search", body, params=parameters)
        except ResourceMissing as error:
            raise corrupt(self.index) from error
        except RequestRejected as error:
            hint = "run: retrieve doctor"
            raise Unavailable(f"OpenSearch rejects a query in {self.index}: {error}", hint=hint) from error
        if answer.get("timed_out"):
            raise Unavailable(f"a search in {self.index} took too long", hint="check the load of the server")
        return answer.get("hits", {})


@reading("OpenSearch")
class OpensearchVectors:
    """A part with vectors, indexed by the k-NN plugin with Lucene's HNSW."""

    def __init__(self, reader: IndexReader, *, ef_search: int) -> None:
        self._reader, self._server = reader, reader.server
        self._ef_search = ef_search

    def nearest(self, query: Any, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        """Return the nearest rows and their inner products."""
        if limit < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        restriction = documents.conditions(within)
        limit = min(limit, MOST_NEAREST)
        clause = {
            "vector": np.ascontiguousarray(query, np.float32),
            "k": limit,
            "method_parameters": {"ef_search": max(limit, self._ef_search)},
        }
        if any(restriction.values()):
            clause["filter"] = {"bool": restriction}
        return self._products({"knn": {documents.VECTOR: clause}}, limit)

    def _products(self, query: Json, limit: int) -> tuple[Rows, Vectors]:
        """Return rows and inner products. Scores of OpenSearch are above 0: 1 + p for a product p of at least 0, and
        1 / (1 - p) for others."""
        rows, scores = self._reader.hits(query, limit)
        exact = scores.astype(np.float64)
        products = np.where(exact >= 1, exact - 1, 1 - 1 / np.maximum(exact, np.finfo(np.float32).tiny))
        return rows, products.astype(np.float32)


@reading("OpenSearch")
class OpensearchTerms:
    """A part with term weights, as rank features, of which the server keeps 9 significant bits."""

    def __init__(self, reader: IndexReader) -> None:
        self._reader, self._server = reader, reader.server

    def nearest(self, query: Any, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        """Return rows that share a term with the query, with the highest scores, and these, best first. Terms that
        weigh 0 or less are ignored."""
        heaviest = np.argsort(-query.weights, kind="stable")[:_MOST_CLAUSES]
        pairs = zip(query.terms[heaviest].tolist(), query.weights[heaviest].tolist(), strict=True)
        weights = {documents.feature(term): weight for term, weight in pairs if weight > 0}
        should = [
            {"rank_feature": {"field": f"{documents.FEATURES}.{name}", "linear": {}, "boost": weight}}
            for name, weight in weights.items()
        ]
        if limit < 1 or not should:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        search = {"bool": {"should": should, "minimum_should_match": 1, **documents.conditions(within)}}
        return self._reader.hits(search, limit)
