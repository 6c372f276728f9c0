"""From a written segment to a generation: the older segments, their dead rows, merges, and the publication."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble.parts import Parts
from retrieve_cli.contracts import Json, Source
from retrieve_cli.contracts.progress import task
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.intake import Intake
from retrieve_cli.ingest.merge import merge, to_merge
from retrieve_cli.storage import dead_rows
from retrieve_cli.storage.dead_rows import Remains
from retrieve_cli.storage.generation import Generation, open_unpublished
from retrieve_cli.storage.manifest import SourceEntry
from retrieve_cli.storage.records.view import RecordView
from retrieve_cli.storage.segment import DEAD, GRAPH

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows
    from retrieve_cli.ingest.pushing import Push
    from retrieve_cli.storage.manifest import Manifest
    from retrieve_cli.storage.recipe import Recipe
    from retrieve_cli.storage.segment import Segment
    from retrieve_cli.storage.store import Store


class Publication:
    """The records that were read and those that stay, on their way to a generation."""

    def __init__(
        self, intake: Intake, sources: Sequence[Source], store: Store, parts: Parts, *, before: Generation | None
    ) -> None:
        """`before` is the current generation, of which records may stay."""
        self.intake = intake
        self._sources = sources
        self._store = store
        self._parts = parts
        self._before = before
        kept = intake.compared.mask
        self._older: list[Segment] = [
            segment
            for segment in (before.segments if before else ())
            if kept[segment.first_record : segment.first_record + segment.record_count].any()
        ]

    @cached_property
    def records_by_source(self) -> dict[str, int]:
        """Number of records of each source now."""
        counts = Counter(dict(self.intake.own_sources))
        if self._before is not None:
            numbers = np.bincount(
                self._before.row_sources[self.intake.compared.mask], minlength=len(self._before.source_names)
            )
            counts.update(dict(zip(self._before.source_names, numbers.tolist(), strict=True)))
        return {source.name: counts[source.name] for source in self._sources}

    @property
    def records(self) -> int:
        """Number of records now."""
        return sum(self.records_by_source.values())

    @property
    def chunks(self) -> int:
        """Number of chunks now."""
        sizes = np.diff(self._before.starts) if self._before is not None else np.empty(0, np.int64)
        return self.intake.new_chunks + int(sizes[self.intake.compared.mask].sum())

    def publish(
        self, scratch: Path, built: Mapping[str, Json], *, push: Push | None = None, compact: bool = False
    ) -> str:
        """Write the generation, send it to the engines and make it current; return its id."""
        rows = self.intake.write()
        if self.intake.new and not any(segment.has(GRAPH) for segment in self._older):
            edges = self._parts.write_graph(scratch / GRAPH)
            rows |= {} if edges is None else {GRAPH: edges}
        before = self._before
        if before is not None and self._is_same(before) and (before.is_compact or not compact):
            noted = {key: built[key] for key in built if key != "changes"}
            manifest = before.manifest
            self._store.note(replace(manifest, built={**manifest.built, **noted}))
            return manifest.id
        manifest = self._sealed(scratch, rows, self._older, self._remains, self.intake.own_sources)
        opened = open_unpublished(scratch, manifest, self._older)
        for note in () if self._older else self._parts.graph_notes(opened):
            self.intake.progress.say(note)
        built = {**built, "chunks": self.chunks}
        order = self._order(opened) if compact else _live(opened)
        count = len(opened.segments) if compact else to_merge(*_sizes(opened))
        if not count or (not self._older and opened.is_compact):
            return self._made_current(opened, built, push)
        with self._store.scratch() as folder, task("merging segments", "segments", count) as merging:
            merged = self._merged(opened, order, count, folder)
            merging.advance(count)
            older = opened.segments[: len(opened.segments) - count]
            return self._made_current(open_unpublished(folder, merged, older), built, push)

    @property
    def has_same_records(self) -> bool:
        """True if the current generation has exactly these records, in these places."""
        before, remains = self._before, self._remains
        if before is None or self.intake.new or len(self._older) != len(before.segments):
            return False
        same = remains.keys() == before.remains.keys() and tuple(self._entries) == before.manifest.sources
        return same and all(remains[name].equals(before.remains[name]) for name in remains)

    def _is_same(self, before: Generation) -> bool:
        """Return True if a generation is what would be published."""
        return self.has_same_records and self._recipe.to_json() == before.manifest.recipe.to_json()

    def _made_current(self, opened: Generation, built: Mapping[str, Json], push: Push | None) -> str:
        if push is not None:
            push.send(opened)
        return self._store.publish(opened.folder, opened.manifest, built)

    def _sealed(
        self,
        folder: Path,
        rows: Mapping[str, int],
        older: Sequence[Segment],
        remains: Mapping[str, Remains],
        own_sources: Sequence[tuple[str, int]],
    ) -> Manifest:
        """Return the manifest of the files of a folder, with the remains of the older segments."""
        if remains:
            lengths = {segment.name: segment.record_count for segment in older}
            dead_rows.write(folder / DEAD, remains, lengths)
        return self._store.seal(
            folder,
            recipe=self._recipe,
            sources=self._entries,
            rows=rows,
            segments=[segment.name for segment in older],
            own_sources=own_sources,
        )

    @cached_property
    def _remains(self) -> dict[str, Remains]:
        """By the name of an older segment its dead rows and moved lines, if there are any."""
        found = {}
        kept = self.intake.compared
        for segment in self._older:
            part = _records(segment)
            remains = Remains.of(np.flatnonzero(~kept.mask[part]), segment.lines, kept.lines[part])
            if len(remains.dead) or len(remains.starts):
                found[segment.name] = remains
        return found

    def _order(self, opened: Generation) -> Rows:
        """Return the live rows of the generation in the order of the sources."""
        kept = [self.intake.compared.places[_records(segment)] for segment in self._older]
        places = np.concatenate([*kept, np.array(self.intake.places, np.int64)])
        rows = _live(opened)
        order: Rows = rows[np.argsort(places[rows], kind="stable")]
        return order

    def _merged(self, opened: Generation, order: Rows, count: int, folder: Path) -> Manifest:
        """Write the newest segments as one; return the manifest of the generation."""
        older = opened.segments[: len(opened.segments) - count]
        first = opened.segments[len(older)].first_record
        chosen = order[order >= first] if older else order
        rows = merge(opened, chosen, self._parts.writers(), folder)
        remains = {segment.name: opened.remains[segment.name] for segment in older if segment.name in opened.remains}
        return self._sealed(folder, rows, older, remains, _source_runs(opened, chosen))

    @cached_property
    def _recipe(self) -> Recipe:
        return self._parts.recipe_of(self.intake.kinds | kinds_in(self._before, self.intake.compared.mask))

    @cached_property
    def _entries(self) -> list[SourceEntry]:
        """The state of each source."""
        entries, first = [], 0
        own = dict(self.intake.own_sources)
        for source in self._sources:
            count = own.get(source.name, 0)
            contents = self.intake.contents[first : first + count]
            first += count
            entries.append(
                SourceEntry(
                    kind=str(source.origin["kind"]),
                    name=source.name,
                    sha1=self._digest(source.name, contents),
                    records=self.records_by_source[source.name],
                    refused=self.intake.refused[source.name],
                )
            )
        return entries

    def _digest(self, name: str, new: np.ndarray) -> str:
        """Return the SHA-1 of the contents of a source's records, in any order: of their sum without carry."""
        parts = [new]
        if self._before is not None and name in self._before.source_names:
            of_source = self._before.row_sources == self._before.source_names.index(name)
            parts.append(self._before.contents[of_source & self.intake.compared.mask])
        contents = np.concatenate(parts)
        mixed = np.bitwise_xor.reduce(contents, axis=0).tobytes() + len(contents).to_bytes(8)
        return hashlib.sha1(mixed, usedforsecurity=False).hexdigest()


