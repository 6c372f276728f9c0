"""Facts about a server, and what keeps it from being used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from retrieve_cli.engines.pgvector.connections import Connections, statement

_OLDEST = 130_000
_OLDEST_EXTENSION = (0, 8, 0)
_PAGE = 8192


def facts(connections: Connections) -> dict[str, Any]:
    """Return facts about the server, the database and the user's rights."""
    names = (
        "server", "number", "available", "installed", "database", "user", "may_create",
        "encoding", "replica", "buffers",
    )  # fmt: skip
    [found] = connections.query(
        statement(
            "SELECT current_setting('server_version'), current_setting('server_version_num')::integer,"
            " (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),"
            " (SELECT extversion FROM pg_extension WHERE extname = 'vector'), current_database()::text,"
            " current_user::text, has_database_privilege(current_database(), 'CREATE'),"
            " current_setting('server_encoding'), pg_is_in_recovery(), pg_size_bytes(current_setting('shared_buffers'))"
        ),
        {},
    )
    return dict(zip(names, found, strict=True))


def description(connections: Connections, known: Mapping[str, Any]) -> dict[str, str]:
    """Return facts for people."""
    return {
        "server": f"PostgreSQL {known['server']}",
        "pgvector": str(known["installed"] or "not created"),
        "address": connections.address,
    }


def problems(known: Mapping[str, Any], *, bytes_live: int) -> Iterator[tuple[str, str]]:
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
    if known["encoding"] != "UTF8":
        yield (
            f"the database has the encoding {known['encoding']}",
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0;",
        )
    if known["replica"]:
        yield (
            "the server is a replica, to which nothing can be pushed",
            "set pgvector.url to the primary server",
        )
    if bytes_live > known["buffers"] * 2:
        size = f"{bytes_live / 2**30:.3g} GiB"
        fix = f"ALTER SYSTEM SET shared_buffers = '{-(-bytes_live // 2**30)}GB'; and restart"
        yield f"the current generation has {size}, and the server caches {known['buffers'] / 2**30:.3g} GiB", fix


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(".")[:3] if number.isdigit())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
