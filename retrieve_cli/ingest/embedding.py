"""Encodings of texts that the caches keep: vectors, the tokens that a reranker compares, term weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieve_cli.assemble import encoders, indexes
from retrieve_cli.assemble.parts import Parts
from retrieve_cli.contracts import GradualEncoder, GradualSparseEncoder, TermWeights, TokenEncoder
from retrieve_cli.contracts.models import EmbeddingWorkers
from retrieve_cli.contracts.progress import Task
from retrieve_cli.frozen import Frozen
from retrieve_cli.ingest.batch_checkpoint import BatchCheckpoint, VectorBatch
from retrieve_cli.storage import pickles
from retrieve_cli.storage.content_cache import ContentCache
from retrieve_cli.storage.generation import TOKENS, Generation
from retrieve_cli.storage.key_rows import CacheLayout, KeyRows, as_digests, as_keys
from retrieve_cli.storage.manifest import faults
from retrieve_cli.storage.token_table import CARD, Stretch, TokenTable
from retrieve_cli.storage.vector_cache import TokenCache, VectorCache

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Card, Encoder, Rows, SparseEncoder, Vectors
    from retrieve_cli.storage.key_rows import Entry, Keys

TERM_LAYOUT = CacheLayout(".weights", {"terms": "<i4", "weights": "<f4"})
"""Layout of the cache of passages' term weights."""
_BLOCK = 16_384
"""Rows lent at a time."""
_FEW = 1024
"""Vectors that are passed on at a time: they stay in the processor's cache on their way."""
TERM_BATCH = 1024
"""Texts that the sparse encoder is given at a time, and what a killed build loses of its work at most."""


class Texts(Frozen, eq=False):
    """The texts of the chunks that are written, in the order of their rows."""

    keys: Keys
    """(n,) their SHA-1."""
    older: Rows
    """(n,) a row of the older generation with the same text, -1 without one."""


class TextEncoding(Protocol):
    """Something that is made of every text and kept under its SHA-1."""

    @property
    def title(self) -> str:
        """Name of this work for people."""

    @property
    def done(self) -> int:
        """Texts that were encoded and kept."""

    def encode(self, keys: Sequence[bytes], texts: Sequence[str], task: Task) -> None:
        """Encode texts that are all unknown, and count each when it is done."""

    def lend(self, older: Generation, texts: KeyRows) -> Rows:
        """Mark as known the forms of texts that an older generation with the same recipe has; return the rows of texts
        that lack a form."""

    def lacks(self, keys: Keys) -> Rows:
        """Return the places of keys that are not known."""


