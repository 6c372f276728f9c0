"""The engine pgvector: generations in PostgreSQL, side by side.

Facts about a server, and what keeps it from being used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retrieve_cli.config.index_settings import HNSW_EF_CONSTRUCTION, HNSW_EF_SEARCH, HNSW_M, PgvectorSettings
from retrieve_cli.contracts.engines import Batch, Capabilities, Part, Staged
from retrieve_cli.contracts.values import Card
from retrieve_cli.engines.lifecycle import GenerationRecord, LifeCycle
from retrieve_cli.engines.pgvector import building, tables
from retrieve_cli.engines.pgvector.building import IndexParameters
from retrieve_cli.engines.pgvector.connections import Connections, statement
from retrieve_cli.engines.pgvector.searching import VectorTable
from retrieve_cli.engines.pgvector.sending import RowTable
from retrieve_cli.engines.pgvector.tables import Tables, identifier
from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from retrieve_cli.engines.pgvector.connections import Connection, Rows as Found


_MOST_ROWS = 50_000


class PgvectorEngine(LifeCycle):
    """PostgreSQL with the extension pgvector; a generation is a schema, with a row in the list of generations.

    What the life cycle does in steps is one transaction here.

    Tenants: every table and view has a column `tenant_id`, and the program's own searches are restricted to a tenant by
    conditions that are part of each query, as with local files. They are not restricted by row-level security: the
    program connects as the owner of the tables, to whom policies do not apply. Other programs should read the views
    with a separate role, and a policy for them belongs on a view that selects by `tenant_id`, since each generation
    has new tables.
    """

    name = "pgvector"
    product = "PostgreSQL"

    def __init__(self, settings: PgvectorSettings, *, password: str | None = None) -> None:
        self._settings = settings
        self._prefix = tables.checked_prefix(settings.schema)
        self._registry = self._prefix, "generations"
        self._connections = Connections(settings.url, password=password, timeout_s=settings.timeout_s)
        self._extension: str | None = None

    @property
    def card(self) -> Card:
        """Parameters of the index over vectors, and of the search in it."""
        settings = self._settings
        if settings.index == "none":
            return {"engine": self.name, "index": settings.index}
        parameters = {"m": HNSW_M, "ef_construction": HNSW_EF_CONSTRUCTION, "ef_search": HNSW_EF_SEARCH}
        return {"engine": self.name, "index": settings.index, "type": settings.type, **parameters}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(most_rows=_MOST_ROWS, terms=False)

    def begin(self, wanted: GenerationRecord) -> None:
        """Create a generation without rows, after dropping one of its id.

        Raises:
            UsageError: a name cannot be one of a table.
            Unavailable: the server is not there, or denies a right, or lacks the extension.
        """
        generation, chosen = wanted.generation, self._tables(wanted.generation)
        parts = tuple(tables.checked_part(part) for part in wanted.parts)
        server = facts(self._connections)
        if server["installed"] is None and server["available"] is not None:
            self._connections.write(lambda connection: connection.execute("CREATE EXTENSION IF NOT EXISTS vector"))
        index, registry = self._index(), identifier(*self._registry)
        self.drop(generation)

        def work(connection: Connection) -> None:
            tables.lock(connection, self._prefix)
            tables.create_registry(connection, self._prefix)
            tables.create_generation(connection, chosen, parts, extension=index.extension)
            new = statement("INSERT INTO {table} (id, parts) VALUES (%s, %s)", table=registry)
            connection.execute(new, [generation, json.dumps(parts)])

        self._connections.write(work)

    def set_alias(self, record: GenerationRecord) -> None:
        """Let the views show a generation, in one transaction. Raises: IndexCorrupt: there is no complete one."""
        generation, chosen = record.generation, self._tables(record.generation)
        views = building.views(self._connections, chosen, record.parts, extension=self._index().extension)

        def work(connection: Connection) -> None:
            tables.lock(connection, self._prefix)
            text = "SELECT FROM {table} WHERE id = %s AND complete"
            still = statement(text, table=identifier(*self._registry))
            if not connection.execute(still, [generation]).fetchall():
                hint = "run `retrieve engines push`, which stores the current generation"
                raise IndexCorrupt(f"PostgreSQL has no complete generation {generation}", hint=hint)
            building.publish(connection, chosen, views)

        self._connections.write(work)

    def live(self) -> str | None:
        """Return the generation that the views show; None without one."""
        found = self._registered("SELECT id FROM {current}")
        return str(found[0][0]) if found else None

    def generations(self) -> Sequence[Staged]:
        """Return all generations, complete or not, in order of id."""
        found = self._registered(
            "SELECT g.id, g.complete, c.id IS NOT NULL FROM {generations} AS g"
            " LEFT JOIN {current} AS c ON c.id = g.id ORDER BY g.id"
        )
        return [Staged(*row) for row in found]

    def drop(self, generation: str) -> None:
        """Remove a generation: its schema, with it the views that show it, and its place in the list, if it has one."""
        chosen = self._tables(generation)
        if not any(staged.generation == generation for staged in self.generations()):
            # The list may be lost; a schema of that name without our tables is someone else's.
            ours = statement("SELECT to_regclass(%(chunks)s) IS NOT NULL OR to_regclass(%(records)s) IS NOT NULL")
            labels = {name: f"{self._prefix}_{generation}.{name}" for name in ("chunks", "records")}
            if not self._connections.query(ours, labels)[0][0]:
                return

        def work(connection: Connection) -> None:
            tables.lock(connection, self._prefix)
            tables.create_registry(connection, self._prefix)
            self._drop(connection, chosen)

        self._connections.write(work)

    def record(self, generation: str) -> GenerationRecord | None:
        """Return the record of a generation; None if it has none."""
        tables.checked_generation(generation)
        for known, parts, complete in self._registered("SELECT id, parts, complete FROM {generations}"):
            if known == generation:
                listed = [Part(*part) for part in json.loads(parts)]
                return GenerationRecord(generation, listed, complete)
        return None

    def put_record(self, record: GenerationRecord) -> None:
        """Mark a generation as complete. Raises: IndexCorrupt: it was dropped meanwhile."""
        text = "UPDATE {table} SET complete = %(complete)s WHERE id = %(id)s"
        changed = statement(text, table=identifier(*self._registry))
        done = {"id": record.generation, "complete": record.complete}
        if not self._connections.write(lambda connection: connection.execute(changed, done).rowcount):
            hint = "run `retrieve engines push` again"
            raise IndexCorrupt(f"generation {record.generation} was dropped while it was stored", hint=hint)

    def put_rows(self, record: GenerationRecord, part: Part, batch: Batch) -> None:
        """Store rows in one transaction."""
        RowTable(self._connections, self._tables(record.generation), part).put(batch)

    def settle(self, record: GenerationRecord) -> None:
        """Build indexes."""
        building.build(self._connections, self._tables(record.generation), record.parts, self._index())

    def count(self, record: GenerationRecord, part: Part) -> int:
        """Return the number of rows of a part that have labels. Raises: IndexCorrupt."""
        chosen = self._tables(record.generation)
        text = "SELECT count(*) FROM {table} JOIN {labels} USING (key)"
        counted = statement(text, table=chosen.rows(part), labels=chosen.labels(part))
        return int(self._connections.query(counted, {})[0][0])

    def collection(self, record: GenerationRecord, part: Part) -> VectorTable:
        """Return the rows of a part."""
        return VectorTable(self._connections, self._tables(record.generation), part, index=self._index())

    def describe(self) -> Mapping[str, str]:
        """Return versions, address and schema."""
        known = facts(self._connections)
        return {
            "server": f"PostgreSQL {known['server']}",
            "pgvector": str(known["installed"] or "not created"),
            "address": self._connections.address,
            "schema": self._prefix,
        }

    def faults(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used, or used well, each with the SQL that fixes it."""
        return list(problems(facts(self._connections)))

    def close(self) -> None:
        """Close connections."""
        self._connections.close()

    def _tables(self, generation: str) -> Tables:
        return Tables(self._prefix, tables.checked_generation(generation))

    def _index(self) -> IndexParameters:
        if self._extension is None:
            self._extension = tables.extension_schema(self._connections)
        return IndexParameters(self._settings, self._extension)

    def _registered(self, text: str) -> Found:
        """Return the answer to a query of the list of generations; nothing if the list does not exist yet."""
        both = statement("SELECT to_regclass(%(current)s) IS NOT NULL AND to_regclass(%(generations)s) IS NOT NULL")
        there = self._connections.query(both, {name: f"{self._prefix}.{name}" for name in ("current", "generations")})
        if not there[0][0]:
            return []
        names = {name: identifier(self._prefix, name) for name in ("generations", "current")}
        return self._connections.query(statement(text, **names), {})

    def _drop(self, connection: Connection, chosen: Tables) -> None:
        connection.execute(statement("DROP SCHEMA IF EXISTS {schema} CASCADE", schema=chosen.schema))
        entry = statement("DELETE FROM {table} WHERE id = %s", table=identifier(*self._registry))
        connection.execute(entry, [chosen.generation])


