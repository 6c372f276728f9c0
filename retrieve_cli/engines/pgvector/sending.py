"""Rows of a part and their labels, on the way into their tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts.engines import Batch, Label, Part
from retrieve_cli.engines.pgvector import wire
from retrieve_cli.engines.pgvector.connections import Connections, statement
from retrieve_cli.engines.pgvector.tables import Tables, identifier
from retrieve_cli.errors import IndexCorrupt, UsageError

if TYPE_CHECKING:
    from psycopg.sql import Composed

    from retrieve_cli.contracts.values import Rows
    from retrieve_cli.engines.pgvector.connections import Connection


class RowTable:
    """Table of a part while rows are stored in it."""

    def __init__(self, connections: Connections, tables: Tables, part: Part) -> None:
        self._connections = connections
        self._tables = tables
        self._part = part

    def put(self, batch: Batch) -> None:
        """Store rows in one transaction: those that are there are deleted, and all are copied."""
        contents, table = _contents(self._part, batch), self._tables.rows(self._part)
        lines = [
            wire.copy_row([wire.integer(row), *_attributes(label), *content])
            for row, label, content in zip(batch.rows.tolist(), batch.labels, contents, strict=True)
        ]
        rows = wire.integers(batch.rows)

        def work(connection: Connection) -> None:
            self._begin_change(connection, batch.labels)
            connection.execute(statement('DELETE FROM {table} WHERE "row" = ANY(%b::integer[])', table=table), [rows])
            _copy(connection, statement("COPY {table} FROM STDIN (FORMAT binary)", table=table), lines)

        if len(batch.rows):
            self._connections.write(work)

    def copy(self, older: str, rows: Rows, older_rows: Rows, labels: Sequence[Label]) -> None:
        """Store rows with the contents of an older generation's rows, which do not leave the server.

        Raises:
            IndexCorrupt: the older generation lacks a row.
        """
        part, table = self._part, self._tables.rows(self._part)
        source = Tables(self._tables.prefix, older).rows(part)
        lines = [
            wire.copy_row([wire.integer(row), wire.integer(older_row), *_attributes(label)])
            for row, older_row, label in zip(rows.tolist(), older_rows.tolist(), labels, strict=True)
        ]

        def work(connection: Connection) -> int:
            self._begin_change(connection, labels)
            connection.execute(
                'CREATE TEMPORARY TABLE moved ("row" integer, older integer, key uuid, tenant_id text, facts uuid[])'
                " ON COMMIT DROP"
            )
            _copy(connection, statement("COPY moved FROM STDIN (FORMAT binary)"), lines)
            connection.execute("ANALYZE moved")
            connection.execute(statement('DELETE FROM {table} WHERE "row" IN (SELECT "row" FROM moved)', table=table))
            moved = statement(
                'INSERT INTO {table} SELECT m."row", m.key, m.tenant_id, m.facts, source.embedding'
                ' FROM moved AS m JOIN {source} AS source ON source."row" = m.older',
                table=table,
                source=source,
            )
            return connection.execute(moved).rowcount

        if not len(rows):
            return
        if lacking := len(rows) - self._connections.write(work):
            message = f"generation {older} in PostgreSQL lacks {lacking} rows of {part.name}"
            raise IndexCorrupt(message, hint="run `retrieve engines push`, which sends all rows")

    def expect_all(self) -> None:
        """Raises: IndexCorrupt: rows are missing."""
        part = self._part
        [[rows, highest]] = self._connections.query(
            statement('SELECT count(*), coalesce(max("row"), -1) FROM {table}', table=self._tables.rows(part)), {}
        )
        if (rows, highest) != (part.rows, part.rows - 1):
            hint = "run `retrieve engines push`, which sends the missing rows"
            raise IndexCorrupt(f"PostgreSQL has {rows:,} rows of {part.name} instead of {part.rows:,}", hint=hint)

    def _begin_change(self, connection: Connection, labels: Sequence[Label]) -> None:
        """Note that indexes must be looked at again, and store texts and fields, which parts of chunks share."""
        registry = identifier(self._tables.prefix, "generations")
        changed = statement("UPDATE {table} SET indexed = false WHERE id = %s AND indexed", table=registry)
        connection.execute(changed, [self._tables.generation])
        table, lines = self._tables.labels(self._part), {}
        for label in labels:
            key = wire.digest(label.id)
            texts = (label.id, label.doc_id, label.title, label.text, label.section, label.tenant)
            lines[key] = wire.copy_row([key, *map(wire.shown_bytes, texts), wire.fields_json(label.fields)])
        connection.execute(statement("CREATE TEMPORARY TABLE named (LIKE {table}) ON COMMIT DROP", table=table))
        # In order of key, so that two that put the same labels wait for each other and never in a circle.
        _copy(connection, statement("COPY named FROM STDIN (FORMAT binary)"), [lines[key] for key in sorted(lines)])
        merged = statement(
            "INSERT INTO {table} AS old SELECT * FROM named ORDER BY key ON CONFLICT (key) DO UPDATE SET"
            " (id, document_id, title, content, section, tenant_id, fields) = (excluded.id, excluded.document_id,"
            " excluded.title, excluded.content, excluded.section, excluded.tenant_id, excluded.fields)"
            " WHERE old IS DISTINCT FROM excluded",
            table=table,
        )
        connection.execute(merged)


def _attributes(label: Label) -> list[bytes | None]:
    """Return what a row is filtered by: key of its label, tenant, and a digest of each value of each field."""
    facts = sorted({wire.digest(name, value) for name, values in label.fields.items() for value in values})
    return [wire.digest(label.id), wire.shown_bytes(label.tenant), wire.uuids(facts)]


def _contents(part: Part, batch: Batch) -> list[list[bytes]]:
    """Return the vector of each row.

    Raises:
        UsageError: the batch does not belong to this part.
    """
    if len(batch.rows) and (batch.rows[0] < 0 or batch.rows[-1] > wire.HIGHEST):
        raise UsageError(f"rows of {part.name} are beyond 2³¹ - 1, the most that a table has a number for")
    if batch.vectors is None or batch.vectors.shape != (len(batch.rows), part.dim):
        raise UsageError(f"rows of {part.name} are not vectors of {part.dim} numbers")
    return [[vector] for vector in wire.vectors(batch.vectors)]


def _copy(connection: Connection, text: Composed, lines: Sequence[bytes]) -> None:
    with connection.cursor() as cursor, cursor.copy(text) as copying:
        copying.write(wire.COPY_HEAD + b"".join(lines) + wire.COPY_END)
