"""The application as a server runs it: its requests are checked, and all can be ended at once, each with an answer.

Checked are host and origin (CORS) and fresh credentials; answers tell limits and caching.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from retrieve_cli.errors import quoted
from retrieve_cli.server.http.answers import error_response
from retrieve_cli.server.http.callers import Callers, Hosts
from retrieve_cli.server.http.requests import RejectedRequest

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CLOSING_S = 0.5
"""Seconds for the last answers, once the grace period is over."""
NOSNIFF = (b"x-content-type-options", b"nosniff")
"""Header of every answer: a browser obeys the declared type and never guesses a page or a script."""
ROOT = re.compile(r"(?:/[A-Za-z0-9._~-]++)++")
"""A path below which a proxy has the server: not the address of another host."""


class Service:
    """An ASGI application in front of another one."""

    def __init__(
        self,
        app: ASGIApp,
        busy: Callable[[], bool],
        around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
        paths: Collection[str] = (),
    ) -> None:
        """`busy` returns True during a computation; `around` puts an application around all answers; `paths` are those
        of the application itself."""
        self._app, self._busy, self._paths = app, busy, paths
        self.root = ""
        """The path below which a proxy has this server, if the proxy does not send X-Forwarded-Prefix."""
        self._entry = around(self._answer)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """True if a computation has begun and not ended, even if no client waits for it."""
        return self._busy()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), NOSNIFF]
            await send(message)

        if scope["type"] == "http":
            await self._entry(self._below(scope), receive, marked)
        else:
            await self._app(scope, partial(self._received, receive), send)

    def _below(self, scope: Scope) -> Scope:
        """Return a request below the root of the proxy, which may have passed the root on, or not."""
        sent = dict(scope["headers"]).get(b"x-forwarded-prefix", b"").decode("latin-1").rstrip("/")
        root, path = sent if ROOT.fullmatch(sent) else self.root, scope["path"]
        if not root:
            return scope
        if path not in self._paths and f"{path}/".startswith(f"{root}/"):
            path = path.removeprefix(root) or "/"
        return {**scope, "root_path": root, "path": root + path if path.startswith(root) else path}

    async def _received(self, receive: Receive) -> Message:
        """Return the next event of the server's life; its end comes after the last answer."""
        message = await receive()
        if message["type"] == "lifespan.shutdown" and self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING_S)
        return message

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        if not (await self._completed(self._app(scope, receive, noting)) or begun):
            stopping = RejectedRequest(503, "the server is stopping", code="stopping")
            await error_response(stopping, scope)(scope, receive, noting)

    async def _completed(self, answering: Awaitable[None]) -> bool:
        """Return True once a request is answered, False if it was cancelled: at the end of the grace period.

        The request runs in a separate task: a server that is cancelled during a request would write a traceback.
        """
        task = asyncio.ensure_future(answering)
        own = asyncio.current_task()
        if own is not None:
            self._tasks.add(own)
            own.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return False
        if task.cancelled():
            return False
        task.result()
        return True


_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, If-None-Match, Prefer, X-API-Key, X-Request-Id, "
    "Mcp-Session-Id",
    "Access-Control-Max-Age": "600",
}
"""Headers of the answer to a browser that asks before a request of another origin."""
_EXPOSED = "ETag, Location, RateLimit, RateLimit-Policy, Retry-After, Server-Timing, WWW-Authenticate, X-Request-Id"


class Guard:
    """An ASGI application in front of another one."""

    def __init__(self, app: ASGIApp, hosts: Hosts | None, callers: Callers) -> None:
        """`hosts` is None for a server that no browser reaches: on a socket of the file system."""
        self._app, self._hosts, self._callers = app, hosts, callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from starlette.datastructures import Headers, MutableHeaders
        from starlette.responses import Response

        headers = Headers(scope=scope)
        origin = headers.get("origin")
        listed = origin is not None and self._hosts is not None and self._hosts.listed(origin)

        async def completed(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                if self._callers.required:  # no cache may give the answer to another caller (RFC 9111, 5.2.2.7)
                    added.setdefault("Cache-Control", "private, no-cache")
                if origin is not None and listed:
                    added["Access-Control-Allow-Origin"] = origin
                    added["Access-Control-Expose-Headers"] = _EXPOSED
                    added.add_vary_header("Origin")
            await send(message)

        answer = self._rejection(scope, headers, origin)
        asks = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        if answer is None and listed and asks:
            answer = Response(status_code=204, headers=_PREFLIGHT)
        if answer is not None:
            await answer(scope, receive, completed)
            return
        await self._callers.prepare(headers)
        await self._app(scope, receive, completed)

    def _rejection(self, scope: Scope, headers: Headers, origin: str | None) -> Response | None:
        """Return the answer to a request for another host, or of a page that may not use this server."""
        if "content-length" in headers and "transfer-encoding" in headers:  # RFC 9112, 6.1: it may hide another request
            said = "a request with both Content-Length and Transfer-Encoding is not answered"
            rejected = RejectedRequest(400, said, code="bad_request", headers={"Connection": "close"})
            return error_response(rejected, scope)
        if self._hosts is None or (scope.get("server") or ("", 0))[1] is None:
            return None
        sent = headers.getlist("host")
        if not self._hosts.accepts(sent):
            host = quoted(sent[0]) if len(sent) == 1 else f"{len(sent)} hosts"
            said = f"this server does not answer for {host}"
            rejected = RejectedRequest(421, said, code="host", hint="the operator can allow it: --allowed-host HOST")
        elif origin is not None and not self._hosts.permits(origin, sent[0]):
            said = f"pages of {quoted(origin)} may not use this server"
            hint = "the operator can allow it: --allowed-origin ORIGIN"
            rejected = RejectedRequest(403, said, code="origin", hint=hint)
        else:
            return None
        return error_response(rejected, scope)
