"""Background jobs of a server, and the state of each for its caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Event
from typing import Any, Literal

from retrieve_cli.api.documents import Documents, Status
from retrieve_cli.contracts import Json
from retrieve_cli.errors import NotFound, RetrieveError, quoted
from retrieve_cli.storage.lock import now
from retrieve_cli.storage.tasks import Tasks

Action = Literal["documents", "sync", "rollback", "verify"]
ACTIONS: tuple[Action, ...] = ("sync", "rollback", "verify")
"""Actions on the index; a job of documents follows from changes of documents."""
_OF_A_TENANT = ("status", "generation")
"""Keys of a report that a tenant may see: the others count the records of all."""


@dataclass(slots=True)
class Job:
    """One job of this process."""

    task: str
    action: Action
    tenant: str | None = None
    sequence: int = 0
    """Number of the change that the index includes afterwards; 0: none in particular."""
    documents: Sequence[Status] = ()
    generation: str | None = None
    """The generation to roll back to."""
    status: Literal["queued", "succeeded", "failed"] = "queued"
    created: str = field(default_factory=now)
    ended: str | None = None
    report: Mapping[str, Json] | None = None
    error: Mapping[str, Json] | None = None
    over: Event = field(default_factory=Event)

    def to_json(self) -> dict[str, Json]:
        """Return the stored form."""
        names = ("task", "action", "tenant", "sequence", "status", "created", "ended", "report", "error")
        documents = [list(status) for status in self.documents]
        return {**{name: getattr(self, name) for name in names}, "documents": documents}

    def end(self, *, report: Mapping[str, Json] | None, error: Mapping[str, Json] | None) -> None:
        """Note its outcome."""
        self.report, self.error, self.ended = report, error, now()
        self.status = "succeeded" if error is None else "failed"


class Jobs:
    """The jobs of all workers of an artifacts folder, as a caller may see them."""

    def __init__(self, tasks: Tasks, documents: Documents) -> None:
        self._tasks, self._documents = tasks, documents

    def one(self, task: str, *, tenant: str | None) -> dict[str, Json]:
        """Return the state of a job. Raises: NotFound: the caller has no job of that id."""
        value = self._tasks.load(task)
        if value is None or not _is_for(value, tenant):
            raise NotFound(f"there is no task {quoted(task)}", hint="list them: GET /tasks")
        return self._state(value, self._tasks.running(), tenant)

    def latest(self, limit: int, *, tenant: str | None) -> list[dict[str, Json]]:
        """Return the states of the latest jobs, without their documents."""
        running = self._tasks.running()
        own = (value for value in self._tasks.latest() if _is_for(value, tenant))
        return [self._state(value, running, tenant, documents=False) for value in islice(own, limit)]

    def _state(
        self, value: Mapping[str, Any], running: Mapping[str, Any] | None, tenant: str | None, *, documents: bool = True
    ) -> dict[str, Json]:
        sequence, processing = int(value.get("sequence") or 0), int((running or {}).get("sequence") or 0)
        status, error = self._status(value, sequence, running)
        state = {
            "task": value["task"],
            "action": value["action"],
            "status": status,
            **({"sequence": sequence} if sequence else {}),
            "created": value["created"],
            "ended": value.get("ended"),
        }
        listed = [Status(*status) for status in value.get("documents", ())]
        if documents and listed:
            settled = self._documents.settled(listed, tenant=tenant, processing=processing)
            state["documents"] = [status.to_json() for status in settled]
        if status == "processing" and running is not None and tenant is None:  # it counts the records of all tenants
            state["progress"] = running.get("progress")
        if (report := value.get("report")) is not None:
            state["report"] = report if tenant is None else {key: report.get(key) for key in _OF_A_TENANT}
        if error is not None:
            state["error"] = error if tenant is None else {**error, "message": _SUMMARY, "hint": ""}
        return state

    def _status(
        self, value: Mapping[str, Any], sequence: int, running: Mapping[str, Any] | None
    ) -> tuple[str, dict[str, Json] | None]:
        if value["status"] != "queued":
            return value["status"], value.get("error")
        if value["action"] == "documents" and self._documents.sequences.included() >= sequence:
            return "succeeded", None
        if running is not None and (running.get("task") == value["task"] or 0 < sequence <= running["sequence"]):
            return "processing", None
        return "queued", None


_SUMMARY = "it failed: nothing was published, and documents that were added stay queued"
"""Message of an error for a tenant: the reason may name sources and records of others."""


def error_json(error: RetrieveError) -> dict[str, Json]:
    """Return a failure as the command line prints it."""
    return {"code": int(error.code), "kind": error.kind, "message": error.message, "hint": error.hint}


def _is_for(value: Mapping[str, Any], tenant: str | None) -> bool:
    return tenant is None or value.get("tenant") == tenant
