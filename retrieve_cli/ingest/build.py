"""Indexing: sources -> Item -> Record -> chunking -> Chunk -> vectors and indexes -> store. Reads top to bottom.

`build` reads everything; `sync` (sync.py) passes the current generation, and rows of unchanged items are copied from
it. Both give the same bytes. One record is in memory at a time; texts are encoded in batches, and vectors go to the
cache as they come. Nothing is published before everything is written, and nothing if too many records are rejected.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble.parts import Parts
from retrieve_cli.contracts import Json, Refused, Source
from retrieve_cli.contracts.progress import noting_interruption
from retrieve_cli.errors import RetrieveError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.encoded_texts import stored_segments
from retrieve_cli.ingest.intake import Intake
from retrieve_cli.ingest.inventory import Contents
from retrieve_cli.ingest.report import LossLimits, Progress, Report, Status, fetch_all, kinds_of
from retrieve_cli.ingest.source_checks import current_manifest, replaced_by
from retrieve_cli.ingest.tidying import tidy
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.inbox import KIND
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.store import Store
from retrieve_cli.untrusted import files
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from retrieve_cli.ingest.pushing import Push


def build(sources: Sequence[Source], parts: Parts, store: Store, *, limits: LossLimits, progress: Progress) -> Report:
    """Build a generation from everything in the sources and make it current.

    Raises:
        UsageError: the sources have no records.
        SourceFailed, Locked, Unavailable, RetrieveError: from the sources, the store and the encoder.
    """
    with store.writer(wait=limits.wait, say=progress.say):
        failures = fetch_all(sources, progress.say)
        current = current_manifest(store)
        report = apply(sources, parts, store, limits=limits, progress=progress, before=contents_before(store))
        replaced = replaced_by(sources, report.generation, current, store)
        return replace(report, failures=failures, replaced=replaced)


def push_for(parts: Parts, progress: Progress) -> Push | None:
    """Return the sender of a generation to the configured engines; None without engines."""
    if parts.remote is None:
        return None
    from retrieve_cli.ingest.pushing import Push

    return Push(parts.remote, progress.say)


def contents_before(store: Store) -> Contents:
    """Return ids and contents of every current record; none if there is no readable index."""
    try:
        with open_generation(store) as generation:
            return Contents.of(generation)
    except RetrieveError:
        return Contents.nothing()


def _checked_push(parts: Parts, store: Store, progress: Progress) -> Push | None:
    """Return the push of a build to an engine, before anything is read. Raises: RetrieveError if it cannot succeed."""
    if parts.missing is not None and _has_vectors(store):
        raise parts.missing
    push = push_for(parts, progress)
    if push:
        push.check()
    return push


def _has_vectors(store: Store) -> bool:
    try:
        return store.open().manifest.recipe.encoder is not None
    except RetrieveError:
        return False


def apply(
    sources: Sequence[Source],
    parts: Parts,
    store: Store,
    *,
    limits: LossLimits,
    progress: Progress,
    before: Contents,
    last: Manifest | None = None,
) -> Report:
    """Write a generation and make it current.

    `before` has the content of each current record; a source that lost too much since `last` is an error. The lock must
    be held. Raises as `build` does.
    """
    begun = time.monotonic()
    push = _checked_push(parts, store, progress)
    with (
        store.scratch() as scratch,
        closing(Intake(scratch, parts, store.cache, progress, before=before, lenders=stored_segments(store))) as intake,
        noting_interruption(intake.kept),
    ):
        intake.take_all(sources)
        if last:
            limits.check_loss(last, {entry.name: entry.records for entry in intake.entries})
        records, rejected = intake.records, intake.rejected
        former = current = store.live()
        rejected_new, changes, chunked = new_rejections(store, rejected), intake.changes(), intake.chunk_changes()
        status: Status = "failed"
        # A document of the inbox, where anybody may put one, does not keep the others from being published.
        counted = sum(entry.refused for entry in intake.entries if entry.kind != KIND)
        if limits.tolerates(counted, records):
            built = {"sources": intake.origins, "changes": changes.counts, "version": __version__}
            built |= {"chunks": intake.chunks, **noted(parts, last)}
            current = _publish(intake, scratch, store, built, push=push)
            status = "partial" if rejected else "unchanged" if current == former else "published"
        store.write_quarantine(rejected)  # not before: what is listed there counts as reported
        if status != "failed":
            tidy(store, limits.keep, progress)
            if push:
                push.tidy(store)
    return Report(
        status=status,
        generation=current,
        records=records,
        chunks=intake.chunks,
        embedded=intake.embedded,
        facets=intake.facets,
        changes=changes,
        chunk_changes=chunked,
        kinds=kinds_of(sources),
        quarantined=len(rejected),
        rejected_new=rejected_new,
        max_fail=limits.max_fail,
        rejected=rejected,
        seconds=round(time.monotonic() - begun, 3),
        skipped=parts.skipped,
        notices=intake.notices.on_keys,
        same=status != "failed" and current == former,
    )


def noted(parts: Parts, last: Manifest | None) -> dict[str, Json]:
    """Return settings for a manifest: keys that shape the index, origins of prefixes, and its name and description,
    which it keeps from the last one unless the configuration has others."""
    about = {**(last.built.get("about", {}) if last else {}), **parts.about}
    named = {"prefixes": dict(parts.prefixes), "about": about}
    return {"settings": dict(parts.settings), **{key: value for key, value in named.items() if value}}


def _publish(intake: Intake, scratch: Path, store: Store, built: Mapping[str, Json], *, push: Push | None) -> str:
    """Write the generation, send it to the engines and make it current; return its id."""
    rows = intake.write()
    manifest = store.seal(scratch, recipe=intake.recipe, sources=intake.entries, rows=rows, own_sources=intake.own)
    if push:
        push.before_publication(scratch, manifest, store, older=None)
    return store.publish(scratch, manifest, built)


def new_rejections(store: Store, rejected: Sequence[Refused]) -> int:
    """Return how many of the items the quarantine file does not list yet.

    An item is known by its source and its text, so that one that only moved to another line is not new; without text,
    by its source and the reason.
    """
    if not rejected:
        return 0
    listed = Counter(_listed(store))
    now = Counter(_key(item.source, item.excerpt, item.reason) for item in rejected)
    return (now - listed).total()


def _listed(store: Store) -> Iterator[str]:
    """Yield the keys of the listed items; lines that are damaged have none."""
    try:
        with files.open_regular(store.quarantine, limit=files.JUDGMENTS) as file:
            for line in files.lines(file):
                try:
                    item: Json = json.loads(line)
                    yield _key(item["source"], item["excerpt"], item["reason"])
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue
    except OSError:
        return


def _key(source: Json, excerpt: Json, reason: Json) -> str:
    return json.dumps([source, excerpt or None, None if excerpt else reason])
