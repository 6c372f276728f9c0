"""The tools `add_documents` and `sync`: changes are on the disk before the answer, and in the index after a sync."""

from __future__ import annotations

from collections.abc import Mapping

from retrieve_cli.api.documents import Documents
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, printable, shortened
from retrieve_cli.server.http.syncing import Syncing
from retrieve_cli.server.mcp.outcomes import ToolOutcome
from retrieve_cli.server.mcp.tools import read_arguments


class DocumentWriter:
    """Writes for the callers that may."""

    def __init__(self, documents: Documents, syncing: Syncing) -> None:
        self._documents, self._syncing = documents, syncing

    def add_documents(self, given: Mapping[str, Json], *, tenant: str | None) -> ToolOutcome:
        """Return the outcome of adding documents, which a sync in the background brings into the index.

        Raises:
            RetrieveError: an argument cannot be understood, or nothing could be stored.
        """
        receipt = self._documents.add(read_arguments(given, "add_documents")["documents"], tenant=tenant)
        structured: dict[str, Json] = {"documents": [status.to_json() for status in receipt.documents]}
        lines = []
        for status in receipt.documents:
            reason = f" ({printable(shortened(status.reason))})" if status.reason else ""
            lines.append(f"{printable(status.id or 'a document without an id')}: {status.status}{reason}")
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
