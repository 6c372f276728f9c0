"""MCP over standard input and output: one client, whose requests are answered in threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server

from retrieve_cli.api.live import LiveIndex
from retrieve_cli.serving.callers import SCOPES, Caller
from retrieve_cli.serving.mcp.host import Host
from retrieve_cli.serving.mcp.server import server_of

T = TypeVar("T")

_THREADS = 4


def serve_stdio(
    opened: Callable[[], LiveIndex], *, tenant: str | None = None, texts: str | None = None, writes: bool = False
) -> None:
    """Answer one client on standard input and output, until it closes them.

    Nothing but the protocol is written to standard output: what libraries print goes to standard error, from before
    the index is opened on.
    """
    anyio.run(partial(_serve, opened, tenant=tenant, texts=texts, writes=writes))


async def _serve(opened: Callable[[], LiveIndex], *, tenant: str | None, texts: str | None, writes: bool) -> None:
    limiter = anyio.CapacityLimiter(_THREADS)

    async def run(_: Any, function: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(function, limiter=limiter, abandon_on_cancel=True)

    caller = Caller(tenant, frozenset(SCOPES), "stdio")
    async with stdio_server() as (reader, writer):
        live = await anyio.to_thread.run_sync(opened, limiter=limiter)
        live.follow()
        server = server_of(Host(live, run, lambda _: caller, texts, writes))
        try:
            await server.run(reader, writer, server.create_initialization_options())
        finally:
            live.close()
