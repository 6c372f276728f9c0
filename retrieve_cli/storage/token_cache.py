"""The packed tokens of texts: those that an older generation lends, and all others from the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from retrieve_cli.contracts import Json, ModelCard
from retrieve_cli.storage.content_cache import ContentCache, Layout, Say
from retrieve_cli.storage.token_table import CARD, PackedTokens, Stretch, TokenTable

LAYOUT = Layout(".tokens", {"ids": "<i4", "codes": "|u1"})


def card_of(encoder: Mapping[str, Json]) -> Json:
    """What decides a text's packed tokens: its encoder, and how they are packed today."""
    return [dict(encoder), dict(CARD)]


class TokenCache:
    """The packed tokens of one model card. One process at a time may use it; the writer's lock sees to that."""

    def __init__(self, folder: Path, card: ModelCard, *, say: Say) -> None:
        """Touches nothing until it is asked; `say` is told of what is damaged."""
        self._cache = ContentCache(folder, card_of(asdict(card)), LAYOUT, say=say)
        self._older: TokenTable | None = None
        self._rows: Mapping[bytes, int] = {}

    def lend(self, table: TokenTable, rows: Mapping[bytes, int]) -> None:
        """Takes what an older generation has as known: its sound table, and the row of each text there."""
        self._older, self._rows = table, rows

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows or key in self._cache

    def append(self, keys: Sequence[bytes], tokens: Sequence[PackedTokens]) -> None:
        """Adds the tokens of texts, and waits until they are on the disk.

        Raises:
            OSError: there is no room; what was there stays as it was.
        """
        self._cache.append(keys, [(one.ids, one.codes) for one in tokens])

    def gather(self, keys: Sequence[bytes]) -> Iterator[Stretch]:
        """The tokens of the keys in their order; those that lie together in the older table at once.

        Raises:
            KeyError: one is not there.
        """
        cached = self._cache.entries([key for key in keys if key not in self._rows])
        at = 0
        while at < len(keys):
            row = self._rows.get(keys[at])
            end = at + 1
            if row is None or self._older is None:
                ids, codes = next(cached)
                yield Stretch(PackedTokens(ids, codes), np.array([len(ids)]))
            else:
                while end < len(keys) and self._rows.get(keys[end]) == row + end - at:
                    end += 1
                yield self._older.stretch(row, row + end - at)
            at = end
