"""Tasks and syncs of servers: every worker process can tell the state of each.

    artifacts/inbox.db          request, caller and outcome of a task; the state of syncs
    artifacts/tasks/syncing     held by the worker whose sync is running

Of a damaged file, no task is known.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError
from retrieve_cli.storage import database, lock

FOLDER = "tasks"
MOST = 1000
"""Tasks that are kept: the latest."""
_SYNCING = "syncing"


class Tasks:
    """The tasks of an artifacts folder. The constructor creates nothing."""

    def __init__(self, artifacts: Path) -> None:
        self.folder = artifacts / FOLDER
        self._path = artifacts / database.FILE

    def new_id(self) -> str:
        """Return the id of a new task: later ids are greater, and an id cannot be guessed."""
        return f"{time.time_ns():016x}{secrets.token_hex(4)}"

    def save(self, task: Mapping[str, Json], *, most: int = MOST) -> None:
        """Write a task, and remove the oldest above a number. Raises: RetrieveError."""
        older = "DELETE FROM tasks WHERE task NOT IN (SELECT task FROM tasks ORDER BY task DESC LIMIT ?)"
        with database.writing(self._path) as connection:
            row = (task["task"], json.dumps(task))
            connection.execute("INSERT OR REPLACE INTO tasks VALUES (?, ?)", row)
            connection.execute(older, (most,))

    def load(self, task: str) -> dict[str, Json] | None:
        """Return a task, None if the id is unknown."""
        return next(self._objects("SELECT value FROM tasks WHERE task = ?", task), None)

    def latest(self) -> Iterator[dict[str, Json]]:
        """Yield the tasks, the latest first."""
        return self._objects("SELECT value FROM tasks ORDER BY task DESC")

    def elected(self, wait: float) -> AbstractContextManager[None]:
        """Hold the right to sync. Raises: Locked if another worker has it for that long; OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return lock.hold_for_writing(self.folder / _SYNCING, wait=wait)

    def fail_lost(self, error: Mapping[str, Json]) -> None:
        """Let tasks fail whose process was killed, if none is at work; documents wait for the next sync. Raises:
        RetrieveError."""
        if not lock.is_held(self.folder / _SYNCING):
            for task in list(self.latest()):
                if task.get("status") == "queued" and task.get("action") != "documents":
                    self.save({**task, "status": "failed", "ended": lock.now(), "error": error})

    def running(self) -> dict[str, Json] | None:
        """Return the state of the running sync; None if no sync is running."""
        value = next(self._objects("SELECT value FROM state WHERE name = 'running'"), None)
        return value if lock.is_held(self.folder / _SYNCING) else None

    def set_running(self, value: Mapping[str, Json] | None) -> None:
        """Write the state of the sync that is running; None at its end. Only for the worker that was elected."""
        self._set("running", value)

    def syncs(self) -> Sequence[Mapping[str, Json]]:
        """Return the last syncs, the latest first."""
        value = next(self._objects("SELECT value FROM state WHERE name = 'syncs'"), {})
        syncs = value.get("last")
        return [sync for sync in syncs if isinstance(sync, dict)] if isinstance(syncs, list) else []

    def note_sync(self, sync: Mapping[str, Json]) -> None:
        """Add a sync to the last ten. Only for the worker that was elected."""
        self._set("syncs", {"last": [sync, *self.syncs()][:10]})

    def _set(self, name: str, value: Mapping[str, Json] | None) -> None:
        """Write a state; what cannot be written is not reported."""
        with suppress(RetrieveError), database.writing(self._path) as connection:
            row = (name, json.dumps(value))
            connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", row)

    def _objects(self, query: str, *values: str) -> Iterator[dict[str, Json]]:
        """Yield the objects of a query; none if the file is damaged or cannot be read."""
        unsound = suppress(RetrieveError, ValueError, TypeError, RecursionError)
        with unsound:
            connection = database.open_to_read(self._path)
            if connection is None:
                return
            with closing(connection), database.translated(self._path):
                for (text,) in connection.execute(query, values):
                    value = json.loads(text)
                    if isinstance(value, dict):
                        yield value