class VectorEncoding:
    """Vectors, and the packed tokens beside them if a reranker compares words."""

    title = "encoding"

    def __init__(
        self,
        encoder: Encoder,
        cache: VectorCache,
        tokens: TokenCache | None,
        workers: EmbeddingWorkers | None = None,
    ) -> None:
        """`workers` encode in place of this process, if there are any."""
        self.encoder = encoder
        self._workers = workers
        self.cache = cache
        self.tokens = tokens
        self.done = 0
        """Texts that went through the encoder."""
        self._older: Generation | None = None
        self._texts = KeyRows(as_keys([]))
        """Texts whose vectors the older generation lends."""

    def encode(self, keys: Sequence[bytes], texts: Sequence[str], task: Task) -> None:
        batch = VectorBatch(keys, self.cache, self.tokens, dim=self.encoder.card.dim)
        under_way: BatchCheckpoint[Vectors] = BatchCheckpoint(task, texts, batch.put_aside)
        try:
            with under_way.keeping():
                vectors = self._encoded(texts, batch, under_way)
                batch.keep(vectors, instead_of=under_way.files)
                under_way.complete()
        finally:
            self.done += under_way.kept

    def _encoded(self, texts: Sequence[str], batch: VectorBatch, under_way: BatchCheckpoint[Vectors]) -> Vectors:
        """The vectors of texts; their tokens, if these are kept, are taken into the batch."""
        if self._workers is not None:
            return self._by_workers(self._workers, texts, batch, under_way)
        take = None if batch.tokens is None or not isinstance(self.encoder, TokenEncoder) else batch.take
        if isinstance(self.encoder, GradualEncoder):
            return self.encoder.encode_passages_gradually(texts, under_way.add, take)
        if take is None or not isinstance(self.encoder, TokenEncoder):
            return self.encoder.encode_passages(texts)
        return self.encoder.encode_passages_into(texts, take)

    def _by_workers(
        self,
        workers: EmbeddingWorkers,
        texts: Sequence[str],
        batch: VectorBatch,
        under_way: BatchCheckpoint[Vectors],
    ) -> Vectors:
        vectors = np.zeros((len(texts), self.encoder.card.dim), np.float32)
        for places, results in workers.results("vectors", texts):
            for place, (vector, tokens) in zip(places, results, strict=True):
                vectors[place] = vector
                if tokens is not None:
                    batch.take_packed(place, tokens)
            under_way.add(places, [vectors[place] for place in places])
        return vectors

    def lend(self, older: Generation, texts: KeyRows) -> Rows:
        file = indexes.vectors_file(older)
        unknown: Rows = np.empty(0, np.int64)
        if file and len(texts):
            lacking = self.cache.unlisted(texts.keys)
            if len(lacking) and not faults(older.folder, older.manifest, [file]):
                missing = lacking[np.unique(texts.keys[lacking], return_index=True)[1]]
                for start in range(0, len(missing), _BLOCK):
                    rows = missing[start : start + _BLOCK]
                    self.cache.append(as_digests(texts.keys[rows]), indexes.stored_vectors(older, rows))
                    older.file(file).release()
            self._older, self._texts = older, texts
        else:
            unknown = self.cache.lacks(texts.keys)
        if self.tokens is None:
            return unknown
        if older.manifest.recipe.tokens != CARD:
            return np.union1d(unknown, self.tokens.lacks(texts.keys))
        tokens = older.file(TOKENS)
        self.tokens.lend(TokenTable(pickles.load(tokens)), texts, tokens.release)
        return unknown

    def lacks(self, keys: Keys) -> Rows:
        places = np.flatnonzero(self._texts.find(keys) < 0)
        places = places[self.cache.lacks(keys[places])] if len(places) else places
        return places if self.tokens is None else np.union1d(places, self.tokens.lacks(keys))

    def vectors(self, texts: Texts) -> Iterator[Vectors]:
        """Yield the vectors of texts in their order, in blocks, (m, dim) float32."""
        if self._older is None:
            yield from self.cache.gather(texts.keys)
            return
        file = self._older.file(str(indexes.vectors_file(self._older)))
        for start in range(0, len(texts.keys), _FEW):
            rows, keys = texts.older[start : start + _FEW], texts.keys[start : start + _FEW]
            vectors = indexes.stored_vectors(self._older, np.maximum(rows, 0))
            for block in self.cache.gather(keys[rows < 0]):  # no more than one block
                vectors[rows < 0] = block
            file.release()
            yield vectors

    def stretches(self, texts: Texts) -> Stretches:
        """Return the packed tokens of texts in their order."""
        return Stretches(self.tokens, texts)


class Stretches:
    """The packed tokens of texts in their order, read each time that they are gone through."""

    def __init__(self, tokens: TokenCache | None, texts: Texts) -> None:
        self._tokens = tokens
        self._texts = texts

    def __iter__(self) -> Iterator[Stretch]:
        if self._tokens is not None:
            yield from self._tokens.gather(self._texts.keys, self._texts.older)


