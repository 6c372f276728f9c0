"""MCP over standard input and output: one client, whose requests are answered in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server

from retrieve_cli.api.additions import Additions, publish_live
from retrieve_cli.api.documents import Documents
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.config.trust import outside
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.server.http.callers import SCOPES, Caller
from retrieve_cli.server.http.pool import web_search_of
from retrieve_cli.server.http.syncing import Syncing, SyncOptions
from retrieve_cli.server.mcp.host import BlockingRunner, Host, McpOptions, WebHost
from retrieve_cli.server.mcp.server import server_of
from retrieve_cli.server.mcp.writing import DocumentWriter

T = TypeVar("T")

_THREADS = 4


def serve_stdio(
    opened: Callable[[], LiveIndex], options: McpOptions, *, tenant: str | None = None, flags: Sequence[str] = ()
) -> None:
    """Answer one client on standard input and output, until it closes them; `flags` are those with which a sync finds
    the configuration.

    Nothing but the protocol is written to standard output: what libraries print goes to standard error, from before
    the index is opened on.
    """

    async def serve() -> None:
        limiter = anyio.CapacityLimiter(_THREADS)
        caller = Caller(tenant, frozenset(SCOPES), "stdio")
        async with stdio_server() as (reader, writer):
            live = await anyio.to_thread.run_sync(opened, limiter=limiter)
            live.follow()
            with _syncing(live, flags) if options.writes else nullcontext() as writing:
                search = web_search_of(live.settings, live.store.path)
                web = None if search is None else WebHost(search, _runner(anyio.CapacityLimiter(_THREADS)))
                local = partial(local_file, folders=live.settings.mcp.files or [Path.cwd()])
                host = Host(live, _runner(limiter), lambda _: caller, options.texts, writing, web, local)
                server = server_of(host)
                try:
                    await server.run(reader, writer, server.create_initialization_options())
                finally:
                    live.close()

    anyio.run(serve)


def local_file(path: str, folders: Sequence[Path]) -> str:
    """Return the path of a file or folder in one of the folders, links followed. Raises: UsageError: it is outside."""

    def within(place: str | Path) -> bool:
        return any(not outside(place, folder) for folder in folders)

    with suppress(ValueError):  # no file can have this name
        if within(path) and all(within(each) for each in Path(path).rglob("*") if each.is_symlink()):
            return path
    message = f"{quoted(path)}, or a link in it, is outside of `mcp.files` ({', '.join(map(str, folders))})"
    raise UsageError(message, hint="copy it there, or add its folder in config.yaml: mcp: {files: [FOLDER]}")


def _runner(limiter: anyio.CapacityLimiter) -> BlockingRunner:
    """Return a runner of blocking work in so many threads."""

    async def run(_: Any, function: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(function, limiter=limiter, abandon_on_cancel=True)

    return run


@contextmanager
def _syncing(live: LiveIndex, flags: Sequence[str]) -> Iterator[DocumentWriter]:
    """Yield a writer, whose syncs run in the background."""
    documents = Documents(live.store, live.settings)
    publish = partial(publish_live, live, Additions(live.store))
    syncing = Syncing(live.store, documents, SyncOptions(flags), publish=publish, on_sync=live.refresh)
    syncing.start()
    try:
        yield DocumentWriter(documents, syncing)
    finally:
        syncing.close()
