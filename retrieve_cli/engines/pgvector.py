"""PostgreSQL with the extension pgvector: vectors, with the tables and the statement that people write by hand.

    <schema>               collections          name, length of vectors and marker of each collection
                           chunks, embeddings   views of the tables of the published one
    <schema>_<collection>  chunks               texts and fields
                           embeddings           vectors of the chunks, with an HNSW index

The program connects as the owner of the tables, to whom row-level security does not apply: its
searches have the tenant as a condition. Other programs should read views that select by `tenants`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import orjson

from retrieve_cli.config.index_settings import HNSW_EF_CONSTRUCTION, HNSW_EF_SEARCH, HNSW_M, PgvectorSettings
from retrieve_cli.contracts.engines import Combined, EngineQuery, Equal, Filter, Found, Row, RowHit, Schema
from retrieve_cli.engines.servers import version_numbers
from retrieve_cli.errors import IndexCorrupt, RetrieveError, Unavailable, UsageError, quoted, shortened

if TYPE_CHECKING:
    from types import ModuleType

    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]
    Cursor = psycopg.Cursor[tuple[Any, ...]]

T = TypeVar("T")
_HINT = "send the index again: retrieve engines push"
_LONGEST, _LONGEST_HALF = 2000, 4000
"""The longest vectors of an HNSW index over float32 and float16; longer ones are compared one by one."""
_MOST_EF = 1000
_SCANNED = 40_000
"""Rows that a filtered search visits before it ends with fewer rows than it should find."""


class PgvectorEngine:
    """An engine for vectors alone. Names in statements are checked; all values are bound."""

    name = "pgvector"
    words: Literal["text", "terms", ""] = ""
    sparse = False
    card: ClassVar[Mapping[str, object]] = {"engine": "pgvector", "m": HNSW_M}

    def __init__(self, settings: PgvectorSettings, *, password: str | None = None) -> None:
        """Raises: UsageError: the schema would need quotes."""
        self._prefix = _checked(settings.schema)
        self._settings, self._password = settings, password
        self._limit = str(round(settings.timeout_s * 1000))
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    def create(self, collection: str, schema: Schema) -> None:
        """Create tables. `publish` builds the index over vectors, in one pass when all rows are there."""
        own, dim = self._own(collection), next(iter(schema.vectors.values()), 1)
        about = "name text PRIMARY KEY, dim int NOT NULL, marker text NOT NULL, published boolean NOT NULL"
        key = f"chunk_id text PRIMARY KEY REFERENCES {own}.chunks ON DELETE CASCADE, document_id text NOT NULL"

        def work(connection: Connection) -> None:
            _run(connection, "CREATE EXTENSION IF NOT EXISTS vector")
            _run(connection, f"CREATE SCHEMA IF NOT EXISTS {self._prefix}")
            _run(connection, f"CREATE TABLE IF NOT EXISTS {self._prefix}.collections ({about})")
            self._drop(connection, collection)
            _run(connection, f"CREATE SCHEMA {own}")
            _run(connection, f"CREATE TABLE {own}.chunks {_CHUNKS}")
            _run(connection, f"CREATE TABLE {own}.embeddings ({key}, embedding vector({dim:d}) NOT NULL)")
            _run(connection, f"INSERT INTO {self._prefix}.collections VALUES (%s, %s, '', false)", [collection, dim])

        self._work(work)

    def upsert(self, collection: str, rows: Sequence[Row]) -> None:
        """Store rows: those that have their ids are removed in the same transaction."""
        own = self._own(collection)

        def work(connection: Connection) -> None:
            self._delete(connection, collection, [row.id for row in rows])
            _copy(connection, f"{own}.chunks", map(_columns, rows))
            vectors = ((row, vector) for row in rows for vector in row.vectors.values())
            columns = ((_plain(row.id), _plain(row.record), _vector(vector)) for row, vector in vectors)
            _copy(connection, f"{own}.embeddings", columns)

        self._work(work)

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Remove rows by their ids, with their vectors."""
        self._work(lambda connection: self._delete(connection, collection, ids))

    def search(
        self, collection: str, queries: Sequence[EngineQuery], where: Filter | None, k: int, *, contents: bool = False
    ) -> Found:
        """Return the nearest rows of each query by cosine, in one round trip."""
        condition, values = _condition(where)
        settings = {
            "hnsw.ef_search": str(min(max(HNSW_EF_SEARCH, k), _MOST_EF)),
            "hnsw.iterative_scan": "relaxed_order",
            "hnsw.max_scan_tuples": str(max(_SCANNED, 20 * k)),
        }
        columns = "c.id, c.content, c.stored" if contents else "c.id"

        def work(connection: Connection) -> list[Cursor]:
            _configure(connection, settings)
            answers = [self._about(connection, "marker", collection)]
            for _, vector in queries:
                source, distance, order = f"{self._own(collection)}.chunks c", "NULL", "1"
                if vector is not None:
                    source = f"{self._own(collection)}.embeddings e JOIN {source} ON e.chunk_id = c.id"
                    distance, order = _distance(vector)
                statement = f"SELECT {columns}, {distance} AS distance FROM {source} WHERE {condition}"
                given = {**values, "query": _vector(vector), "k": k}
                answers.append(_run(connection, f"{statement} ORDER BY {order} LIMIT %(k)s", given))
            return answers

        marker, *answers = self._work(work, pipelined=True)
        return Found([_hits(answer.fetchall()) for answer in answers], _value(marker, collection))

    def count(self, collection: str, where: Filter | None = None) -> int:
        """Return the number of rows that pass a filter."""
        condition, values = _condition(where)
        statement = f"SELECT count(*) FROM {self._own(collection)}.chunks c WHERE {condition}"
        return self._work(lambda connection: int(_value(_run(connection, statement, values), collection)))

    def drop(self, collection: str) -> None:
        """Remove the tables, with them the views that show them."""
        with suppress(IndexCorrupt):  # no collection was created yet
            self._work(lambda connection: self._drop(connection, collection))

    def snapshot(self, collection: str) -> str:
        """Raises: UsageError: pg_dump does that."""
        hint = f"pg_dump --schema={self._own(collection)} --schema={self._prefix} > index.sql"
        raise UsageError("PostgreSQL does not store copies of a schema", hint=hint)

    def published(self) -> str | None:
        """Return the collection that the views show."""
        statement = f"SELECT name FROM {self._prefix}.collections WHERE published"
        try:
            names = self._work(lambda connection: _run(connection, statement).fetchall())
        except IndexCorrupt:
            return None  # none was created yet
        return str(names[0][0]) if names else None

    def publish(self, collection: str, generation: str) -> None:
        """Store the marker, and let the views show a collection, in one transaction. The first marker builds the
        indexes."""
        own, published = self._own(collection), self.published() == collection

        def work(connection: Connection) -> None:
            if not _value(self._about(connection, "marker", collection), collection):
                dim = int(_value(self._about(connection, "dim", collection), collection))
                _index(connection, f"{own}.embeddings", dim)
                for index in ("(document_id)", "USING gin (facts)", "USING gin (tenants)"):
                    _run(connection, f"CREATE INDEX ON {own}.chunks {index}")
                _run(connection, f"ANALYZE {own}.chunks")
            for view in () if published else ("chunks", "embeddings"):
                _run(connection, f"DROP VIEW IF EXISTS {self._prefix}.{view}")
                _run(connection, f"CREATE VIEW {self._prefix}.{view} AS SELECT * FROM {own}.{view}")
            statement = f"UPDATE {self._prefix}.collections SET published = name = %s"
            _run(connection, statement, [collection])
            statement = f"UPDATE {self._prefix}.collections SET marker = %s WHERE name = %s"
            _run(connection, statement, [generation, collection])

        self._work(work, limited=False)

    def describe(self) -> Mapping[str, str]:
        """Return versions, address and schema."""
        extension = "(SELECT extversion FROM pg_extension WHERE extname = 'vector')"
        versions = f"SELECT current_setting('server_version'), {extension}"
        server, created = self._work(lambda connection: _run(connection, versions).fetchall())[0]
        address = {"address": self.address, "schema": self._prefix}
        return {"server": f"PostgreSQL {server}", "pgvector": created or "not created", **address}

    def problems(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used well, with its fix."""
        version = self.describe()["pgvector"]
        if version == "not created" or version_numbers(version) >= (0, 8):
            return []
        return [(f"pgvector {version} is older than 0.8", "ALTER EXTENSION vector UPDATE;")]

    def _own(self, collection: str) -> str:
        return _checked(f"{self._prefix}_{collection}")

    def _about(self, connection: Connection, column: str, collection: str) -> Cursor:
        return _run(connection, f"SELECT {column} FROM {self._prefix}.collections WHERE name = %s", [collection])

    def _delete(self, connection: Connection, collection: str, ids: Sequence[str]) -> None:
        _run(connection, f"DELETE FROM {self._own(collection)}.chunks WHERE id = ANY(%s)", [list(map(_plain, ids))])

    def _drop(self, connection: Connection, collection: str) -> None:
        _run(connection, f"DROP SCHEMA IF EXISTS {self._own(collection)} CASCADE")
        _run(connection, f"DELETE FROM {self._prefix}.collections WHERE name = %s", [collection])

    @property
    def address(self) -> str:
        """Host, port and database, without user and password."""
        known = self._parameters()
        return f"{known.get('host') or 'localhost'}:{known.get('port') or 5432}/{known.get('dbname') or 'postgres'}"

    def _work(self, work: Callable[[Connection], T], *, limited: bool = True, pipelined: bool = False) -> T:
        """Do work in one transaction; again if the connection had died since its last use.

        Unless `limited`, a statement may take any time: it builds an index. `pipelined`: the statements are sent
        together, in one round trip, and their rows are fetched afterwards.
        """
        limits = {"statement_timeout": self._limit if limited else "0", "lock_timeout": self._limit}
        while True:
            with self._lock:
                used = self._idle.pop() if self._idle else None
            connection = used or self._connected()
            try:
                together = connection.pipeline() if pipelined else connection.transaction()
                with self._explained("see the log of the server"), together:
                    _configure(connection, limits)
                    result = work(connection)
            except BaseException:
                died = connection.closed
                connection.close()
                if used is None or not died:
                    raise
                self._close()  # the others died with it
                continue
            with self._lock:
                self._idle.append(connection)
            return result

    def _close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connected(self) -> Connection:
        with self._explained("start the server, or set pgvector.url to its address"):
            connection: Connection = _psycopg().connect(**self._parameters(), autocommit=True)
            place = "SELECT quote_ident(nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace"
            for (schema,) in _run(connection, f"{place} WHERE extname = 'vector'").fetchall():
                _run(connection, "SELECT set_config('search_path', %s, false)", [schema])
            return connection

    def _parameters(self) -> dict[str, Any]:
        try:
            known: dict[str, Any] = _psycopg().conninfo.conninfo_to_dict(self._settings.url)
        except _psycopg().Error:  # not quoted: it may have a password in it
            hint = "write it as postgresql://USER@HOST:5432/DATABASE; the password goes into password_env"
            raise UsageError("pgvector.url is not an address of PostgreSQL", hint=hint) from None
        own = {"application_name": "retrieve", "connect_timeout": 10, "tcp_user_timeout": self._limit}
        return {**own, **known, **({} if self._password is None else {"password": self._password})}

    @contextmanager
    def _explained(self, hint: str) -> Iterator[None]:
        """Raise failures of the server in the program's words."""
        try:
            yield
        except _psycopg().Error as error:
            raise _failure(error, f"PostgreSQL at {self.address}", hint) from None


_CHUNKS = """(id text PRIMARY KEY, document_id text NOT NULL, title text NOT NULL, content text NOT NULL,
section text NOT NULL, stored text NOT NULL, tenants text[] NOT NULL, facts text[] NOT NULL, numbers jsonb NOT NULL,
dates jsonb NOT NULL)"""


_HINTS = {
    "57014": "raise pgvector.timeout_s, or find what keeps the server busy: SELECT * FROM pg_stat_activity",
    "42501": "let an owner run: GRANT CREATE ON DATABASE … TO …; CREATE EXTENSION vector;",
    "42704": "let a user who may do so run: CREATE EXTENSION vector",
    "53100": "free space on the server; builds need shared memory in a container: docker run --shm-size=2g",
}
"""Fixes by the code of PostgreSQL's error."""


def _failure(error: psycopg.Error, server: str, hint: str) -> RetrieveError:
    code = str(error.sqlstate or "")
    # The first line alone: details quote values.
    reason = shortened(str(error.diag.message_primary or error).strip().partition("\n")[0], 200)
    if code in ("28000", "28P01") or "authentication failed" in reason or "no password supplied" in reason:
        fix = "check the user in pgvector.url, and the variable that pgvector.password_env names"
        return Unavailable(f"{server} rejects the credential", hint=fix)
    if code in ("42P01", "3F000"):
        return IndexCorrupt(f"{server} lacks a part of the index: {reason}", hint=_HINT)
    return Unavailable(f"{server} failed: {reason}", hint=_HINTS.get(code, hint))


def _psycopg() -> ModuleType:
    """Return the client. Raises: Unavailable: it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        hint = "pip install 'retrieve-cli[pgvector]'"
        raise Unavailable(f"the package psycopg is not installed: {error}", hint=hint) from None
    return psycopg


def _run(connection: Connection, statement: str, values: Any = None) -> Cursor:
    return connection.execute(statement.encode(), values)


def _configure(connection: Connection, settings: Mapping[str, str]) -> None:
    """Set parameters of the server until the end of the transaction."""
    chosen = "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS chosen (name, value)"
    _run(connection, chosen, [list(settings), list(settings.values())])


def _copy(connection: Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copying:
        for row in rows:
            copying.write_row(row)


def _value(answer: Cursor, collection: str) -> str:
    """Return the only value of an answer about a collection. Raises: IndexCorrupt: it does not exist."""
    found = answer.fetchone()
    if found is None:
        raise IndexCorrupt(f"PostgreSQL has no collection {collection}", hint=_HINT)
    return str(found[0])


def _checked(name: str) -> str:
    """Return a name of a schema or a table. Raises: UsageError: PostgreSQL would need quotes for it."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,57}", name):
        hint = "use lower-case letters, digits and _, as in pgvector.schema: retrieve"
        raise UsageError(f"{quoted(name)} is not a name of PostgreSQL", hint=hint)
    return name


