"""Texts to what the caches keep of them: vectors, the tokens that a reranker compares, term weights. Each text once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieve_cli.assemble import pipelines
from retrieve_cli.contracts import Card, Encoder, SparseEncoder, TermWeights, TokenEncoder, TokenVectors
from retrieve_cli.storage import pickles
from retrieve_cli.storage.cache_parts import Layout
from retrieve_cli.storage.content_cache import ContentCache
from retrieve_cli.storage.generation import TOKENS, Generation
from retrieve_cli.storage.key_rows import KeyRows, as_digests, as_keys
from retrieve_cli.storage.manifest import faults
from retrieve_cli.storage.token_cache import TokenCache
from retrieve_cli.storage.token_table import CARD, LATER, PackedTokens, Stretch, TokenTable, pack, width_of
from retrieve_cli.storage.vector_cache import BATCH, VectorCache

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.storage.key_rows import Keys

TERM_LAYOUT = Layout(".weights", {"terms": "<i4", "weights": "<f4"})
"""Of the cache of passages' term weights."""
_BLOCK = 16_384
"""Rows lent at a time."""
_FEW = 1024
"""Vectors that are passed on at a time: they stay in the processor's cache on their way."""
TERM_BATCH = 1024
"""Texts that the sparse encoder is given at a time, and what a killed build loses of its work at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """The texts of the chunks that are written, in the order of their rows."""

    keys: Keys
    """(n,) their SHA-1."""
    older: Rows
    """(n,) a row of the older generation with the same text, -1 if there is none."""


class Encoding(Protocol):
    """Something that is made of every text and kept under its SHA-1."""

    def encode(self, keys: Sequence[bytes], texts: Sequence[str]) -> None:
        """Encode texts, none of which is known."""

    def lend(self, older: Generation, texts: KeyRows) -> Rows:
        """Take as known what an older generation with the same recipe has of its texts; return the rows of those of
        which something is not known."""

    def lacks(self, keys: Keys) -> Rows:
        """Return the places of keys that are not known."""


class VectorEncoding:
    """Vectors, and the packed tokens beside them if a reranker compares words."""

    def __init__(self, encoder: Encoder, cache: VectorCache, tokens: TokenCache | None) -> None:
        self.encoder = encoder
        self.cache = cache
        self.tokens = tokens
        self.done = 0
        """Texts that went through the encoder."""
        self._older: Generation | None = None
        self._texts = KeyRows(as_keys([]))
        """Texts whose vectors the older generation lends."""

    def encode(self, keys: Sequence[bytes], texts: Sequence[str]) -> None:
        if self.tokens is None or not isinstance(self.encoder, TokenEncoder):
            vectors = self.encoder.encode_passages(texts)
        else:
            packed: dict[int, PackedTokens] = {}

            def take(place: int, tokens: TokenVectors) -> None:
                packed[place] = pack(tokens)

            vectors = self.encoder.encode_passages_into(texts, take)
            self._keep(self.tokens, keys, packed)
        fresh = self.cache.lacks(as_keys(keys))
        if len(fresh):
            self.cache.append([keys[place] for place in fresh.tolist()], vectors[fresh])
        self.done += len(keys)

    def _keep(self, cache: TokenCache, keys: Sequence[bytes], packed: Mapping[int, PackedTokens]) -> None:
        """Keep the tokens; of a text without a token nothing was taken, and it has none."""
        nothing = PackedTokens(np.empty(0, np.int32), np.empty((0, width_of(self.encoder.card.dim)), np.uint8))
        places = cache.lacks(as_keys(keys)).tolist()
        cache.append([keys[place] for place in places], [packed.get(place, nothing) for place in places])

    def lend(self, older: Generation, texts: KeyRows) -> Rows:
        file = pipelines.vectors_file(older)
        unknown: Rows = np.empty(0, np.int64)
        if file and len(texts):
            self._copy_missing(older, texts, file)
            self._older, self._texts = older, texts
        else:
            unknown = self.cache.lacks(texts.keys)
        if self.tokens is None:
            return unknown
        if older.manifest.recipe.tokens != CARD:
            return np.union1d(unknown, self.tokens.lacks(texts.keys))
        tokens = older.file(TOKENS)
        self.tokens.lend(TokenTable(pickles.load(tokens, later=LATER)), texts, tokens.release)
        return unknown

    def _copy_missing(self, older: Generation, texts: KeyRows, file: str) -> None:
        """Add to the cache what it lacks and the older generation has."""
        lacking = self.cache.names_none_of(texts.keys)
        if not len(lacking) or faults(older.folder, older.manifest, [file]):
            return
        missing = lacking[np.unique(texts.keys[lacking], return_index=True)[1]]
        for start in range(0, len(missing), _BLOCK):
            rows = missing[start : start + _BLOCK]
            self.cache.append(as_digests(texts.keys[rows]), pipelines.stored_vectors(older, rows))
            older.file(file).release()

    def lacks(self, keys: Keys) -> Rows:
        places = np.flatnonzero(self._texts.find(keys) < 0)
        places = places[self.cache.lacks(keys[places])] if len(places) else places
        return places if self.tokens is None else np.union1d(places, self.tokens.lacks(keys))

    def vectors(self, texts: Texts) -> Iterator[Vectors]:
        """Yield the vectors of texts in their order, in blocks, (m, dim) float32."""
        if self._older is None:
            yield from self.cache.gather(texts.keys)
            return
        file = self._older.file(str(pipelines.vectors_file(self._older)))
        for start in range(0, len(texts.keys), _FEW):
            rows, keys = texts.older[start : start + _FEW], texts.keys[start : start + _FEW]
            vectors = pipelines.stored_vectors(self._older, np.maximum(rows, 0))
            for found in self.cache.gather(keys[rows < 0]):  # no more than one block
                vectors[rows < 0] = found
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
    """Term weights of a sparse encoder; those of the older generation stay in its artifact."""

    def __init__(self, encoder: SparseEncoder, name: str, card: Card, cache: ContentCache) -> None:
        """`name` and `card` are those of the retriever that they are for."""
        self._encoder = encoder
        self._name = name
        self._card = card
        self._cache = cache
        self._lent = KeyRows(as_keys([]))
        self.done = 0

    def encode(self, keys: Sequence[bytes], texts: Sequence[str]) -> None:
        # Texts are encoded in their order: a build that goes on after it was killed makes the same batches as one that
        # was not, and on some devices a weight differs in its last bits with the texts it shares a batch with.
        for start in range(0, len(keys), TERM_BATCH):
            found = self._encoder.encode_passages(texts[start : start + TERM_BATCH])
            self._cache.append(keys[start : start + TERM_BATCH], [(each.terms, each.weights) for each in found])
            self.done += len(found)

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
        """A sentence on what was encoded."""
        return f"{self._name}: {self.done} of {texts} texts encoded, the others were known"


@dataclass(slots=True)
class Embedding:
    """Has every text encoded in every way, at the latest by the next `flush`; encodes in batches."""

    encodings: Sequence[Encoding]
    _waiting: dict[bytes, str] = field(default_factory=dict)

    def add(self, key: bytes, text: str) -> None:
        """Have a text encoded, unless it is known."""
        if self.encodings:
            self._waiting[key] = text
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Encode what waits and is not known."""
        waiting, self._waiting = self._waiting, {}
        digests, texts = list(waiting), list(waiting.values())
        keys = as_keys(digests)
        for encoding in self.encodings:
            missing = encoding.lacks(keys).tolist() if waiting else []
            if missing:
                encoding.encode([digests[place] for place in missing], [texts[place] for place in missing])


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
