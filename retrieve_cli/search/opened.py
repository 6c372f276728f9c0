"""An open generation with its indexes and models: opened once, asked by any number of calls, in any thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble.indexes import open_indexes
from retrieve_cli.assemble.sources import watched_of
from retrieve_cli.assemble.trusted import strange_sources
from retrieve_cli.config.index_settings import SERVERS
from retrieve_cli.config.settings import Settings
from retrieve_cli.config.trust import COMMAND
from retrieve_cli.contracts import Index, Watched
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.search.deadline import Durations
from retrieve_cli.search.encoding import QueryModels
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.storage.generation import Generation, open_generation
from retrieve_cli.storage.inbox import Inbox
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.assemble.indexes import Indexes
    from retrieve_cli.retrieval.stages.rerank import Reranker

_READERS = 16
"""Rerankers that are kept: requests may choose how many results a chat model picks, each number another reranker."""


class Readers:
    """The rerankers that were made for a generation, whose weights are loaded once. Threads may share them."""

    def __init__(self) -> None:
        self._made: dict[object, Reranker | None] = {}
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._made)

    def get(self, key: object, make: Callable[[], Reranker | None]) -> Reranker | None:
        """Return the reranker of a key, which is made at the first call."""
        with self._lock:
            found = self._made.get(key) or make()
            if len(self._made) < _READERS:
                self._made[key] = found
            return found


class Opened(Frozen, eq=False, weakref=True):
    """An open generation. It is immutable: the choices of a request belong to a `Searcher`.

    Threads may share it; an index and a model are loaded at their first use.
    """

    store: Store
    settings: Settings
    """The configuration: the defaults of what a request may choose, and everything that none may."""
    generation: Generation
    indexes: Indexes
    models: QueryModels
    readers: Readers
    durations: Durations
    watched: Mapping[str, Watched]
    """Its sources by their names; empty if the generation does not name them."""
    unread: str
    """A notice on sources that are not compared, because the user did not agree to read them."""
    seconds: float
    """Time that opening took, which a deadline counts."""

    @classmethod
    def of(
        cls, store: Store, settings: Settings, generation: str | None = None, *, before: Opened | None = None
    ) -> Opened:
        """Open the current generation, or the one named. The query models of `before`, and the queries that they keep,
        serve again if that was built and is asked in the same way.

        Raises:
            IndexMissing, IndexCorrupt: there is no index, or it is damaged.
        """
        begun = time.perf_counter()
        with open_generation(store, generation) as found:
            for segment in found.segments:
                segment.advise_random_reads()
            indexes = open_indexes(found, settings)
        seconds, recipe = time.perf_counter() - begun, found.manifest.recipe
        same = before is not None and (before.generation.manifest.recipe, before.settings) == (recipe, settings)
        return cls(
            store,
            settings,
            found,
            indexes,
            before.models if before is not None and same else QueryModels(settings, recipe),
            Readers(),
            Durations() if before is None else before.durations,
            *_sources(store, found, settings),
            seconds,
        )

    def under(self, settings: Settings, indexes: Mapping[str, Index[Any]] | None = None) -> Opened:
        """Return the same generation under another configuration, with other indexes in the place of some."""
        same = _of_indexes(settings) == _of_indexes(self.settings)
        opened = self.indexes if same else open_indexes(self.generation, settings)
        loaded = self.models.loaded if _of_models(settings) == _of_models(self.settings) else None
        models = QueryModels(settings, self.generation.manifest.recipe, loaded)
        opened = opened.replaced(indexes) if indexes else opened
        return replace(self, settings=settings, indexes=opened, models=models)

    def options(self, **given: Any) -> SearchOptions:
        """Return the options of the configuration, overridden by the given values that are not None."""
        return SearchOptions.of(self.settings, **given)

    def source_of(self, row: int) -> Watched | None:
        """Return the source of a record; None if the generation does not name its sources."""
        return self.watched.get(self.generation.source_of(row))


def _of_indexes(settings: Settings) -> tuple[object, ...]:
    """Return the sections of the settings on which open indexes depend."""
    return (settings.bm25, settings.dense, settings.engines, *(getattr(settings, name) for name in SERVERS))


def _of_models(settings: Settings) -> tuple[object, ...]:
    """Return those on which loaded models of queries depend."""
    return (settings.encoder, settings.splade, settings.models)


def _sources(store: Store, generation: Generation, settings: Settings) -> tuple[Mapping[str, Watched], str]:
    """The sources of a generation, whose changes its answers tell of, and a notice on those that are not read."""
    strange = strange_sources(store.path, generation.manifest)
    watched = watched_of(
        generation.manifest,
        fetched=store.fetched,
        inbox=Inbox(store.path),
        settings=settings,
    )
    said = f"not compared with {', '.join(strange)}, which you did not agree to read: {COMMAND}"
    return watched, said if strange else ""
