"""Conversations with servers of tools (Model Context Protocol): list the tools of a server, and call one.

A server is started, or contacted over HTTP, for each conversation, which is bounded in time, bytes, pages and tools; a
started one ends with it, and so do its children. Errors quote a server without secrets and control characters.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import task
from retrieve_cli.contracts.tools import ToolServer
from retrieve_cli.errors import RetrieveError, SourceFailed, Unavailable, printable, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.http.addresses import check_url
from retrieve_cli.http.limits import ByteAllowance, TooMuchSent
from retrieve_cli.http.secrets import Secret, hide, quoted
from retrieve_cli.sources.remote.client_files import resolved
from retrieve_cli.sources.remote.transfer import ADDRESS
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")

_AT_ONCE = 16
"""Servers that are asked at the same time."""
_GRACE_S = 1.0
"""Seconds that a started server has to end after its input, and then to end when a signal asks it to."""
_KEPT, _EXCERPT, _LONGEST_ABOUT = 2048, 300, 4000
"""Last bytes of a standard error that are kept; characters of a text that an error quotes, and of a description."""


class ServerLimits(Frozen):
    """Limits of one conversation with a server."""

    seconds: float = 30.0
    max_bytes: int = 5 << 20
    tools: int = 10_000
    pages: int = 1000


class ToolListing(NamedTuple):
    """Name and description of a server, and the definitions of its tools as it sent them, without secrets."""

    name: str
    about: str
    tools: list[dict[str, Json]]


class _Conversation:
    """State of a conversation, for the words of its failure."""

    def __init__(self, server: ToolServer, limits: ServerLimits) -> None:
        """Raises: SourceFailed: the server cannot be started or contacted."""
        if server.problem:
            raise SourceFailed(server.problem)
        self.server, self.secrets = resolved(server)
        self.limits = limits
        self.allowance = ByteAllowance(limits.max_bytes)
        self.complaints = bytearray()
        """The end of the standard error of a started server."""

    def failure(self, error: BaseException) -> RetrieveError:
        """Return an error of the conversation in words."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, RetrieveError):
            return error
        is_started, tail = bool(self.server.command), self.complaints.decode("utf-8", "replace").strip()
        reason = f"it failed: {self._quoted(str(error) or type(error).__name__)}"
        if self.allowance.left < 0:
            reason = f"it sent more than {self.limits.max_bytes:,} bytes"
        elif isinstance(error, TimeoutError):
            reason = f"it did not answer within {self.limits.seconds:g} s"
        elif isinstance(error, OSError) and is_started:
            what = str(error.filename or self.server.command[0])  # its program, or the folder that it runs in
            reason = f"cannot start it: {error.strerror or type(error).__name__}: {self._quoted(what)}"
        elif self.allowance.status >= 400:
            reason = f"it answered with status {self.allowance.status}"
        reason += f"; it printed {self._quoted(tail[-_EXCERPT:])}" if tail else ""
        hint = "run its command in a terminal" if is_started else "check its address and credentials"
        return SourceFailed(printable(reason), hint=hint)

    def _quoted(self, text: str) -> str:
        return quoted(text, self.secrets, most=_EXCERPT)


def listings(servers: Sequence[ToolServer], limits: ServerLimits = ServerLimits()) -> list[ToolListing | RetrieveError]:
    """Return the tools of each server, or the reason why it has not listed them. Servers are asked in parallel.

    Raises:
        Unavailable: the package mcp is not installed.
    """
    answers: list[ToolListing | RetrieveError] = [SourceFailed("it was not asked")] * len(servers)

    async def ask_all() -> None:
        import anyio

        limiter = anyio.CapacityLimiter(_AT_ONCE)

        async def ask(number: int) -> None:
            async with limiter:
                try:
                    answers[number] = await _converse(servers[number], limits, _list)
                except RetrieveError as error:
                    answers[number] = error
                progress.advance()

        async with anyio.create_task_group() as group:
            for number in range(len(servers)):
                group.start_soon(ask, number)

    with task("asking servers", "servers", len(servers)) as progress:
        _run(ask_all)
    return answers


