"""A generation on its way into PostgreSQL."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.engines import Batch, Census, Label, Part
from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.engines.census import Sample, sampled
from retrieve_cli.engines.pgvector import building, wire
from retrieve_cli.engines.pgvector.building import IndexParameters
from retrieve_cli.engines.pgvector.connections import Connections, statement
from retrieve_cli.engines.pgvector.reading import read_vectors, read_weights
from retrieve_cli.engines.pgvector.tables import Tables, identifier
from retrieve_cli.errors import IndexCorrupt, UsageError

if TYPE_CHECKING:
    from psycopg.sql import Composed

    from retrieve_cli.contracts.values import Rows
    from retrieve_cli.engines.pgvector.connections import Connection


class PgvectorStaging:
    """A generation on its way into PostgreSQL; keeps the promise `Staging`."""

    def __init__(
        self, connections: Connections, tables: Tables, parts: Sequence[Part], *, index: IndexParameters
    ) -> None:
        self._connections = connections
        self._tables = tables
        self._parts = {part.name: part for part in parts}
        self._index = index
        self._began = time.monotonic()
        self._sampled = {part.name: frozenset(sampled(part.rows).tolist()) for part in parts}
        self._sent: dict[tuple[str, int], bytes] = {}
        """Contents of sampled rows that this process sent, as a copy of rows has them."""

    def put(self, part: str, batch: Batch) -> None:
        """Store rows in one transaction: those that are there are deleted, and all are copied."""
        chosen = self._part(part)
        contents = _contents(chosen, batch)
        lines = [
            wire.copy_row([wire.integer(row), *_attributes(label), *content])
            for row, label, content in zip(batch.rows.tolist(), batch.labels, contents, strict=True)
        ]
        rows = wire.integers(batch.rows)

        def work(connection: Connection) -> None:
            self._begin_change(connection)
            self._put_labels(connection, chosen, batch.labels)
            table = self._tables.rows(chosen)
            connection.execute(statement('DELETE FROM {table} WHERE "row" = ANY(%b::integer[])', table=table), [rows])
            _copy(connection, statement("COPY {table} FROM STDIN (FORMAT binary)", table=table), lines)

        if len(batch.rows):
            self._connections.write(work)
        for row, content in zip(batch.rows.tolist(), contents, strict=True):
            if row in self._sampled[part]:
                self._sent[part, row] = b"".join(content)

    def copy(self, part: str, older: str, rows: Rows, older_rows: Rows, labels: Sequence[Label]) -> None:
        """Store rows with the contents of an older generation's rows, which do not leave the server.

        Raises:
            IndexCorrupt: the older generation lacks a row.
        """
        chosen = self._part(part)
        source = Tables(self._tables.prefix, older)
        lines = [
            wire.copy_row([wire.integer(row), wire.integer(older_row), *_attributes(label)])
            for row, older_row, label in zip(rows.tolist(), older_rows.tolist(), labels, strict=True)
        ]
        content = identifier("terms") if chosen.dim is None else identifier("embedding")
        also = statement(", source.weights") if chosen.dim is None else statement("")

        def work(connection: Connection) -> int:
            self._begin_change(connection)
            self._put_labels(connection, chosen, labels)
            table = self._tables.rows(chosen)
            connection.execute(
                'CREATE TEMPORARY TABLE moved ("row" integer, older integer, key uuid, tenant_id text, facts uuid[])'
                " ON COMMIT DROP"
            )
            _copy(connection, statement("COPY moved FROM STDIN (FORMAT binary)"), lines)
            connection.execute("ANALYZE moved")
            connection.execute(statement('DELETE FROM {table} WHERE "row" IN (SELECT "row" FROM moved)', table=table))
            return connection.execute(
                statement(
                    'INSERT INTO {table} SELECT m."row", m.key, m.tenant_id, m.facts, source.{content}{also}'
                    ' FROM moved AS m JOIN {source} AS source ON source."row" = m.older',
                    table=table,
                    source=source.rows(chosen),
                    content=content,
                    also=also,
                )
            ).rowcount

        if not len(rows):
            return
        copied = self._connections.write(work)
        if copied != len(rows):
            hint = "run `retrieve engines push`, which sends all rows"
            raise IndexCorrupt(f"generation {older} in PostgreSQL lacks {len(rows) - copied} rows of {part}", hint=hint)
        for row in rows.tolist():
            self._sent.pop((part, row), None)

    def put_block(self, file: str, number: int, data: bytes) -> None:
        """Store a block of a file."""
        table = self._tables.table("files")
        text = statement(
            "INSERT INTO {table} VALUES (%s, %s, %b) ON CONFLICT (file, number) DO UPDATE SET data = excluded.data",
            table=table,
        )

        def work(connection: Connection) -> None:
            connection.execute(text, [file, number, data])

        self._connections.write(work)

    def finish(self) -> Census:
        """Build indexes and postings, count the rows, read a sample back, and mark the generation as complete.

        Raises:
            IndexCorrupt: rows are missing, or a row is not what was sent.
        """
        counts = {part.name: self._count(part) for part in self._parts.values()}
        registry = identifier(self._tables.prefix, "generations")
        mine = {"id": self._tables.generation}
        found = self._connections.query(
            statement("SELECT indexed FROM {table} WHERE id = %(id)s", table=registry), mine
        )
        if not found or not found[0][0]:
            building.build(self._connections, self._tables, tuple(self._parts.values()), self._index)
        sample = Sample()
        for part in self._parts.values():
            self._add_sample(sample, part)
        [[size]] = self._connections.query(
            statement(
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c"
                " JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %(schema)s AND c.relkind = 'r'"
            ),
            {"schema": f"{self._tables.prefix}_{self._tables.generation}"},
        )
        census = Census(counts, sample.digest(), time.monotonic() - self._began, int(size))
        done = {**mine, "census": json.dumps(census._asdict())}

        def work(connection: Connection) -> int:
            text = "UPDATE {table} SET census = %(census)s, indexed = true WHERE id = %(id)s"
            return connection.execute(statement(text, table=registry), done).rowcount

        if not self._connections.write(work):
            hint = "run `retrieve engines push` again"
            raise IndexCorrupt(f"generation {self._tables.generation} was dropped while it was stored", hint=hint)
        return census

    def close(self) -> None:
        """Do nothing: connections belong to the engine."""

    def _part(self, name: str) -> Part:
        if name not in self._parts:
            raise UsageError(f"the generation was staged without a part {name}", hint="stage it with all its parts")
        return self._parts[name]

    def _begin_change(self, connection: Connection) -> None:
        """Note that postings must be built again."""
        registry = identifier(self._tables.prefix, "generations")
        mine = [self._tables.generation]
        connection.execute(
            statement("UPDATE {table} SET indexed = false WHERE id = %s AND indexed", table=registry), mine
        )

    def _put_labels(self, connection: Connection, part: Part, labels: Sequence[Label]) -> None:
        """Store texts and fields. Parts whose rows are chunks share them."""
        table = self._tables.labels(part)
        lines = {wire.digest(label.id): _label_row(label) for label in labels}
        connection.execute(statement("CREATE TEMPORARY TABLE named (LIKE {table}) ON COMMIT DROP", table=table))
        # In order of key, so that two that put the same labels wait for each other and never in a circle.
        _copy(connection, statement("COPY named FROM STDIN (FORMAT binary)"), [lines[key] for key in sorted(lines)])
        connection.execute(
            statement(
                "INSERT INTO {table} AS old SELECT * FROM named ORDER BY key ON CONFLICT (key) DO UPDATE SET"
                " (id, document_id, title, content, section, tenant_id, fields) = (excluded.id, excluded.document_id,"
                " excluded.title, excluded.content, excluded.section, excluded.tenant_id, excluded.fields)"
                " WHERE old IS DISTINCT FROM excluded",
                table=table,
            )
        )

    def _count(self, part: Part) -> int:
        [[rows, highest]] = self._connections.query(
            statement('SELECT count(*), coalesce(max("row"), -1) FROM {table}', table=self._tables.rows(part)), {}
        )
        if (rows, highest) != (part.rows, part.rows - 1):
            hint = "run `retrieve engines push`, which sends what is missing"
            raise IndexCorrupt(f"PostgreSQL has {rows:,} rows of {part.name} instead of {part.rows:,}", hint=hint)
        return int(rows)

    def _add_sample(self, sample: Sample, part: Part) -> None:
        """Read the sampled rows of a part back. Raises: IndexCorrupt: one is not what was sent."""
        rows = sampled(part.rows)
        table = self._tables.rows(part)
        if part.dim is None:
            weights = read_weights(self._connections, table, rows)
            contents = [b"".join(_weights(row)) for row in weights]
            sample.add_weights(part.name, weights)
        else:
            vectors = read_vectors(self._connections, table, rows, dim=part.dim)
            contents = list(map(bytes, wire.vectors(vectors)))
            sample.add_vectors(part.name, vectors)
        for row, content in zip(rows.tolist(), contents, strict=True):
            if self._sent.get((part.name, row), content) != content:
                hint = "run `retrieve engines push` again"
                raise IndexCorrupt(f"row {row:,} of {part.name} in PostgreSQL is not what was sent", hint=hint)


def _attributes(label: Label) -> list[bytes | None]:
    """Return what a row is filtered by: key of its label, tenant, and a digest of each value of each field."""
    facts = sorted({wire.digest(name, value) for name, values in label.fields.items() for value in values})
    return [wire.digest(label.id), wire.shown_bytes(label.tenant), wire.uuids(facts)]


def _label_row(label: Label) -> bytes:
    texts = (label.id, label.doc_id, label.title, label.text, label.section, label.tenant)
    return wire.copy_row([wire.digest(label.id), *map(wire.shown_bytes, texts), wire.fields_json(label.fields)])


def _contents(part: Part, batch: Batch) -> list[list[bytes]]:
    """Return the vector of each row, or its terms and their weights.

    Raises:
        UsageError: the batch does not belong to this part.
    """
    if len(batch.rows) and (batch.rows[0] < 0 or batch.rows[-1] > wire.HIGHEST):
        raise UsageError(f"rows of {part.name} are beyond 2³¹ - 1, the most that a table has a number for")
    if part.dim is None:
        return [_weights(row) for row in batch.weights]
    if batch.vectors is None or batch.vectors.shape != (len(batch.rows), part.dim):
        raise UsageError(f"rows of {part.name} are not vectors of {part.dim} numbers")
    return [[vector] for vector in wire.vectors(batch.vectors)]


def _weights(row: TermWeights) -> list[bytes]:
    """Return terms, ascending, and their weights, as two arrays."""
    order = np.argsort(row.terms, kind="stable")
    return [wire.integers(row.terms[order]), wire.reals(row.weights[order])]


def _copy(connection: Connection, text: Composed, lines: Sequence[bytes]) -> None:
    with connection.cursor() as cursor, cursor.copy(text) as copying:
        copying.write(wire.COPY_HEAD + b"".join(lines) + wire.COPY_END)
