"""Rows of SHA-1 keys: digests in one array, searched without a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Keys: TypeAlias = NDArray[np.uint8]
    """(n, 20) digests."""

KEY = 20
_FEW = 16
"""Keys that are compared with all others, which takes less time than to sort these."""


class DigestList:
    """Contiguous digests, twenty bytes each."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes) // KEY

    def extend(self, digests: Iterable[bytes]) -> None:
        """Add digests."""
        self._bytes += b"".join(digests)

    def extend_array(self, digests: Keys) -> None:
        """Add (n, 20) digests."""
        self._bytes += digests.tobytes()

    @property
    def array(self) -> Keys:
        """A copy of the digests, (n, 20)."""
        return np.frombuffer(bytes(self._bytes), np.uint8).reshape(-1, KEY)


def as_keys(digests: Sequence[bytes]) -> Keys:
    """Return digests as an array, (n, 20)."""
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, KEY)


class KeyRows:
    """Rows of keys; for equal keys, the first row."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)

    def row(self, key: bytes) -> int:
        """Return the row of a key, -1 if it is missing."""
        return int(self.find(as_keys([key]))[0])

    def find(self, keys: Keys) -> Rows:
        """Return the row of each key, -1 for missing keys."""
        if not len(self):
            return np.full(len(keys), -1, np.int64)
        wanted = heads(keys)
        if len(keys) <= _FEW:
            rows = np.array([(self._heads == head).argmax() for head in wanted], np.int64)
        else:
            order, ordered = self._ordered
            rows = order[np.minimum(np.searchsorted(ordered, wanted), len(self) - 1)]
        return np.where((self.keys[rows] == keys).all(axis=1), rows, -1)

    @cached_property
    def _heads(self) -> NDArray[np.uint64]:
        return heads(self.keys)

    @cached_property
    def _ordered(self) -> tuple[Rows, NDArray[np.uint64]]:
        order = np.argsort(self._heads, kind="stable")
        return order, self._heads[order]


def heads(keys: Keys) -> NDArray[np.uint64]:
    """Return the first eight bytes of each key as a number; a key that shares it with another one counts as missing."""
    return np.ascontiguousarray(keys[:, :8]).view(np.uint64).ravel()
