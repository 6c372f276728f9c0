"""`retrieve mcp`."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import Exit, Unavailable


class Texts(StrEnum):
    """Channels of an answer that carry the texts."""

    content = "content"
    structured = "structured"
    both = "both"


@shared("text")
def mcp(
    texts: Annotated[
        Texts | None,
        typer.Option("--mcp-texts", help="Channel that carries the texts; by default the one that the client reads."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="X", help="Answer from the records of this tenant only.")
    ] = None,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let the client add documents and sync the index.")
    ] = False,
    *,
    shared: Shared,
) -> None:
    """Answer an MCP client on standard input and output: search, fetch, list_fields and explain.

    The client starts it: `claude mcp add retrieve -- retrieve mcp --artifacts /path/to/artifacts`. `retrieve serve`
    answers the same over HTTP, at /mcp. A new generation of the index is opened as soon as it is published.
    """
    settings = shared.settings()
    from retrieve_cli.api.live import LiveIndex

    try:
        from retrieve_cli.serving.mcp.stdio import serve_stdio
    except ImportError as error:
        message = f"MCP needs the package mcp; {error.name} is not installed"
        raise Unavailable(message, hint="pip install 'retrieve-cli[serve]'") from error
    _end_at_once()
    serve_stdio(
        lambda: LiveIndex(shared.store, settings),
        tenant=tenant,
        texts=None if texts is None else texts.value,
        writes=allow_writes,
    )


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
