"""Options of the commands that answer MCP clients."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from retrieve_cli.serving.mcp.host import McpOptions


class Texts(StrEnum):
    """Channels of an answer that carry the texts."""

    content = "content"
    structured = "structured"
    both = "both"


McpTexts = Annotated[
    Texts | None,
    typer.Option("--mcp-texts", help="Channel of MCP answers that carries texts; default: the one the client reads."),
]
AllowWrites = Annotated[
    bool, typer.Option("--allow-writes", help="Let MCP clients add documents and sync the index, if they may.")
]


def mcp_options(texts: Texts | None, *, writes: bool) -> McpOptions:
    """Return the choices that flags make."""
    from retrieve_cli.serving.mcp.host import McpOptions

    return McpOptions(None if texts is None else texts.value, writes)
