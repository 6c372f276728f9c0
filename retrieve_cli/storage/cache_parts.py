"""Files of a content-addressed cache: their contents, and the places of keys in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.key_rows import KEY, KEY_TYPE, KeyRows
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.key_rows import Keys

    Entry: TypeAlias = tuple[NDArray[Any], ...]
    """Arrays of one text, in the order of the layout's columns."""

Say: TypeAlias = Callable[[str], None]


class CacheLayout(Frozen):
    """Structure of the entries of one kind of cache."""

    suffix: str
    """Suffix of the folders of this kind."""
    columns: Mapping[str, str]
    """Type of each array by name, such as "<i4"."""
    older_suffix: str = ""
    """Suffix of the files in which an earlier version stored the same entries."""
    read_older: Callable[[Path, Json, Say], Iterator[Mapping[str, NDArray[Any]]]] | None = None
    """Function that reads the intact entries of such a file, given its card."""

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
            matching = all(
                stored[name].dtype == kind and len(stored[name]) == starts[-1] for name, kind in self.columns.items()
            )
            whole = keys.dtype == np.uint8 and keys.shape == (KEY * (len(starts) - 1),)
            return bool(matching and whole and starts[0] == 0 and (np.diff(starts) >= 0).all())
        except (KeyError, TypeError, AttributeError, IndexError, ValueError):
            return False


@dataclass(slots=True, eq=False)
class CachePart:
    """Contents of one file, or of one checkpoint in an older file."""

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
