"""The index that a server answers from: it follows `current` while requests end on the generation they began with.

Numbers of changes of the inbox: the last one that a generation includes, and the wait for one.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from retrieve_cli.api.asked import Asked, Outcome, answer_each, answer_groups
from retrieve_cli.api.index import Index
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Request
from retrieve_cli.errors import IndexCorrupt, NotYet, RetrieveError, UsageError, quoted
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.durable import marks_of
from retrieve_cli.storage.inbox import Inbox, name_of, sequence_of
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.store import MANIFEST, Store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_PINNED = 4
"""Older generations that stay open for requests that name them."""
_RECENT = 32
"""Last requests, from which those that a new generation answers before it is used are taken."""
_KINDS = 4
"""Most requests that it answers before it is used. Searches that run meanwhile wait for them."""
_EVERY_S = 0.2
"""Seconds between two looks at `current`."""
_RETRY_S = 5.0
"""The same if the generation in `current` could not be opened."""


class LiveIndex:
    """The current generation of a store, and older ones on request. Threads may share one.

    A store without an index yet, or with a damaged one, is no reason not to start: each request is answered by the
    reason until there is a generation that can be opened.
    """

    def __init__(self, store: Store, settings: Settings, *, on_change: Callable[[], None] = lambda: None) -> None:
        """Open the current generation, if there is one. `on_change` is called after each swap and each failure."""
        self.store = store
        self.settings = settings
        self.fault: RetrieveError | None = None
        """Reason why the current generation could not be opened; an older one answers then, if there was one."""
        self.absent: Callable[[RetrieveError], RetrieveError] = lambda fault: fault
        """Takes that reason if no index is open, and returns what a request is answered by."""
        self._on_change = on_change
        self._index: Index | None = None
        self._pinned: OrderedDict[str, Index] = OrderedDict()
        self._recent: deque[Asked] = deque(maxlen=_RECENT)
        self._opening = Lock()
        self._ended = Event()
        self._seen: tuple[int, ...] | None = None
        self.refresh()

    @property
    def opened(self) -> bool:
        """True if an index is open. Nothing is read for it."""
        return self._index is not None

    @property
    def index(self) -> Index:
        """The open index. Raises: RetrieveError if no index can be opened."""
        if (index := self._index) is not None:
            return index
        self.refresh()
        if (index := self._index) is not None:
            return index
        raise self.absent(self.fault or RetrieveError("the index is being opened", hint="try again"))

    def at(self, generation: str | None) -> Index:
        """Return the index of a generation, by its id or the start of it; None: the current one.

        Raises:
            UsageError: there is no generation of that name any more.
            IndexCorrupt: it is damaged.
        """
        current = self.index
        if generation is None or generation == current.generation:
            return current
        with self._opening:
            if (index := self._pinned.get(generation)) is None:
                try:
                    index = self._pinned[generation] = Index(self.store, self.settings, generation)
                except UsageError as error:
                    hint = f"omit `generation`: the current one is {current.generation}"
                    raise UsageError(f"there is no generation {quoted(generation)}", hint=hint) from error
            self._pinned.move_to_end(generation)
            while len(self._pinned) > _PINNED:
                self._pinned.popitem(last=False)
            return index

    def answer(self, asked: Sequence[Asked]) -> list[Outcome]:
        """Return the answer to each request or its error, in order; requests of equal choices are one batch.

        Requests that name no generation are answered by the one that is current now; one that asks for a change of the
        inbox waits until the index includes it, for a limited time.
        """
        late = {place: error for place, one in enumerate(asked) if (error := self._wait(one)) is not None}
        try:
            current = self.index
        except RetrieveError as error:
            return [error] * len(asked)
        timely = [one for place, one in enumerate(asked) if place not in late]
        outcomes = iter(answer_groups(timely, lambda batch: self._answer_batch(batch, current)))
        self._recent.extend(one for one in timely[:1] if one.generation is None)
        return [late[place] if place in late else next(outcomes) for place in range(len(asked))]

    def _wait(self, one: Asked) -> RetrieveError | None:
        """Wait for the change that a request asks for; return the error if the index does not include it in time."""
        if not one.at_least:
            return None
        deadline = one.choices.get("deadline_ms")
        try:
            wait_until(self, one.at_least, deadline and time.monotonic() + deadline / 1000)
        except RetrieveError as error:
            return error
        return None

    def _answer_batch(self, batch: Sequence[Asked], current: Index) -> list[Outcome]:
        first = batch[0]
        try:
            index = current if first.generation is None else self.at(first.generation)
            options = index.options(**first.choices)
            searcher, requests = Searcher(index.opened, options), [one.request for one in batch]
            return answer_each(searcher, requests, common=Request(""), answer=partial(index.answer, options=options))
        except RetrieveError as error:
            return [error] * len(batch)

    # ------------------------------------------------------------------------------------------ following

    def refresh(self) -> bool:
        """Open the generation that is current now, if it is another one, and return True if it answers from now on.

        It is opened beside the present one and answers the last request of each kind. If it cannot be opened, the
        present one stays and `fault` has the reason.
        """
        with self._opening:
            if self._index is not None and self.store.live() in (None, self._index.generation):
                self.fault = None
                return False
            try:
                index = Index(self.store, self.settings, before=self._index)
                self._try(index)
            except RetrieveError as error:
                self.fault = error
                index = None
            else:
                self._index, self.fault = index, None
        self._on_change()
        return index is not None

    def reconfigure(self, settings: Settings) -> None:
        """Answer under another configuration from now on.

        Raises:
            RetrieveError: the index cannot be opened under it; it answers as before.
        """
        with self._opening:
            if self._index is not None:
                index = Index(self.store, settings, before=self._index)
                self._try(index)
                self._index = index
            self.settings = settings
            self._pinned.clear()

    def follow(self) -> None:
        """Follow `current` in a thread, until `close`."""
        Thread(target=self._follow, name="follow", daemon=True).start()

    def close(self) -> None:
        """Stop to follow, and let go of the indexes: routes of FastAPI outlive their server in its caches."""
        self._ended.set()
        with self._opening:
            self._index = None
            self._pinned.clear()

    def _follow(self) -> None:
        while not self._ended.wait(_EVERY_S if self.fault is None else _RETRY_S):
            try:
                mark = marks_of((self.store.path / "current").stat())
            except OSError:
                mark = None
            if mark != self._seen:
                self.refresh()
                if self.fault is None:
                    self._seen = mark

    def _try(self, index: Index) -> None:
        """Answer a request of each kind with an index that is not used yet, to load its pages and models.

        The first request loads the data that others of its kind need, and saves them far more time than a second one.
        """
        kinds: dict[Hashable, Asked] = {}
        for one in reversed(list(self._recent)):
            # What decides on the parts of the index that it needs: names of choices, texts and switches.
            chosen = ((name, value if isinstance(value, str | bool) else None) for name, value in one.choices.items())
            kind = one.request.retrievers, bool(one.request.filters), *sorted(chosen, key=str)
            kinds.setdefault(kind, one)
        for one in list(kinds.values())[:_KINDS]:
            with suppress(RetrieveError):
                index.answer([one.request], index.options(**one.choices))


PATIENCE_S = 10.0
"""Seconds to wait for a change if the request has no deadline."""
_LOOK_S = 0.02
"""Seconds between two looks."""


class Sequences:
    """Numbers of the changes that the generations on the disk include. Threads may share one.

    A sync that changes no record updates the manifest in its place, so that it is read again when its file changes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def included(self, generation: str | None = None) -> int:
        """Return the number of the last change that a generation includes, by default the current one; 0 if none."""
        return self._of(generation)[0]

    def name(self) -> str | None:
        """Return the name of the inbox among the sources of the current generation."""
        return self._of(None)[1]

    def rejections(self) -> Mapping[int, str]:
        """Return the reasons for which the last sync rejected documents of the inbox, by their numbers."""
        try:
            return _rejections(self._store.path, marks_of(self._store.quarantine.stat()), self.name())
        except OSError:
            return {}

    def _of(self, generation: str | None) -> tuple[int, str | None]:
        name = generation or self._store.live()
        if name is not None:
            path = self._store.generations / name / MANIFEST
            with suppress(OSError, IndexCorrupt):
                return _included(path, marks_of(path.stat()))
        return 0, None


