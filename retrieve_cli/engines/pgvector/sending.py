"""Rows of a part and their labels, on the way into their tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts.engines import Batch, Label, Part
from retrieve_cli.engines.pgvector import wire
from retrieve_cli.engines.pgvector.connections import Connections, statement
from retrieve_cli.engines.pgvector.tables import Tables
from retrieve_cli.errors import UsageError

if TYPE_CHECKING:
    from psycopg.sql import Composed

    from retrieve_cli.engines.pgvector.connections import Connection


class RowTable:
    """Table of a part while rows are stored in it."""

    def __init__(self, connections: Connections, tables: Tables, part: Part) -> None:
        self._connections = connections
        self._tables = tables
        self._part = part

    def put(self, batch: Batch) -> None:
        """Store rows in one transaction."""
        contents, table = _contents(self._part, batch), self._tables.rows(self._part)
        lines = [
            wire.copy_row([wire.integer(row), *_attributes(label), *content])
            for row, label, content in zip(batch.rows.tolist(), batch.labels, contents, strict=True)
        ]

        def work(connection: Connection) -> None:
            self._put_labels(connection, batch.labels)
            _copy(connection, statement("COPY {table} FROM STDIN (FORMAT binary)", table=table), lines)

        if len(batch.rows):
            self._connections.write(work)

    def _put_labels(self, connection: Connection, labels: Sequence[Label]) -> None:
        """Store texts and fields, which parts of chunks share."""
        table, lines = self._tables.labels(self._part), {}
        for label in labels:
            key = wire.digest(label.id)
            texts = (label.id, label.doc_id, label.title, label.text, label.section, label.tenant)
            lines[key] = wire.copy_row([key, *map(wire.shown_bytes, texts), wire.fields_json(label.fields)])
        connection.execute(statement("CREATE TEMPORARY TABLE named (LIKE {table}) ON COMMIT DROP", table=table))
        _copy(connection, statement("COPY named FROM STDIN (FORMAT binary)"), list(lines.values()))
        merged = "INSERT INTO {table} SELECT * FROM named ORDER BY key ON CONFLICT (key) DO NOTHING"
        connection.execute(statement(merged, table=table))


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
