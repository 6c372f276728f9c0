"""Texts to what the caches keep of them: vectors, and the tokens where a reranker compares words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from retrieve_cli.contracts import Encoder, TokenEncoder, TokenVectors
from retrieve_cli.storage.token_cache import TokenCache
from retrieve_cli.storage.token_table import PackedTokens, pack, width_of
from retrieve_cli.storage.vector_cache import BATCH, VectorCache


@dataclass(slots=True)
class Embedding:
    """Sees to it that every text has its vector, and its tokens where those are kept; encodes in batches."""

    _cache: VectorCache
    _encoder: Encoder
    _tokens: TokenCache | None = None
    _waiting: dict[bytes, str] = field(default_factory=dict)
    done: int = 0

    def add(self, key: bytes, text: str) -> None:
        """Sees to it that the text is known, at the latest by the next `flush`."""
        if key in self._waiting or self._knows(key):
            return
        self._waiting[key] = text
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Encodes what waits."""
        if not self._waiting:
            return
        keys, texts = list(self._waiting), list(self._waiting.values())
        if self._tokens is None or not isinstance(self._encoder, TokenEncoder):
            vectors = self._encoder.encode_passages(texts)
        else:
            packed: dict[int, PackedTokens] = {}

            def take(place: int, tokens: TokenVectors) -> None:
                packed[place] = pack(tokens)

            vectors = self._encoder.encode_passages_into(texts, take)
            self._keep(self._tokens, keys, packed)
        fresh = [place for place, key in enumerate(keys) if key not in self._cache]
        if fresh:
            self._cache.append([keys[place] for place in fresh], vectors[fresh])
        self.done += len(keys)
        self._waiting = {}

    def _knows(self, key: bytes) -> bool:
        return key in self._cache and (self._tokens is None or key in self._tokens)

    def _keep(self, cache: TokenCache, keys: Sequence[bytes], packed: dict[int, PackedTokens]) -> None:
        """A text without a token is handed to nobody: it has none."""
        nothing = PackedTokens(np.empty(0, np.int32), np.empty((0, width_of(self._encoder.card.dim)), np.uint8))
        places = [place for place, key in enumerate(keys) if key not in cache]
        cache.append([keys[place] for place in places], [packed.get(place, nothing) for place in places])
