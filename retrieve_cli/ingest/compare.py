"""A comparison of all items of the sources with the records of the current generation.

An item that the current generation has is not read again if the fields of its source are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Item, Record, Refused, Source
from retrieve_cli.ingest.cached_source import CachedSource, Piece, batches, mapping_of, pieces_of
from retrieve_cli.ingest.changes import Changes
from retrieve_cli.ingest.inventory import Contents, Inventory, walk
from retrieve_cli.ingest.report import Notices, reading
from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.manifest import Manifest, sha1
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.storage.records.rows import content_digest

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation


class SourceComparison:
    """The result of comparing the sources with the current generation."""

    def __init__(self, before: Contents, current: Generation | None, recipe: Recipe, *, keep: Collection[str]) -> None:
        """`before` has the current records; `current` is their generation if it is sound. `recipe` is the recipe of the
        generation to write; items of sources of the kinds in `keep` are remembered."""
        self._inventory = Inventory(before)
        self._cards = current.manifest.recipe.sources if current else {}
        self._known = KeyRows(as_keys(current.origins if current else []))
        self._recipe = recipe
        self._keep = keep
        self.records: dict[str, int] = {}
        """Number of records of each source."""
        self.digests: list[str] = []
        """Digest of each source."""
        self.scanned: list[Source] = []
        """The sources, with their parsed items if these are remembered."""
        self.rejected = 0
        self.notices = Notices(lambda _: None)

    def at(self, source: Source) -> None:
        """Compare all items of a source. Raises: SourceFailed, UsageError: it cannot be read."""
        first = len(self._inventory)
        # Without an index all is read: documents, which take long to parse, are remembered for the build.
        remembered = source.kind in self._keep or (source.kind == "docs" and not self._cards)
        scanned = CachedSource(source) if remembered else None
        digest = hashlib.sha1(usedforsecurity=False)
        same = sha1(self._cards.get(source.kind)) == sha1(self._recipe.sources[source.kind])
        with reading(source, "comparing") as progress:
            for batch in batches(source):
                digest.update(batch.traces)
                read: dict[int, Sequence[Piece]] = {}
                rows = batch.rows(self._known) if same else np.full(len(batch), -1, np.int64)
                for places, kept in walk(batch, rows, self._inventory):
                    if not kept:
                        item = batch.item(places.start)
                        pieces = pieces_of(item) if isinstance(item, Item) else [item]
                        read[places.start] = pieces
                        self._take(pieces)
                    progress.advance(len(places))
                if scanned is not None:
                    scanned.keep(batch, read)
        self.notices.report_mapping(source.name, mapping_of(source))
        self.notices.finish(source.name, complete=not same)
        self.records[source.name] = len(self._inventory) - first
        self.digests.append(digest.hexdigest())
        self.scanned.append(scanned or source)

    def changes(self) -> Changes:
        """Return the records that were added, changed and removed."""
        return self._inventory.changes()

    def _take(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, Record) and self._inventory.row(piece.id) is None:
                self._inventory.add(piece.id, content_digest(piece))
                self.notices.count(piece)
            elif isinstance(piece, Record | Refused):
                self.rejected += 1


def digest_of(source: Source) -> str:
    """Return the SHA-1 of the digests of all items in order."""
    read = hashlib.sha1(usedforsecurity=False)
    for batch in batches(source):
        read.update(batch.traces)
    return read.hexdigest()


def digests_of(manifest: Manifest) -> list[str]:
    """Return the digest of each source of a generation when it was read; empty if the manifest has no digests."""
    try:
        return [str(source["digest"]) for source in manifest.built["sources"]]
    except (KeyError, TypeError):
        return []
