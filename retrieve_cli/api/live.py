"""The index that a server answers from: it follows `current` while requests end on the generation they began with."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread

from retrieve_cli.api.asked import Asked
from retrieve_cli.api.batches import Outcome, answer_each, answer_groups
from retrieve_cli.api.index import Index
from retrieve_cli.api.sequences import wait_until
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Request
from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

_PINNED = 4
"""Older generations that stay open for requests that name them."""
_RECENT = 32
"""Last requests, from which those are taken that a new generation is warmed with."""
_KINDS = 4
"""Most requests that it is warmed with. Searches that run meanwhile wait for the processor and the interpreter."""
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
        """Return the outcomes of requests of equal choices."""
        first = batch[0]
        try:
            index = current if first.generation is None else self.at(first.generation)
            options = index.options(**first.choices)
            return answer_each(
                Searcher(index.opened, options),
                [one.request for one in batch],
                common=Request(""),
                answer=lambda requests: index.answer(requests, options),
            )
        except RetrieveError as error:
            return [error] * len(batch)

    # ------------------------------------------------------------------------------------------ following

    def refresh(self) -> bool:
        """Open the generation that is current now, if it is another one, and return True if it answers from now on.

        It is opened beside the present one and warmed with the last request of each kind. If it cannot be opened, the
        present one stays and `fault` has the reason.
        """
        with self._opening:
            if self._index is not None and self.store.live() in (None, self._index.generation):
                self.fault = None
                return False
            try:
                index = Index(self.store, self.settings, before=self._index)
                self._warm(index)
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
                self._warm(index)
                self._index = index
            self.settings = settings
            self._pinned.clear()

    def follow(self) -> None:
        """Follow `current` in a thread, until `close`."""
        Thread(target=self._follow, name="follow", daemon=True).start()

    def close(self) -> None:
        """Stop to follow, and let go of the index."""
        self._ended.set()

    def _follow(self) -> None:
        while not self._ended.wait(_EVERY_S if self.fault is None else _RETRY_S):
            if (mark := _mark(self.store.path / "current")) != self._seen:
                self.refresh()
                if self.fault is None:
                    self._seen = mark

    def _warm(self, index: Index) -> None:
        """Answer a request of each kind with an index that is not used yet, to load its pages and models.

        The first request loads the data that others of its kind need, and saves them far more time than a second one.
        """
        kinds: dict[Hashable, Asked] = {}
        for one in reversed(list(self._recent)):
            kinds.setdefault(_kind(one), one)
        for one in list(kinds.values())[:_KINDS]:
            with suppress(RetrieveError):
                index.answer([one.request], index.options(**one.choices))


def _kind(one: Asked) -> Hashable:
    """Return what decides on the parts of the index that a request needs: names of choices, texts and switches."""
    choices = ((name, value if isinstance(value, str | bool) else None) for name, value in one.choices.items())
    return one.request.retrievers, bool(one.request.filters), *sorted(choices, key=str)


def _mark(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes whenever a file is replaced; None if the file does not exist."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size
