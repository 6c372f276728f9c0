"""The surroundings of an MCP server: the index, the caller of a request, the threads, and the choice of channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from retrieve_cli.api.asked import Local
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.frozen import Frozen
from retrieve_cli.server.http.callers import Caller

if TYPE_CHECKING:
    from retrieve_cli.api.web import AnswersWeb
    from retrieve_cli.server.mcp.writing import DocumentWriter

T = TypeVar("T")


class McpOptions(NamedTuple):
    """Choices of the operator."""

    texts: str | None = None
    """The channel of the texts: `content`, `structured` or `both`; None: by the name of the client."""
    writes: bool = False
    """True if callers that have the scopes may add documents and sync the index."""


class BlockingRunner(Protocol):
    """Runs blocking work outside the event loop."""

    def __call__(self, context: Any, function: Callable[[], T], /) -> Awaitable[T]: ...


class WebHost(Frozen):
    """A web search with separate threads: it waits for other servers most of the time."""

    search: AnswersWeb
    run: BlockingRunner
    """As `Host.run`."""


class Host(Frozen):
    """The parts that the handlers of one MCP server share."""

    live: LiveIndex
    run: BlockingRunner
    """Takes the context of the SDK and a function."""
    caller: Callable[[Any], Caller]
    """Takes the context of the SDK."""
    texts: str | None = None
    """The channel of the texts: `content`, `structured` or `both`; None: by the name of the client."""
    writer: DocumentWriter | None = None
    """None: nothing may be written."""
    web: WebHost | None = None
    """None: the configuration enables no web search."""
    local: Local | None = None
    """Returns the path of a file of this machine that a client names, if it may; None: no file is opened."""