def call(
    server: ToolServer,
    tool: str,
    arguments: Mapping[str, Json],
    *,
    check: Callable[[Mapping[str, Json]], None],
    limits: ServerLimits = ServerLimits(),
) -> dict[str, Json]:
    """Call a tool and return the result as the server sent it, an object as in the protocol: `content`, `isError` …

    `check` is given the current definition, in the same conversation, before the call; an error that it raises
    ends the conversation.

    Raises:
        SourceFailed: the server does not answer, not with the protocol, or does not list the tool now.
        Unavailable: the package mcp is not installed.
    """

    async def ask(client: Client, talk: _Conversation) -> dict[str, Json]:
        from mcp_types import CallToolRequest, CallToolRequestParams, PaginatedRequestParams

        async for cursor, page in _pages(client, talk):
            for definition in page:
                if definition.get("name") != tool:
                    continue
                check(definition)
                if "x-mcp-header" in str(definition):  # the SDK makes headers of arguments of tools that it listed
                    await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                parameters = CallToolRequestParams(name=tool, arguments=dict(arguments))
                return await _sent(client, CallToolRequest(params=parameters))
        raise SourceFailed(f"it does not list {shortened(tool)} now", hint="run: retrieve sync")

    return _run(partial(_converse, server, limits, ask))


async def _list(client: Client, talk: _Conversation) -> ToolListing:
    tools: list[dict[str, Json]] = []
    async for _, page in _pages(client, talk):
        tools += page
        if len(tools) > talk.limits.tools:
            raise SourceFailed(f"it lists more than {talk.limits.tools:,} tools")
    info = client.server_info
    texts = [info and info.title, info and info.description, talk.server.description, client.instructions]
    about = "\n".join(dict.fromkeys(text.strip()[:_LONGEST_ABOUT] for text in texts if text and text.strip()))
    name, about = (hide(text, talk.secrets) for text in (info.name if info else "", about))
    return ToolListing(name, about[:_LONGEST_ABOUT], tools)


async def _pages(client: Client, talk: _Conversation) -> AsyncIterator[tuple[str | None, list[dict[str, Json]]]]:
    """Yield the pages of the list of tools, each behind its cursor."""
    from mcp_types import ListToolsRequest, PaginatedRequestParams

    cursor: str | None = None
    for _ in range(talk.limits.pages):
        page = await _sent(client, ListToolsRequest(params=PaginatedRequestParams(cursor=cursor)))
        tools = [_without(tool, talk.secrets) for tool in page["tools"]]
        if not all(isinstance(tool, dict) for tool in tools):
            raise SourceFailed("its list of tools has something else than definitions")
        yield cursor, tools
        cursor = page.get("nextCursor")
        if cursor is None:
            return
    raise SourceFailed(f"its list of tools has more than {talk.limits.pages:,} pages")


async def _sent(client: Client, request: Any) -> dict[str, Json]:
    """Return the answer to a request with all of its keys: types of the SDK drop those that they do not have."""
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter(dict[str, Any])
    return dict(await client.session.send_request(request, adapter))


def _without(value: Json, secrets: Sequence[Secret]) -> Json:
    """Return a value of JSON without secrets, which a server may repeat."""
    if isinstance(value, dict) and secrets:
        return {hide(key, secrets): _without(inner, secrets) for key, inner in value.items()}
    if isinstance(value, list) and secrets:
        return [_without(inner, secrets) for inner in value]
    return hide(value, secrets) if isinstance(value, str) else value


async def _converse(
    server: ToolServer, limits: ServerLimits, ask: Callable[[Client, _Conversation], Awaitable[T]]
) -> T:
    """Return what `ask` returns for a client of the server. Raises: SourceFailed."""
    import anyio
    from mcp import Client
    from mcp_types import Implementation

    talk = _Conversation(server, limits)
    transport = _started(talk) if server.command else _contacted(talk)
    try:
        with anyio.fail_after(limits.seconds):
            info = Implementation(name="retrieve", version=__version__)
            async with Client(transport, cache=None, client_info=info) as client:
                return await ask(client, talk)
    except Exception as error:  # noqa: BLE001  a server may answer anything, and the SDK raise anything
        raise talk.failure(error) from None


