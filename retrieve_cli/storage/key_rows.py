"""Rows of SHA-1 keys: digests in one array, searched without a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Keys: TypeAlias = NDArray[np.bytes_]
    """(n,) 20-byte strings."""

KEY = 20
_FEW = 16
"""Number of look-ups that compare a key with all others, before these are sorted: a sync needs few."""


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
            return [self[index] for index in range(len(self))[place]]
        start = KEY * range(len(self))[place]
        return bytes(self._bytes[start : start + KEY])

    def extend(self, digests: Iterable[bytes]) -> None:
        """Add digests."""
        self._bytes += b"".join(digests)

    def extend_array(self, digests: NDArray[np.uint8]) -> None:
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
    if not isinstance(digests, np.ndarray):
        return np.frombuffer(b"".join(digests), f"S{KEY}")
    return np.ascontiguousarray(digests).view(f"S{KEY}").reshape(-1)


class KeyRows:
    """Rows of keys; for equal keys, the first row."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
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
            rows = [np.flatnonzero(self.keys == key) for key in keys]
            return np.array([row[0] if len(row) else -1 for row in rows], np.int64)
        if not len(self):
            return np.full(len(keys), -1, np.int64)
        order, ordered = self._ordered
        places = np.minimum(np.searchsorted(ordered, keys), len(self) - 1)
        return np.where(ordered[places] == keys, order[places], -1)

    @cached_property
    def _ordered(self) -> tuple[Rows, Keys]:
        order = np.argsort(self.keys, kind="stable")
        return order, self.keys[order]
