"""Conversations with servers of tools (Model Context Protocol): list the tools of a server, and call one.

A server is started, or contacted over HTTP, for each conversation, which is bounded in time, bytes, pages and tools; a
started one ends with it, and so do its children. Errors quote a server without secrets and control characters.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import ToolServer
from retrieve_cli.errors import RetrieveError, SourceFailed, Unavailable, printable, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.http.addresses import check_url
from retrieve_cli.http.limits import Allowance, TooMuchSent
from retrieve_cli.http.secrets import Secret, quoted
from retrieve_cli.sources.remote.client_files import resolved
from retrieve_cli.sources.remote.transfer import ADDRESS
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")

INSTALL = "pip install 'retrieve-cli[serve]'"
_AT_ONCE = 16
"""Servers that are asked at the same time."""
_GRACE_S = 1.0
"""Seconds that a started server has to end by itself, and then to end when it is told to."""
_KEPT, _EXCERPT = 2048, 300
"""Last bytes of the standard error of a server that are kept, and characters of a text that an error quotes."""
_LONGEST_ABOUT = 4000
"""Characters of the description of a server."""


class ServerLimits(Frozen):
    """Limits of one conversation with a server."""

    seconds: float = 30.0
    max_bytes: int = 5 << 20
    tools: int = 10_000
    pages: int = 1000


class Listing(NamedTuple):
    """Tools of a server, as it sent them, and what it says about itself."""

    name: str
    about: str
    tools: list[dict[str, Json]]


class _Conversation:
    """What is known about a conversation when it fails."""

    def __init__(self, server: ToolServer, secrets: Sequence[Secret], limits: ServerLimits) -> None:
        self.server, self.secrets, self.limits = server, secrets, limits
        self.allowance = Allowance(limits.max_bytes)
        self.complaints = bytearray()
        """The end of the standard error of a started server."""

    def failure(self, error: BaseException) -> SourceFailed:
        """Return an error of the conversation in words."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        what = self.server.command[0] if self.server.command else "the server"
        hint = "run its command in a terminal" if self.server.command else "check the address and its credentials"
        if self.allowance.left < 0:
            reason = f"it sent more than {self.limits.max_bytes:,} bytes"
        elif isinstance(error, TimeoutError):
            reason = f"it did not answer within {self.limits.seconds:g} s"
        elif isinstance(error, OSError) and self.server.command:
            reason = f"cannot start {shortened(what)}: {error.strerror or type(error).__name__}"
        elif self.allowance.status >= 400:
            reason = f"it answered with status {self.allowance.status}"
        else:
            reason = f"it failed: {self._quoted(str(error) or type(error).__name__)}"
        if tail := self.complaints.decode("utf-8", "replace").strip():
            reason += f"; it printed {self._quoted(tail[-_EXCERPT:])}"
        return SourceFailed(printable(reason), hint=hint)

    def _quoted(self, text: str) -> str:
        return quoted(text, self.secrets, most=_EXCERPT)


def listings(servers: Sequence[ToolServer], limits: ServerLimits = ServerLimits()) -> list[Listing | RetrieveError]:
    """Return the tools of each server, or the reason why there are none. Servers are asked in parallel.

    Raises:
        Unavailable: the package mcp is not installed.
    """

    async def ask() -> list[Listing | RetrieveError]:
        import anyio

        answers: list[Listing | RetrieveError] = [SourceFailed("it was not asked")] * len(servers)
        limiter = anyio.CapacityLimiter(_AT_ONCE)

        async def one(number: int, server: ToolServer) -> None:
            async with limiter:
                try:
                    answers[number] = await _conversation(server, limits, partial(_list, limits=limits))
                except RetrieveError as error:
                    answers[number] = error

        async with anyio.create_task_group() as group:
            for number, server in enumerate(servers):
                group.start_soon(one, number, server)
        return answers

    return _run(ask)


def call(
    server: ToolServer,
    tool: str,
    arguments: Mapping[str, Json],
    *,
    check: Callable[[Mapping[str, Json]], None],
    limits: ServerLimits = ServerLimits(),
) -> dict[str, Json]:
    """Call a tool and return the result as the server sent it, an object as in the protocol: `content`, `isError` …

    `check` is given the definition that the server has now, before anything is called, in the same conversation; what
    it raises ends the conversation.

    Raises:
        SourceFailed: the server does not answer, or not with the protocol.
        UsageError: a variable of its configuration is not set, or it has no such tool.
        Unavailable: the package mcp is not installed.
    """

    async def ask(client: Client) -> dict[str, Json]:
        from mcp_types import CallToolRequest, CallToolRequestParams, PaginatedRequestParams
        from pydantic import TypeAdapter

        async for place, page in _pages(client, limits):
            definition, cursor = next((each for each in page if each.get("name") == tool), None), place
            if definition is not None:
                break
        else:
            raise SourceFailed(f"it has no tool {quoted(tool, (), most=80)} now", hint="run: retrieve sync")
        check(definition)
        if "x-mcp-header" in str(definition):  # the SDK sends such arguments as headers of tools that it listed itself
            await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        return await client.session.send_request(request, TypeAdapter(dict[str, Any]))

    return _run(partial(_conversation, server, limits, ask))


