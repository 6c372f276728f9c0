"""Rows of SHA-1 keys: digests in one array, searched without a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Keys: TypeAlias = NDArray[np.bytes_]
    """(n,) 20-byte strings."""
    Entry: TypeAlias = tuple[NDArray[Any], ...]
    """Arrays of one text, in the order of the layout's columns."""

KEY = 20
KEY_TYPE = f"S{KEY}"
_FEW = 64
"""Number of look-ups that compare a key with all others, before these are sorted."""


class DigestList(Sequence[bytes]):
    """Contiguous digests, twenty bytes each."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes) // KEY

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        start = KEY * range(len(self))[place]
        return bytes(self._bytes[start : start + KEY])

    def append(self, digest: bytes) -> None:
        """Add a digest."""
        self._bytes += digest

    def extend(self, digests: NDArray[np.uint8]) -> None:
        """Add (n, 20) digests."""
        self._bytes += digests.tobytes()

    @property
    def array(self) -> NDArray[np.uint8]:
        """A copy of the digests, (n, 20)."""
        return np.frombuffer(bytes(self._bytes), np.uint8).reshape(-1, KEY)


def as_keys(digests: Sequence[bytes] | NDArray[np.uint8]) -> Keys:
    """Return digests, or their (n, 20) bytes, as an array that can be sorted and searched."""
    if isinstance(digests, DigestList):
        digests = digests.array
    if isinstance(digests, np.ndarray):
        return np.ascontiguousarray(digests).view(KEY_TYPE).reshape(-1)
    return np.frombuffer(b"".join(digests), KEY_TYPE)


class KeyRows:
    """Rows of keys; for equal keys, the first row."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._heads = _heads(keys)
        self._looked_up = 0

    def __len__(self) -> int:
        return len(self.keys)

    def row(self, key: bytes) -> int:
        """Return the row of a key, -1 if it is missing."""
        return int(self.find(as_keys([key]))[0])

    def find(self, keys: Keys) -> Rows:
        """Return the row of each key, -1 for missing keys."""
        self._looked_up += len(keys)
        if self._looked_up <= _FEW:
            return np.array([self._scan(key, head) for key, head in zip(keys, _heads(keys), strict=True)], np.int64)
        heads, order = self._ordered
        rows, wanted = np.full(len(keys), -1, np.int64), _heads(keys)
        places, left = np.searchsorted(heads, wanted), np.arange(len(keys))
        while len(left):  # one pass, unless different keys have the same head
            left = left[places[left] < len(heads)]
            left = left[heads[places[left]] == wanted[left]]
            candidates = order[places[left]]
            same = self.keys[candidates] == keys[left]
            rows[left[same]] = candidates[same]
            left = left[~same]
            places[left] += 1
        return rows

    def distinct(self) -> int:
        """Return the number of different keys; keys with the same head count once."""
        heads = self._ordered[0]
        return int(np.count_nonzero(heads[1:] != heads[:-1])) + bool(len(heads))

    def _scan(self, key: bytes, head: np.uint64) -> int:
        rows = np.flatnonzero(self._heads == head)
        rows = rows[self.keys[rows] == key]
        return int(rows[0]) if len(rows) else -1

    @cached_property
    def _ordered(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        order = np.argsort(self._heads, kind="stable").astype(np.int32)
        return self._heads[order], order


def _heads(keys: Keys) -> NDArray[np.uint64]:
    """Return the first 64 bits of each key, which are as random as the rest."""
    heads = np.ascontiguousarray(keys).view(np.uint8).reshape(-1, KEY)[:, :8]
    return np.ascontiguousarray(heads).view(np.uint64).reshape(-1)
