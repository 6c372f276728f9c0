"""Schemas and tables of generations: their names, and the statements that create them.

    <schema>                 generations   every generation: parts; complete or not
                             current       the generation that was published last
                             chunks, records, embeddings_<part>: views of that one
    <schema>_<generation>    chunks, records         texts and fields, for people and other programs
                             embeddings_<part>       rows with vectors

A generation has its own schema, and publishing replaces the views. Renaming schemas would be as atomic, but takes
the tables away from those who still read the older generation.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from retrieve_cli.contracts.engines import Part
from retrieve_cli.engines.pgvector.connections import Connections, package, statement
from retrieve_cli.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from psycopg.sql import Composable, Identifier

    from retrieve_cli.engines.pgvector.connections import Connection

_LONGEST_SCHEMA = 40
_LONGEST_PART = 40
_PLAIN_DIM = 1000
"""Vectors up to this length are stored beside the row's other values, at least two rows to a page."""
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_HEX = frozenset("0123456789abcdef")


class Tables(NamedTuple):
    """Names of one generation's tables."""

    prefix: str
    generation: str

    @property
    def schema(self) -> Identifier:
        return identifier(f"{self.prefix}_{self.generation}")

    def table(self, name: str) -> Identifier:
        """Return a table of the generation: `chunks`, `embeddings_<part>`."""
        return identifier(f"{self.prefix}_{self.generation}", name)

    def rows(self, part: Part) -> Identifier:
        """Return the table with a row for each row of a part."""
        return self.table(rows_table(part))

    def labels(self, part: Part) -> Identifier:
        """Return the table with texts and fields of what the rows of a part are."""
        return self.table(labels_table(part))


def rows_table(part: Part) -> str:
    return f"embeddings_{part.name}"


def labels_table(part: Part) -> str:
    return "chunks" if part.unit == "chunk" else "records"


def identifier(*names: str) -> Identifier:
    made: Identifier = package().sql.Identifier(*names)
    return made


def checked_prefix(schema: str) -> str:
    """Return the name of the schema.

    Raises:
        UsageError: PostgreSQL would need quotes for it, or it is too long.
    """
    known = schema and not (set(schema) - _NAME) and not schema[0].isdigit() and not schema.startswith("pg_")
    if known and len(schema) <= _LONGEST_SCHEMA:
        return schema
    hint = "use up to 40 lower-case letters, digits and _, as in pgvector.schema: retrieve"
    raise UsageError("pgvector.schema is not a name of a schema", hint=hint)


def checked_generation(generation: str) -> str:
    """Return the id of a generation. Raises: UsageError: it is not 12 hex digits."""
    if len(generation) == 12 and not set(generation) - _HEX:
        return generation
    raise UsageError("the id of a generation has 12 hex digits", hint="list them: retrieve engines status")


def checked_part(part: Part) -> Part:
    """Return a part. Raises: UsageError: it has no vectors, or its name cannot be part of a table's name."""
    if part.dim is None:
        raise UsageError(f"PostgreSQL holds no term weights ({part.name})", hint="choose another engine for them")
    if part.name and not set(part.name) - _NAME and len(part.name) <= _LONGEST_PART:
        return part
    raise UsageError("the name of a part has lower-case letters, digits and _, up to 40", hint="rename the retriever")


def lock(connection: Connection, prefix: str) -> None:
    """Keep others from staging, publishing and dropping under this schema until the end of the transaction."""
    number = int.from_bytes(hashlib.blake2b(f"retrieve {prefix}".encode(), digest_size=8).digest(), "big", signed=True)
    connection.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [number])


def extension_schema(connections: Connections) -> str:
    """Return the schema in which the extension is: operators and types are named with it, for any search path.

    Raises:
        Unavailable: the extension was not created in the database.
    """
    text = statement(
        "SELECT n.nspname::text FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace"
        " WHERE e.extname = 'vector'"
    )
    if not (found := connections.query(text, {})):
        hint = "let a user who may do so run: CREATE EXTENSION vector; `retrieve doctor` tells if the server has it"
        raise Unavailable(f"PostgreSQL at {connections.address} lacks the extension pgvector", hint=hint)
    return str(found[0][0])


def _run(connection: Connection, text: LiteralString, /, **names: Composable) -> None:
    connection.execute(statement(text, **names))


def create_registry(connection: Connection, prefix: str) -> None:
    """Create the schema with the list of generations, unless it is there."""
    names = {"schema": identifier(prefix)} | {name: identifier(prefix, name) for name in ("generations", "current")}
    _run(connection, "CREATE SCHEMA IF NOT EXISTS {schema}", **names)
    _run(
        connection,
        "CREATE TABLE IF NOT EXISTS {generations} (id text PRIMARY KEY, parts text NOT NULL,"
        " complete boolean NOT NULL DEFAULT false,"
        " begun timestamptz NOT NULL DEFAULT now())",
        **names,
    )
    _run(
        connection,
        "CREATE TABLE IF NOT EXISTS {current} (one boolean PRIMARY KEY DEFAULT true CHECK (one), id text NOT NULL"
        " REFERENCES {generations} ON DELETE CASCADE, published timestamptz NOT NULL DEFAULT now())",
        **names,
    )


def create_generation(connection: Connection, tables: Tables, parts: tuple[Part, ...], *, extension: str) -> None:
    """Create the schema of a generation with its tables. Indexes are built when all rows are there."""
    _run(connection, "CREATE SCHEMA {schema}", schema=tables.schema)
    for name in sorted({labels_table(part) for part in parts}):
        _run(
            connection,
            "CREATE TABLE {table} (key uuid PRIMARY KEY, id text NOT NULL, document_id text NOT NULL, title text"
            " NOT NULL, content text NOT NULL, section text NOT NULL, tenant_id text, fields jsonb NOT NULL)",
            table=tables.table(name),
        )
    for part in parts:
        _run(
            connection,
            'CREATE TABLE {table} ("row" integer PRIMARY KEY, key uuid NOT NULL, tenant_id text, facts uuid[] NOT NULL,'
            " embedding {vector}({dim}) NOT NULL)",
            table=tables.rows(part),
            vector=identifier(extension, "vector"),
            dim=number(part.dim),
        )
        if (part.dim or 0) <= _PLAIN_DIM:
            # Else a row that is a little too long has its vector moved out, and a scan takes several times as long.
            _run(connection, "ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE PLAIN", table=tables.rows(part))


def number(value: int | None) -> Any:
    """Return a number for a place where nothing can be bound: the length of a type, an option of an index."""
    return package().sql.Literal(int(value or 0))
