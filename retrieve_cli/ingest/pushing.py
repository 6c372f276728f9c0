"""Indexes on their way into engines: all rows of a generation are sent and counted before any alias names it.

    Push(...).stage(generation)  ->  record(folder)  ->  publish()  ->  `current` is replaced  ->  tidy(store)

A crash before `publish` leaves a generation in an engine that no reader asks for: the next push goes on with it, or
drops it. A crash after it leaves an alias that names the new generation while `current` names the older one, whose
rows are still there: readers ask for the generation that `current` names, and never through the alias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.assemble import engines, registry
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.contracts.engines import Batch
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.ingest import attaching
from retrieve_cli.ingest.labels import Labels
from retrieve_cli.progress.tasks import task
from retrieve_cli.storage import durable, engine_record, pickles
from retrieve_cli.storage.engine_record import Entry
from retrieve_cli.storage.exported import Exported
from retrieve_cli.storage.generation import open_unpublished
from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.mapped import BLOCK

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.contracts.engines import Engine, Staging
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.manifest import Manifest
    from retrieve_cli.storage.store import Store

_ROWS = 1000
"""Rows that are sent at a time."""


class _Share(NamedTuple):
    """The part of a generation that one engine gets."""

    engine: Engine
    parts: Sequence[Exported]
    files: Sequence[str]


class Push:
    """One generation on its way into the configured engines. The lock of the store must be held."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._generation: Generation | None = None
        self._before: str | None = None
        """The generation that was current before."""
        self._entries: dict[str, Entry] = {}
        self._allotted: attaching.Shares = {}

    def check(self) -> None:
        """Ask every engine for its current generation, so that one that cannot be reached is known before any work.

        Raises:
            Unavailable: an engine cannot be reached, or a secret is missing.
            UsageError: the configuration contradicts itself.
        """
        engines.keeper(self._settings)
        for name in self._settings.engines.in_use:
            engines.engine(name, self._settings).live()

    def before_publication(
        self, scratch: Path, manifest: Manifest, store: Store, *, older: Generation | None = None
    ) -> None:
        """Send a sealed generation that is not published yet, and let the engines' aliases name it.

        Raises:
            Unavailable, IndexCorrupt, UsageError: as `stage` does.
        """
        self._before = store.live()
        folder = store.generations / manifest.id
        known = engine_record.read(folder) if folder.is_dir() else {}
        if known:
            engine_record.write(scratch, known)
        self.stage(open_unpublished(scratch, manifest), older)
        self.record(scratch)
        if folder.is_dir():  # the same generation was built before: its folder stays
            self.record(folder)
        self.publish()

    def again(self, generation: Generation) -> None:
        """Send a published generation as far as the engines do not hold it, and let their aliases name it.

        Raises:
            Unavailable, IndexCorrupt, UsageError: as `stage` does.
        """
        self.stage(generation)
        self.record(generation.folder)
        self.publish()

    def stage(self, generation: Generation, older: Generation | None = None) -> None:
        """Send a generation to every engine that shall hold a part of it and does not; rows that an engine can copy
        from `older` are not sent.

        Raises:
            Unavailable: an engine cannot be reached, or rejects the rows.
            IndexCorrupt: it lost rows.
            UsageError: an index is of a kind that engines cannot hold.
        """
        self._generation = generation
        known = engine_record.read(generation.folder)
        shares = self._shares(generation)
        self._allotted = {
            share.engine.name: ([exported.part for exported in share.parts], share.files) for share in shares
        }
        self._write_statistics(generation, [part for share in shares for part in share.parts])
        for share in shares:
            name = share.engine.name
            entry = known.get(name)
            if entry is not None and _holds(share, entry, generation.id):
                self._entries[name] = entry
                continue
            self._entries[name] = self._send(share, generation, older)

    def record(self, folder: Path) -> None:
        """Note in the folder of the generation what the engines hold; readers compare it. Raises: OSError."""
        if self._generation is None or not self._entries:
            return
        if folder != self._generation.folder:
            statistics = folder / engine_record.STATISTICS
            _settle(statistics, partial(copyfile, self._generation.folder / engine_record.STATISTICS))
        engine_record.write(folder, {**engine_record.read(folder), **self._entries})

    def publish(self) -> None:
        """Let the alias of every engine name the generation. Raises: Unavailable, IndexCorrupt."""
        if self._generation is not None:
            for name in self._entries:
                engine = engines.engine(name, self._settings)
                if engine.live() != self._generation.id:
                    engine.publish(self._generation.id)

    def tidy(self, store: Store) -> None:
        """Remove what the engines hold besides the newest `engines.keep` generations; a failure is only reported."""
        if self._generation is None:
            return
        # One that a crash left in the store has a higher number than the one that readers still have open.
        last = list(dict.fromkeys(each for each in (self._before, self._generation.id) if each is not None))
        kept = [each.manifest.id for each in store.kept() if each.manifest.id not in last]
        newest = {self._generation.id, *[*kept, *last][-self._settings.engines.keep :]}
        for name in self._entries:
            try:
                engine = engines.engine(name, self._settings)
                for staged in engine.generations():
                    if staged.generation not in newest and not staged.live:
                        engine.drop(staged.generation)
                        self._say(f"{name}: removed generation {staged.generation}")
            except RetrieveError as error:
                self._say(f"{name}: older generations could not be removed: {error.message}")

    def _shares(self, generation: Generation) -> list[_Share]:
        """The share of each engine."""
        placed = engines.places(self._settings, generation.manifest.recipe.retrievers)
        indexes = local_indexes(generation, self._settings)
        keeper = engines.keeper(self._settings)
        shares = []
        for name in self._settings.engines.in_use:
            mine = [registry.retriever(each) for each, place in placed.items() if place == name]
            parts = [retriever.exported(indexes[retriever.name]) for retriever in mine]
            files = engines.kept_files(generation, self._settings) if name == keeper else []
            if parts or files:
                shares.append(_Share(engines.engine(name, self._settings), parts, files))
        for share in shares:
            able = share.engine.capabilities
            for exported in share.parts:
                if not (able.terms if exported.part.dim is None else able.vectors):
                    what = "term weights" if exported.part.dim is None else "vectors"
                    role = registry.retriever(exported.part.name).role
                    hint = f"choose another engine: engines.{role}"
                    raise UsageError(f"{share.engine.name} cannot hold {what} ({exported.part.name})", hint=hint)
        return shares

    def _write_statistics(self, generation: Generation, parts: Sequence[Exported]) -> None:
        """Write the statistics of the scores of all parts, unless they are there."""
        path = generation.folder / engine_record.STATISTICS
        if path.exists():
            stored = pickles.load(path)
            if isinstance(stored, dict) and all(exported.part.name in stored for exported in parts):
                return
        found = {exported.part.name: _statistics(exported, generation) for exported in parts}
        _settle(path, partial(pickles.dump, found))

    def _send(self, share: _Share, generation: Generation, older: Generation | None) -> Entry:
        """Send the share of an engine; return what it holds then."""
        engine = share.engine
        labels = Labels(generation)
        staging = engine.stage(generation.id, [exported.part for exported in share.parts])
        with closing(staging):
            for exported in share.parts:
                copies = self._copies(engine, exported, generation, older)
                title = f"sending {exported.part.name} to {engine.name}"
                with task(title, "rows", exported.part.rows) as progress:
                    for batch in batches(exported, labels):
                        _store(staging, exported.part.name, batch, copies)
                        progress.advance(len(batch.rows))
            for file in share.files:
                data = generation.file(file)
                with task(f"sending {file} to {engine.name}", "bytes", len(data)) as progress:
                    for number, start in enumerate(range(0, len(data), BLOCK)):
                        data.check(start, min(start + BLOCK, len(data)))
                        block = data.data[start : start + BLOCK].tobytes()
                        staging.put_block(file, number, block)
                        progress.advance(len(block))
                    data.release()
            if share.files:
                attaching.send(staging, generation, self._allotted)
            census = staging.finish()
        for exported in share.parts:
            if census.rows.get(exported.part.name) != exported.part.rows:
                held = census.rows.get(exported.part.name)
                message = f"{engine.name} holds {held} rows of {exported.part.name}, and {exported.part.rows} were sent"
                raise RetrieveError(message, hint="run it again: retrieve engines push")
        return Entry(engine.card, [exported.part for exported in share.parts], share.files, census)

    def _copies(
        self, engine: Engine, exported: Exported, generation: Generation, older: Generation | None
    ) -> tuple[str, Rows] | None:
        """The older generation whose rows the engine can copy, and by row of the new one its row there, -1 if none."""
        name, rows = exported.part.name, exported.part.rows
        sent = f"{engine.name}: sending all {rows:,} rows of {name}"
        if older is None or older.id == generation.id:
            self._say(sent)
            return None
        retriever, recipes = registry.retriever(name), (older.manifest.recipe, generation.manifest.recipe)
        same = all(
            before == after
            for before, after in (
                (recipes[0].encoder, recipes[1].encoder),
                (recipes[0].retrievers.get(name), recipes[1].retrievers.get(name)),
            )
        )
        there = {staged.generation for staged in engine.generations() if staged.complete}
        held = engine_record.read(older.folder).get(engine.name)
        if not (engine.capabilities.copies and retriever.by_text and same and older.id in there):
            why = "its rows change with every sync" if not retriever.by_text else "it cannot copy a generation"
            self._say(f"{sent}: {why}" if older.id in there else sent)
            return None
        if held is None or held.part(name) is None or held.card != engine.card:
            self._say(sent)
            return None
        found = KeyRows(as_keys(older.texts)).find(as_keys(generation.texts))
        self._say(f"{engine.name}: sending {int(np.count_nonzero(found < 0)):,} of {rows:,} rows of {name}")
        return older.id, found


