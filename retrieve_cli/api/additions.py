"""Documents of the inbox that are published at once, in this process, from the open index."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from retrieve_cli.errors import RetrieveError
from retrieve_cli.frozen import replace
from retrieve_cli.storage.inbox import KIND, sequence_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrieve_cli.api.index import Index
    from retrieve_cli.api.live import LiveIndex
    from retrieve_cli.assemble.parts import Parts
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Source
    from retrieve_cli.ingest.add import ChangedDocuments
    from retrieve_cli.ingest.report import Progress, Report
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.store import Store


class Additions:
    """Publishes documents as a small segment. Its encoder stays loaded. Threads may share one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parts: tuple[object, Parts] | None = None
        """The parts of the last publication, and the settings and sources of these."""
        self._lock = Lock()

    def publish(self, index: Index, settings: Settings, progress: Progress) -> Report | None:
        """Publish the documents that changed since the generation that is open; return the report, None if only a sync
        can do that, because another generation is current or the index would be built in another way now.

        Raises:
            Locked, RetrieveError: nothing was published; the documents wait for the next sync.
        """
        from retrieve_cli.ingest.add import add
        from retrieve_cli.ingest.report import LossLimits
        from retrieve_cli.ingest.source_checks import check_inbox

        store, before = self._store, index.opened.generation
        with self._lock, store.writer(wait=settings.sync.wait, say=progress.say):
            if before.id != store.live():
                return None
            check_inbox(store, before.manifest)
            inbox = self._inbox(before, settings)
            inbox.take_changes(sequence_of(before.manifest))
            parts, limits = self._parts_for(before, inbox, settings), LossLimits(max_fail=1.0, keep=settings.store.keep)
            return add(inbox, parts, store, before, limits=limits, progress=progress)

    def _inbox(self, before: Generation, settings: Settings) -> ChangedDocuments:
        from retrieve_cli.assemble.sources import entries_of, sources_of, with_inbox

        listed = settings.sources.list or entries_of(before.manifest)
        entries = [entry for entry in with_inbox(listed, self._store.path) if entry.kind == KIND]
        (inbox,) = sources_of(entries, settings, fetched=self._store.fetched)
        return inbox  # type: ignore[return-value]

    def _parts_for(self, before: Generation, inbox: ChangedDocuments, settings: Settings) -> Parts:
        """Return the parts that the documents are published with: of all sources, so that nothing differs."""
        from retrieve_cli.assemble.parts import parts_for
        from retrieve_cli.ingest.add import settled_sources

        sources: Sequence[Source] = settled_sources(before, inbox)
        key = settings, [(source.name, source.kind, getattr(source, "kinds", ())) for source in sources]
        if self._parts is None or self._parts[0] != key:
            parts = parts_for(sources, settings)
            # A few texts are encoded before other processes have started.
            self._parts = key, replace(parts, workers=lambda _: None)
        return self._parts[1]


def publish_live(live: LiveIndex, additions: Additions) -> Report | None:
    """Publish the documents that changed since the generation that a server answers from, and answer from the new one;
    return None if a sync has to do that."""
    from retrieve_cli.api.building import Messages

    with suppress(RetrieveError):  # as long as there is no index; any other failure is the sync's to tell
        live.refresh()
        report = additions.publish(live.index, live.settings, Messages(lambda _: None))
        live.refresh()
        return report
    return None
