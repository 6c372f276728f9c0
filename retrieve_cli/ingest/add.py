"""Documents of the inbox that changed since a generation, published at once: no other source is read.

Other changes (of the configuration, of other sources) wait for a sync.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieve_cli.assemble.parts import Parts
from retrieve_cli.contracts import Item, Json, Notice, Refused, Source
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.build import apply
from retrieve_cli.ingest.items import marks_of
from retrieve_cli.ingest.known_items import Survey, records_of
from retrieve_cli.ingest.report import LossLimits, Progress, Report
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
    built = before.manifest.built
    recipe = _recipe(before.manifest.recipe, parts.recipe)
    if recipe is None or before.id != store.live() or not built.get("sources"):
        return None
    changed = {before.exact_row(name) for name in inbox.take_changes(sequence_of(before.manifest))}
    sources = settled_sources(before, inbox)
    # What shapes the rest of the index is noted as before: a sync applies it.
    noted = {key: built.get(key, {}) for key in ("settings", "prefixes", "about")}
    listed = [item for item in store.rejected() if item.source != inbox.name or inbox.holds(item.line)]
    before = copy(before)  # of whose folders another one stays open
    before.holds = []
    return apply(
        sources,
        replace(parts, recipe=recipe, **noted),
        store,
        limits=limits,
        progress=progress,
        before=before,
        surveys=[_survey(before, source, changed) for source in sources],
        last=before.manifest,
        listed=listed,
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


def _survey(before: Generation, source: Source, changed: Collection[int | None]) -> Survey:
    """Return a source as if it were compared: its records stay but for those `changed`, and documents of the inbox are
    read."""
    rows = records_of(before, source.name)
    if isinstance(source, _Settled):
        marks = source.noted
    else:
        marks = marks_of(source)
        rows = np.setdiff1d(rows, [row for row in changed if row is not None])
    new = [(item.line if isinstance(item, Item) else 0, item) for item in source.scan()]
    return Survey(rows, before.lines[rows], before.lines[rows], new, marks)
