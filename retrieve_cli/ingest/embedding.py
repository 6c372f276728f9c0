"""Texts to what the caches keep of them: vectors, the tokens that a reranker compares, term weights. Each text once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieve_cli.assemble import pipelines
from retrieve_cli.contracts import Card, Encoder, SparseEncoder, TermWeights, TokenEncoder, TokenVectors
from retrieve_cli.storage import pickles
from retrieve_cli.storage.content_cache import ContentCache, Layout, as_digests, as_keys
from retrieve_cli.storage.generation import TOKENS, Generation
from retrieve_cli.storage.manifest import faults
from retrieve_cli.storage.token_cache import TokenCache
from retrieve_cli.storage.token_table import CARD, PackedTokens, Stretch, TokenTable, pack, width_of
from retrieve_cli.storage.vector_cache import BATCH, VectorCache

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.storage.content_cache import Keys

TERM_LAYOUT = Layout(".weights", {"terms": "<i4", "weights": "<f4"})
"""Of the cache of passages' term weights."""
_BLOCK = 16_384
"""Rows lent at a time."""
TERM_BATCH = 1024
"""Texts that the sparse encoder is given at a time, and what a killed build loses of its work at most."""


class Encoding(Protocol):
    """Something that is made of every text and kept under its SHA-1."""

    def __contains__(self, key: bytes) -> bool: ...

    def encode(self, keys: Sequence[bytes], texts: Sequence[str]) -> None:
        """Encode the texts that are not known."""

    def lend(self, older: Generation) -> None:
        """Take as known what an older generation with the same recipe has."""

    def lacks(self, keys: Keys) -> frozenset[int]:
        """Return the places of keys that are not known."""


class VectorEncoding:
    """Vectors, and the packed tokens beside them if a reranker compares words."""

    def __init__(self, encoder: Encoder, cache: VectorCache, tokens: TokenCache | None) -> None:
        self.encoder = encoder
        self.cache = cache
        self.tokens = tokens
        self.done = 0
        """Texts that went through the encoder."""

    def __contains__(self, key: bytes) -> bool:
        return key in self.cache and (self.tokens is None or key in self.tokens)

    def encode(self, keys: Sequence[bytes], texts: Sequence[str]) -> None:
        if self.tokens is None or not isinstance(self.encoder, TokenEncoder):
            vectors = self.encoder.encode_passages(texts)
        else:
            packed: dict[int, PackedTokens] = {}

            def take(place: int, tokens: TokenVectors) -> None:
                packed[place] = pack(tokens)

            vectors = self.encoder.encode_passages_into(texts, take)
            self._keep(self.tokens, keys, packed)
        fresh = [place for place, key in enumerate(keys) if key not in self.cache]
        if fresh:
            self.cache.append([keys[place] for place in fresh], vectors[fresh])
        self.done += len(keys)

    def _keep(self, cache: TokenCache, keys: Sequence[bytes], packed: Mapping[int, PackedTokens]) -> None:
        """Keep the tokens; of a text without a token nothing was taken, and it has none."""
        nothing = PackedTokens(np.empty(0, np.int32), np.empty((0, width_of(self.encoder.card.dim)), np.uint8))
        places = [place for place, key in enumerate(keys) if key not in cache]
        cache.append([keys[place] for place in places], [packed.get(place, nothing) for place in places])

    def lend(self, older: Generation) -> None:
        keys = as_keys(older.texts)
        lacking = self.cache.lacks(keys)
        file = pipelines.vectors_file(older)
        if len(lacking) and file and not faults(older.folder, older.manifest, [file]):
            missing = lacking[np.unique(keys[lacking], return_index=True)[1]]
            for start in range(0, len(missing), _BLOCK):
                rows = missing[start : start + _BLOCK]
                digests = [older.texts[row].tobytes() for row in rows]
                self.cache.append(digests, pipelines.stored_vectors(older, rows))
        if self.tokens is not None and older.manifest.recipe.tokens == CARD:
            rows_of = {digest.tobytes(): row for row, digest in enumerate(older.texts)}
            self.tokens.lend(TokenTable(pickles.load(older.file(TOKENS))), rows_of)

    def lacks(self, keys: Keys) -> frozenset[int]:
        lacking = frozenset(self.cache.lacks(keys).tolist())
        if self.tokens is None:
            return lacking
        return lacking | {row for row, key in enumerate(as_digests(keys)) if key not in self.tokens}

    def stretches(self, texts: Sequence[bytes]) -> Iterator[Stretch]:
        """Yield the packed tokens of texts in their order."""
        return iter(()) if self.tokens is None else self.tokens.gather(texts)


class TermEncoding:
    """Term weights of a sparse encoder; those of the older generation stay in its artifact."""

    def __init__(self, encoder: SparseEncoder, name: str, card: Card, cache: ContentCache) -> None:
        """`name` and `card` are those of the retriever that they are for."""
        self._encoder = encoder
        self._name = name
        self._card = card
        self._cache = cache
        self._lent: frozenset[bytes] = frozenset()
        self.done = 0

    def __contains__(self, key: bytes) -> bool:
        return key in self._lent or key in self._cache

    def encode(self, keys: Sequence[bytes], texts: Sequence[str]) -> None:
        # Texts are encoded in their order: a build that goes on after it was killed makes the same batches as one that
        # was not, and on some devices a weight differs in its last bits with the texts it shares a batch with.
        for start in range(0, len(keys), TERM_BATCH):
            found = self._encoder.encode_passages(texts[start : start + TERM_BATCH])
            self._cache.append(keys[start : start + TERM_BATCH], [(each.terms, each.weights) for each in found])
            self.done += len(found)

    def lend(self, older: Generation) -> None:
        if older.manifest.recipe.retrievers.get(self._name) == self._card:
            self._lent = frozenset(digest.tobytes() for digest in older.texts)

    def lacks(self, keys: Keys) -> frozenset[int]:
        return frozenset(row for row, key in enumerate(as_digests(keys)) if key not in self)

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
        if key in self._waiting or all(key in encoding for encoding in self.encodings):
            return
        self._waiting[key] = text
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Encode what waits."""
        waiting, self._waiting = self._waiting, {}
        for encoding in self.encodings:
            missing = {key: text for key, text in waiting.items() if key not in encoding}
            if missing:
                encoding.encode(list(missing), list(missing.values()))


class WrittenPassages:
    """The chunks of the generation that is being written, and what the encodings have of them."""

    def __init__(
        self, texts: Sequence[bytes], vectors: VectorEncoding | None, terms: Callable[[bytes], TermWeights] | None
    ) -> None:
        self.texts = texts
        self._vectors = vectors
        self._terms = terms

    def vectors(self) -> Iterator[NDArray[np.float32]]:
        """Return the vectors of all chunks in blocks, (m, dim) float32 each."""
        return iter(()) if self._vectors is None else self._vectors.cache.gather(as_keys(self.texts))

    def terms(self, key: bytes) -> TermWeights:
        """Return the term weights of the text with this SHA-1. Raises: KeyError if nothing makes any."""
        if self._terms is None:
            raise KeyError(key.hex())
        return self._terms(key)
