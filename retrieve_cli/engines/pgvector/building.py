"""Indexes of a generation's tables, built when all rows are there: one pass instead of an update for each row.

Views over the current generation, by which people and other programs find it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.config.index_settings import HNSW_EF_CONSTRUCTION, HNSW_M
from retrieve_cli.contracts.engines import Part
from retrieve_cli.engines.pgvector.connections import Connections, configure, package, statement
from retrieve_cli.engines.pgvector.tables import Tables, identifier, labels_table, number, rows_table

if TYPE_CHECKING:
    from psycopg.sql import Composed, Identifier

    from retrieve_cli.config.index_settings import PgvectorSettings
    from retrieve_cli.engines.pgvector.connections import Connection


_LONGEST = {"vector": 2000, "halfvec": 4000}
"""The most numbers of a vector that an HNSW index takes, by the type of its numbers."""
_BUILDING = {"maintenance_work_mem": "1GB", "max_parallel_maintenance_workers": "2"}
"""Memory of the server for building an index, and its parallel workers."""


class IndexParameters(NamedTuple):
    """Parameters of indexes over vectors."""

    settings: PgvectorSettings
    extension: str
    """Schema of the extension."""

    def type(self, dim: int) -> str | None:
        """Return the type of the numbers in the index over vectors of this length: `vector` for float32, `halfvec` for
        float16 (tables keep float32); None if there is no index: every search scans all rows, and is exact."""
        if self.settings.index == "none" or dim > _LONGEST["halfvec"]:
            return None
        return "halfvec" if dim > _LONGEST["vector"] else self.settings.type


class VectorIndex(NamedTuple):
    """Index over the vectors of a part, as the catalog of the database describes it."""

    type: str
    """Type of its numbers: `vector` or `halfvec`."""
    metric: str
    """`cosine`; or `ip`, inner product: a vector does not have length 1."""


def vector_index(connections: Connections, tables: Tables, part: Part) -> VectorIndex | None:
    """Return the index over the vectors of a part; None without one."""
    text = statement(
        "SELECT o.opcname::text FROM pg_index AS i JOIN pg_opclass AS o ON o.oid = i.indclass[0]"
        " WHERE i.indexrelid = to_regclass(%(name)s)"
    )
    found = connections.query(text, {"name": f"{tables.prefix}_{tables.generation}.{rows_table(part)}_hnsw"})
    return VectorIndex(*str(found[0][0]).split("_")[:2]) if found else None


def indexed(kind: str | None, dim: int, *, extension: str) -> Composed:
    """Return the expression that an index is over: the column, or the column with shorter numbers."""
    if kind != "halfvec":
        return statement("embedding")
    return statement("embedding::{half}({dim})", half=identifier(extension, "halfvec"), dim=number(dim))


def build(connections: Connections, tables: Tables, parts: Sequence[Part], index: IndexParameters) -> None:
    """Build all indexes."""
    for part in parts:
        table, name = tables.rows(part), rows_table(part)
        # The views join vectors with texts by the key.
        indexes = [_plain(table, name, "gin", "facts"), _plain(table, name, "hash", "key")]
        if part.dim and index.type(part.dim):
            metric = "cosine" if _of_length_1(connections, table, extension=index.extension) else "ip"
            indexes.append(_hnsw(table, name, part.dim, index, metric=metric))
        _build(connections, indexes)
        connections.write(partial(_analyze, table=table), limited=False)
    for name in sorted({labels_table(part) for part in parts}):
        table = tables.table(name)
        # A hash, for a B-tree has a longest text.
        ids = [_plain(table, name, "hash", column) for column in ("document_id", "id")]
        _build(connections, ids)
        connections.write(partial(_analyze, table=table), limited=False)


def _plain(table: Identifier, name: str, method: str, column: str) -> Composed:
    return statement(
        "CREATE INDEX {name} ON {table} USING {method} ({column})",
        name=identifier(f"{name}_{column}"),
        table=table,
        method=identifier(method),
        column=identifier(column),
    )


def _of_length_1(connections: Connections, table: Identifier, *, extension: str) -> bool:
    """Return True if all vectors have length 1: then the order by cosine is that by inner product."""
    text = "SELECT bool_and(abs({norm}(embedding) - 1) < 1e-5) FROM {table}"
    unit = statement(text, norm=identifier(extension, "vector_norm"), table=table)
    return bool(connections.write(lambda connection: connection.execute(unit).fetchall(), limited=False)[0][0])


def _hnsw(table: Identifier, name: str, dim: int, index: IndexParameters, *, metric: str) -> Composed:
    return statement(
        "CREATE INDEX {name} ON {table} USING hnsw (({expression}) {operators}) WITH (m = {m}, ef_construction = {ef})",
        name=identifier(f"{name}_hnsw"),
        table=table,
        expression=indexed(index.type(dim), dim, extension=index.extension),
        operators=identifier(index.extension, f"{index.type(dim)}_{metric}_ops"),
        m=number(HNSW_M),
        ef=number(max(HNSW_EF_CONSTRUCTION, 2 * HNSW_M)),
    )


def _build(connections: Connections, texts: Sequence[Composed]) -> None:
    def work(connection: Connection) -> None:
        configure(connection, _BUILDING)
        for text in texts:
            try:
                with connection.transaction():
                    connection.execute(text)
            except (package().errors.DiskFull, package().errors.OutOfMemory):
                # Processes share memory in /dev/shm, of which a container has 64 MB; one process has memory of its own.
                configure(connection, {"max_parallel_maintenance_workers": "0"})
                connection.execute(text)

    connections.write(work, limited=False)


def _analyze(connection: Connection, table: Identifier) -> None:
    """Let the server count values: it chooses between an index over vectors and one over fields by their frequency."""
    connection.execute(statement("ANALYZE {table}", table=table))


def publish(connection: Connection, tables: Tables, views: Mapping[str, Composed]) -> None:
    """Let the views show a generation, and name it as the current one.

    Renaming schemas would be as atomic. But then those who read the older generation would find other rows, or none,
    under the same name; with views each generation keeps its own, and rights that were granted on a view stay.
    """
    present = statement(
        "SELECT c.relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relkind = 'v'"
    )
    for (name,) in connection.execute(present, [tables.prefix]).fetchall():
        if name not in views:
            connection.execute(statement("DROP VIEW {view}", view=identifier(tables.prefix, name)))
    for name, query in views.items():
        view = identifier(tables.prefix, name)
        try:
            with connection.transaction():
                connection.execute(statement("CREATE OR REPLACE VIEW {view} AS {query}", view=view, query=query))
        except package().errors.InvalidTableDefinition:
            # Vectors of another length: a view keeps the types of its columns.
            connection.execute(statement("DROP VIEW {view}", view=view))
            connection.execute(statement("CREATE VIEW {view} AS {query}", view=view, query=query))
    current = statement(
        "INSERT INTO {current} (id) VALUES (%s) ON CONFLICT (one) DO UPDATE SET id = excluded.id, published = now()",
        current=identifier(tables.prefix, "current"),
    )
    connection.execute(current, [tables.generation])


def views(connections: Connections, tables: Tables, parts: Sequence[Part], *, extension: str) -> dict[str, Composed]:
    """Return the query of each view by its name. Vectors have the type of their index, so that searches can use it."""
    queries: dict[str, Composed] = {}
    for name in sorted({labels_table(part) for part in parts}):
        queries[name] = statement("SELECT * FROM {table}", table=tables.table(name))
    for part in parts:
        index = vector_index(connections, tables, part)
        vector = indexed(index and index.type, part.dim or 0, extension=extension)
        query = statement(
            'SELECT r."row", l.id, l.document_id, l.tenant_id, r.{vector} AS embedding, l.id AS {unit_id}'
            " FROM {rows} AS r JOIN {labels} AS l USING (key)",
            vector=vector,
            unit_id=identifier(f"{part.unit}_id"),
            rows=tables.rows(part),
            labels=tables.labels(part),
        )
        queries[rows_table(part)] = query
        queries.setdefault("embeddings", query)
    return queries
