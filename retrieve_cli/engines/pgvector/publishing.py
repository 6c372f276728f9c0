"""Views over the current generation, by which people and other programs find it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts.engines import Part
from retrieve_cli.engines.pgvector.building import indexed, vector_index
from retrieve_cli.engines.pgvector.connections import Connections, package, statement
from retrieve_cli.engines.pgvector.tables import Tables, identifier, labels_table, rows_table

if TYPE_CHECKING:
    from psycopg.sql import Composed

    from retrieve_cli.engines.pgvector.connections import Connection


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
        content = statement("r.terms, r.weights")
        if part.dim is not None:
            index = vector_index(connections, tables, part)
            vector = indexed(index and index.type, part.dim, extension=extension)
            content = statement("r.{vector} AS embedding", vector=vector)
        query = statement(
            'SELECT r."row", l.id, l.document_id, l.tenant_id, {content}, l.id AS {unit_id} FROM {rows} AS r'
            " JOIN {labels} AS l USING (key)",
            content=content,
            unit_id=identifier(f"{part.unit}_id"),
            rows=tables.rows(part),
            labels=tables.labels(part),
        )
        queries[rows_table(part)] = query
        if part.dim is None:
            text = "SELECT term, block, rows, weights FROM {table}"
            queries[f"postings_{part.name}"] = statement(text, table=tables.postings(part))
        else:
            queries.setdefault("embeddings", query)
    return queries
