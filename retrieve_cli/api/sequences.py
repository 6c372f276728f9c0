"""Numbers of changes of the inbox: the last one that a generation includes, and the wait for one."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from retrieve_cli.errors import IndexCorrupt, NotYet, RetrieveError, UsageError
from retrieve_cli.storage.file_stamps import marks_of
from retrieve_cli.storage.generations import MANIFEST
from retrieve_cli.storage.inbox import inbox_of, name_of, sequence_of
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retrieve_cli.api.index import Index
    from retrieve_cli.storage.store import Store

PATIENCE_S = 10.0
"""Seconds to wait for a change if the request has no deadline."""
_REMEMBERED = 8
"""Generations whose manifests are remembered."""
_LOOK_S = 0.02
"""Seconds between two looks."""


class Live(Protocol):
    """An index that follows the current generation: a `LiveIndex`."""

    store: Store

    @property
    def index(self) -> Index:
        """The index that answers. Raises: RetrieveError if no index can be opened."""

    def refresh(self) -> bool:
        """Open the generation that is current now."""


class Sequences:
    """Numbers of the changes that the generations on the disk include. Threads may share one.

    A sync that changes no record updates the manifest in its place, so that it is read again when its file changes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._read: dict[str, tuple[tuple[int, ...], int, str | None]] = {}
        self._listed: tuple[tuple[int, ...], str | None, Mapping[int, str]] = ((), None, {})

    def included(self, generation: str | None = None) -> int:
        """Return the number of the last change that a generation includes, by default the current one; 0 if none."""
        return self._of(generation)[1]

    def name(self) -> str | None:
        """Return the name of the inbox among the sources of the current generation."""
        return self._of(None)[2]

    def rejections(self) -> Mapping[int, str]:
        """Return the reasons for which the last sync rejected documents of the inbox, by their numbers."""
        name = self.name()
        try:
            marks = marks_of(self._store.quarantine.stat())
        except OSError:
            return {}
        if self._listed[:2] != (marks, name):
            self._listed = marks, name, {} if name is None else _listed(self._store, name)
        return self._listed[2]

    def _of(self, generation: str | None) -> tuple[tuple[int, ...], int, str | None]:
        name = generation or self._store.live()
        if name is None:
            return (), 0, None
        path = self._store.generations / name / MANIFEST
        with self._lock, suppress(OSError, IndexCorrupt):
            marks = marks_of(path.stat())
            known = self._read.get(name)
            if known is None or known[0] != marks:
                manifest = Manifest.read(path)
                known = marks, sequence_of(manifest), name_of(manifest)
                self._read = {**dict(list(self._read.items())[-_REMEMBERED:]), name: known}
            return known
        return (), 0, None


def _listed(store: Store, name: str) -> dict[int, str]:
    reasons: dict[int, str] = {}
    with suppress(OSError), files.open_regular(store.quarantine, limit=files.JUDGMENTS) as file:
        for line in files.lines(file):
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                item = json.loads(line)
                if item["source"] == name:
                    reasons[int(item["line"])] = str(item["reason"])
    return reasons


def wait_until(live: Live, sequence: int, deadline: float | None = None) -> None:
    """Wait until the index that answers includes a change of the inbox, at most until `deadline`, a time of the
    monotonic clock.

    Raises:
        UsageError: no change has that number.
        NotYet: it is not included by then.
    """
    until = time.monotonic() + PATIENCE_S if deadline is None else deadline
    sequences = Sequences(live.store)
    while not reached(live, sequences, sequence):
        if time.monotonic() >= until:
            raise not_yet(sequence)
        time.sleep(_LOOK_S)


async def arrival(live: Live, sequence: int, deadline: float | None = None) -> None:
    """Do the same as `wait_until` without occupying a thread. Raises: UsageError, NotYet."""
    if sequence <= 0:
        return
    until = time.monotonic() + PATIENCE_S if deadline is None else deadline
    sequences = Sequences(live.store)
    while not await asyncio.to_thread(reached, live, sequences, sequence):
        if time.monotonic() >= until:
            raise not_yet(sequence)
        await asyncio.sleep(_LOOK_S)


def reached(live: Live, sequences: Sequences, sequence: int) -> bool:
    """Return True if the index that answers includes a change of the inbox; a newer generation is opened.

    Raises:
        UsageError: no change has that number.
    """
    if sequence <= 0:
        return True
    with suppress(RetrieveError):  # as long as there is no index
        if sequences.included(live.index.generation) >= sequence:
            return True
        if sequences.included() >= sequence:
            live.refresh()
            return sequences.included(live.index.generation) >= sequence
    if sequence > inbox_of(live.store.path).sequence:
        raise UsageError(f"no document has the sequence {sequence}", hint="take it from the answer of POST /documents")
    return False


def not_yet(sequence: int) -> NotYet:
    """Return the error for a change that is not in the index yet."""
    return NotYet(f"the index does not include the change {sequence} yet", hint="ask again in a moment")
