"""Vectors of a batch of texts, and the packed tokens beside them, on their way into the caches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import TokenVectors
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.token_cache import TokenCache
from retrieve_cli.storage.token_table import PackedTokens, pack, width_of
from retrieve_cli.storage.vector_cache import VectorCache

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors


class VectorBatch:
    """Takes tokens from any thread. Tokens are written before vectors: a text that has its vector is done."""

    def __init__(self, keys: Sequence[bytes], vectors: VectorCache, tokens: TokenCache | None, *, dim: int) -> None:
        self.tokens = tokens
        self._keys = keys
        self._vectors = vectors
        self._packed: dict[int, PackedTokens] = {}
        self._nothing = PackedTokens(np.empty(0, np.int32), np.empty((0, width_of(dim)), np.uint8))
        """Tokens of a text without a token."""
        digests = as_keys(keys)
        self._without_vector = vectors.lacks(digests)
        self._without_tokens = tokens.lacks(digests) if tokens is not None else np.empty(0, np.int64)

    def take(self, place: int, tokens: TokenVectors) -> None:
        """Take in the tokens of one text."""
        self.take_packed(place, pack(tokens))

    def take_packed(self, place: int, tokens: PackedTokens) -> None:
        """Take in the packed tokens of one text."""
        self._packed[place] = tokens

    def put_aside(self, places: Sequence[int], vectors: Sequence[Vectors]) -> list[Path]:
        """Write the part of the batch that is done; returns the files."""
        done = np.array(places, np.int64)
        files = []
        if self.tokens is not None:
            keys, packed = self._tokens_of(np.intersect1d(done, self._without_tokens))
            files += [self.tokens.put_aside(keys, packed)] if keys else []
        rows = np.flatnonzero(np.isin(done, self._without_vector))
        if len(rows):
            keys = [self._keys[place] for place in done[rows].tolist()]
            files.append(self._vectors.put_aside(keys, np.stack([vectors[row] for row in rows.tolist()])))
        return files

    def keep(self, vectors: Vectors, *, instead_of: Sequence[Path]) -> None:
        """Write the whole batch, (n, dim); files that were put aside before are removed."""
        written = set()
        if self.tokens is not None:
            written.add(self.tokens.append(*self._tokens_of(self._without_tokens)))
        new = self._without_vector
        if len(new):
            written.add(self._vectors.append([self._keys[place] for place in new.tolist()], vectors[new]))
        for file in set(instead_of) - written:
            file.unlink(missing_ok=True)

    def _tokens_of(self, places: np.ndarray) -> tuple[list[bytes], list[PackedTokens]]:
        chosen = places.tolist()
        return [self._keys[place] for place in chosen], [self._packed.get(place, self._nothing) for place in chosen]
