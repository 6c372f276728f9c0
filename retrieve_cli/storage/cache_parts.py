"""The files of a content-addressed cache: what they hold, and where in them a key is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.storage.key_rows import KEY, KEY_TYPE, KeyRows
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.key_rows import Keys

    Entry: TypeAlias = tuple[NDArray[Any], ...]
    """The arrays of a text, in the order of the layout's columns."""

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Layout:
    """What is kept of a text."""

    suffix: str
    """Of the folders of this kind."""
    columns: Mapping[str, str]
    """By name, the type of an array: "<i4"."""
    older_suffix: str = ""
    """Of the files in which an earlier version kept the same."""
    read_older: Callable[[Path, Json, Say], Iterator[Mapping[str, NDArray[Any]]]] | None = None
    """Reads what is sound in such a file, given its card."""

    def place(self, folder: Path, card: Json) -> Path:
        """Return where the entries are that were made by what the card describes."""
        return folder / f"{sha1(card)[:12]}{self.suffix}"

    def stored(self, keys: Sequence[bytes], entries: Sequence[Entry]) -> dict[str, Any]:
        """Return what a file holds."""
        columns = zip(self.columns.items(), zip(*entries, strict=True), strict=True)
        return {
            "keys": np.frombuffer(b"".join(keys), np.uint8),
            "starts": np.cumsum([0, *(len(entry[0]) for entry in entries)], dtype=np.int64),
            **{name: np.concatenate(parts).astype(kind, copy=False) for (name, kind), parts in columns},
        }

    def fits(self, stored: Any) -> bool:
        """Return True if this is what a file holds."""
        try:
            keys, starts = stored["keys"], stored["starts"]
            alike = all(
                stored[name].dtype == kind and len(stored[name]) == starts[-1] for name, kind in self.columns.items()
            )
            whole = keys.dtype == np.uint8 and keys.shape == (KEY * (len(starts) - 1),)
            return bool(alike and whole and starts[0] == 0 and (np.diff(starts) >= 0).all())
        except (KeyError, TypeError, AttributeError, IndexError, ValueError):
            return False


@dataclass(slots=True, eq=False)
class Part:
    """What a file holds, or a checkpoint of an older one."""

    path: Path
    keys: Keys
    starts: Rows
    load: Callable[[], Entry]
    """Reads its columns: a part has no file open but while it is looked at, for there may be thousands."""
    sound: bool = False
    """Whether its bytes are known to be those that were written."""
    _columns: Entry | None = None

    @property
    def columns(self) -> Entry:
        """What it has of all entries."""
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
        """Let go of the file in which entries were read."""
        self._columns = None
        _OPEN.pop(id(self), None)


_MOST_OPEN = 64
_OPEN: dict[int, Part] = {}
"""Parts of all caches that have their file open, by identity, in the order in which they were opened."""


class Level:
    """Where the keys of some parts in a row are."""

    def __init__(self, first: int, parts: Sequence[Part]) -> None:
        """`first` is the number of the first of these parts."""
        self.first = first
        self.rows = KeyRows(np.concatenate([np.empty(0, KEY_TYPE), *(part.keys for part in parts)]))
        self._ends = np.cumsum([0, *(len(part.keys) for part in parts)])

    def find(self, keys: Keys) -> tuple[Rows, Rows]:
        """Return part and place of each key; part -1 if it is not there."""
        return self.split(self.rows.find(keys))

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return part and place of rows of the parts put together; part -1 for row -1."""
        inner = np.searchsorted(self._ends, rows, side="right") - 1
        return np.where(rows < 0, -1, self.first + inner), rows - self._ends[inner]
