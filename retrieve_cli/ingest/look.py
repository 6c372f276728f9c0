"""A look over all items of the sources: which records there are now, held to those of the live generation.

An item that the live generation has is not read: what it holds is known, if its source's fields are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Item, Record, Refused, Source
from retrieve_cli.ingest.changes import Changes
from retrieve_cli.ingest.inventory import Contents, Inventory, walk
from retrieve_cli.ingest.scanned import Piece, Scanned, batches, pieces_of
from retrieve_cli.records.rows import content_digest
from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.manifest import Manifest, sha1
from retrieve_cli.storage.recipe import Recipe

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation


class Look:
    """What one look over the sources found."""

    def __init__(self, before: Contents, live: Generation | None, recipe: Recipe, *, keep: Collection[str]) -> None:
        """`before` has what is live; `live` is it if it is sound. `recipe` is that of the generation to write; items of
        sources of the kinds in `keep` are remembered."""
        self._inventory = Inventory(before)
        self._cards = live.manifest.recipe.sources if live else {}
        self._known = KeyRows(as_keys(live.origins if live else []))
        self._recipe = recipe
        self._keep = keep
        self.records: dict[str, int] = {}
        """Number of records of each source."""
        self.digests: list[str] = []
        """Of each source."""
        self.scanned: list[Source] = []
        """The sources as they were seen, those whose items are remembered."""
        self.refused = 0

    def at(self, source: Source) -> None:
        """Look over all items of a source.

        Raises:
            SourceFailed, UsageError: it cannot be read.
        """
        first, scanned = len(self._inventory), Scanned(source) if source.kind in self._keep else None
        digest = hashlib.sha1(usedforsecurity=False)
        same = sha1(self._cards.get(source.kind)) == sha1(self._recipe.sources[source.kind])
        for batch in batches(source):
            digest.update(batch.traces)
            read: dict[int, Sequence[Piece]] = {}
            rows = batch.rows(self._known) if same else np.full(len(batch), -1, np.int64)
            for places, kept in walk(rows, self._inventory):
                if not kept:
                    item = batch.item(places.start)
                    pieces = pieces_of(item) if isinstance(item, Item) else [item]
                    read[places.start] = pieces
                    self._take(pieces)
            if scanned is not None:
                scanned.keep(batch, read)
        self.records[source.name] = len(self._inventory) - first
        self.digests.append(digest.hexdigest())
        self.scanned.append(scanned or source)

    def changes(self) -> Changes:
        """Return what came, changed and went."""
        return self._inventory.changes()

    def _take(self, pieces: Sequence[Piece]) -> None:
        """Take in the records among pieces; those whose id is taken are refused."""
        for piece in pieces:
            if isinstance(piece, Record) and self._inventory.row(piece.id) is None:
                self._inventory.add(piece.id, content_digest(piece))
            elif isinstance(piece, Record | Refused):
                self.refused += 1


def digest_of(source: Source) -> str:
    """SHA-1 of the digests of all items in order."""
    read = hashlib.sha1(usedforsecurity=False)
    for batch in batches(source):
        read.update(batch.traces)
    return read.hexdigest()


def digests_of(manifest: Manifest) -> list[str]:
    """The same of each source of a generation, as it was when it was read; empty where the manifest does not say."""
    try:
        return [str(source["digest"]) for source in manifest.built["sources"]]
    except (KeyError, TypeError):
        return []
