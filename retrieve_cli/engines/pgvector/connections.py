"""Connections to PostgreSQL: a small pool that threads share, limits of time, and failures in words.

Failures of PostgreSQL in words, with the SQL or the setting that fixes them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

from retrieve_cli.engines.pgvector.wire import Wire
from retrieve_cli.errors import IndexCorrupt, RetrieveError, Unavailable, UsageError, shortened

if TYPE_CHECKING:
    from types import ModuleType

    import psycopg
    from psycopg.sql import SQL, Composable, Composed

    Connection = psycopg.Connection[tuple[Any, ...]]
    Parameters = Mapping[str, Any]
    Rows = list[tuple[Any, ...]]

T = TypeVar("T")
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""A server that vanished is noticed after a minute, also while an index is built."""
_IDLE = 8
"""Connections that are kept open."""
_GRACE_S = 2.0
"""Time after the server's own limit until a connection is given up: a server that hangs does not keep its limits."""
_CONNECT_S = 10
_COLLISIONS = {"23505", "40P01"}
"""Two transactions that wrote the same rows, or waited for each other: the one that failed can be repeated."""
_NO_LIMIT_S = 7 * 86_400.0


@cache
def package() -> ModuleType:
    """Return the module `psycopg`.

    Raises:
        Unavailable: it is not installed.
    """
    try:
        import psycopg
        import psycopg.sql
    except ImportError as error:
        hint = "pip install 'retrieve-cli[pgvector]'"
        raise Unavailable(f"the package psycopg is not installed: {error}", hint=hint) from None
    return psycopg


def statement(template: LiteralString, /, **names: Composable) -> Composed:
    """Return a statement with names in its places, quoted. Values are never among them: they are bound."""
    sql: type[SQL] = package().sql.SQL
    return sql(template).format(**names)


