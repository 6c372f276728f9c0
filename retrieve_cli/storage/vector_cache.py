"""Cache of the vectors of texts: one row of numbers per text.

Cache of the packed tokens of texts: from an older generation if it has them, else from the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json, ModelCard
from retrieve_cli.frozen import asdict
from retrieve_cli.storage.content_cache import ContentCache
from retrieve_cli.storage.key_rows import CacheLayout, KeyRows, Say, as_keys
from retrieve_cli.storage.recipe import of_passages
from retrieve_cli.storage.token_table import CARD, PackedTokens, Stretch, TokenTable

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.storage.key_rows import Keys


BATCH = 2048
"""Chunks collected for the encoder: enough to sort by length, few enough to bound the memory."""
_BLOCK = 16_384
"""Rows collected at a time."""


LAYOUT = CacheLayout(".embeddings", {"vectors": "<f4"})


class VectorCache:
    """Vectors of one model card. Only one process at a time may append, which the writer's lock ensures."""

    def __init__(self, folder: Path, card: ModelCard, *, say: Say) -> None:
        """Open nothing until the first use; damaged files are reported then."""
        self._cache = ContentCache(folder, of_passages(asdict(card)), LAYOUT, say=say)
        self._dim = card.dim

    @property
    def begun(self) -> bool:
        """True if any vector was ever stored."""
        return self._cache.begun

    def __contains__(self, key: bytes) -> bool:
        return key in self._cache

    def lacks(self, keys: Keys) -> Rows:
        """Return the places of the missing keys."""
        return self._cache.lacks(keys)

    def append(self, keys: Sequence[bytes], vectors: Vectors) -> Path | None:
        """Add vectors, (n, dim) float32, wait until they are on disk, and return the file.

        Raises:
            OSError: the disk is full; existing files stay unchanged.
        """
        return self._cache.append(keys, [(row,) for row in vectors[:, None]])

    def put_aside(self, keys: Sequence[bytes], vectors: Vectors) -> Path:
        """Write vectors of a batch under way; see `ContentCache.put_aside`."""
        return self._cache.put_aside(keys, [(row,) for row in vectors[:, None]])

    def unlisted(self, keys: Keys) -> Rows:
        """Return the places of the keys that no file lists, without checking the files."""
        return self._cache.unlisted(keys)

    def gather(self, keys: Keys) -> Iterator[Vectors]:
        """Yield the vectors of the keys in their order, in blocks, (m, dim) float32.

        Raises:
            KeyError: a key is missing.
        """
        parts, numbers, places = self._cache.locate(keys)
        for start in range(0, len(keys), _BLOCK):
            block = slice(start, start + _BLOCK)
            vectors = np.empty((len(numbers[block]), self._dim), np.float32)
            for number in np.unique(numbers[block]):
                mine = numbers[block] == number
                vectors[mine] = parts[number].columns[0][places[block][mine]]
                parts[number].release()
            yield vectors


TOKEN_LAYOUT = CacheLayout(".tokens", {"ids": "<i4", "codes": "|u1"})
_TOKEN_BLOCK = 1024
"""Texts whose tokens are in memory at a time."""


def token_card(encoder: Mapping[str, Json]) -> Json:
    """Return everything that decides a text's packed tokens: its encoder, and the current packing."""
    return [dict(of_passages(encoder)), dict(CARD)]


class TokenCache:
    """Packed tokens of one model card. Only one process at a time may use it, which the writer's lock ensures."""

    def __init__(self, folder: Path, card: ModelCard, *, say: Say) -> None:
        """Open nothing until the first use; damaged files are reported then."""
        self._cache = ContentCache(folder, token_card(asdict(card)), TOKEN_LAYOUT, say=say)
        self._older: TokenTable | None = None
        self._rows = KeyRows(as_keys([]))
        self._release: Callable[[], None] | None = None

    def lend(self, table: TokenTable, rows: KeyRows, release: Callable[[], None] | None = None) -> None:
        """Use the tokens of an older generation: its intact table, and the row of each text there.

        `release` frees the memory in which the table is mapped: 10 GB for a million texts of 100 words.
        """
        self._older, self._rows, self._release = table, rows, release

    def __contains__(self, key: bytes) -> bool:
        return self._rows.row(key) >= 0 or key in self._cache

    def lacks(self, keys: Keys) -> Rows:
        """Return the places of the missing keys."""
        places = np.flatnonzero(self._rows.find(keys) < 0)
        return places[self._cache.lacks(keys[places])] if len(places) else places

    def append(self, keys: Sequence[bytes], tokens: Sequence[PackedTokens]) -> Path | None:
        """Add the tokens of texts, wait until they are on disk, and return the file.

        Raises:
            OSError: the disk is full; existing files stay unchanged.
        """
        return self._cache.append(keys, [(one.ids, one.codes) for one in tokens])

    def put_aside(self, keys: Sequence[bytes], tokens: Sequence[PackedTokens]) -> Path:
        """Write tokens of a batch under way; see `ContentCache.put_aside`."""
        return self._cache.put_aside(keys, [(one.ids, one.codes) for one in tokens])

    def gather(self, keys: Keys, rows: Rows | None = None) -> Iterator[Stretch]:
        """Yield the tokens of the keys in their order; contiguous rows of the older table come in one stretch.

        `rows` has the rows of the keys in that table, -1 for missing keys; None looks them up.

        Raises:
            KeyError: a key is missing.
        """
        rows = self._rows.find(keys) if rows is None or self._older is None else rows
        steps = rows[1:] - rows[:-1]
        breaks = np.flatnonzero(np.where(rows[1:] < 0, steps != 0, (steps != 1) | (rows[:-1] < 0))) + 1
        bounds = [0, *breaks.tolist(), len(keys)] if len(keys) else []
        for first, end in pairwise(bounds):
            for start in range(first, end, _TOKEN_BLOCK):
                stop = min(start + _TOKEN_BLOCK, end)
                if self._older is None or rows[start] < 0:
                    yield self._cached(keys[start:stop])
                else:
                    yield self._older.stretch(int(rows[start]), int(rows[start]) + stop - start)
                    if self._release is not None:
                        self._release()

    def _cached(self, keys: Keys) -> Stretch:
        parts, numbers, places = self._cache.locate(keys)
        pairs = zip(numbers.tolist(), places.tolist(), strict=True)
        ids, codes = zip(*(parts[number].entry(place) for number, place in pairs), strict=True)
        tokens = PackedTokens(np.concatenate(ids), np.concatenate(codes))
        for number in np.unique(numbers).tolist():
            parts[number].release()
        return Stretch(tokens, np.array([len(part) for part in ids]))
