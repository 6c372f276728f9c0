"""The Python API: an index that a program opens or builds, searches, adds to and syncs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from retrieve_cli.api.answers import IndexAnswer
from retrieve_cli.api.index import Index
from retrieve_cli.api.requests import Choices, ids as texts_of_ids
from retrieve_cli.assemble.trusted import own_store
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import NotFound, RetrieveError, printable
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.api.additions import Additions
    from retrieve_cli.api.documents import Documents, Receipt
    from retrieve_cli.api.rows import Records
    from retrieve_cli.ingest.report import Report

Tell = Callable[[str], object]


class WritableIndex(Index):
    """An index that is open for searching, and to which records can be added. Threads may share one.

    `retrieve.open("artifacts")` opens one, `retrieve.build(records)` builds one. It closes at the end of a `with`
    block, and when it is forgotten.

    Records that are added or deleted are found, or no longer found, at once. Where only a sync can publish them, they
    are stored, and `sync()` does it: their status in the receipt is `queued` until then.
    """

    report: Report | None = None
    """The report of the build or of the last sync by this object: its counts, and the records that were rejected."""

    async def asearch(self, text: str, **choices: Unpack[Choices]) -> IndexAnswer:
        """Return the answer to a query, as `search` does, from a thread.

        If the task is cancelled, the search ends in its thread and its answer is dropped; the index stays usable.
        """
        from asyncio import to_thread

        return await to_thread(self.search, text, **choices)

    def add(self, records: Records) -> Receipt:
        """Store and publish records; one with the id of a record that was added before, or with its key if it has no
        id, replaces it.

        Takes what `retrieve.build` takes, except paths. Records that are rejected are named in a warning and in
        `receipt.rejected`; if there are too many, nothing is stored (`build.max_fail`).

        Raises:
            UsageError: there are no records, or too many of them are rejected.
        """
        from retrieve_cli.api.building import changes_of, rejections, warn_of

        known = {entry.id for entry in self._documents.inbox.snapshot()}
        changes = changes_of(records, self._documents, self._settings, known=known)
        receipt = self._published(self._documents.store_all(changes, None))
        warn_of(rejections(changes), len(changes), level=2)
        return receipt

    def delete(self, ids: str | int | Iterable[str | int]) -> Receipt:
        """Delete records that were added, by their ids: all of them or, after an error, none.

        Raises:
            NotFound: there is no record with one of the ids.
            Conflict: a record comes from a catalog or a folder; it is deleted there.
        """
        try:
            several = list(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else ids
            receipt = self._documents.remove(*texts_of_ids(several, "ids"), tenant=None, index=self)
        except NotFound as error:
            raise NotFound(error.message, hint="list the records: index.records()") from None
        return self._published(receipt)

    def sync(self, *, progress: Tell = lambda _: None) -> Report:
        """Read the changes of all sources and the records that were added, publish them, and answer from them.

        An index that was opened at a given generation stays there. `progress` receives messages, such as `print`.

        Raises:
            SourceFailed: a source cannot be read, lost too much, or has too many rejected records.
            Locked: another process is writing.
        """
        from retrieve_cli.api.building import Messages, expect_published, sync_of, warn_of
        from retrieve_cli.assemble.trusted import agree
        from retrieve_cli.ingest import schedule

        settings, store, messages = self._settings, self._store, Messages(progress)
        with store.writer(wait=settings.sync.wait, say=messages.say):
            self.report = report = expect_published(sync_of(settings, store, messages).run())
        if settings.sync.every_hours:
            schedule.mark(store)
        agree(store.path, progress)
        self.refresh()
        warn_of(report.rejected, report.records + report.quarantined, level=2)
        return report

    def _published(self, receipt: Receipt) -> Receipt:
        """Publish stored documents, if that is possible without a sync, and return the receipt with their states."""
        if not receipt.sequence or self._pinned is not None:
            return receipt
        from retrieve_cli.api.building import Messages

        try:
            self.refresh()
            self._additions.publish(self, self._settings, Messages(lambda _: None))
            self.refresh()
        except RetrieveError as error:
            message = f"the records are stored, and sync() publishes them: {error.message}"
            warnings.warn(printable(message), stacklevel=3)
        return receipt._replace(documents=self._documents.settled(receipt.documents, tenant=None))

    @cached_property
    def _additions(self) -> Additions:
        from retrieve_cli.api.additions import Additions

        return Additions(self._store)

    @cached_property
    def _documents(self) -> Documents:
        from retrieve_cli.api.documents import Documents

        return Documents(self._store, self._settings)

    def __reduce__(self) -> tuple[Callable[..., WritableIndex], tuple[object, ...]]:
        """Pickle the index, or copy it, as its folder, which is opened again. Raises: UsageError: it is closed."""
        _ = self.opened
        return _again, (self._store.path.absolute(), self._settings, self._pinned)

    def __repr__(self) -> str:
        if self._open is None:
            return printable(f"Index({str(self._store.path)!r}, closed)")
        contents = f"generation {self.generation}, {count(len(self), 'record')}"
        return printable(f"Index({str(self._store.path)!r}, {contents})")


def open_index(
    artifacts: str | os.PathLike[str], *, config: str | os.PathLike[str] | None, generation: str | None
) -> WritableIndex:
    """Return an open index; see `retrieve_cli.open`."""
    settings, store = _place(artifacts, config)
    return WritableIndex(store, settings, generation)


def _again(path: Path, settings: Settings, generation: str | None) -> WritableIndex:
    return WritableIndex(own_store(path), settings, generation)


def build_index(
    given: Records, artifacts: str | os.PathLike[str], *, config: str | os.PathLike[str] | None, progress: Tell
) -> WritableIndex:
    """Return the index of records, or of catalogs and folders; see `retrieve_cli.build`."""
    from retrieve_cli.api import building
    from retrieve_cli.api.documents import Documents
    from retrieve_cli.api.named_sources import named_sources
    from retrieve_cli.api.rows import paths_in
    from retrieve_cli.assemble.sources import inbox_entry, with_inbox
    from retrieve_cli.assemble.trusted import agree
    from retrieve_cli.frozen import replace

    settings, store = _place(artifacts, config)
    paths, rejected = paths_in(given), []
    if not paths:
        documents = Documents(store, settings)
        changes = building.changes_of(given, documents, settings, progress)
        building.replace_records(documents, changes)
        rejected = building.rejections(changes)
    entries = named_sources(paths, (), ()) if paths else [inbox_entry(settings, None)]
    if settings.sources.list:
        progress("note: `sources:` of the configuration is not used; the next sync follows it again")
    report = building.run_build(with_inbox(entries, store.path), settings, store, building.Messages(progress))
    building.expect_published(report)
    if rejected:
        rejected += report.rejected
        report = replace(report, rejected=rejected, quarantined=len(rejected), status="partial")
    agree(store.path, progress)
    building.warn_of(report.rejected, report.records + report.quarantined, level=3)
    index = WritableIndex(store, settings)
    index.report = report
    return index


def _place(artifacts: Any, config: Any) -> tuple[Settings, Store]:
    from retrieve_cli.config.loading import load

    settings = load(None if config is None else Path(config))
    return settings, own_store(Path(artifacts))
