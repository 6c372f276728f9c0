"""The content-addressed cache of what is longer for one text than for another: its tokens, its term weights.

SHA-1 of a text under SHA-1 of the card of what made it -> an entry: some arrays of one length. One folder a card, one
file a batch, named after the SHA-1 of its bytes: one that is damaged is not what it is called, and is removed, which is
said. As with vector_cache.py, a killed build finds what it had, a text that comes back is not encoded again, and
deleting the folder costs time, never an answer.

    keys      (20 * n,) uint8, the SHA-1 of each text
    starts    (n + 1,) int64, where each entry begins in the columns
    columns   what the layout names
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import durable, pickles
from retrieve_cli.storage.manifest import sha1, sha1_file
from retrieve_cli.storage.vector_cache import KEY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.storage.vector_cache import Keys

    Entry: TypeAlias = tuple[NDArray[Any], ...]
    """The arrays of a text, in the order of the layout's columns."""

_MANY = 64
"""Files beyond which they are made one."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What is kept of a text."""

    suffix: str
    """Of the folders of this kind."""
    columns: Mapping[str, str]
    """By name, the type of an array: "<i4"."""

    def place(self, folder: Path, card: Json) -> Path:
        """Where the entries are that were made by what the card describes."""
        return folder / f"{sha1(card)[:12]}{self.suffix}"

    def stored(self, keys: Sequence[bytes], entries: Sequence[Entry]) -> dict[str, Any]:
        """What a file holds."""
        columns = zip(self.columns.items(), zip(*entries, strict=True), strict=True)
        return {
            "keys": np.frombuffer(b"".join(keys), np.uint8),
            "starts": np.cumsum([0, *(len(entry[0]) for entry in entries)], dtype=np.int64),
            **{name: np.concatenate(parts).astype(kind, copy=False) for (name, kind), parts in columns},
        }

    def fits(self, stored: Any) -> bool:
        """Whether this is what a file holds."""
        try:
            keys, starts = stored["keys"], stored["starts"]
            alike = all(
                stored[name].dtype == kind and len(stored[name]) == starts[-1] for name, kind in self.columns.items()
            )
            whole = keys.dtype == np.uint8 and keys.shape == (KEY * (len(starts) - 1),)
            return bool(alike and whole and starts[0] == 0 and (np.diff(starts) >= 0).all())
        except (KeyError, TypeError, AttributeError, IndexError, ValueError):
            return False


class RaggedCache:
    """The entries of one card. One process at a time may use it; the writer's lock sees to that."""

    def __init__(self, folder: Path, card: Json, layout: Layout, *, say: Callable[[str], None]) -> None:
        """Touches nothing until it is asked; `say` is told of what is damaged."""
        self._folder = layout.place(folder, card)
        self._layout = layout
        self._say = say
        self._files: dict[Path, Mapping[str, Any]] = {}
        self._known: dict[bytes, tuple[Path, int]] | None = None
        self._sound: set[Path] = set()

    def __contains__(self, key: bytes) -> bool:
        place = self._places.get(key)
        return place is not None and self._is_sound(place[0])

    def __getitem__(self, key: bytes) -> Entry:
        """Raises: KeyError where it is not there."""
        if key not in self:
            raise KeyError(key.hex())
        path, at = self._places[key]
        stored = self._files[path]
        own = slice(int(stored["starts"][at]), int(stored["starts"][at + 1]))
        return tuple(stored[name][own] for name in self._layout.columns)

    def append(self, keys: Sequence[bytes], entries: Sequence[Entry]) -> None:
        """Adds the entries of texts, and waits until they are on the disk.

        Raises:
            OSError: there is no room; what was there stays as it was.
        """
        if not keys:
            return
        places = self._places
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f".new-{os.getpid()}"
        try:
            pickles.dump(self._layout.stored(keys, entries), new)
            durable.sync(new)
            path = self._folder / f"{sha1_file(new)}.pkl"
            new.rename(path)
        finally:
            new.unlink(missing_ok=True)
        durable.sync(self._folder)
        self._files[path] = pickles.load(path)
        self._sound.add(path)
        places.update((key, (path, at)) for at, key in enumerate(keys))

    def shrink_to(self, keys: set[bytes]) -> None:
        """Makes the files one, of these keys alone, where there are many or half of what they hold is none of them."""
        kept = [key for key in self._places if key in keys]
        old = set(self._files)
        if len(self._places) <= 2 * len(kept) and len(old) <= _MANY:
            return
        kept = [key for key in kept if key in self]
        entries = [self[key] for key in kept]
        self._files, self._known, self._sound = {}, {}, set()
        self.append(kept, entries)
        for path in old - set(self._files):
            path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Removes what a writer that was killed left half-written."""
        for left in self._folder.glob(".new-*"):
            left.unlink(missing_ok=True)

    @property
    def _places(self) -> dict[bytes, tuple[Path, int]]:
        """By key, the file that has it and its place there."""
        if self._known is None:
            self._known = {}
            if self._folder.is_file():
                self._discard(self._folder)
            for path in sorted(self._folder.glob("[0-9a-f]*.pkl")):
                try:
                    stored = pickles.load(path)
                except IndexCorrupt:
                    stored = None
                if not self._layout.fits(stored):
                    self._discard(path)
                    continue
                self._files[path] = stored
                keys = stored["keys"].tobytes()
                self._known.update((keys[at : at + KEY], (path, at // KEY)) for at in range(0, len(keys), KEY))
        return self._known

    def _is_sound(self, path: Path) -> bool:
        """Whether a file is what it is called; read to the end once, when something of it is first asked for."""
        if path in self._sound:
            return True
        with suppress(OSError):
            if sha1_file(path) == path.stem:
                self._sound.add(path)
                return True
        self._discard(path)
        return False

    def _discard(self, path: Path) -> None:
        self._say(f"{path} is damaged and left out: what it held is computed again")
        with suppress(OSError):
            path.unlink()
        self._files.pop(path, None)
        self._known = {key: place for key, place in (self._known or {}).items() if place[0] != path}


def prune(folder: Path, layout: Layout, needed: Sequence[tuple[Json, Keys]], *, say: Callable[[str], None]) -> None:
    """Removes what no generation needs. `needed` has the card and the keys of each generation that is kept."""
    import shutil

    wanted: dict[Path, set[bytes]] = {}
    cards: dict[Path, Json] = {}
    for card, keys in needed:
        path = layout.place(folder, card)
        cards[path] = card
        wanted.setdefault(path, set()).update(bytes(key).ljust(KEY, b"\0") for key in keys.tolist())
    for path in folder.glob(f"*{layout.suffix}"):
        if path not in wanted:
            shutil.rmtree(path, ignore_errors=True)
            continue
        cache = RaggedCache(folder, cards[path], layout, say=say)
        cache.sweep()
        cache.shrink_to(wanted[path])
