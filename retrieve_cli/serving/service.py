"""The application as a server runs it: all running requests can be ended at once, each with an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from retrieve_cli.serving.answers import error_response
from retrieve_cli.serving.requests import Rejected

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


NOSNIFF = (b"x-content-type-options", b"nosniff")
"""Header of every answer: a browser takes it for what its type says, and not for a page or a script."""


class Service:
    """An ASGI application in front of another one."""

    def __init__(
        self, app: ASGIApp, busy: Callable[[], bool], around: Callable[[ASGIApp], ASGIApp] = lambda app: app
    ) -> None:
        """`busy` returns True during a computation; `around` puts an application around all answers."""
        self._app = app
        self._busy = busy
        self._entry = around(self._answer)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def busy(self) -> bool:
        """True if a computation has begun and not ended, even if no client waits for it."""
        return self._busy()

    def give_up(self) -> None:
        """Answer running and later requests with 503. To be called in the thread of the server."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), NOSNIFF]
            await send(message)

        if scope["type"] == "http":
            await self._entry(scope, receive, marked)
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        answered = not self._stopped and await self._completed(self._app(scope, receive, noting))
        if not (answered or begun):
            stopping = Rejected(503, "the server is stopping", code="stopping")
            found = scope.get("state", {}).get("request_id")
            await error_response(stopping, path=scope["path"], request_id=found)(scope, receive, noting)

    async def _completed(self, answering: Awaitable[None]) -> bool:
        """Return True once a request is answered, False if it was cancelled.

        In a task of its own: a server that is cancelled in the middle of a request writes a traceback about it.
        """
        task = asyncio.ensure_future(answering)
        self._tasks.add(task)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            raise
        finally:
            self._tasks.discard(task)
        if task.cancelled():
            return False
        task.result()
        return True