def kinds_in(generation: Generation | None, kept: Mask | None = None) -> set[str]:
    """Return the kinds of the records of a generation, of those that are kept."""
    if generation is None or (kept is not None and not kept.any()):
        return set()
    return set(RecordView(generation, kept).columns.stored("kind").texts())


def _records(segment: Segment) -> slice:
    return slice(segment.first_record, segment.first_record + segment.record_count)


def _live(opened: Generation) -> Rows:
    """Return the rows of the records that are there."""
    return np.arange(len(opened.records)) if opened.live is None else np.flatnonzero(opened.live)


def _sizes(opened: Generation) -> tuple[list[int], list[int]]:
    """Return the live records and all records of each segment."""
    total = [segment.record_count for segment in opened.segments]
    dead = [len(opened.remains[part.name].dead) if part.name in opened.remains else 0 for part in opened.segments]
    return [whole - gone for whole, gone in zip(total, dead, strict=True)], total


def _source_runs(opened: Generation, order: Rows) -> list[tuple[str, int]]:
    """Return the sources of records in order, with the number of adjacent records of each."""
    numbers = opened.row_sources[order]
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    bounds = [0, *cuts.tolist(), len(numbers)]
    pairs = pairwise(bounds)
    return [(opened.source_names[int(numbers[first])], end - first) for first, end in pairs if first < end]
