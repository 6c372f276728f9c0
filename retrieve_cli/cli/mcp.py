"""`retrieve mcp`."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from retrieve_cli.cli.options import Shared, option, shared
from retrieve_cli.errors import Exit, Unavailable

if TYPE_CHECKING:
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
    *,
    shared: Shared,
) -> None:
    """Answer an MCP client on standard input and output: search, fetch, list_fields and explain.

    The client starts it: `claude mcp add retrieve -- retrieve mcp --artifacts /path/to/artifacts`. `retrieve serve`
    answers the same over HTTP, at /mcp. A new generation of the index is opened once it is published.
    """
    settings = shared.settings()
    from retrieve_cli.api.live import LiveIndex

    try:
        from retrieve_cli.server.mcp.stdio import serve_stdio
    except ImportError as error:
        message = f"MCP needs the package mcp; {error.name} is not installed"
        raise Unavailable(message, hint="pip install 'retrieve-cli[serve]'") from error
    _end_at_once()
    options = mcp_options(texts, writes=allow_writes)
    serve_stdio(lambda: LiveIndex(shared.store, settings), options, tenant=tenant, flags=shared.config_flags)


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
