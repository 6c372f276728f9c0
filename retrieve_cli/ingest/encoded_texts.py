"""Texts that are encoded: where segments and the cache have their vectors, tokens and term weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble import encoders, indexes
from retrieve_cli.assemble.indexes import VECTORS, WEIGHTS
from retrieve_cli.contracts import Json, Passages, TermWeights
from retrieve_cli.errors import RetrieveError
from retrieve_cli.storage import entries, pickles
from retrieve_cli.storage.entries import Entry, EntryStore, Read, entries_in
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.key_rows import DigestList
from retrieve_cli.storage.manifest import faults
from retrieve_cli.storage.recipe import of_passages
from retrieve_cli.storage.segment import TOKENS
from retrieve_cli.storage.store import Store
from retrieve_cli.storage.token_table import PackedTokens, Stretch, TokenTable

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.storage.recipe import Recipe
    from retrieve_cli.storage.segment import Segment

_BLOCK, _TOKEN_BLOCK = 16_384, 1024
"""Texts whose vectors or weights, and whose tokens, are in memory at a time."""


def stored_segments(store: Store) -> list[Segment]:
    """Return the segments of all stored generations that can be read."""
    segments: dict[str, Segment] = {}
    for kept in store.kept():
        with suppress(RetrieveError), open_generation(store, kept.manifest.id) as generation:
            segments |= {segment.name: segment for segment in generation.segments}
    return list(segments.values())


class EncodedTexts:
    """The encodings of texts for an index with some recipe: of segments, of the cache, and new ones."""

    def __init__(
        self,
        recipe: Recipe,
        cache: Path,
        lenders: Sequence[Segment] = (),
        *,
        say: Callable[[str], None],
        verified: bool = True,
    ) -> None:
        """`cache` is the folder of the cache. The bytes of the lenders' files are compared with their manifests first,
        unless they are `verified`."""
        stores: dict[str, EntryStore] = {}
        for file, card in _cards(recipe).items():
            alike = [segment for segment in lenders if _cards(segment.manifest.recipe).get(file) == card]
            lent = [
                (segment.texts, _PARTS[file](segment))
                for segment in alike
                if segment.has(file) and (verified or not faults(segment.folder, segment.manifest, [file]))
            ]
            stores[file] = EntryStore(cache, _KINDS[file], card, lent=lent, say=say)
        self.vectors = stores.get(VECTORS)
        self.tokens = stores.get(TOKENS)
        self.weights = stores.get(WEIGHTS)

    def passages(self, texts: DigestList) -> Passages:
        """Return the encodings of chunks for the writers, given the SHA-1 of the text of each."""

        def vectors() -> Iterator[Vectors]:
            for block in _read(self.vectors, texts, _BLOCK):
                yield np.concatenate([vectors for (vectors,) in block])

        def weights() -> Iterator[TermWeights]:
            for block in _read(self.weights, texts, _BLOCK):
                yield from (TermWeights(*entry) for entry in block)

        return Passages(len(texts), vectors, weights)

    def stretches(self, texts: DigestList) -> Iterator[Stretch]:
        """Yield the packed tokens of chunks in their order, some at a time, if tokens are kept."""
        for block in _read(self.tokens, texts, _TOKEN_BLOCK):
            ids, codes = map(np.concatenate, zip(*block, strict=True))
            yield Stretch(PackedTokens(ids, codes), np.array([len(entry[0]) for entry in block]))


def _read(store: EntryStore | None, texts: DigestList, count: int) -> Iterator[list[Entry]]:
    """Yield the entries of texts, so many at a time; none without a store."""
    if store is None:
        return
    rows = store.find(texts.array)
    for start in range(0, len(rows), count):
        yield store.read(rows[start : start + count])


def _vectors_of(segment: Segment) -> Read:
    def read(rows: Rows) -> list[Entry]:
        vectors = indexes.segment_vectors(segment, rows)
        if len(rows) >= _BLOCK // 16:  # the whole file may be copied; after a few rows, searches still use its pages
            segment.file(VECTORS).release()
        return [(vector,) for vector in vectors[:, None]]

    return read


def _tokens_of(segment: Segment) -> Read:
    table = TokenTable(pickles.load(segment.file(TOKENS)))
    segment.expect(TOKENS, len(table))

    def read(rows: Rows) -> list[Entry]:
        packed = [table.stretch(row, row + 1).tokens for row in rows.tolist()]
        return [(tokens.ids, tokens.codes) for tokens in packed]

    return read


def _weights_of(segment: Segment) -> Read:
    def read(rows: Rows) -> list[Entry]:
        different, places = np.unique(rows, return_inverse=True)
        starts, terms, weights = indexes.segment_weights(segment, different)
        return entries_in(starts, (terms, weights), places)

    return read


_PARTS: Mapping[str, Callable[[Segment], Read]] = {VECTORS: _vectors_of, TOKENS: _tokens_of, WEIGHTS: _weights_of}
_KINDS = {VECTORS: entries.VECTORS, TOKENS: entries.TOKENS, WEIGHTS: entries.WEIGHTS}


def _cards(recipe: Recipe) -> dict[str, Json]:
    """Return by file everything that decides the encodings of texts in it, apart from the texts."""
    cards: dict[str, Json] = {}
    if recipe.encoder is not None:
        cards[VECTORS] = dict(of_passages(recipe.encoder))
        if recipe.tokens is not None:
            cards[TOKENS] = [cards[VECTORS], dict(recipe.tokens)]
    for card in encoders.term_cards(recipe).values():
        cards[WEIGHTS] = dict(card)
    return cards
