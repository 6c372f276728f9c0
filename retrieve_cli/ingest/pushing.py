"""Rows of a generation on their way into engines: the difference from the rows that are there.

    the push is noted in `engines.json` -> upserts, deletes -> count -> marker and alias -> `current` is replaced

An engine holds a collection for each recipe. A change is sent into it: a reader sees old or new rows meanwhile, and an
interrupted push is completed by the next one, which knows the rows that were noted. Another recipe, and rows that were
lost, make a new collection beside the old one, which stays as long as a kept generation is read from it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.assemble import engines, registry
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.contracts.engines import MOST_HITS, Schema
from retrieve_cli.contracts.progress import task
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import IndexCorrupt, RetrieveError, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.sending import RowMaker, difference
from retrieve_cli.storage import engine_record
from retrieve_cli.storage.engine_record import EngineCollection
from retrieve_cli.storage.generation import live_rows, open_generation
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Rows
    from retrieve_cli.contracts.engines import Engine
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.store import Store

_OF_READING = ("sources", "chunking", "documents")
_MOST_CHANGED = 0.5
"""Share of changed records up to which a change is sent into the collection; above it, a new one is made."""


class Share(NamedTuple):
    """The part of a generation that one engine gets."""

    engine: Engine
    schema: Schema
    retrievers: tuple[str, ...]
    card: str
    """SHA-1 of everything that decides what its rows are made of."""


class RowChanges(NamedTuple):
    """Changes of the rows of a collection."""

    former: str
    """Generation that it holds."""
    records: Rows
    """Records of the new generation that are sent, ascending."""
    gone: tuple[str, ...] = ()
    """Ids of the rows that are removed."""


class Push:
    """One generation on its way into the configured engines. The lock of the store must be held."""

    def __init__(self, settings: Settings, store: Store, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._store = store
        self._say = say

    def check(self) -> None:
        """Ask every engine for its alias, so that one that cannot be reached is known before any work.

        Raises:
            Unavailable: an engine cannot be reached, or a secret is missing.
            UsageError: the configuration contradicts itself.
        """
        for name in self._settings.engines.in_use:
            engines.engine(name, self._settings).published()

    def send(self, generation: Generation, *, whole: bool = False) -> dict[str, str]:
        """Send a generation as far as the engines do not hold it, or all of it, and let their aliases name it; return
        the names of its collections by engine.

        Raises:
            Unavailable: an engine cannot be reached, or rejects the rows.
            IndexCorrupt: it lost rows.
            UsageError: it cannot hold an index.
        """
        shares = self._shares(generation)
        held = [self._sent(share, generation, whole=whole) for share in shares]
        for share, collection in zip(shares, held, strict=True):
            share.engine.publish(collection.name, generation.id)
            self._tidy(share, collection)
        return {collection.engine: collection.name for collection in held}

    def _shares(self, generation: Generation) -> list[Share]:
        """Return what each engine gets. Raises: UsageError: it cannot hold the index of a retriever."""
        recipe, settings = generation.manifest.recipe, self._settings
        placed = engines.places(settings, recipe.retrievers)
        shares = []
        for name in dict.fromkeys(placed.values()):
            engine = engines.engine(name, settings)
            own = tuple(retriever for retriever, place in placed.items() if place == name)
            vectors: dict[str, int] = {}
            weights: dict[str, bool] = {}
            texts: list[str] = []
            for retriever in own:
                role = registry.retriever(retriever).role
                if registry.retriever(retriever).similarity:
                    vectors[retriever] = recipe.encoder_card.dim
                elif role == "lexical" and engine.words == "text":
                    texts.append(retriever)
                elif engine.words == "terms" if role == "lexical" else engine.sparse:
                    weights[retriever] = role == "lexical"
                else:
                    hint = f"choose another engine: engines.{role}"
                    raise UsageError(f"{name} cannot hold the {retriever} index", hint=hint)
            schema = Schema(vectors, weights, texts)
            formula = [settings.bm25.k1, settings.bm25.b] if any(weights.values()) else []
            # How records are read and cut shows in their rows, which are compared.
            made = {key: value for key, value in recipe.to_json().items() if key not in _OF_READING}
            card = sha1([dict(engine.card), made, list(schema), formula])
            shares.append(Share(engine, schema, own, card))
        return shares

    def _sent(self, share: Share, generation: Generation, *, whole: bool) -> EngineCollection:
        """Send the difference into the collection of the same recipe, or all rows into a new one; return it.

        Raises:
            IndexCorrupt: rows of the new one are missing afterwards.
        """
        engine, held = share.engine, self._newest(share)
        if held is not None and not whole:
            changes = self._changes(engine, held, generation)
            if changes is not None:
                held = self._note(held, generation, changes)
                if self._holds_all(share, held, generation, changes):
                    return held
                self._say(f"{engine.name} has lost rows of {held.name}: all are sent again")
        words = self._mean_length(share, generation)
        new = EngineCollection(engine.name, token_hex(6), share.card, share.retrievers, words)
        engine_record.write(self._store.path, [*engine_record.read(self._store.path), new])
        engine.create(new.name, share.schema)
        changes = RowChanges(generation.id, np.array(live_rows(generation.live, len(generation.records)), np.int64))
        if not self._holds_all(share, new, generation, changes):
            message = f"{engine.name} lacks some of {count(generation.chunk_size, 'row')} that were sent"
            raise IndexCorrupt(message, hint="send them again: retrieve engines push")
        new = new if held is None else replace(new, generations=held.generations)
        return self._note(new, generation, changes._replace(records=changes.records[:0]))

    def _newest(self, share: Share) -> EngineCollection | None:
        """Return the newest complete collection of the same engine and recipe."""
        for held in reversed(engine_record.read(self._store.path)):
            if (held.engine, held.card) == (share.engine.name, share.card) and held.generations:
                return held
        return None

    def _changes(self, engine: Engine, held: EngineCollection, generation: Generation) -> RowChanges | None:
        """Return the changes that make a collection hold a generation; None if its rows are not known, or too many of
        them change."""
        marker, target = engines.marker(engine, held.name), held.generations[-1]
        if marker == target and (target == generation.id or self._store.has(target)):
            former, pending = target, tuple[str, ...]()
        elif marker in (target, held.former) and held.sent is not None:  # it was interrupted, or not published
            former, pending = held.former, held.sent
        else:
            return None
        try:
            with nullcontext(generation) if former == generation.id else open_generation(self._store, former) as old:
                records, gone = difference(old, generation)
        except RetrieveError:
            return None
        repaired = {name: generation.chunk_row(name) for name in pending}
        rows = np.array([row for row in repaired.values() if row is not None], np.int64)
        owners = np.searchsorted(generation.starts, rows, side="right") - 1
        changed = np.union1d(records, owners).astype(np.int64)
        if len(changed) > max(_MOST_CHANGED * generation.size, 1):
            return None
        lost = [name for name, row in repaired.items() if row is None]
        return RowChanges(former, changed, tuple(sorted({*gone, *lost})))

    def _holds_all(self, share: Share, held: EngineCollection, generation: Generation, changes: RowChanges) -> bool:
        """Send new rows, then remove those that are gone: a reader never misses one. Return True if all are there."""
        engine, records = share.engine, changes.records
        size = int((generation.starts[records + 1] - generation.starts[records]).sum())
        if size or changes.gone:
            self._say(f"{engine.name}: sending {count(size, 'row')}, removing {len(changes.gone):,}")
        rows = RowMaker(generation, self._settings, share.schema, mean_length=held.mean_length)
        with task(f"sending rows to {engine.name}", "rows", size) as progress:
            for batch in rows.batches(records):
                engine.upsert(held.name, batch)
                progress.advance(len(batch))
        for first in range(0, len(changes.gone), MOST_HITS):
            engine.delete(held.name, changes.gone[first : first + MOST_HITS])
        return engine.count(held.name) == generation.chunk_size

    def _mean_length(self, share: Share, generation: Generation) -> float:
        """Return the mean number of words of a row, if the engine takes term weights of BM25."""
        words = next((name for name, by_idf in share.schema.weights.items() if by_idf), None)
        if words is None:
            return 1.0
        index = local_indexes(generation, self._settings)[words]
        rows = generation.size if index.unit == "record" else generation.chunk_size
        return float(index.mean_length) * rows / max(generation.chunk_size, 1)  # type: ignore[attr-defined]

    def _note(self, held: EngineCollection, generation: Generation, changes: RowChanges) -> EngineCollection:
        """Note in the folder of the index that a generation is read from a collection, and which rows change."""
        spans = [generation.starts[record : record + 2].tolist() for record in changes.records.tolist()]
        ids = (*(generation.chunk_id(row) for span in spans for row in range(*span)), *changes.gone)
        older = (name for name in held.generations if name != generation.id and self._store.has(name))
        noted = replace(
            held,
            generations=(*older, generation.id),
            former=changes.former,
            sent=ids if len(ids) <= MOST_HITS else None,
        )
        others = {one.name: one for one in engine_record.read(self._store.path)}
        engine_record.write(self._store.path, list({**others, noted.name: noted}.values()))
        return noted

    def _tidy(self, share: Share, current: EngineCollection) -> None:
        """Remove the collections of an engine from which no kept generation is read; a failure is only reported."""
        remaining = engine_record.read(self._store.path)
        for held in [one for one in remaining if one.engine == current.engine and one.name != current.name]:
            if held.card != current.card and any(map(self._store.has, held.generations)):
                continue
            try:
                share.engine.drop(held.name)
            except RetrieveError as error:
                self._say(f"{held.engine}: collection {held.name} could not be removed: {error.message}")
                continue
            self._say(f"{held.engine}: removed collection {held.name}")
            remaining.remove(held)
        engine_record.write(self._store.path, remaining)
