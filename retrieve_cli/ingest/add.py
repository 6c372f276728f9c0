"""Documents of the inbox that changed since a generation, published at once: no other source is read.

Other changes (of the configuration, of other sources) wait for a sync.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from retrieve_cli.assemble.parts import Parts
from retrieve_cli.contracts import Item, Json, Notice, Refused, Source
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.build import push_for, report_of
from retrieve_cli.ingest.intake import Intake
from retrieve_cli.ingest.items import mapping_of, marks_of
from retrieve_cli.ingest.known_items import Comparison, Survey, records_of
from retrieve_cli.ingest.publishing import Publication
from retrieve_cli.ingest.report import LossLimits, Progress, Report
from retrieve_cli.ingest.tidying import tidy
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.inbox import sequence_of
from retrieve_cli.storage.recipe import Recipe

if TYPE_CHECKING:
    from retrieve_cli.contracts import SourceKind
    from retrieve_cli.storage.store import Store


class ChangedDocuments(Source, Protocol):
    """The inbox as a source of which only changed documents are read."""

    def take_changes(self, after: int) -> Sequence[str]:
        """Take only the documents that changed after a number; return the ids of all records that changed, or went."""

    def holds(self, number: int) -> bool:
        """Return True if a document has this number."""


class _Settled:
    """A source that stays in the state of the last sync: the manifest's notes on it."""

    def __init__(self, name: str, kind: SourceKind, noted: Mapping[str, Json], card: Mapping[str, Json]) -> None:
        self.name, self.kind, self.noted, self.card = name, kind, noted, card
        self.origin: Mapping[str, Json] = noted["origin"]

    def fetch(self) -> None:
        """Do nothing."""

    def stamp(self) -> list[int] | None:
        """Return the noted marks."""
        stamp: list[int] | None = self.noted.get("stamp")
        return stamp

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """Yield nothing."""
        return iter(())


def add(
    inbox: ChangedDocuments, parts: Parts, store: Store, before: Generation, *, limits: LossLimits, progress: Progress
) -> Report | None:
    """Publish the documents that changed since the current generation `before`; None if only a sync can do that.

    `parts` belong to the inbox alone. The lock must be held. Raises: RetrieveError: from the encoder and the store.
    """
    begun, noted = time.monotonic(), before.manifest.built.get("sources")
    recipe = _recipe(before.manifest.recipe, parts.recipe)
    if recipe is None or before.id != store.live() or not noted:
        return None
    changed = inbox.take_changes(sequence_of(before.manifest))
    sources = settled_sources(before, inbox)
    surveys = [_survey(before, source) for source in sources]
    compared = Comparison(before, surveys)
    for row in map(before.exact_row, changed):
        if row is not None and before.source_of(row) == inbox.name:
            compared.mask[row] = False
    parts, lenders = replace(parts, recipe=recipe), before.segments
    with store.scratch() as scratch:
        intake = Intake(scratch, parts, store.cache, progress, compared, lenders=lenders)
        with closing(intake):
            for source, survey in zip(sources, surveys, strict=True):
                intake.take(source, survey.new, complete=False)
            intake.flush()
            intake.finish()
            others = [item for item in store.rejected() if item.source != inbox.name or inbox.holds(item.line)]
            rejected = [*others, *intake.rejected]
            intake.refused.clear()
            intake.refused.update(_refused(before, inbox, rejected))
            publication = Publication(intake, sources, store, parts, before=before)
            built = {key: value for key, value in before.manifest.built.items() if key not in ("at", "sequence")}
            read = zip(surveys, sources, strict=True)
            built |= {"sources": [{**survey.marks, **mapping_of(source)} for survey, source in read]}
            report = report_of(publication, parts, store, kinds=frozenset([inbox.kind]))
            reread = {*(built.get("reread") or ()), *intake.reread}
            built |= {"changes": report.changes.counts, "reread": sorted(reread)}
            name = publication.publish(scratch, built, push=push_for(parts, store, progress))
            store.write_quarantine(rejected)
            tidy(store, limits.keep, progress)
            return replace(
                report,
                status="partial" if intake.rejected else "published",
                generation=name,
                embedded=intake.encodings.embedded,
                facets=intake.facets,
                seconds=round(time.monotonic() - begun, 3),
            )


def _recipe(before: Recipe, inbox: Recipe) -> Recipe | None:
    """Return the recipe of the index with documents of the inbox; None if it would be built in another way now."""
    pairs = ((before.sources, inbox.sources), (before.chunking, inbox.chunking))
    if any(old.get(kind, card) != card for old, new in pairs for kind, card in new.items()):
        return None
    joined = replace(
        inbox,
        sources={**before.sources, **inbox.sources},
        chunking={**before.chunking, **inbox.chunking},
        documents=before.documents,
    )
    same = replace(joined, sources=before.sources, chunking=before.chunking)
    return joined if same.to_json() == before.to_json() else None


def settled_sources(before: Generation, inbox: ChangedDocuments) -> list[Source]:
    """Return the sources of the generation, with the inbox in its place, or behind the others."""
    sources: list[Source] = []
    for entry, note in zip(before.manifest.sources, before.manifest.built.get("sources", ()), strict=True):
        kind: SourceKind = "docs" if entry.kind == "docs" else "catalog"
        own = entry.name == inbox.name
        settled: Source = _Settled(entry.name, kind, note, before.manifest.recipe.sources.get(kind, {}))
        sources.append(inbox if own else settled)
    return sources if inbox in sources else [*sources, inbox]


def _survey(before: Generation, source: Source) -> Survey:
    """Return a source as if it were compared: all of its records stay, and documents of the inbox are read."""
    rows = records_of(before, source.name)
    marks = source.noted if isinstance(source, _Settled) else marks_of(source)
    new = [(item.line if isinstance(item, Item) else 0, item) for item in source.scan()]
    return Survey(rows, before.lines[rows], before.lines[rows], new, marks)


def _refused(before: Generation, inbox: ChangedDocuments, rejected: Sequence[Refused]) -> dict[str, int]:
    """Return the number of rejected items of each source."""
    others = {entry.name: entry.refused for entry in before.manifest.sources}
    return {**others, inbox.name: sum(item.source == inbox.name for item in rejected)}
