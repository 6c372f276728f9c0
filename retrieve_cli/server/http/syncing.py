"""Writing of a server: one thread publishes changed documents, and runs syncs as child processes, one at a time among
all workers.

Documents are published in this process, from the open index, within a fraction of a second. A sync reads, cuts, embeds
and writes for seconds or minutes. In a separate process of lower priority, it neither holds the interpreter lock of the
searches nor leaves its memory behind, and a crash of it ends no request. Changes that arrive meanwhile are taken
together into the next. The lock of the artifacts folder holds for both as for any writer.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Lock, Thread
from typing import NamedTuple

from retrieve_cli.api.documents import Documents, Receipt
from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexMissing, Locked, RetrieveError, unwritable
from retrieve_cli.ingest import schedule
from retrieve_cli.ingest.report import Report
from retrieve_cli.output.formats import SCHEMA_VERSION
from retrieve_cli.server.http.jobs import Action, Job, error_json
from retrieve_cli.server.http.sync_command import STOPPED, Command, Outcome
from retrieve_cli.storage.lock import now
from retrieve_cli.storage.store import Store
from retrieve_cli.storage.tasks import Tasks

_STOP_S = 5.0
"""Seconds that a sync has to end at shutdown."""
_LOOK_S = 1.0
_LOST = "the process that ran it has ended"


class SyncOptions(NamedTuple):
    """Options of the syncs of a server."""

    flags: Sequence[str] = ()
    """Flags with which a command finds the configuration."""
    every_s: float | None = None
    """Seconds between two scheduled syncs; None or 0: only on request."""
    jitter_s: float = 0.0
    """Seconds by which a scheduled sync is late at most, by chance, so that servers do not all begin at once."""
    first: bool = False
    """True: begin by building the index, if it does not exist."""


class Syncing:
    """The background work of one server process on its index."""

    def __init__(
        self,
        store: Store,
        documents: Documents,
        options: SyncOptions | None = None,
        *,
        publish: Callable[[], Report | None] = lambda: None,
        on_sync: Callable[[], object] = lambda: None,
        count: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`publish` publishes changed documents in this process; it returns None if only a sync can. `on_sync` is
        called after each command that ended well, `count` with the status of each sync."""
        options = options or SyncOptions()
        self.tasks = Tasks(store.path)
        self._store, self._documents = store, documents
        self._command = Command(["--artifacts", str(store.path), *options.flags])
        self._every_s, self._jitter_s, self._first = options.every_s or None, options.jitter_s, options.first
        self._building: dict[str, Json] | None = None
        self._failure: Json = None
        self._late_s = random.uniform(0, options.jitter_s)  # noqa: S311  not a secret
        self._publish, self._on_sync, self._count = publish, on_sync, count
        self._queue: deque[Job] = deque()
        self._lock = Lock()
        self._wake, self._stopping = Event(), Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to work: build the index if it does not exist, or sync documents that wait since an earlier server."""
        with suppress(RetrieveError):
            self.tasks.fail_lost(error_json(RetrieveError(_LOST)))
        self._before = self.tasks.syncs()[:1]
        if self._store.live() is None:
            self._building = {"started": now()} if self._first else None
            if self._every_s and not self._first:
                with suppress(OSError):  # the first scheduled sync is one period away
                    self._store.path.mkdir(parents=True, exist_ok=True)
                    schedule.mark(self._store)
        self._begin()
        with suppress(RetrieveError):
            last = self._documents.inbox.sequence
            if last > self._documents.sequences.included():
                self.submit("documents", receipt=Receipt(last, ()))

    def close(self) -> None:
        """End the running sync, and drop the waiting ones."""
        self._stopping.set()
        self._wake.set()
        self._command.stop()
        if self._thread is not None:
            self._thread.join(_STOP_S)
        self._command.stop(kill=True)

    def state(self) -> dict[str, Json]:
        """Return the state of the first build: `building`, `build_failed` with the reason, or `ok`: no attempt yet."""
        if begun := self.tasks.running() or self._building:
            return {"status": "building", "started": begun.get("started"), "progress": begun.get("progress")}
        last = next(iter(self.tasks.syncs()), {})
        if not (error := self._failure or last.get("error")):
            return {"status": "ok"}
        hint = 'fix it, then POST /index {"action": "sync"}; a scheduled sync tries again, too'
        return {"status": "build_failed", "started": last.get("at"), "error": error, "hint": hint}

    def absent(self, fault: RetrieveError) -> RetrieveError:
        """Return why no index is open: it is being built, or its build failed, or the fault."""
        status = self.state()["status"] if isinstance(fault, IndexMissing) else "ok"
        if status == "building":
            return IndexMissing("the index is being built", hint="try again; GET /health has the progress")
        if status == "build_failed":
            return IndexMissing(f"{fault.message}: its build failed", hint="GET /health has the reason")
        return fault

    def submit(
        self,
        action: Action,
        *,
        tenant: str | None = None,
        receipt: Receipt | None = None,
        generation: str | None = None,
    ) -> Job:
        """Return the job that was begun; its task can be asked for by id in every worker.

        Raises:
            RetrieveError: the artifacts folder cannot be written.
        """
        job = Job(self.tasks.new_id(), action, tenant, generation=generation)
        if receipt is not None:
            job.sequence, job.documents = receipt.sequence, receipt.documents
        self.tasks.save(job.to_json())
        with self._lock:
            self._queue.append(job)
        self._begin()
        self._wake.set()
        return job

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._work, name="sync", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        if self._building:
            try:
                self._sync_if(lambda: self._store.live() is None and self.tasks.syncs()[:1] == self._before)
            except (RetrieveError, OSError) as error:
                self._failure = self._said(error)
            self._building = None
        every_s = self._every_s
        while not self._stopping.is_set():
            self._wake.wait(self._seconds_left())
            self._wake.clear()
            while jobs := self._take():
                self._do(jobs)
            if every_s is not None and not self._stopping.is_set() and self._seconds_left() == 0:
                self._late_s = random.uniform(0, self._jitter_s)  # noqa: S311  not a secret
                with suppress(RetrieveError, OSError):  # another worker may have synced
                    self._sync_if(lambda: schedule.seconds_left(self._store, every_s) == 0)
                if self._seconds_left() == 0:  # the time cannot be noted
                    self._stopping.wait(every_s)
        while jobs := self._take():
            for job in jobs:
                self._end(job, Outcome(None, error_json(RetrieveError(STOPPED))))

    def _take(self) -> list[Job]:
        """Return the jobs of the next command: all jobs that a sync serves, or one job of another action."""
        with self._lock:
            jobs: list[Job] = []
            while self._queue and (not jobs or {jobs[0].action, self._queue[0].action} <= {"documents", "sync"}):
                jobs.append(self._queue.popleft())
            return jobs

    def _do(self, jobs: Sequence[Job]) -> None:
        """Run the command of some jobs, unless another worker did it meanwhile."""
        documents = all(job.action == "documents" for job in jobs)
        try:
            with self._elected():
                done = documents and self._included(jobs)
                outcome = Outcome(None, None) if done else self._noted(jobs[0], jobs[0].action, documents=documents)
        except (RetrieveError, OSError) as error:
            outcome = Outcome(None, self._said(error))
        for job in jobs:
            included = job.action == "documents" and self._included([job])
            self._end(job, Outcome(outcome.report, None if included else outcome.error))

    def _said(self, error: RetrieveError | OSError) -> dict[str, Json]:
        return error_json(error if isinstance(error, RetrieveError) else unwritable(self.tasks.folder, error))

    def _included(self, jobs: Sequence[Job]) -> bool:
        return self._documents.sequences.included() >= max(job.sequence for job in jobs)

    def _end(self, job: Job, outcome: Outcome) -> None:
        job.end(report=outcome.report, error=outcome.error)
        with suppress(RetrieveError):
            self.tasks.save(job.to_json())
        job.over.set()

    def _seconds_left(self) -> float | None:
        """Return the seconds until a scheduled sync is due, None without a schedule."""
        return None if self._every_s is None else schedule.seconds_left(self._store, self._every_s + self._late_s)

    def _sync_if(self, due: Callable[[], bool]) -> None:
        """Sync when no other worker does, if it is due then. Raises: RetrieveError, OSError."""
        with self._elected():
            if due():
                schedule.mark(self._store)
                self._noted(None, "sync")

    @contextmanager
    def _elected(self) -> Iterator[None]:
        """Wait until no other worker syncs. Raises: RetrieveError at shutdown."""
        while True:
            if self._stopping.is_set():
                raise RetrieveError(STOPPED)
            with ExitStack() as stack:
                try:
                    stack.enter_context(self.tasks.elected(_LOOK_S))
                except Locked:
                    continue
                yield
                return

    def _noted(self, job: Job | None, action: Action, *, documents: bool = False) -> Outcome:
        """Do an action, and return its outcome; other workers see what runs, and what came of it. Changes of documents
        alone are published in this process, if that is possible."""
        begun, self._failure = time.monotonic(), None
        state: dict[str, Json] = {
            "task": job.task if job else None,
            "action": action,
            "sequence": self._documents.inbox.sequence if action in ("documents", "sync") else 0,
            "started": now(),
            "progress": None,
        }
        self.tasks.set_running(state)
        words = [f"--{action}"] if action in ("rollback", "verify") else []
        words += [job.generation] if job is not None and job.generation else []
        try:
            if documents and (published := self._publish()) is not None:
                outcome = Outcome({"schema_version": SCHEMA_VERSION, "time": now(), **published.to_json()}, None)
            else:
                outcome = self._command.run(words, lambda value: self.tasks.set_running({**state, "progress": value}))
        finally:
            self.tasks.set_running(None)
        report = outcome.report or {}
        sync = {"at": state["started"], "action": "sync" if action == "documents" else action}
        sync |= {"status": "failed" if outcome.error else report.get("status"), "error": outcome.error}
        sync |= {"generation": report.get("generation"), "seconds": round(time.monotonic() - begun, 3)}
        self.tasks.note_sync(sync)
        if sync["action"] == "sync":
            self._count(str(sync["status"]))
        if outcome.error is None:
            self._on_sync()
        return outcome
