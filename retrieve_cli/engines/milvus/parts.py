"""Parts of a complete generation, open for queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts.engines import Within
from retrieve_cli.engines.milvus import entities
from retrieve_cli.engines.milvus.entities import ELSEWHERE, SPARSE, VECTOR, expression
from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from retrieve_cli.config.index_settings import MilvusSettings
    from retrieve_cli.contracts.engines import Part
    from retrieve_cli.contracts.models import TermWeights
    from retrieve_cli.contracts.values import Rows, Terms, Vectors
    from retrieve_cli.engines.milvus.entities import MilvusBlocks
    from retrieve_cli.engines.milvus.server import MilvusServer

_MOST = 16_384
"""The most results of one search or query in Milvus."""
_LARGEST_EF = 32_768
_AT_ONCE = 1000
"""Rows of one request by number: Milvus parses their list in about 20 ms."""
_PAGE_BYTES = 16 * 2**20
"""Bytes of vectors in one answer; a server sends 64 MiB at most."""
WEIGHTS = "weights"
"""Kind of the blocks with weights that are too many for a VARCHAR."""


class _Collection:
    """Searches and queries of the collection of a part.

    They read with the consistency level Bounded: with Strong, Milvus waits for its next clock tick, 0.2 s per search.
    A complete generation does not change, and was counted with Strong when it was opened.
    """

    def __init__(self, server: MilvusServer, collection: str, part: Part) -> None:
        self._server = server
        self._name = collection
        self._part = part

    def search(
        self, field: str, query: Any, limit: int, *, within: Within | None, params: Mapping[str, float]
    ) -> tuple[Rows, Vectors]:
        """Return the best rows, and their scores, best first and by row among equals."""
        windows = [None] if limit <= _MOST else list(self.windows(_MOST))
        rows, scores = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for window in windows:
            condition = expression(within, window)
            if condition is None or limit < 1 or not self._part.rows:
                continue
            hits = self._server.ask(
                "search",
                self._name,
                data=[query],
                anns_field=field,
                limit=min(limit, _MOST),
                filter=condition,
                output_fields=["row"],  # without any, Milvus Lite sends all
                search_params={"metric_type": "IP", "params": dict(params)},
                consistency_level="Bounded",
            )[0]
            rows.append(np.array(hits.ids, np.int64))
            scores.append(np.array(hits.distances, np.float32))
        return best(np.concatenate(rows), np.concatenate(scores), limit)

    def by_row(self, rows: Rows, field: str) -> Iterator[tuple[Rows, list[Any]]]:
        """Yield row numbers and values of a field, for some rows in any order, page by page.

        Raises:
            IndexCorrupt: a row is missing.
        """
        wanted = np.unique(rows)
        step = min(_AT_ONCE, self.page)
        for start in range(0, len(wanted), step):
            numbers = wanted[start : start + step]
            found, values = self.query(f"row in {numbers.tolist()}", field)
            if len(found) != len(numbers):
                missing = np.setdiff1d(numbers, found)[:3].tolist()
                message = f"the Milvus collection {self._name} lacks rows: {missing}"
                raise IndexCorrupt(message, hint="run: retrieve engines push")
            yield found, values

    def query(self, condition: str, field: str) -> tuple[Rows, list[Any]]:
        """Return the rows that satisfy a condition, and their values of a field."""
        named: dict[str, Any] = {"output_fields": ["row", field], "consistency_level": "Bounded"}
        answer = self._server.ask("query", self._name, filter=condition, **named)
        return np.array([entity["row"] for entity in answer], np.int64), [entity[field] for entity in answer]

    def count(self, condition: str) -> int:
        """Return the number of rows that satisfy a condition."""
        named: dict[str, Any] = {"output_fields": ["count(*)"], "consistency_level": "Bounded"}
        return int(self._server.ask("query", self._name, filter=condition, **named)[0]["count(*)"])

    def windows(self, size: int) -> Iterator[range]:
        """Yield windows that cover all rows."""
        for first in range(0, self._part.rows, size):
            yield range(first, min(first + size, self._part.rows))

    @property
    def page(self) -> int:
        """Rows of one answer with vectors."""
        return max(1, min(_MOST, _PAGE_BYTES // (4 * (self._part.dim or 1))))


class MilvusVectors:
    """A part with vectors."""

    def __init__(self, server: MilvusServer, collection: str, part: Part, *, settings: MilvusSettings) -> None:
        self._collection = _Collection(server, collection, part)
        self._dim = part.dim or 0
        self._settings = settings

    def nearest(
        self, query: Vectors, limit: int, *, within: Within | None = None, exact: bool = False
    ) -> tuple[Rows, Vectors]:
        """Return rows with the highest inner products, and these, best first.

        With an HNSW index Milvus has no exact search: then all vectors that may be found are read page by page and
        compared here, 1.3 s for 20,000 rows of 384 numbers. `milvus.index: flat` makes every search exact.
        """
        if exact and self._settings.index != "flat":
            return self._compared(query, limit, within=within)
        vector = entities.padded(query.astype(np.float32).reshape(1, -1))[0]
        return self._collection.search(VECTOR, vector, limit, within=within, params=self._params(limit))

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        """Return the inner product with each of some rows, (m,) float32, by searches among these rows."""
        wanted = np.unique(rows)
        values = np.full(len(wanted), np.nan, np.float32)
        vector = entities.padded(query.astype(np.float32).reshape(1, -1))[0]
        for start in range(0, len(wanted), _AT_ONCE):
            numbers = wanted[start : start + _AT_ONCE]
            found, scores = self._collection.search(
                VECTOR, vector, len(numbers), within=Within(rows=numbers), params=self._params(len(numbers))
            )
            values[np.searchsorted(wanted, found)] = scores
        if len(unseen := wanted[np.isnan(values)]):
            # A search of the graph may miss rows although they are the only ones allowed.
            values[np.isnan(values)] = np.einsum("ij,j->i", self.vectors(unseen), query.astype(np.float32))
        return values[np.searchsorted(wanted, rows)]

    def vectors(self, rows: Rows) -> Vectors:
        """Return stored vectors, (m, dim) float32. Raises: IndexCorrupt: a row is missing."""
        wanted = np.unique(rows)
        vectors = np.empty((len(wanted), self._dim), np.float32)
        for numbers, values in self._collection.by_row(wanted, VECTOR):
            vectors[np.searchsorted(wanted, numbers)] = np.array(values, np.float32)[:, : self._dim]
        return vectors[np.searchsorted(wanted, rows)]

    def _compared(self, query: Vectors, limit: int, *, within: Within | None) -> tuple[Rows, Vectors]:
        rows, scores = np.empty(0, np.int64), np.empty(0, np.float32)
        for window in self._collection.windows(self._collection.page):
            condition = expression(within, window)
            if condition is None:
                break
            numbers, values = self._collection.query(condition, VECTOR)
            if len(numbers):
                vectors = np.array(values, np.float32)[:, : self._dim]
                inner = np.einsum("ij,j->i", vectors, query.astype(np.float32))
                rows, scores = best(np.concatenate([rows, numbers]), np.concatenate([scores, inner]), limit)
        return rows, scores

    def _params(self, limit: int) -> Mapping[str, float]:
        if self._settings.index == "flat":
            return {}
        return {"ef": min(max(self._settings.hnsw_ef_search, limit), _LARGEST_EF)}


class MilvusTerms:
    """A part with term weights."""

    def __init__(
        self, server: MilvusServer, collection: str, part: Part, *, blocks: MilvusBlocks, signed: bool, counted: bool
    ) -> None:
        self._collection = _Collection(server, collection, part)
        self._part = part
        self._blocks = blocks
        self._signed = signed
        """True if rows have weights that the sparse vectors of Milvus cannot hold: 0, or below."""
        self._counted = counted
        """True if rows have their terms as a field, too."""

    def nearest(self, query: TermWeights, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        """Return rows that share a term with the query, with the highest scores, and these, best first.

        If rows have weights of 0 or below, for which the engine has very small ones, its scores are too high. Then
        scores are computed here from the stored weights, of more and more rows, until no other row can be among the
        best.
        """
        if not len(query.terms) or limit < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        vector = entities.sparse_of(query)
        if not self._signed:
            return self._collection.search(SPARSE, vector, limit, within=within, params=_EVERY_TERM)
        asked = 2 * limit
        while True:
            rows, bounds = self._collection.search(SPARSE, vector, asked, within=within, params=_EVERY_TERM)
            found, scores = best(rows, self._scores(query, rows), limit)
            if len(rows) < asked or (len(scores) == limit and scores[-1] > bounds[-1] * _ROUNDED):
                return found, scores
            asked *= 4

    def weights(self, rows: Rows, terms: Terms) -> Sequence[TermWeights]:  # noqa: ARG002  all come in one VARCHAR
        """Return all stored weights of some rows, to the bit, terms ascending. Raises: IndexCorrupt: a row is missing,
        or differs from the stored one."""
        stored: dict[int, TermWeights] = {}
        for numbers, values in self._collection.by_row(rows, "weights"):
            for row, value in zip(numbers.tolist(), values, strict=True):
                stored[row] = self._read(row, value)
        return [stored[row] for row in rows.tolist()]

    def scores(self, query: TermWeights, rows: Rows) -> Vectors:
        """Return the score of each of some rows, (m,) float32, 0 if it shares no term."""
        if self._signed or not len(query.terms):
            return self._scores(query, rows)
        wanted = np.unique(rows)
        sums = np.zeros(len(wanted), np.float32)
        for start in range(0, len(wanted), _AT_ONCE):
            numbers = wanted[start : start + _AT_ONCE]
            found, scores = self.nearest(query, len(numbers), within=Within(rows=numbers))
            sums[np.searchsorted(wanted, found)] = scores
        return sums[np.searchsorted(wanted, rows)]

    def count(self, terms: Terms, limit: int, *, within: Within | None = None) -> int:
        """Return the number of rows that have one of the terms, `limit` at most."""
        if not self._counted:  # an earlier release sent it
            return len(self.matching(terms, limit, within=within))
        condition = expression(within)
        if condition is None or not len(terms):
            return 0
        shared = f"array_contains_any({entities.TERMS}, {np.unique(terms).tolist()})"
        return min(self._collection.count(f"({condition}) and {shared}" if condition else shared), limit)

    def matching(self, terms: Terms, limit: int, *, within: Within | None = None) -> Rows:
        """Return rows that have one of the terms, ascending, `limit` at most.

        A search of sparse vectors is exact, and returns only rows that share a term.
        """
        if not len(terms) or not self._part.rows:
            return np.empty(0, np.int64)
        query = {int(term): 1.0 for term in terms}
        rows, _ = self._collection.search(SPARSE, query, min(limit, _MOST), within=within, params=_EVERY_TERM)
        return np.sort(rows)

    def _scores(self, query: TermWeights, rows: Rows) -> Vectors:
        asked = dict(zip(query.terms.tolist(), query.weights.tolist(), strict=True))
        stored = [zip(row.terms.tolist(), row.weights.tolist(), strict=True) for row in self.weights(rows, query.terms)]
        return np.array([sum(asked.get(term, 0.0) * weight for term, weight in row) for row in stored], np.float32)

    def _read(self, row: int, value: str) -> TermWeights:
        try:
            name = self._part.name
            data = self._blocks.get(WEIGHTS, name, [row]).get(row) if value == ELSEWHERE else entities.read(value)
            if data is not None:
                return entities.unpacked(data)
        except ValueError:
            pass
        message = f"weights of row {row} in Milvus are damaged"
        raise IndexCorrupt(message, hint="run: retrieve engines push")


_EVERY_TERM = {"drop_ratio_search": 0.0}
"""No term of a query is skipped, however small its weight."""
_ROUNDED = 1.0 + 1e-4
"""The engine sums in float32."""


def best(rows: Rows, scores: Vectors, limit: int) -> tuple[Rows, Vectors]:
    """Return the `limit` rows with the highest scores, by row among equals, and these."""
    order = np.lexsort((rows, -scores))[:limit]
    return rows[order], scores[order]