def _index(connection: Connection, table: str, dim: int) -> None:
    """Build the index over vectors, unless they are too long, and let the server count values."""
    _run(connection, f"ANALYZE {table}")
    if dim > _LONGEST_HALF:
        return
    over = "embedding vector_cosine_ops"
    if dim > _LONGEST:
        over = f"(embedding::halfvec({dim:d})) halfvec_cosine_ops"
    name, parameters = f"{table.partition('.')[2]}_hnsw", f"m = {HNSW_M}, ef_construction = {HNSW_EF_CONSTRUCTION}"
    statement = f"CREATE INDEX {name} ON {table} USING hnsw ({over}) WITH ({parameters})"
    _configure(connection, {"maintenance_work_mem": "1GB", "max_parallel_maintenance_workers": "2"})
    _run(connection, statement)


def _distance(vector: Any) -> tuple[str, str]:
    """Return the distance to a query, and the order by it, in which the index over vectors of its length is."""
    distance, dim = "e.embedding <=> %(query)s::vector", len(vector)
    half = f"(e.embedding::halfvec({dim:d})) <=> %(query)s::halfvec({dim:d})"
    return distance, half if _LONGEST < dim <= _LONGEST_HALF else distance


def _columns(row: Row) -> Sequence[Any]:
    texts = map(_plain, (row.id, row.record, row.title, row.text, row.section, row.stored))
    facts = [_fact(field, value) for field, values in row.keywords.items() for value in values]
    typed = ({_plain(field): [*values] for field, values in kind.items()} for kind in (row.numbers, row.dates))
    return [*texts, list(map(_plain, row.tenants)), facts, *map(json.dumps, typed)]