class TermEncoding:
    """Term weights of a sparse encoder; the weights of the older generation stay in its artifact."""

    def __init__(
        self,
        encoder: SparseEncoder,
        name: str,
        card: Card,
        cache: ContentCache,
        workers: EmbeddingWorkers | None = None,
    ) -> None:
        """`name` and `card` are the name and card of the retriever; `workers` encode in place of this process."""
        self._workers = workers
        self.title = f"encoding ({name})"
        self._encoder = encoder
        self._name = name
        self._card = card
        self._cache = cache
        self._lent = KeyRows(as_keys([]))
        self.done = 0

    def encode(self, keys: Sequence[bytes], texts: Sequence[str], task: Task) -> None:
        # Texts are encoded in their order: a build that goes on after it was killed makes the same batches as one that
        # was not, and on some devices a weight differs in its last bits with the texts it shares a batch with.
        for start in range(0, len(keys), TERM_BATCH):
            self._encode(keys[start : start + TERM_BATCH], texts[start : start + TERM_BATCH], task)

    def _encode(self, keys: Sequence[bytes], texts: Sequence[str], task: Task) -> None:
        def put_aside(places: Sequence[int], weights: Sequence[TermWeights]) -> list[Path]:
            return [self._cache.put_aside([keys[place] for place in places], _entries(weights))]

        under_way: BatchCheckpoint[TermWeights] = BatchCheckpoint(task, texts, put_aside)
        try:
            with under_way.keeping():
                if self._workers is not None:
                    by_place: dict[int, TermWeights] = {}
                    for places, results in self._workers.results("terms", texts):
                        by_place.update(zip(places, results, strict=True))
                        under_way.add(places, results)
                    weights = [by_place[place] for place in range(len(texts))]
                elif isinstance(self._encoder, GradualSparseEncoder):
                    weights = self._encoder.encode_passages_gradually(texts, under_way.add)
                else:
                    weights = self._encoder.encode_passages(texts)
                self._cache.append(keys, _entries(weights), instead_of=under_way.files)
                under_way.complete()
        finally:
            self.done += under_way.kept

    def lend(self, older: Generation, texts: KeyRows) -> Rows:
        if older.manifest.recipe.retrievers.get(self._name) == self._card:
            self._lent = texts
            return np.empty(0, np.int64)
        return self._cache.lacks(texts.keys)

    def lacks(self, keys: Keys) -> Rows:
        places = np.flatnonzero(self._lent.find(keys) < 0)
        return places[self._cache.lacks(keys[places])] if len(places) else places

    def weights(self, key: bytes) -> TermWeights:
        """Return the term weights of a text that was encoded."""
        return TermWeights(*self._cache[key])

    def summary(self, texts: int) -> str:
        """Summarise the encoded texts in a sentence."""
        return f"{self._name}: {self.done} of {texts} texts encoded, the others were cached"


def _entries(weights: Sequence[TermWeights]) -> list[Entry]:
    """Return term weights as the cache keeps them."""
    return [(text.terms, text.weights) for text in weights]


class WrittenPassages:
    """The chunks of the generation that is being written, and what the encodings have of them."""

    def __init__(
        self,
        texts: Sequence[bytes],
        rows: Texts,
        vectors: VectorEncoding | None,
        terms: Callable[[bytes], TermWeights] | None,
    ) -> None:
        self.texts = texts
        self._rows = rows
        self._vectors = vectors
        self._terms = terms

    def vectors(self) -> Iterator[NDArray[np.float32]]:
        """Return the vectors of all chunks in blocks, (m, dim) float32 each."""
        return iter(()) if self._vectors is None else self._vectors.vectors(self._rows)

    def terms(self, key: bytes) -> TermWeights:
        """Return the term weights of the text with this SHA-1. Raises: KeyError if nothing makes any."""
        if self._terms is None:
            raise KeyError(key.hex())
        return self._terms(key)


def vector_encoding(
    parts: Parts, cache: Path, say: Callable[[str], None], workers: EmbeddingWorkers | None
) -> VectorEncoding | None:
    """Return the encoding of vectors; None if the index has none."""
    if parts.encoder is None:
        return None
    card = parts.encoder.card
    tokens = TokenCache(cache, card, say=say) if parts.keeps_tokens else None
    return VectorEncoding(parts.encoder, VectorCache(cache, card, say=say), tokens, workers)


def term_encoding(
    parts: Parts, cache: Path, say: Callable[[str], None], workers: EmbeddingWorkers | None
) -> TermEncoding | None:
    """Return the encoding of learned term weights; None if the index has none."""
    if parts.sparse is None:
        return None
    ((name, card),) = encoders.term_cards(parts.recipe).items()
    weights = ContentCache(cache, card, TERM_LAYOUT, say=say)
    return TermEncoding(parts.sparse, name, card, weights, workers)
