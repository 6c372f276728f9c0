"""Rows of SHA-1 keys: digests in one array, searched without a dictionary.

Files of a content-addressed cache: their contents, and the places of keys in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.manifest import sha1

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


def as_digests(keys: Keys) -> list[bytes]:
    """Return the digests behind the keys from `as_keys`: NumPy drops the zeros at the end of a byte string."""
    return [key.ljust(KEY, b"\0") for key in keys.tolist()]


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


Say: TypeAlias = Callable[[str], None]


class CacheLayout(Frozen):
    """Structure of the entries of one kind of cache."""

    suffix: str
    """Suffix of the folders of this kind."""
    columns: Mapping[str, str]
    """Type of each array by name, such as "<i4"."""

    def place(self, folder: Path, card: Json) -> Path:
        """Return the folder of the entries for the encoder that the card describes."""
        return folder / f"{sha1(card)[:12]}{self.suffix}"

    def stored(self, keys: Sequence[bytes], entries: Sequence[Entry]) -> dict[str, Any]:
        """Return the contents of a file."""
        columns = zip(self.columns.items(), zip(*entries, strict=True), strict=True)
        return {
            "keys": np.frombuffer(b"".join(keys), np.uint8),
            "starts": np.cumsum([0, *(len(entry[0]) for entry in entries)], dtype=np.int64),
            **{name: np.concatenate(parts).astype(kind, copy=False) for (name, kind), parts in columns},
        }

    def fits(self, stored: Any) -> bool:
        """Return True if a value has the structure of a file."""
        try:
            keys, starts = stored["keys"], stored["starts"]
            columns = ((stored[name], kind) for name, kind in self.columns.items())
            matching = all(column.dtype == kind and len(column) == starts[-1] for column, kind in columns)
            whole = keys.dtype == np.uint8 and keys.shape == (KEY * (len(starts) - 1),)
            return bool(matching and whole and starts[0] == 0 and (np.diff(starts) >= 0).all())
        except (KeyError, TypeError, AttributeError, IndexError, ValueError):
            return False


@dataclass(slots=True, eq=False)
class CachePart:
    """Contents of one file."""

    path: Path
    keys: Keys
    starts: Rows
    load: Callable[[], Entry]
    """Function that reads the columns: with possibly thousands of parts, only those in use have their file open."""
    sound: bool = False
    """True if its bytes are known to be as written."""
    _columns: Entry | None = None

    @property
    def columns(self) -> Entry:
        """The columns of all entries."""
        columns = self._columns
        if columns is None:
            columns = self._columns = self.load()
            _OPEN[id(self)] = self
            if len(_OPEN) > _MOST_OPEN:
                next(iter(_OPEN.values())).release()
        return columns

    def entry(self, place: int) -> Entry:
        """Return the entry at a place."""
        own = slice(int(self.starts[place]), int(self.starts[place + 1]))
        return tuple(column[own] for column in self.columns)

    def release(self) -> None:
        """Close the file from which entries were read."""
        self._columns = None
        _OPEN.pop(id(self), None)


_MOST_OPEN = 64
_OPEN: dict[int, CachePart] = {}
"""Parts of all caches with an open file, by identity, in the order in which they were opened."""


class Level:
    """Places of the keys of some consecutive parts."""

    def __init__(self, first: int, parts: Sequence[CachePart]) -> None:
        """`first` is the number of the first of these parts."""
        self.first = first
        self.rows = KeyRows(np.concatenate([np.empty(0, KEY_TYPE), *(part.keys for part in parts)]))
        self._ends = np.cumsum([0, *(len(part.keys) for part in parts)])

    def find(self, keys: Keys) -> tuple[Rows, Rows]:
        """Return part and place of each key; part -1 for missing keys."""
        return self.split(self.rows.find(keys))

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return part and place of rows of the concatenated parts; part -1 for row -1."""
        inner = np.searchsorted(self._ends, rows, side="right") - 1
        return np.where(rows < 0, -1, self.first + inner), rows - self._ends[inner]