def _fact(field: str, value: str) -> str:
    """Return a value of a field as one text: `["license", "mit"]`."""
    return json.dumps([field, value])


def _plain(text: str) -> str:
    """Return a text that PostgreSQL can store: without NUL and lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _vector(vector: Any) -> str | None:
    return None if vector is None else orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _condition(where: Filter | None) -> tuple[str, dict[str, Any]]:
    """Return a filter as a condition on chunks `c`, and its values by their placeholders."""
    values: dict[str, Any] = {}

    def bound(value: Any) -> str:
        name = f"v{len(values)}"
        values[name] = value
        return f"%({name})s"

    def translated(part: Filter) -> str:
        if isinstance(part, Combined):
            inner = (" AND " if part.how == "all" else " OR ").join(map(translated, part.filters))
            inner = inner or ("true" if part.how == "all" else "false")
            return f"NOT ({inner})" if part.how == "none" else f"({inner})"
        if isinstance(part, Equal):
            texts = [_fact(part.field, value) for value in part.values]
            texts = texts if part.key == "keywords" else list(map(_plain, part.values))
            column = {"keywords": "facts", "tenants": "tenants", "id": "id", "record": "document_id"}[part.key]
            is_list = column in ("facts", "tenants")
            return f"c.{column} {'&&' if is_list else '= ANY'} ({bound(texts)}::text[])"
        field, low, high = (bound(value) for value in (_plain(part.field), part.low, part.high))
        values_of = f"jsonb_array_elements(c.{part.key}->{field})"
        within = f"coalesce(v::float8 >= {low}::float8, true) AND coalesce(v::float8 <= {high}::float8, true)"
        return f"EXISTS (SELECT FROM {values_of} AS v WHERE {within})"

    return "true" if where is None else translated(where), values


def _hits(rows: Sequence[tuple[Any, ...]]) -> list[RowHit]:
    """Return hits by their cosine: none without a query, and with a vector of zeros."""
    known = [
        (name, 1.0 if distance is None or isnan(distance) else distance, *texts) for name, *texts, distance in rows
    ]
    found = [RowHit(name, 1.0 - distance, *texts) for name, distance, *texts in known]
    return sorted(found, key=lambda hit: (-hit.score, hit.id))