def _settle(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file in one step that survives a crash. Raises: OSError."""
    unfinished = durable.unfinished(path)
    write(unfinished)
    durable.sync(unfinished)
    unfinished.replace(path)


def batches(exported: Exported, labels: Labels) -> Iterator[Batch]:
    """Yield the rows of an index in order, with their labels."""
    start = 0
    for block in exported.blocks():
        for first in range(0, len(block), _ROWS):
            some = block[first : first + _ROWS]
            rows = range(start + first, start + first + len(some))
            described = labels.of(exported.part.unit, rows)
            if isinstance(some, list):
                yield Batch(np.array(rows), described, weights=some)
            else:
                yield Batch(np.array(rows), described, vectors=some)
        start += len(block)


def _store(staging: Staging, part: str, batch: Batch, copies: tuple[str, Rows] | None) -> None:
    """Store a batch; rows that the engine has in an older generation are copied."""
    if copies is None:
        staging.put(part, batch)
        return
    older, places = copies
    known = places[batch.rows] >= 0
    if known.any():
        labels = [batch.labels[place] for place in np.flatnonzero(known).tolist()]
        staging.copy(part, older, batch.rows[known], places[batch.rows[known]], labels)
    if not known.all():
        staging.put(part, _some(batch, np.flatnonzero(~known)))


def _some(batch: Batch, places: Rows) -> Batch:
    """Return some rows of a batch."""
    vectors = None if batch.vectors is None else batch.vectors[places]
    weights = [batch.weights[place] for place in places.tolist()] if batch.weights else ()
    return Batch(batch.rows[places], [batch.labels[place] for place in places.tolist()], vectors, weights)


def _holds(share: _Share, entry: Entry, generation: str) -> bool:
    """Return True if an engine holds all of its share already."""
    parts = [exported.part for exported in share.parts]
    if (dict(entry.card), list(entry.parts), list(entry.files)) != (dict(share.engine.card), parts, list(share.files)):
        return False
    if generation not in {staged.generation for staged in share.engine.generations() if staged.complete}:
        return False
    with closing(share.engine.open(generation)) as opened:
        return (opened.census.sample, dict(opened.census.rows)) == (entry.census.sample, dict(entry.census.rows))


def _statistics(exported: Exported, generation: Generation) -> Mapping[str, Any]:
    """Return the statistics of the scores of a part, as they are stored."""
    from retrieve_cli.storage.term_statistics import posting_statistics
    from retrieve_cli.storage.vector_statistics import vector_statistics

    starts = generation.starts if exported.part.unit == "chunk" else None
    part = exported.part
    if exported.postings is not None:
        signed = int(bool((exported.postings.values <= 0).any()))
        return {**posting_statistics(exported.postings, starts=starts).to_arrays(), engine_record.SIGNED: signed}
    longest = 0.0

    def watched() -> Iterator[Vectors]:
        nonlocal longest
        for block in exported.vectors() if exported.vectors else ():
            longest = max(longest, float(np.sqrt(np.einsum("ij,ij->i", block, block).max(initial=0.0))))
            yield block

    found = vector_statistics(watched(), dim=part.dim or 0, length=part.rows, starts=starts)
    return {**found.to_arrays(), engine_record.LONGEST: longest}