async def _list(client: Client, *, limits: ServerLimits) -> Listing:
    tools: list[dict[str, Json]] = []
    async for _, page in _pages(client, limits):
        tools += page
        if len(tools) > limits.tools:
            raise SourceFailed(f"it lists more than {limits.tools:,} tools")
    info = client.server_info
    parts = [info.title, info.description, client.instructions] if info else [client.instructions]
    about = "\n".join(dict.fromkeys(part.strip()[:_LONGEST_ABOUT] for part in parts if part and part.strip()))
    return Listing(info.name if info else "", about[:_LONGEST_ABOUT], tools)


async def _pages(client: Client, limits: ServerLimits) -> AsyncIterator[tuple[str | None, list[dict[str, Json]]]]:
    """Yield the pages of the list of tools, each with its cursor; the definitions are as the server sent them."""
    from mcp_types import ListToolsRequest, PaginatedRequestParams
    from pydantic import TypeAdapter

    cursor: str | None = None
    adapter = TypeAdapter(dict[str, Any])
    for _ in range(limits.pages):
        request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
        page = await client.session.send_request(request, adapter)
        yield cursor, page["tools"]
        cursor = page.get("nextCursor")
        if cursor is None:
            return
    raise SourceFailed(f"its list of tools has more than {limits.pages:,} pages")


async def _conversation(server: ToolServer, limits: ServerLimits, ask: Callable[[Client], Any]) -> Any:
    """Return what `ask` returns for a client of the server. Raises: SourceFailed, UsageError."""
    import anyio
    from mcp import Client
    from mcp_types import Implementation

    if server.problem:
        raise SourceFailed(server.problem)
    server, secrets = resolved(server)
    talk = _Conversation(server, secrets, limits)
    transport = _started(talk) if server.command else _contacted(talk)
    caller = Implementation(name="retrieve", version=__version__)
    try:
        with anyio.fail_after(limits.seconds):
            async with Client(transport, cache=None, client_info=caller) as client:
                return await ask(client)
    except Exception as error:  # noqa: BLE001  a server may answer anything, and the SDK raise anything
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error if isinstance(error, RetrieveError) else talk.failure(error) from None


@asynccontextmanager
async def _contacted(talk: _Conversation) -> AsyncIterator[Any]:
    """Connect to a server by HTTP."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    from retrieve_cli.http.bounded import bounded_client

    server, limits = talk.server, talk.limits
    check_url(server.url, ADDRESS)
    headers = {name: Secret(value) for name, value in server.headers.items()}
    client = bounded_client(headers, allowance=talk.allowance, seconds=limits.seconds)
    if server.transport == "sse":
        async with sse_client(server.url, httpx_client_factory=lambda **_: client) as streams:
            yield streams
        return
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=limits.max_bytes) as streams,
    ):
        yield streams


@asynccontextmanager
async def _started(talk: _Conversation) -> AsyncIterator[Any]:
    """Start a server, and end it with all its children. Its output is counted before it is held in memory."""
    import anyio
    from mcp.client.stdio import get_default_environment
    from mcp.shared.message import SessionMessage

    server = talk.server
    environment = {**get_default_environment(), **server.environment}
    process = await anyio.open_process(list(server.command), env=environment, cwd=server.folder, start_new_session=True)
    inbox, answers = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    requests, outbox = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process, inbox, talk)
        group.start_soon(_write, process, outbox)
        group.start_soon(_keep_complaints, process, talk.complaints)
        try:
            yield answers, requests
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
            group.cancel_scope.cancel()
            for stream in (inbox, answers, requests, outbox):
                stream.close()


async def _read(process: Any, inbox: Any, talk: _Conversation) -> None:
    """Pass on the messages that a server prints; lines that are not messages are skipped, as its log would be."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    pieces: list[bytes] = []
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, TooMuchSent):
        async with inbox:
            async for piece in process.stdout:
                talk.allowance.take(len(piece))
                pieces.append(piece)
                if b"\n" not in piece:
                    continue
                *lines, rest = b"".join(pieces).split(b"\n")
                pieces = [rest]
                for line in lines:
                    with suppress(ValueError):
                        await inbox.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))


async def _write(process: Any, outbox: Any) -> None:
    import anyio

    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for sent in outbox:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(f"{text}\n".encode())


async def _keep_complaints(process: Any, complaints: bytearray) -> None:
    import anyio

    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for piece in process.stderr:
            complaints += piece
            del complaints[:-_KEPT]


async def _end(process: Any) -> None:
    """End a started server: its input ends; then it and its children are told to end, and then killed."""
    import anyio
    from mcp.os.posix.utilities import terminate_posix_process_tree

    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    with anyio.move_on_after(_GRACE_S):
        while process.returncode is None:  # noqa: ASYNC110  `wait` would wait for children that hold its pipes, too
            await anyio.sleep(0.01)
    await terminate_posix_process_tree(process, _GRACE_S)
    for pipe in (process.stdout, process.stderr):
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await pipe.aclose()
    # A child that left the group may hold a pipe: without this, the transport would wait for it.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        transport.close()


def _run(ask: Callable[[], Any]) -> Any:
    """Return the result of an asynchronous function, also if this thread runs others, as a notebook does.

    Raises:
        Unavailable: the package mcp is not installed.
    """
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise Unavailable("servers of tools need the package mcp, which is not installed", hint=INSTALL) from error
    import asyncio

    import anyio

    for name in ("mcp.client", "mcp.shared", "client", "httpx2"):  # they log what servers send, and addresses
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(ask)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, ask).result()
