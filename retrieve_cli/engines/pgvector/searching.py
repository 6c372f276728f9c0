"""Parts of a generation in PostgreSQL: searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.config.index_settings import HNSW_EF_SEARCH
from retrieve_cli.contracts.engines import Part, Within
from retrieve_cli.engines.pgvector import wire
from retrieve_cli.engines.pgvector.building import IndexParameters, VectorIndex, indexed, vector_index
from retrieve_cli.engines.pgvector.connections import Connections, statement
from retrieve_cli.engines.pgvector.tables import Tables, identifier

if TYPE_CHECKING:
    from psycopg.sql import Composed

    from retrieve_cli.contracts.values import Rows, Vectors

_MOST_EF = 1000
_SCANNED = 40_000
"""Rows that a filtered search visits before it ends with fewer than were asked for."""
_SORTING = {"work_mem": "64MB"}


class VectorTable:
    """A part with vectors."""

    def __init__(self, connections: Connections, tables: Tables, part: Part, *, index: IndexParameters) -> None:
        self._connections = connections
        self._table = tables.rows(part)
        self._dim = part.dim or 0
        self._index = None if index.settings.index == "none" else vector_index(connections, tables, part)
        self._extension = index.extension
        self._ef_search = HNSW_EF_SEARCH
        self._vector = identifier(index.extension, "vector")
        self._product = statement("OPERATOR({schema}.<#>)", schema=identifier(index.extension))

    def nearest(self, query: Any, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        """Return rows with the highest inner products, and these. Exact if rows are listed."""
        within = within or Within()
        condition, values = _condition(within)
        index = None if within.rows is not None else self._index
        template = statement(
            'SELECT "row", -(embedding {product} {query}) AS score FROM {table} WHERE {condition}'
            " ORDER BY {order} LIMIT %(limit)s",
            product=self._product,
            query=self._bound("vector"),
            table=self._table,
            condition=condition,
            order=statement('score DESC, "row"') if index is None else self._distance(index),
        )
        settings = {
            **_SORTING,
            "hnsw.ef_search": str(min(max(self._ef_search, limit), _MOST_EF)),
            "hnsw.iterative_scan": "relaxed_order",
            "hnsw.max_scan_tuples": str(max(_SCANNED, 20 * limit)),
        }
        vector = wire.vectors(query[np.newaxis])[0]
        return _scored(self._connections, template, {**values, "query": vector, "limit": limit}, settings)

    def _bound(self, kind: str) -> Composed:
        """Return the place of the query in a statement, as a vector or shortened for the index."""
        vector = statement("%(query)b::{vector}", vector=self._vector)
        if kind == "vector":
            return vector
        half = identifier(self._extension, "halfvec")
        return statement("({vector})::{half}", vector=vector, half=half)

    def _distance(self, index: VectorIndex) -> Composed:
        """Return the expression that the index is ordered by: not the score, so that an exact search cannot use it."""
        operator = "<=>" if index.metric == "cosine" else "<#>"
        return statement(
            f"({{expression}}) OPERATOR({{schema}}.{operator}) {{query}}",
            expression=indexed(index.type, self._dim, extension=self._extension),
            schema=identifier(self._extension),
            query=self._bound(index.type),
        )


def _condition(within: Within) -> tuple[Composed, dict[str, Any]]:
    """Return a condition on rows of a part, and its values.

    A row has a digest of each pair of a field and a value, and conditions compare digests. So names and values may be
    any text, and nothing of them is in the statement.
    """
    from psycopg import sql

    texts: list[Composed] = [statement("true")]
    values: dict[str, Any] = {}
    if within.rows is not None:
        texts.append(statement('"row" = ANY(%(rows)b::integer[])'))
        values["rows"] = wire.integers(within.rows)
    for place, condition in enumerate(within.conditions):
        name = f"facts_{place}"
        values[name] = wire.uuids([wire.digest(condition.field, value) for value in condition.values])
        overlap = statement("facts && {facts}::uuid[]", facts=sql.Placeholder(name, format="b"))
        texts.append(statement("NOT ({overlap})", overlap=overlap) if condition.negated else overlap)
    return sql.SQL(" AND ").join(texts), values


def _scored(
    connections: Connections, template: Composed, values: Mapping[str, Any], settings: Mapping[str, str]
) -> tuple[Rows, Vectors]:
    """Return the rows and scores of a query, best first. They come as two arrays, for speed."""
    text = statement(
        'SELECT array_send(array_agg("row")), array_send(array_agg(score::real)) FROM ({template}) AS scored',
        template=template,
    )
    [[rows, scores]] = connections.query(text, values, settings=settings)
    found, products = wire.to_integers(rows).astype(np.int64), wire.to_reals(scores)
    order = np.lexsort((found, -products))
    return found[order], products[order]