@lru_cache(maxsize=8)
def _included(path: Path, marks: tuple[int, ...]) -> tuple[int, str | None]:  # noqa: ARG001  of the file's state
    """Return the number of the last change that a manifest includes, and the name of its inbox."""
    manifest = Manifest.read(path)
    return sequence_of(manifest), name_of(manifest)


@lru_cache(maxsize=2)
def _rejections(artifacts: Path, marks: tuple[int, ...], name: str | None) -> Mapping[int, str]:  # noqa: ARG001
    """Return the reasons in the list of rejected items of a source, by line."""
    items = (item for item in Store(artifacts).rejected() if item.source == name)
    return {item.line: item.reason for item in items}


def wait_until(live: LiveIndex, sequence: int, deadline: float | None = None) -> None:
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


async def arrival(live: LiveIndex, sequence: int, deadline: float | None = None) -> None:
    """Do the same as `wait_until` without occupying a thread. Raises: UsageError, NotYet."""
    if sequence <= 0:
        return
    until = time.monotonic() + PATIENCE_S if deadline is None else deadline
    sequences = Sequences(live.store)
    while not await asyncio.to_thread(reached, live, sequences, sequence):
        if time.monotonic() >= until:
            raise not_yet(sequence)
        await asyncio.sleep(_LOOK_S)


def reached(live: LiveIndex, sequences: Sequences, sequence: int) -> bool:
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
    if sequence > Inbox(live.store.path).sequence:
        raise UsageError(f"no document has the sequence {sequence}", hint="take it from the answer of POST /documents")
    return False


def not_yet(sequence: int) -> NotYet:
    """Return the error for a change that is not in the index yet."""
    return NotYet(f"the index does not include the change {sequence} yet", hint="ask again in a moment")
