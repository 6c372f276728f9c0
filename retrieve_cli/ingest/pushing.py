"""Rows of a generation on their way into engines: the difference from the rows that are there.

    pending rows are noted -> upserts, deletes -> marker -> count -> `engines.json` -> alias -> `current` is replaced

An engine holds a collection for each recipe. A change is sent into it: a reader sees old or new rows meanwhile, and an
interrupted push is completed by the next one, which knows the pending rows. Another recipe, and rows that were lost,
make a new collection beside the old one, which stays as long as a kept generation names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.assemble import engines, registry
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.contracts.engines import MOST_HITS, Schema
from retrieve_cli.contracts.progress import task
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import IndexCorrupt, RetrieveError, UsageError
from retrieve_cli.ingest.sending import RowMaker, difference
from retrieve_cli.storage import durable, engine_record
from retrieve_cli.storage.engine_record import Entry, PendingPush
from retrieve_cli.storage.generation import live_rows, open_generation
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.storage.store import SENT
from retrieve_cli.untrusted.files import MANIFEST, read_text

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Rows
    from retrieve_cli.contracts.engines import Engine
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.store import Store

_NOTED = 1000
"""Collections that are remembered as made by this index."""
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

    def send(self, generation: Generation, folders: Sequence[Path] = (), *, whole: bool = False) -> dict[str, Entry]:
        """Send a generation as far as the engines do not hold it, or all of it, and let their aliases name it; return
        its collections. They are noted in the folder of the generation, and in `folders`.

        Raises:
            Unavailable: an engine cannot be reached, or rejects the rows.
            IndexCorrupt: it lost rows.
            UsageError: it cannot hold an index.
        """
        entries = {}
        for share in self._shares(generation):
            entry = None if whole else self._updated(share, generation)
            entries[share.engine.name] = entry or self._made(share, generation)
        for folder in (generation.folder, *folders) if entries else ():
            engine_record.write(folder, entries)
        for name, entry in entries.items():
            engine = engines.engine(name, self._settings)
            if engine.published() != entry.collection:
                engine.publish(entry.collection)
            self._tidy(engine, entry.collection)
        return entries

    def _shares(self, generation: Generation) -> list[Share]:
        """Return what each engine gets. Raises: UsageError: it cannot hold the index of a retriever."""
        recipe, settings = generation.manifest.recipe, self._settings
        placed = engines.places(settings, recipe.retrievers)
        shares = []
        for name in settings.engines.in_use:
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
            if own:
                schema = Schema(vectors, weights, texts)
                formula = [settings.bm25.k1, settings.bm25.b] if any(weights.values()) else []
                # How records are read and cut shows in their rows, which are compared.
                made = {key: value for key, value in recipe.to_json().items() if key not in _OF_READING}
                card = sha1([dict(engine.card), made, list(schema), formula])
                shares.append(Share(engine, schema, own, card))
        return shares

    # ------------------------------------------------------------------------------------ a change of a collection

    def _updated(self, share: Share, generation: Generation) -> Entry | None:
        """Send the difference into the collection of the same recipe; None if it does not exist, or lost rows."""
        engine, markers = share.engine, share.engine.collections()
        for entry in self._known(engine.name):
            marker = markers.get(entry.collection)
            if entry.card != share.card or not marker:
                continue
            last = engine_record.pending(self._store.path).get(entry.collection)
            if last is not None and marker == last.target and self._store.has(marker):
                last = None  # it was completed and published
            if marker != generation.id or last is not None:
                former = self._former(marker if last is None else last.former, generation)
                if former is None:
                    continue
                if not self._change(share, entry, former, generation, () if last is None else last.ids):
                    return None
            if engine.count(entry.collection) == generation.chunk_size:
                return entry
            self._say(f"{engine.name} has lost rows of {entry.collection}: all are sent again")
        return None

    def _known(self, name: str) -> list[Entry]:
        """Return the collections in an engine that the kept generations name, newest first."""
        found: dict[Entry, None] = {}
        for kept in reversed(self._store.kept()):
            folder = self._store.generations / kept.manifest.id
            try:
                entry = engine_record.read(folder).get(name)
            except IndexCorrupt:
                continue  # it is written again
            found |= {} if entry is None else {entry: None}
        return list(found)

    def _former(self, marker: str, generation: Generation) -> Generation | None:
        """Return the generation that an engine holds; None if it is not in the store, or damaged."""
        if marker == generation.id:
            return generation
        try:
            with open_generation(self._store, marker) as former:
                return former
        except RetrieveError:
            return None

    def _change(
        self, share: Share, entry: Entry, former: Generation, generation: Generation, pending: Iterable[str]
    ) -> bool:
        """Send rows that are new or changed, then remove those that are gone: a reader never misses one. Return False
        without a change if there are too many of them."""
        engine, changed = share.engine, difference(former, generation)
        repaired = {name: generation.chunk_row(name) for name in pending}
        rows = np.array([row for row in repaired.values() if row is not None], np.int64)
        owners = np.searchsorted(generation.starts, rows, side="right") - 1
        records = np.union1d(changed.records, owners).astype(np.int64)
        if len(records) > max(_MOST_CHANGED * generation.size, 1):
            return False
        gone = sorted({*changed.gone, *(name for name, row in repaired.items() if row is None)})
        chunks = (range(*generation.starts[record : record + 2].tolist()) for record in records.tolist())
        ids = [generation.chunk_id(row) for rows_of_record in chunks for row in rows_of_record]
        push = PendingPush(former.id, generation.id, tuple(sorted({*ids, *gone, *pending})))
        engine_record.note_pending(self._store.path, entry.collection, push)
        if ids or gone:
            self._say(f"{engine.name}: sending {count(len(ids), 'row')}, removing {len(gone):,}")
        self._upsert(share, entry, generation, records)
        for first in range(0, len(gone), MOST_HITS):
            engine.delete(entry.collection, gone[first : first + MOST_HITS])
        engine.mark(entry.collection, generation.id)
        return True

    def _upsert(self, share: Share, entry: Entry, generation: Generation, records: Rows) -> None:
        rows = RowMaker(generation, self._settings, share.schema, mean_length=entry.mean_length)
        sizes = generation.starts[records + 1] - generation.starts[records]
        with task(f"sending rows to {share.engine.name}", "rows", int(sizes.sum())) as progress:
            for batch in rows.batches(records):
                share.engine.upsert(entry.collection, batch)
                progress.advance(len(batch))

    # ---------------------------------------------------------------------------------------- a new collection

    def _made(self, share: Share, generation: Generation) -> Entry:
        """Send all rows into a new collection.

        Raises:
            IndexCorrupt: rows are missing afterwards.
        """
        engine, place = share.engine, self._store.path / SENT
        digest = hashlib.sha1(f"{generation.id} {sorted(engine.collections())}".encode(), usedforsecurity=False)
        entry = Entry(digest.hexdigest()[:12], share.card, share.retrievers, self._mean_length(share, generation))
        noted = [*_lines(place), f"{engine.name} {entry.collection}"]
        durable.replace(place, "".join(f"{line}\n" for line in noted[-_NOTED:]))
        self._say(f"{engine.name}: sending all {count(generation.chunk_size, 'row')}")
        engine.create(entry.collection, share.schema)
        self._upsert(share, entry, generation, np.array(live_rows(generation.live, len(generation.records)), np.int64))
        if (rows := engine.count(entry.collection)) != generation.chunk_size:
            message = f"{engine.name} has {rows:,} of {count(generation.chunk_size, 'row')} that were sent"
            raise IndexCorrupt(message, hint="send them again: retrieve engines push")
        engine.mark(entry.collection, generation.id)
        return entry

    def _mean_length(self, share: Share, generation: Generation) -> float:
        """Return the mean number of words of a row, if the engine takes term weights of BM25."""
        words = next((name for name, by_idf in share.schema.weights.items() if by_idf), None)
        if words is None:
            return 1.0
        index = local_indexes(generation, self._settings)[words]
        rows = generation.size if index.unit == "record" else generation.chunk_size
        return float(index.mean_length) * rows / max(generation.chunk_size, 1)  # type: ignore[attr-defined]

    def _tidy(self, engine: Engine, current: str) -> None:
        """Remove the collections that this index made and that no kept generation names; a failure is only
        reported."""
        kept = {current, *(entry.collection for entry in self._known(engine.name))}
        noted = _lines(self._store.path / SENT)
        try:
            for name in engine.collections():
                if name not in kept and f"{engine.name} {name}" in noted:
                    engine.drop(name)
                    self._say(f"{engine.name}: removed collection {name}")
        except RetrieveError as error:
            self._say(f"{engine.name}: older collections could not be removed: {error.message}")


def _lines(path: Path) -> list[str]:
    return read_text(path, limit=MANIFEST).splitlines() if path.exists() else []