_OLDEST = 130_000
_OLDEST_EXTENSION = (0, 8, 0)


def facts(connections: Connections) -> dict[str, Any]:
    """Return facts about the server, the database and the user's rights."""
    names = ("server", "number", "available", "installed", "database", "user", "may_create")
    [found] = connections.query(
        statement(
            "SELECT current_setting('server_version'), current_setting('server_version_num')::integer,"
            " (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),"
            " (SELECT extversion FROM pg_extension WHERE extname = 'vector'), current_database()::text,"
            " current_user::text, has_database_privilege(current_database(), 'CREATE')"
        ),
        {},
    )
    return dict(zip(names, found, strict=True))


def problems(known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield problems, each with the statement or the command that fixes it."""
    database, user = _quoted(known["database"]), _quoted(known["user"])
    if known["number"] < _OLDEST:
        yield f"PostgreSQL {known['server']} is older than 13", "upgrade the server"
    if known["installed"] is None and known["available"] is None:
        major = known["number"] // 10_000
        yield "the server has no pgvector", f"install it there: apt install postgresql-{major}-pgvector"
    elif known["installed"] is None and not known["may_create"]:
        yield "the extension pgvector is not created in the database", "let its owner run: CREATE EXTENSION vector;"
    elif known["installed"] is not None and _version(known["installed"]) < _OLDEST_EXTENSION:
        update = "ALTER EXTENSION vector UPDATE;"
        newer = known["available"] is not None and _version(known["available"]) >= _OLDEST_EXTENSION
        fix = update if newer else f"install pgvector 0.8 on the server, then: {update}"
        yield f"pgvector {known['installed']} is older than 0.8: filtered searches find too few rows", fix
    if not known["may_create"]:
        yield f"the user {user} may not create schemas", f"GRANT CREATE ON DATABASE {database} TO {user};"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(".")[:3] if number.isdigit())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
