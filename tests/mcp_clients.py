"""Clients of the Model Context Protocol for tests: the SDK's own, on a server in this process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from mcp import Client
from mcp_types import Implementation

from retrieve_cli.api.live import LiveIndex
from retrieve_cli.config.loading import load
from retrieve_cli.server.http.callers import SCOPES, Caller
from retrieve_cli.server.mcp.host import Host, WebHost
from retrieve_cli.server.mcp.server import server_of
from retrieve_cli.storage.store import Store

T = TypeVar("T")


async def in_thread(_: Any, function: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(function)


def host_of(
    artifacts: Path, *, tenant: str | None = None, texts: str | None = None, web: Any = None, local: Any = None
) -> Host:
    """Return the surroundings of a server whose only caller has all scopes; `web` is its web search, `local` what
    checks paths of files."""
    caller = Caller(tenant, frozenset(SCOPES), "test")
    found = None if web is None else WebHost(web, in_thread)
    return Host(LiveIndex(Store(artifacts), load(None)), in_thread, lambda _: caller, texts, web=found, local=local)


@asynccontextmanager
async def connected(
    artifacts: Path, *, name: str = "test", mode: str = "auto", **surroundings: Any
) -> AsyncIterator[Client]:
    """Yield a client of that name, connected to a server in this process: `surroundings` are those of `host_of`."""
    server = server_of(host_of(artifacts, **surroundings))
    async with Client(server, mode=mode, client_info=Implementation(name=name, version="1")) as client:
        yield client


def called(artifacts: Path, tool: str, arguments: dict[str, Any], **given: Any) -> Any:
    """Return the answer to one call of a tool; `given` are those of `connected`."""

    async def call() -> Any:
        async with connected(artifacts, **given) as client:
            return await client.call_tool(tool, arguments)

    return anyio.run(call)


def text_of(result: Any) -> str:
    """Return the text of an answer's content."""
    return str(result.content[0].text)
