"""The inbox: documents that were added one at a time, kept beside the index until `build` and `sync` read them.

    artifacts/inbox/documents.jsonl   the log, see inbox_log.py
    artifacts/inbox/files/            documents that were sent as files, see inbox_files.py
    artifacts/inbox/lock              held while the log is written

A later entry of an id replaces the earlier one, a tombstone removes it: the last state is the source that builds and
syncs read. Each entry has a number, one above the last: the sequence. A change is acknowledged once it is on the disk,
file and folder. Any number of processes may write: one at a time, under the lock, each reading on before it writes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import BinaryIO, Literal, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, UsageError, unwritable
from retrieve_cli.storage import durable, inbox_files, inbox_log, lock
from retrieve_cli.storage.inbox_files import Upload
from retrieve_cli.storage.inbox_log import Damage, InboxEntry, LogSnapshot, LogState
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.untrusted.files import open_regular, regular_descriptor

KIND = "inbox"
FOLDER = "inbox"
_LOG, _LOCK = "documents.jsonl", "lock"
_WAIT = 10.0
"""Seconds to wait for another writer, which holds the lock for the time of one write."""
Kind = Literal["added", "replaced", "unchanged", "removed", "missing", "taken"]
_MOST_DEAD = 1000
"""Entries without effect that a log keeps, however few documents it has."""


class Change(NamedTuple):
    """One change of the inbox that is asked for."""

    id: str
    tenant: str | None
    """Tenant that asks for it; None: one that may change the documents of all."""
    document: bytes | None
    """The document as JSON; None removes it."""
    upload: Upload | None = None
    """The file that is the document, complete on the disk; `document` then describes it."""


class InboxOutcome(NamedTuple):
    """The effect of a change."""

    kind: Kind
    """`missing`: the tenant has no document of this id to remove; `taken`: the id belongs to another owner."""
    sequence: int = 0
    """Number of the entry that holds the state; 0 if nothing was changed."""


class Repair(NamedTuple):
    """Result of a repair."""

    damaged: tuple[Damage, ...]
    kept: int
    """Documents that the inbox still has."""
    aside: Path
    """File with the damaged lines."""


class Inbox:
    """The inbox in a folder. Threads may share one; the constructor creates nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / _LOG
        self._state: LogState | None = None
        self._lock = RLock()

    @property
    def sequence(self) -> int:
        """Number of the last entry; 0 if there never was one."""
        with self._lock:
            return state.sequence if (state := self._read()) else 0

    def entry(self, name: str) -> InboxEntry | None:
        """Return the document of an id, None if it is not in the inbox."""
        with self._lock, suppress(FileNotFoundError), open_regular(self.path) as file:
            state = self._current(file)
            place = state.places.get(name) if state else None
            return inbox_log.entry_at(file.fileno(), name, place) if place else None
        return None

    def snapshot(self) -> LogSnapshot:
        """Return the documents of this moment, all of them on the disk."""
        with self._lock:
            try:
                # Under the lock: a number that is not on the disk yet may be given again after a power failure.
                with lock.hold_briefly(self.folder / _LOCK, wait=_WAIT, shared=True):
                    file = open_regular(self.path)
                    size = os.fstat(file.fileno()).st_size
            except FileNotFoundError:
                return LogSnapshot(None, None)
            try:
                return LogSnapshot(file, self._current(file, size))
            except BaseException:
                file.close()
                raise

    def write(self, changes: Sequence[Change]) -> list[InboxOutcome]:
        """Apply changes in order, and return their effects once they are on the disk.

        Raises:
            Locked: other writers did not let this one in.
            IndexCorrupt: the log is not one of an inbox.
            RetrieveError: the disk is full, or the folder cannot be written.
        """
        with self._lock:
            try:
                durable.make_folder(self.folder)
                self._read()  # what can be read before the lock is taken
                with lock.hold_briefly(self.folder / _LOCK, wait=_WAIT), self._opened() as (log, state):
                    lines, outcomes = self._lines(log, state, changes)
                    for change, outcome in zip(changes, outcomes, strict=True):
                        if change.upload is not None and outcome.sequence:
                            change.upload.keep()  # a file has its name before an entry names it
                    if lines:
                        self._append(log, state, lines)
                    return outcomes
            except OSError as error:
                raise unwritable(self.path, error) from error

    def take_over(self, other: Inbox, *, same: bool) -> None:
        """Replace this inbox by another one, which a snapshot had, in one step; it keeps its files.

        Nothing happens if the other one is empty, or if this one is the `same` inbox at a later moment.

        Raises:
            UsageError: a document would be lost.
            Locked: other writers did not let this one in.
            RetrieveError: the disk is full, or the folder cannot be written.
        """
        if not other.sequence or (same and self.sequence >= other.sequence):
            return
        with self._lock:
            try:
                durable.make_folder(self.folder)
                with lock.hold_briefly(self.folder / _LOCK, wait=_WAIT):
                    self._expect_among(other)
                    for path in inbox_files.sent_files(other.folder):
                        durable.make_folder(self.folder / inbox_files.FOLDER)
                        path.replace(self.folder / inbox_files.FOLDER / path.name)
                        durable.sync(self.folder / inbox_files.FOLDER)
                    other.path.replace(self.path)
                    durable.sync(self.folder)
                    self._state = None
            except OSError as error:
                raise unwritable(self.path, error) from error

    def _expect_among(self, other: Inbox) -> None:
        """Raises: UsageError: a document of this inbox is not in another one, or is another one there."""
        if (state := self._read()) is None or not state.places:
            return
        theirs = {entry.id: entry for entry in other.snapshot()}
        with open_regular(self.path) as file:
            mine = [inbox_log.entry_at(file.fileno(), name, place) for name, place in state.places.items()]
        lost = sum(1 for entry in mine if _content(entry) != _content(theirs.get(entry.id)))
        if lost:
            them = f"{lost} documents" if lost > 1 else "a document"
            message = f"the snapshot lacks {them} of the inbox {self.folder}; nothing was restored"
            hint = f"restore into another folder: --artifacts DIR; or move the inbox away first: mv {self.folder} DIR"
            raise UsageError(message, hint=hint)

    def tidy(self, oldest: int | None) -> None:
        """Remove files that no document and no kept generation needs; `oldest` is the lowest number that one of these
        includes, None if none includes an inbox.

        Raises:
            Locked: other writers did not let this one in.
            OSError: a file cannot be removed.
        """
        with self._lock:
            if not (self.folder / inbox_files.FOLDER).is_dir():
                return
            with lock.hold_briefly(self.folder / _LOCK, wait=_WAIT), self._opened() as (_, state):
                named = {place.file for place in state.places.values() if place.file}
                inbox_files.tidy(self.folder, named, sequence=state.sequence, oldest=oldest)

    def _read(self) -> LogState | None:
        try:
            with open_regular(self.path) as file:
                return self._current(file)
        except FileNotFoundError:
            self._state = None
            return None

    def _current(self, file: BinaryIO, size: int | None = None) -> LogState | None:
        """Return the state of the log up to a size, which must not be less than the size read before."""
        size = os.fstat(file.fileno()).st_size if size is None else size
        state = self._state
        if state is None or inbox_log.read_header(file) != state.header or size < state.end:
            state = LogState.begin(file, self.path)
        if state is not None:
            state.read_on(file, size)
            state.expect_sound(self.path)
        self._state = state
        return state

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, LogState]]:
        """Open the log for appending, without what a killed writer left incomplete."""
        log = regular_descriptor(self.path, os.O_RDWR | os.O_CREAT)
        try:
            with open(log, "rb", closefd=False) as file:
                state = self._current(file)
            if state is None:
                header = inbox_log.header_line(0)
                os.ftruncate(log, 0)
                _write_all(log, header, 0)
                os.fsync(log)
                durable.sync(self.folder)
                state = self._state = LogState(header, 0)
            if os.fstat(log).st_size > state.end:
                os.ftruncate(log, state.end)
            yield log, state
        finally:
            os.close(log)

    def _lines(self, log: int, state: LogState, changes: Sequence[Change]) -> tuple[list[bytes], list[InboxOutcome]]:
        lines: list[bytes] = []
        outcomes: list[InboxOutcome] = []
        added: dict[str, tuple[str | None, bool]] = {}
        last = state.last
        for name, tenant, given, upload in changes:
            document = None if given is None else inbox_log.normalized(given)
            sent = upload.stored if upload else None
            place = state.places.get(name)
            owner, exists = added.get(name, (place.tenant, True) if place else (None, False))
            foreign = exists and tenant is not None and tenant != owner
            if foreign or (document is None and not exists):
                outcomes.append(InboxOutcome("missing" if document is None else "taken"))
                continue
            if place and name not in added and document is not None:
                entry = inbox_log.entry_at(log, name, place)
                if (entry.document, entry.file) == (document, sent):
                    outcomes.append(InboxOutcome("unchanged", place.sequence))
                    continue
            sequence = state.sequence + len(lines) + 1
            keeper = owner if exists else tenant  # the document of a tenant stays its own
            lines.append(inbox_log.sealed(inbox_log.entry_line(sequence, name, keeper, document, sent), last))
            last = inbox_log.sum_of(lines[-1])
            added[name] = keeper, document is not None
            kind: Kind = "removed" if document is None else "replaced" if exists else "added"
            outcomes.append(InboxOutcome(kind, sequence))
        return lines, outcomes

    def _append(self, log: int, state: LogState, lines: Sequence[bytes]) -> None:
        """Write all lines to the disk, or no line; then shorten a log of which most entries have no effect."""
        try:
            _write_all(log, b"".join(lines), state.end)
            os.fsync(log)
        except OSError:
            with suppress(OSError):
                os.ftruncate(log, state.end)
            raise
        for line in lines:
            state.take(line, len(line))
        if state.entries - len(state.places) > max(_MOST_DEAD, len(state.places)):
            with suppress(OSError, IndexCorrupt):  # a failure leaves the log as it is
                self._rewrite(log, state)

    def _rewrite(self, log: int, state: LogState) -> None:
        """Put a log with the documents of this one alone in its place. Raises: OSError, IndexCorrupt."""
        new = durable.unfinished(self.path)
        new.unlink(missing_ok=True)
        with new.open("xb") as target:
            line = inbox_log.header_line(state.sequence)
            target.write(line)
            for name, place in state.places.items():
                head = inbox_log.head_of(inbox_log.line_at(log, name, place))
                line = inbox_log.sealed(head, inbox_log.sum_of(line))
                target.write(line)
            target.flush()
            os.fsync(target.fileno())
        new.replace(self.path)
        durable.sync(self.folder)

    def repair(self) -> Repair | None:
        """Move damaged lines into a separate file beside the log; None if no line is damaged.

        Raises:
            Locked: other writers held the lock for too long.
            IndexCorrupt: the log is not one of an inbox.
            RetrieveError: the disk is full, or the folder cannot be written.
        """
        with self._lock:
            try:
                with lock.hold_briefly(self.folder / _LOCK, wait=_WAIT), open_regular(self.path) as file:
                    return self._repaired(file)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise unwritable(self.path, error) from error

    def _repaired(self, file: BinaryIO) -> Repair | None:
        try:
            state = LogState.begin(file, self.path)
        except IndexCorrupt:
            state = LogState.without_header(file)
            state.read_on(file, os.fstat(file.fileno()).st_size)
            if not state.places:
                raise
        else:
            if state is not None:
                state.read_on(file, os.fstat(file.fileno()).st_size)
        if state is None or not state.damaged:
            return None
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        with aside.open("xb") as target:
            target.writelines(os.pread(file.fileno(), damage.length, damage.start) for damage in state.damaged)
            target.flush()
            os.fsync(target.fileno())
        self._rewrite(file.fileno(), state)
        self._state = None
        return Repair(tuple(state.damaged), len(state.places), aside)


def _content(entry: InboxEntry | None) -> tuple[object, ...] | None:
    return None if entry is None else (entry.tenant, entry.document, entry.file)


def inbox_of(artifacts: Path) -> Inbox:
    """Return the inbox of an artifacts folder."""
    return Inbox(artifacts / FOLDER)


def sequence_of(manifest: Manifest) -> int:
    """Return the number of the last entry of the inbox that a generation includes; 0 if it includes none."""
    stamp = _built(manifest).get("stamp")
    return int(stamp[0]) if stamp else 0


def name_of(manifest: Manifest) -> str | None:
    """Return the name of the inbox among the sources of a generation; None if it is not one of them."""
    name = _built(manifest).get("origin", {}).get("name")
    return name if isinstance(name, str) else None


def _built(manifest: Manifest) -> Mapping[str, Json]:
    """Return the circumstances of the inbox in a manifest, whose types were checked; empty if it has none."""
    sources: Sequence[Mapping[str, Json]] = manifest.built.get("sources", ())
    return next((source for source in sources if source.get("origin", {}).get("kind") == KIND), {})


def _write_all(descriptor: int, content: bytes, start: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, start)
        view, start = view[written:], start + written
