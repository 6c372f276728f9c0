"""Indexing: sources -> Item -> Record -> chunking -> Chunk -> vectors and indexes -> a segment. Reads top to bottom.

`build` reads everything into one segment; `sync` (sync.py) passes what its items have in common with the current
generation, and only new and changed ones are read. One record is in memory at a time; texts are encoded in batches.
Nothing is published before everything is written, and nothing if too many records are rejected.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from retrieve_cli.assemble.parts import Parts
from retrieve_cli.contracts import Json, Refused, Source
from retrieve_cli.contracts.progress import noting_interruption
from retrieve_cli.contracts.terms.figures import noun_for
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.encoded_texts import stored_segments
from retrieve_cli.ingest.intake import Intake
from retrieve_cli.ingest.items import mapping_of, marks_of
from retrieve_cli.ingest.known_items import Comparison
from retrieve_cli.ingest.publishing import Publication
from retrieve_cli.ingest.report import LossLimits, Progress, Report, Status, fetch_all
from retrieve_cli.ingest.tidying import tidy
from retrieve_cli.storage.generation import Generation, open_generation
from retrieve_cli.storage.inbox import KIND
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.store import Store
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from retrieve_cli.ingest.known_items import Survey
    from retrieve_cli.ingest.pushing import Push


def build(sources: Sequence[Source], parts: Parts, store: Store, *, limits: LossLimits, progress: Progress) -> Report:
    """Build a generation from everything in the sources and make it current.

    Raises:
        UsageError: the sources have no records.
        SourceFailed, Locked, Unavailable, RetrieveError: from the sources, the store and the encoder.
    """
    with store.writer(wait=limits.wait, say=progress.say):
        failures = fetch_all(sources, progress.say)
        report = apply(sources, parts, store, limits=limits, progress=progress, before=current(store))
        return replace(report, failures=failures)


def current(store: Store) -> Generation | None:
    """Return the current generation; None if there is no readable index."""
    try:
        with open_generation(store) as generation:
            return generation
    except RetrieveError:
        return None


def push_for(parts: Parts, store: Store, progress: Progress) -> Push | None:
    """Return the sender of a generation to the configured engines; None without engines."""
    if parts.remote is None:
        return None
    from retrieve_cli.ingest.pushing import Push

    return Push(parts.remote, store, progress.say)


def _checked_push(parts: Parts, store: Store, before: Generation | None, progress: Progress) -> Push | None:
    """Return the push of a build to an engine, before anything is read. Raises: RetrieveError if it cannot succeed."""
    if parts.missing is not None and before is not None and before.manifest.recipe.encoder is not None:
        raise parts.missing
    push = push_for(parts, store, progress)
    if push:
        push.check()
    return push


def apply(
    sources: Sequence[Source],
    parts: Parts,
    store: Store,
    *,
    limits: LossLimits,
    progress: Progress,
    before: Generation | None,
    surveys: Sequence[Survey] | None = None,
    last: Manifest | None = None,
    compact: bool = False,
    listed: Sequence[Refused] | None = None,
    announced: Callable[[Report], Sequence[str]] = lambda _: (),
) -> Report:
    """Write a generation and make it current.

    `before` is the current one. With `surveys`, its records that they have stay, and only the others are read; with
    `compact`, all are merged into one segment. A source that lost too much since `last` is an error. `listed` are
    rejected items that are not read again, if only documents of the inbox are read; `announced` gives sentences on the
    changes before texts are encoded. The lock must be held. Raises as `build` does.
    """
    begun = time.monotonic()
    push = _checked_push(parts, store, before, progress)
    lenders = stored_segments(store) if before is None or surveys is None else before.segments
    compared = Comparison(before, surveys)
    with (
        store.scratch() as scratch,
        closing(Intake(scratch, parts, store.cache, progress, compared, lenders=lenders)) as intake,
        noting_interruption(intake.saved),
    ):
        if listed is not None and before is not None:
            intake.refused.update(_still_refused(before, listed, _inboxes(sources)))
            intake.reread.update(before.manifest.built.get("reread") or ())
        marks = read_items(intake, sources, surveys)
        publication = Publication(intake, sources, store, parts, before=before)
        if last:
            limits.check_loss(last, publication.records_by_source)
        if listed is None:
            _expect_some(publication, sources)
        report = report_of(publication, parts, store, kinds=frozenset(source.kind for source in sources))
        former = store.live()
        if limits.tolerates(_counted(intake, sources), publication.records):
            for sentence in announced(report):
                progress.say(sentence)
            intake.finish()
            read = zip(marks, sources, strict=True)
            built: dict[str, Json] = {"sources": [{**mark, **mapping_of(source)} for mark, source in read]}
            built |= {"changes": report.changes.counts, "reread": sorted(intake.reread)}
            built |= {"version": __version__, **noted(parts, last)}
            name = publication.publish(scratch, built, push=push, compact=compact)
            status: Status = "partial" if intake.rejected else "unchanged" if name == former else "published"
            report = replace(report, status=status, generation=name, same=name == former)
        # Not before: what is listed there counts as reported.
        store.write_quarantine([*(listed or ()), *intake.rejected])
        if report.status != "failed":
            if before is not None:
                before.holds.clear()  # or its folders would count as read
            tidy(store, limits.keep, progress)
        counts = {"embedded": intake.encodings.embedded, "facets": intake.facets, "max_fail": limits.max_fail}
        return replace(report, **counts, seconds=round(time.monotonic() - begun, 3))


def _counted(intake: Intake, sources: Sequence[Source]) -> int:
    """Return the rejected items that count against the limit: a document of the inbox, where anybody may put one, does
    not keep the others from being published."""
    inboxes = _inboxes(sources)
    return sum(number for name, number in intake.refused.items() if name not in inboxes)


def _inboxes(sources: Sequence[Source]) -> set[str]:
    """Return the names of the inboxes among sources."""
    return {source.name for source in sources if source.origin.get("kind") == KIND}


def _still_refused(before: Generation, listed: Sequence[Refused], inboxes: Collection[str]) -> Counter[str]:
    """Return the numbers of rejected items by source: of an inbox, those that are still listed."""
    noted = {entry.name: entry.refused for entry in before.manifest.sources if entry.name not in inboxes}
    return Counter(noted) + Counter(item.source for item in listed if item.source in inboxes)


def read_items(intake: Intake, sources: Sequence[Source], surveys: Sequence[Survey] | None) -> list[Mapping[str, Json]]:
    """Read all items, or those that are new; return the marks that the sources had before."""
    marks: list[Mapping[str, Json]] = []
    for number, source in enumerate(sources):
        if surveys is None:
            marks.append(marks_of(source))
            intake.take(source, enumerate(source.scan()))
        else:
            marks.append(surveys[number].marks)
            intake.take(source, surveys[number].new, complete=False)
    intake.flush()
    return marks


def _expect_some(publication: Publication, sources: Sequence[Source]) -> None:
    """Raises: UsageError: the sources have no records."""
    if publication.records or publication.intake.rejected:
        return
    names = ", ".join(str(source.origin.get("path", source.name)) for source in sources)
    items = noun_for(source.kind for source in sources)
    message = f"no {items if items.endswith('s') else items + 's'} in {names}"
    raise UsageError(message, hint="nothing was built; name a source that has some")


def report_of(publication: Publication, parts: Parts, store: Store, *, kinds: frozenset[str]) -> Report:
    """Return the report of a run that has published nothing yet."""
    intake = publication.intake
    return Report(
        status="failed",
        generation=store.live(),
        records=publication.records,
        chunks=publication.chunks,
        changes=intake.changes(),
        kinds=kinds,
        quarantined=len(intake.rejected),
        rejected_new=_new_rejections(store, intake.rejected),
        rejected=intake.rejected,
        skipped=parts.skipped,
        notices=intake.notices.on_keys,
    )


def noted(parts: Parts, last: Manifest | None) -> dict[str, Json]:
    """Return settings for a manifest: keys that shape the index, origins of prefixes, and its name and description,
    which it keeps from the last one unless the configuration has others."""
    about = {**(last.built.get("about", {}) if last else {}), **parts.about}
    named = {"prefixes": dict(parts.prefixes), "about": about}
    return {"settings": dict(parts.settings), **{key: value for key, value in named.items() if value}}


def _new_rejections(store: Store, rejected: Sequence[Refused]) -> int:
    """Return how many of the items are not listed yet.

    An item is known by its source and its text, so that one that only moved to another line is not new; without text,
    by its source and the reason.
    """
    listed = Counter(map(_key, store.rejected() if rejected else ()))
    return (Counter(map(_key, rejected)) - listed).total()


def _key(item: Refused) -> tuple[str, str, str]:
    return item.source, item.excerpt, "" if item.excerpt else item.reason
