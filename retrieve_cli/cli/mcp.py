"""`retrieve mcp`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from retrieve_cli.cli.options import Shared, option, shared
from retrieve_cli.errors import Exit, Unavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from retrieve_cli.config.settings import Settings
    from retrieve_cli.server.mcp.host import McpOptions


class TextChannel(StrEnum):
    """Channels of an answer that carry the texts."""

    content = "content"
    structured = "structured"
    both = "both"


McpTexts = Annotated[
    TextChannel | None,
    option("--mcp-texts", "Channel of MCP answers that carries texts; default: the one the client reads."),
]
AllowWrites = Annotated[
    bool, option("--allow-writes", "Let MCP clients add documents and sync the index, if they may.")
]


def mcp_options(texts: TextChannel | None, *, writes: bool) -> McpOptions:
    """Return the choices that flags make."""
    from retrieve_cli.server.mcp.host import McpOptions

    return McpOptions(None if texts is None else texts.value, writes)


@shared("text")
def mcp(
    texts: McpTexts = None,
    tenant: Annotated[str | None, option("--tenant", "Answer from the records of this tenant only.", "X")] = None,
    allow_writes: AllowWrites = False,
    server: Annotated[
        str | None, option("--server", "Pass messages to this `retrieve serve`; load no index here.", "URL")
    ] = None,
    *,
    shared: Shared,
) -> None:
    """Answer an MCP client on standard input and output: tools that search documents, records and tools of servers.

    The client starts it: `claude mcp add retrieve -- retrieve mcp --artifacts /path/to/artifacts`. `retrieve serve`
    answers the same over HTTP, at /mcp. A new generation of the index is opened once it is published. With --server,
    any number of sessions share the index and the models of one running server.
    """
    settings = shared.settings("query", server=server)
    if settings.query.server is not None:
        _pass_on(settings, {"--mcp-texts": texts, "--tenant": tenant, "--allow-writes": allow_writes or None})
        return
    from retrieve_cli.api.live import LiveIndex

    try:
        with _classes_on_demand():
            from retrieve_cli.server.mcp.stdio import serve_stdio
    except ImportError as error:
        message = f"MCP needs the package mcp; {error.name} is not installed"
        raise Unavailable(message, hint="pip install 'retrieve-cli[serve]'") from error
    _end_at_once()
    options = mcp_options(texts, writes=allow_writes)
    serve_stdio(lambda: LiveIndex(shared.store, settings), options, tenant=tenant, flags=shared.config_flags)


def _pass_on(settings: Settings, flags: Mapping[str, object]) -> None:
    """Pass messages to the configured server.

    Raises:
        UsageError: the address is invalid, or one of the flags, which are for an index of this machine, has a value.
        Unavailable: the variable of the key is not set.
    """
    from retrieve_cli.cli.mcp_passing import THREADS, pass_on
    from retrieve_cli.cli.server_client import ServerClient

    settings.expect_trusted("query")
    for flag in (flag for flag, value in flags.items() if value is not None):
        raise UsageError(f"{flag} does not go with --server URL", hint="remove it: the server decides")
    _end_at_once()
    pass_on(ServerClient(settings.query, connections=THREADS), sys.stdin.buffer, sys.stdout.buffer)


@contextmanager
def _classes_on_demand() -> Iterator[None]:
    """Import the SDK without the validators of its 550 classes, of which a session uses a few dozen: pydantic makes
    them at their first use. They, and looking for garbage meanwhile, are a third of the time to the
    first answer."""
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        del BaseModel.model_config["defer_build"]


def _end_at_once() -> None:
    """End on SIGTERM and SIGINT although a thread waits for the next message: nothing is lost, each answer is written
    whole and each write is durable before it is answered."""

    def end(number: int, _: Any) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(Exit.INTERRUPTED if number == signal.SIGINT else Exit.OK)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
