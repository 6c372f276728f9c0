"""Tasks of servers, as small files: every worker process can tell the state of each.

    artifacts/tasks/<task>.json          the request, its caller and its outcome
    artifacts/tasks/<worker>.worker      held by a worker process as long as it lives
    artifacts/tasks/syncing              held by the worker whose sync is running
    artifacts/tasks/running.json         the state of the running sync
    artifacts/tasks/syncs.json           the last syncs

They may be lost in a power failure, and then the task is unknown; the documents are in the inbox.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.storage import durable, lock
from retrieve_cli.untrusted import files

FOLDER = "tasks"
MOST = 1000
"""Tasks that are kept: the latest."""
_SLACK = 100
"""Tasks above that number before the oldest are removed."""
_LARGEST = 16 * files.MB
_TASK = re.compile(r"[0-9a-f]{24}")
_WORKER = re.compile(r"[0-9a-f]{16}")


class Tasks:
    """The tasks of an artifacts folder. The constructor creates nothing."""

    def __init__(self, artifacts: Path) -> None:
        self.folder = artifacts / FOLDER
        self._saved = 0

    def new_id(self) -> str:
        """Return the id of a new task: later ids are greater, and an id cannot be guessed."""
        return f"{time.time_ns():016x}{secrets.token_hex(4)}"

    def save(self, task: Mapping[str, Json]) -> None:
        """Write a task. Raises: OSError."""
        self._write(f"{task['task']}.json", task)
        self._saved += 1
        if self._saved % _SLACK == 1:
            self.prune()

    def load(self, task: str) -> dict[str, Json] | None:
        """Return a task, None if the id is unknown."""
        value = self._read(f"{task}.json") if _TASK.fullmatch(task) else None
        return value if isinstance(value, dict) else None

    def latest(self) -> Iterator[dict[str, Json]]:
        """Yield the tasks, the latest first."""
        for name in sorted(self._ids(), reverse=True):
            if (task := self.load(name)) is not None:
                yield task

    def prune(self, most: int = MOST) -> None:
        """Remove the oldest tasks above a number, and what workers that have ended left."""
        with suppress(OSError):
            for name in sorted(self._ids())[:-most]:
                (self.folder / f"{name}.json").unlink(missing_ok=True)
            for path in self.folder.glob("*.worker"):
                if not lock.is_held(path):
                    path.unlink(missing_ok=True)

    # ------------------------------------------------------------------------------------------ workers

    def enter(self, worker: str) -> AbstractContextManager[None]:
        """Hold the file of a worker. Raises: OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return lock.hold_for_writing(self.folder / f"{worker}.worker", wait=0.0, say=lambda _: None)

    def alive(self, worker: Json) -> bool:
        """Return True if a worker still runs."""
        named = isinstance(worker, str) and _WORKER.fullmatch(worker)
        return bool(named) and lock.is_held(self.folder / f"{worker}.worker")

    def elected(self, wait: float) -> AbstractContextManager[None]:
        """Hold the right to sync. Raises: Locked if another worker has it for that long; OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return lock.hold_for_writing(self.folder / "syncing", wait=wait, say=lambda _: None)

    # -------------------------------------------------------------------------------------------- syncs

    def running(self) -> dict[str, Json] | None:
        """Return the state of the running sync; None if no sync is running."""
        value = self._read("running.json")
        return value if isinstance(value, dict) and self.alive(value.get("worker")) else None

    def set_running(self, value: Mapping[str, Json] | None) -> None:
        """Write the state of the sync that is running; None at its end. Only for the worker that was elected."""
        with suppress(OSError):
            if value is None:
                (self.folder / "running.json").unlink(missing_ok=True)
            else:
                self._write("running.json", value)

    def syncs(self) -> Sequence[Mapping[str, Json]]:
        """Return the last syncs, the latest first."""
        value = self._read("syncs.json")
        return [sync for sync in value if isinstance(sync, dict)] if isinstance(value, list) else []

    def note_sync(self, sync: Mapping[str, Json], *, most: int = 10) -> None:
        """Add a sync to the last ones. Only for the worker that was elected."""
        with suppress(OSError):
            self._write("syncs.json", [sync, *self.syncs()][:most])

    def _ids(self) -> list[str]:
        try:
            names = [path.name for path in self.folder.iterdir()]
        except OSError:
            return []
        return [name.removesuffix(".json") for name in names if _TASK.fullmatch(name.removesuffix(".json"))]

    def _read(self, name: str) -> Json:
        try:
            return json.loads(files.read_text(self.folder / name, limit=_LARGEST))
        except (OSError, ValueError, RecursionError):
            return None

    def _write(self, name: str, value: Json) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        durable.replace_later(self.folder / name, json.dumps(value))


def new_worker() -> str:
    """Return the name of a new worker."""
    return secrets.token_hex(8)
