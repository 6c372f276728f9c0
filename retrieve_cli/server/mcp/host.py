"""The surroundings of an MCP server: the index, the caller of a request, the threads, and the choice of channel.

The tools `add_documents` and `sync`: changes are on the disk before the answer, and in the index after a sync.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from retrieve_cli.api.asked import Local
from retrieve_cli.api.documents import Documents, Status
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, printable, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.server.http.callers import Caller
from retrieve_cli.server.http.syncing import Syncing
from retrieve_cli.server.mcp.outcomes import ToolOutcome
from retrieve_cli.server.mcp.tools import read_arguments

if TYPE_CHECKING:
    from retrieve_cli.api.web import AnswersWeb


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


class DocumentWriter:
    """Writes for the callers that may."""

    def __init__(self, documents: Documents, syncing: Syncing) -> None:
        self._documents = documents
        self._syncing = syncing

    def add_documents(self, given: Mapping[str, Json], *, tenant: str | None) -> ToolOutcome:
        """Return the outcome of adding documents, which a sync in the background brings into the index.

        Raises:
            RetrieveError: an argument cannot be understood, or nothing could be stored.
        """
        values = read_arguments(given, "add_documents")
        receipt = self._documents.add(values["documents"], tenant=tenant)
        structured: dict[str, Json] = {"documents": [status.to_json() for status in receipt.documents]}
        lines = [_line(status) for status in receipt.documents]
        if not receipt.sequence:
            raise UsageError("no document was added", hint="; ".join(lines))
        job = self._syncing.submit("documents", tenant=tenant, receipt=receipt)
        structured |= {"sequence": receipt.sequence, "task": job.task}
        lines.append(f"search with at_least {receipt.sequence} to find them")
        return ToolOutcome(structured, "\n".join(lines), lines[-1])

    def sync(self, given: Mapping[str, Json], *, tenant: str | None) -> ToolOutcome:
        """Return the outcome of beginning to update the index. Raises: RetrieveError: it cannot begin."""
        read_arguments(given, "sync")
        job = self._syncing.submit("sync", tenant=tenant)
        said = f"the sync has begun: task {job.task}"
        return ToolOutcome({"task": job.task, "status": job.status}, said, said)


def _line(status: Status) -> str:
    reason = f" ({printable(shortened(status.reason))})" if status.reason else ""
    return f"{printable(status.id or 'a document without an id')}: {status.status}{reason}"
