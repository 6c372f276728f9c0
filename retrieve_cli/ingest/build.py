"""The way in: sources -> Item -> Record -> chunking -> Chunk -> vectors and indexes -> store. Reads top to bottom.

`build` reads everything anew; `sync` (sync.py) hands in the live generation, whose rows are taken over where the item
they were read from is the same. Both end in the same bytes. One record is in memory at a time; texts wait for the
encoder in batches, vectors go to the cache as they come. Nothing is published before everything is written, and
nothing at all where too much of a source was refused.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli import __version__
from retrieve_cli.assemble.parts import Parts
from retrieve_cli.contracts import Source
from retrieve_cli.errors import RetrieveError
from retrieve_cli.ingest.intake import Intake
from retrieve_cli.ingest.inventory import Contents
from retrieve_cli.ingest.rejected import new_rejections
from retrieve_cli.ingest.replaced import current_manifest, replaced_by
from retrieve_cli.ingest.report import Limits, Progress, Report, Status, kinds_of
from retrieve_cli.ingest.tidying import tidy
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.ingest.reuse import Reuse


def build(sources: Sequence[Source], parts: Parts, store: Store, *, limits: Limits, progress: Progress) -> Report:
    """Builds a generation from everything that the sources have and makes it live.

    Raises:
        UsageError: the sources have no record at all.
        SourceFailed, Locked, Unavailable, RetrieveError: from the sources, the store and the encoder.
    """
    with store.writer(wait=limits.wait, say=progress.say):
        for source in sources:
            source.fetch()
        current = current_manifest(store)
        report = apply(sources, parts, store, limits=limits, progress=progress, before=contents_before(store))
        return replace(report, replaced=replaced_by(sources, report.generation, current, store))


def contents_before(store: Store) -> Contents:
    """Ids and contents of every live record; nothing where there is no index that can be read."""
    try:
        with open_generation(store) as generation:
            return Contents.of(generation)
    except RetrieveError:
        return Contents.nothing()


def apply(
    sources: Sequence[Source],
    parts: Parts,
    store: Store,
    *,
    limits: Limits,
    progress: Progress,
    before: Contents,
    last: Manifest | None = None,
    reuse: Reuse | None = None,
    cache: Path | None = None,
) -> Report:
    """Writes a generation and makes it live; takes rows from `reuse` where they are still right.

    `before` has the content of each live record; sources are held to what they had in `last`. What was encoded before
    is in `cache`, by default that of the store.
    The lock must be held. Raises as `build` does.
    """
    begun = time.monotonic()
    with (
        store.scratch() as scratch,
        closing(Intake(scratch, parts, cache or store.cache, progress, before=before, reuse=reuse)) as intake,
    ):
        intake.take_all(sources)
        if last:
            limits.check_loss(last, {entry.name: entry.records for entry in intake.entries})
        records, refused, live = intake.records, intake.refused, store.live()
        rejected_new = new_rejections(store, refused)
        changes, chunk_changes = intake.changes(), intake.chunk_changes()
        status: Status = "failed"
        if limits.tolerates(len(refused), records):
            rows = intake.write()
            manifest = store.seal(
                scratch, recipe=intake.recipe, sources=intake.entries, rows=rows, linked=intake.linked
            )
            built = {"version": __version__, "sources": intake.origins, "changes": changes.counts}
            built |= {"prefixes": dict(parts.prefixes)} if parts.prefixes else {}
            published = store.publish(scratch, manifest, built)
            status = "partial" if refused else "unchanged" if published == live else "published"
            live = published
            store.write_quarantine(refused)  # not before: what is listed there counts as reported
            tidy(store, limits.keep, progress)
        else:
            store.write_quarantine(refused)
    return Report(
        status=status,
        generation=live,
        records=records,
        chunks=intake.chunks,
        embedded=intake.embedded,
        changes=changes,
        chunk_changes=chunk_changes,
        kinds=kinds_of(sources),
        quarantined=len(refused),
        rejected_new=rejected_new,
        max_fail=limits.max_fail,
        refused=refused,
        seconds=round(time.monotonic() - begun, 3),
        skipped=parts.skipped,
    )