@asynccontextmanager
async def _contacted(talk: _Conversation) -> AsyncIterator[Any]:
    """Connect to a server by HTTP."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    from retrieve_cli.http.bounded import bounded_client

    url, limits = talk.server.url, talk.limits
    check_url(url, ADDRESS)
    async with bounded_client(talk.server.headers, allowance=talk.allowance, seconds=limits.seconds) as client:
        made: Any = lambda **_: nullcontext(client)  # noqa: E731  the type of such a function is not public
        newer = streamable_http_client(url, http_client=client, max_sse_event_size=limits.max_bytes)
        async with sse_client(url, httpx_client_factory=made) if talk.server.transport == "sse" else newer as streams:
            yield streams


@asynccontextmanager
async def _started(talk: _Conversation) -> AsyncIterator[Any]:
    """Start a server, and end it with its children."""
    import anyio
    from mcp.client.stdio import get_default_environment

    server = talk.server
    environment = {**get_default_environment(), **server.environment}
    process = await anyio.open_process(server.command, env=environment, cwd=server.folder, start_new_session=True)
    inbox, answers = anyio.create_memory_object_stream[Any](0)
    requests, outbox = anyio.create_memory_object_stream[Any](0)
    with inbox, answers, requests, outbox:
        async with anyio.create_task_group() as group:
            for work in (_read(process, inbox, talk), _write(process, outbox), _keep(process, talk.complaints)):
                group.start_soon(_until_closed, work)
            try:
                yield answers, requests
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                group.cancel_scope.cancel()


async def _until_closed(work: Awaitable[None]) -> None:
    import anyio

    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, TooMuchSent):
        await work


async def _read(process: Any, inbox: Any, talk: _Conversation) -> None:
    """Pass on the messages that a server prints, counted before they are held in memory; other lines are skipped, as
    its log would be."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    pieces: list[bytes] = []
    async with inbox:
        async for piece in process.stdout:
            talk.allowance.take(len(piece))
            pieces.append(piece)
            if b"\n" in piece:
                *lines, rest = b"".join(pieces).split(b"\n")
                pieces = [rest]
                for line in lines:
                    with suppress(ValueError):
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                        await inbox.send(SessionMessage(message))


async def _write(process: Any, outbox: Any) -> None:
    async for sent in outbox:
        text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
        await process.stdin.send(f"{text}\n".encode())


async def _keep(process: Any, complaints: bytearray) -> None:
    async for piece in process.stderr:
        complaints += piece
        del complaints[:-_KEPT]


async def _end(process: Any) -> None:
    """End a started server: close its input, then ask it and its children to end, then kill them."""
    import anyio
    from mcp.os.posix.utilities import terminate_posix_process_tree

    await _until_closed(process.stdin.aclose())
    with anyio.move_on_after(_GRACE_S):
        while process.returncode is None:  # noqa: ASYNC110  `wait` would wait for children that hold its pipes, too
            await anyio.sleep(0.01)
    await terminate_posix_process_tree(process, _GRACE_S)
    await _until_closed(process.stdout.aclose())
    await _until_closed(process.stderr.aclose())
    if transport := getattr(getattr(process, "_process", None), "_transport", None):
        transport.close()  # a child that left the group may hold a pipe, for whose end it would wait


def _run(ask: Callable[[], Awaitable[T]]) -> T:
    """Return the result of an asynchronous function, also in a thread that runs others, as a notebook does.

    Raises:
        Unavailable: the package mcp is not installed.
    """
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        hint = "pip install 'retrieve-cli[serve]'"
        raise Unavailable("servers of tools need the package mcp, which is not installed", hint=hint) from error
    import asyncio

    import anyio

    for name in ("mcp", "client", "httpx2"):  # they log what servers send, and addresses
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(ask)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, ask).result()
