"""MCP over HTTP: `/mcp`, Streamable HTTP without sessions, so that any worker answers any request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.server.http.observing import observed
from retrieve_cli.server.http.state import State

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import Receive, Scope, Send

T = TypeVar("T")

PATH = "/mcp"
_CALLER = "retrieve.caller"
"""Key of an ASGI scope with the caller."""


def router(state: State) -> APIRouter:
    """Return the route of MCP."""
    door = _Door(state)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await door.close()

    async def mcp(request: Request) -> Response:
        """Answer a message of the Model Context Protocol."""
        request.scope[_CALLER] = state.callers.of(request, "search")
        return _Answer(await door.opened())

    routes = APIRouter(tags=["mcp"], lifespan=lifespan)
    routes.add_api_route(PATH, mcp, methods=["POST"], include_in_schema=False)
    return routes


class _Door:
    """The SDK's side of the route. It is imported at the first request, so that the server starts sooner."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._opening: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._ended = asyncio.Event()

    async def opened(self) -> StreamableHTTPSessionManager:
        """Return the manager of requests, which runs."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._opening = asyncio.create_task(self._run(self._opened))
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """End the requests that are running."""
        self._ended.set()
        if self._opening is not None:
            await self._opening

    async def _run(self, opened: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """Run the manager in a separate task, as its group of tasks demands."""
        try:
            manager = await asyncio.to_thread(_manager, self._state)
        except Exception as error:  # noqa: BLE001  each request that waits for it fails with it
            opened.set_exception(error)
            return
        async with manager.run():
            opened.set_result(manager)
            await self._ended.wait()


def _manager(state: State) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from retrieve_cli.server.mcp.host import Host, WebHost
    from retrieve_cli.server.mcp.outcomes import ToolOutcome
    from retrieve_cli.server.mcp.server import server_of
    from retrieve_cli.server.mcp.writing import DocumentWriter

    async def run(context: Any, function: Callable[[], T]) -> T:
        value = await state.pool.run(context.request, function)
        if isinstance(value, ToolOutcome):
            observed(context.request).answers = value.answers
        return value

    async def run_web(context: Any, function: Callable[[], T]) -> T:
        return await state.web.run(context.request, function)

    writer = DocumentWriter(state.documents, state.syncing) if state.mcp.writes else None
    web = WebHost(state.web.search, run_web) if state.web.enabled else None
    host = Host(state.live, run, lambda context: context.request.scope[_CALLER], state.mcp.texts, writer, web)
    most = state.limits.bytes
    return StreamableHTTPSessionManager(server_of(host), json_response=True, stateless=True, max_request_body_size=most)


class _Answer(Response):
    """The answer of the SDK, which reads the body itself."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        super().__init__()
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)
