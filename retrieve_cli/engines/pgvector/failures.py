"""Failures of PostgreSQL in words, with the SQL or the setting that fixes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieve_cli.errors import IndexCorrupt, RetrieveError, Unavailable, UsageError, shortened

if TYPE_CHECKING:
    import psycopg

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