class Connections:
    """A pool of connections to one database."""

    def __init__(self, url: str, *, password: str | None, timeout_s: float) -> None:
        self._url = url
        self._password = password
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._idle: list[Connection] = []

    @property
    def address(self) -> str:
        """Host, port and database, without user and password."""
        known = self._parameters()
        host = str(known.get("host") or known.get("hostaddr") or "localhost")
        return f"{host}:{known.get('port') or 5432}/{known.get('dbname') or known.get('user') or 'postgres'}"

    def query(self, text: Composed, values: Parameters, *, settings: Mapping[str, str] | None = None) -> Rows:
        """Return the rows of a query, in binary format, in one round trip.

        `settings` are parameters of the server that hold for this query.
        """
        chosen = {"statement_timeout": str(round(self._timeout_s * 1000)), "jit": "off", **(settings or {})}

        def work(connection: Connection) -> Rows:
            connection.autocommit = True  # what is sent until the pipeline ends is one transaction of the server's own
            with connection.pipeline():
                configure(connection, chosen)
                cursor = connection.execute(text, values, binary=True)
            return cursor.fetchall()

        return self.run(work)

    def write(self, work: Callable[[Connection], T], *, limited: bool = True) -> T:
        """Do work in one transaction, and return its result. It may be done twice: it must be idempotent.

        Unless `limited`, it may take as long as it takes: an index is built.
        """
        limit_s = self._timeout_s * 10 if limited else _NO_LIMIT_S

        def in_transaction(connection: Connection) -> T:
            waiting = {"lock_timeout": str(round(self._timeout_s * 1000)), "statement_timeout": "0", "jit": "off"}
            connection.autocommit = False
            configure(connection, waiting)
            done = work(connection)
            connection.commit()
            return done

        return self.run(in_transaction, limit_s=limit_s)

    def run(self, work: Callable[[Connection], T], *, limit_s: float | None = None) -> T:
        """Let work be done by a connection that is not used otherwise; once more if it had died since its last use.

        Raises:
            Unavailable: the server cannot be reached, ends, rejects the credential, or does not answer in time.
            IndexCorrupt: a table is not there.
        """
        limit_s = self._timeout_s + _GRACE_S if limit_s is None else limit_s
        collided = False
        while True:
            connection, used = self._take()
            connection.ends = time.monotonic() + limit_s  # type: ignore[attr-defined]
            try:
                result = work(connection)
            except package().Error as error:
                late = time.monotonic() >= connection.ends  # type: ignore[attr-defined]
                dead = connection.broken or connection.closed or late or ended_by_server(error)
                if not dead:
                    with suppress(package().Error):
                        connection.rollback()
                self._give_back(connection)
                if error.sqlstate in _COLLISIONS and not collided:
                    collided = True
                    continue
                if used and dead and not late:
                    self.close()  # the others died with it
                    continue
                raise explained(error, self.address, timeout_s=limit_s, late=late) from None
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)
            return result

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> tuple[Connection, bool]:
        """Return a connection, and whether it was used before."""
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        known = self._parameters()
        limited, dumper = _classes()
        try:
            connection: Connection = limited.connect(**known)
        except package().Error as error:
            raise unreachable(error, self.address) from None
        # A generic plan does not see how many rows a list has; nor do poolers like it.
        connection.prepare_threshold = None
        connection.adapters.register_dumper(Wire, dumper)
        return connection, False

    def _give_back(self, connection: Connection) -> None:
        idle = package().pq.TransactionStatus.IDLE
        if not connection.closed and connection.info.transaction_status == idle:
            with self._lock:
                if len(self._idle) < _IDLE:
                    self._idle.append(connection)
                    return
        connection.close()

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters of a connection. Raises: UsageError: the URL is invalid; it is not quoted, as it
        may contain a password."""
        try:
            known: dict[str, Any] = package().conninfo.conninfo_to_dict(self._url)
        except package().Error:
            hint = "write it as postgresql://USER@HOST:5432/DATABASE; the password goes into password_env"
            raise UsageError("pgvector.url is not an address of PostgreSQL", hint=hint) from None
        defaults = {"application_name": "retrieve", "connect_timeout": _CONNECT_S, **_KEEPALIVES}
        given = {} if self._password is None else {"password": self._password}
        return {**defaults, **known, **given}


def configure(connection: Connection, settings: Mapping[str, str]) -> None:
    """Set parameters of the server until the end of the transaction."""
    chosen = "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS chosen (name, value)"
    connection.execute(chosen, [list(settings), list(settings.values())])


@cache
def _classes() -> tuple[type[Connection], type[Any]]:
    """Return the classes of connections and of the dumper of values in binary format."""
    psycopg = package()

    class Limited(psycopg.Connection[Any]):  # type: ignore[name-defined,misc]
        """A connection that is given up when its time is over, even if the server still sends."""

        ends = float("inf")

        def wait(self, gen: Generator[Any, Any, T], *args: Any, **named: Any) -> T:
            waited: T = super().wait(self._until_end(gen), *args, **named)
            return waited

        def _until_end(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
            ready = None
            try:
                while True:
                    ready = yield gen.send(ready)
                    if time.monotonic() > self.ends:
                        self.close()
                        raise psycopg.OperationalError("no answer in time")
            except StopIteration as end:
                result: T = end.value
                return result

    class WireDumper(psycopg.adapt.Dumper):  # type: ignore[name-defined,misc]
        """Passes values on that are in binary format already; type 0 lets the server infer the type."""

        format = psycopg.pq.Format.BINARY
        oid = 0

        def dump(self, obj: Wire) -> bytes:
            return bytes(obj)

    return Limited, WireDumper


_GONE = {"42P01", "3F000", "42704"}
"""A table, a schema or a type that is not there."""
_CREDENTIAL = {"28000", "28P01"}
_TAKEN = "42P06"
_RIGHTS = "42501"
_LATE = {"57014", "55P03"}
"""A statement that was cancelled, and a lock that was not granted, both after a time."""
_FULL = {"53100", "53200"}
_ENDED = ("57P", "08")
_READ_ONLY = "25006"


def ended_by_server(error: psycopg.Error) -> bool:
    """Return True if the server ended the connection: it stops or restarts, or an administrator ended the session."""
    return _code(error).startswith(_ENDED)


def unreachable(error: psycopg.Error, address: str) -> RetrieveError:
    """Return the error for a connection that was not made."""
    reason = _reason(error)
    if _code(error) in _CREDENTIAL or "authentication failed" in reason or "no password supplied" in reason:
        hint = "check the user in pgvector.url, and the variable that pgvector.password_env names"
        return Unavailable(f"PostgreSQL at {address} rejects the credential", hint=hint)
    hint = "start the server, or set pgvector.url to its address"
    return Unavailable(f"PostgreSQL at {address} cannot be reached: {reason}", hint=hint)


def explained(error: psycopg.Error, address: str, *, timeout_s: float, late: bool) -> RetrieveError:
    """Return the error for a statement that failed."""
    code, reason = _code(error), _reason(error)
    if late or code in _LATE:
        hint = "raise pgvector.timeout_s, or find what keeps the server busy: SELECT * FROM pg_stat_activity"
        return Unavailable(f"PostgreSQL at {address} did not answer within {timeout_s:.3g} s", hint=hint)
    if code in _GONE:
        hint = "run `retrieve engines push`, which stores the generation again"
        return IndexCorrupt(f"PostgreSQL at {address} lacks a part of the index: {reason}", hint=hint)
    if code == _TAKEN:
        hint = "remove it if it is left over: DROP SCHEMA … CASCADE; or choose another pgvector.schema"
        return UsageError(f"PostgreSQL at {address} has something else of that name: {reason}", hint=hint)
    if code == _RIGHTS:
        hint = "let its owner grant the right: GRANT CREATE ON DATABASE … TO …; `retrieve doctor` prints the statement"
        return Unavailable(f"PostgreSQL at {address} denies a right: {reason}", hint=hint)
    if code in _FULL:
        hint = "free space on the server; a container needs shared memory for parallel builds: docker run --shm-size=2g"
        return Unavailable(f"PostgreSQL at {address} has no space or memory left: {reason}", hint=hint)
    if code == _READ_ONLY:
        hint = "set pgvector.url to the primary server, not to a replica"
        return Unavailable(f"PostgreSQL at {address} is read-only", hint=hint)
    hint = "see the server's log; `retrieve doctor` checks the server"
    return Unavailable(f"PostgreSQL at {address} failed: {reason}", hint=hint)


def _code(error: Any) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _reason(error: psycopg.Error) -> str:
    """Return the sentence of the server, without the statement and its values, which the details may quote."""
    return shortened(str(error.diag.message_primary or error).strip().partition("\n")[0], 200)
