"""Parts of a generation in OpenSearch, open for queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.engines import Part, Within
from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.contracts.values import Json
from retrieve_cli.engines.answers import reading
from retrieve_cli.engines.opensearch import documents
from retrieve_cli.engines.opensearch.server import Absent, Rejected, Server, corrupt
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Terms, Vectors

MOST_NEAREST = 10_000
"""Neighbours that the k-NN plugin returns at most."""
_MOST_CLAUSES = 1_000
"""Terms of one query; OpenSearch takes 1,024 clauses, of which filters are some."""
_ROWS_AT_ONCE = 2_000
"""Documents of one request that reads them."""
_ROUNDED = 1 + 2**-8
"""Quotient of a weight and its rank feature, at most: it keeps 9 significant bits and drops the others."""


class IndexReader:
    """Searches in one index, and documents read from it."""

    def __init__(self, server: Server, index: str) -> None:
        self.server = server
        self.index = index

    def hits(self, query: Json, size: int) -> tuple[Rows, Vectors]:
        """Return the rows with the highest scores and these, best first; equal ones in order of the rows."""
        body = {"query": query, "size": min(size, documents.WINDOW), "_source": False, "track_total_hits": False}
        hits = self._search(body, "hits.hits._id,hits.hits._score,timed_out")
        rows = np.array([int(hit["_id"]) for hit in hits], np.int64)
        scores = np.array([hit["_score"] for hit in hits], np.float64)
        order = np.lexsort((rows, -scores))
        return rows[order], scores[order].astype(np.float32)

    def every(self, query: Json) -> Rows:
        """Return all rows that satisfy a query, ascending, by pages: a generation does not change while it is read."""
        pages = [np.empty(0, np.int64)]
        body = {"query": query, "size": documents.WINDOW, "_source": False, "track_total_hits": False}
        body["sort"] = [{"row": "asc"}]
        while True:
            hits = self._search(body, "hits.hits.sort,timed_out")
            pages.append(np.array([hit["sort"][0] for hit in hits], np.int64))
            if len(hits) < documents.WINDOW:
                return np.concatenate(pages)
            body["search_after"] = hits[-1]["sort"]

    def exact(self, rows: Rows) -> list[str]:
        """Return the exact numbers of some rows, as they are stored."""
        found: list[str] = []
        parameters = {"_source": "exact", "realtime": "false", "filter_path": "docs.*"}
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            ids = [str(row) for row in rows[start : start + _ROWS_AT_ONCE].tolist()]
            answers = self._ask("_mget", {"ids": ids}, parameters).get("docs", [])
            by_id: Mapping[str, Json] = {answer["_id"]: answer.get("_source") for answer in answers}
            missing = next((row for row in ids if not by_id.get(row)), None)
            if missing is not None:
                raise corrupt(self.index, f"row {missing} is missing")
            found += [by_id[row]["exact"] for row in ids]
        return found

    def count(self, query: Json) -> int:
        """Return the number of rows that satisfy a query."""
        return int(self._ask("_count", {"query": query}, {})["count"])

    def _search(self, body: Json, wanted: str) -> list[Json]:
        """Return the hits of a search. An answer without some shards is a failure, not a short list."""
        answer = self._ask("_search", body, {"filter_path": wanted, "allow_partial_search_results": "false"})
        if answer.get("timed_out"):
            raise Unavailable(f"a search in {self.index} took too long", hint="check the load of the server")
        hits: list[Json] = answer.get("hits", {}).get("hits", [])
        return hits

    def _ask(self, action: str, body: Json, parameters: Mapping[str, str]) -> Json:
        try:
            return self.server.ask("POST", f"/{self.index}/{action}", body, params=parameters)
        except Absent as error:
            raise corrupt(self.index) from error
        except Rejected as error:
            hint = "run: retrieve doctor"
            raise Unavailable(f"OpenSearch rejects a query in {self.index}: {error}", hint=hint) from error


@reading("OpenSearch")
class OpensearchVectors:
    """A part with vectors, indexed by the k-NN plugin with Lucene's HNSW."""

    def __init__(self, reader: IndexReader, part: Part, *, ef_search: int) -> None:
        self._reader, self._server = reader, reader.server
        self._field = documents.Fields.of(part.name).vector
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
        return documents.read_vectors(self._reader.exact(rows), self._dim)

    def _scored(self, query: Vectors, restriction: Json) -> Json:
        """Return a query that scores all allowed rows without the graph."""
        parameters = {
            "field": self._field,
            "query_value": np.ascontiguousarray(query, np.float32),
            "space_type": "innerproduct",
        }
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
    """A part with term weights, as rank features: these keep 9 bits of a weight, and rows are read back exactly."""

    def __init__(self, reader: IndexReader, part: Part, *, lowered: bool) -> None:
        """`lowered` is True if some row has a weight of 0 or below."""
        self._reader, self._server = reader, reader.server
        self._field = documents.Fields.of(part.name).features
        self._lowered = lowered

    def nearest(self, query: TermWeights, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        heaviest = np.sort(np.argsort(-query.weights, kind="stable")[:_MOST_CLAUSES])
        terms, weights = query.terms[heaviest], query.weights[heaviest]
        if limit < 1 or not len(terms):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        clauses = {"should": self._clauses(terms, weights), "minimum_should_match": 1, **documents.conditions(within)}
        if not self._lowered:
            return self._reader.hits({"bool": clauses}, limit)
        return self._lowered_nearest(query, {"bool": clauses}, limit)

    def weights(self, rows: Rows, terms: Terms) -> Sequence[TermWeights]:
        kept = []
        for row in map(documents.read_weights, self._reader.exact(rows)):
            shared = np.isin(row.terms, terms)
            kept.append(TermWeights(row.terms[shared], row.weights[shared]))
        return kept

    def matching(self, terms: Terms, *, within: Within | None = None) -> Rows:
        found = np.empty(0, np.int64)
        for start in range(0, len(terms), _MOST_CLAUSES):
            piece = terms[start : start + _MOST_CLAUSES]
            restriction = documents.conditions(within)
            any_term = {"should": self._clauses(piece, np.ones(len(piece), np.float32)), "minimum_should_match": 1}
            restriction["filter"].append({"bool": any_term})
            rows = self._reader.every({"bool": restriction})
            found = rows if not len(found) else np.union1d(found, rows)
        return found

    def _clauses(self, terms: Terms, weights: Vectors) -> list[Json]:
        """Return clauses that add to a row's score its weight of each term times that of the query."""
        names = [documents.feature(term) for term in terms.tolist()]
        clauses: list[Json] = [
            {"rank_feature": {"field": f"{self._field}.{name}", "linear": {}, "boost": max(weight, 0.0)}}
            for name, weight in zip(names, weights.tolist(), strict=True)
        ]
        if self._lowered:
            clauses.append({"constant_score": {"filter": {"terms": {"lowered": names}}, "boost": 0.0}})
        return clauses

    def _lowered_nearest(self, query: TermWeights, search: Json, limit: int) -> tuple[Rows, Vectors]:
        """Return the best rows where weights may be below 0, which the engine does not add: its score of a row is an
        upper bound. The list is long enough if no row that follows could be better than its last one."""
        length = limit
        while True:
            length = min(2 * length, documents.WINDOW)
            rows, bounds = self._reader.hits(search, length)
            scores = _sums(query, self.weights(rows, query.terms))
            order = np.lexsort((rows, -scores))[:limit]
            complete = len(rows) < length or (len(order) == limit and bounds[-1] * _ROUNDED < scores[order[-1]])
            if complete or length == documents.WINDOW:
                return rows[order], scores[order]


def _sums(query: TermWeights, rows: Sequence[TermWeights]) -> Vectors:
    """Return the score of each row, (m,) float32."""
    asked = dict(zip(query.terms.tolist(), query.weights.tolist(), strict=True))
    sums = [
        sum(asked[term] * weight for term, weight in zip(row.terms.tolist(), row.weights.tolist(), strict=True))
        for row in rows
    ]
    return np.array(sums, np.float32)
