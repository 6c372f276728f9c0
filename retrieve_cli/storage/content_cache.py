"""Content-addressed cache: from the SHA-1 of a text, under the SHA-1 of the encoder's card, to the arrays of its entry.

Vectors, packed tokens and term weights are cached in the same way. There is one folder per card and one file per batch,
named after the SHA-1 of its bytes. An interrupted build resumes with its cached entries, and a repeated text is not
encoded again. A file that does not match its name is skipped, with a notice. Deleting the folder costs time, never an
answer.

A card describes the model and its settings, not the processor: their last bits may differ from what this processor
would compute. An index is a function of its entries, and `sync` uses the same ones as `build`.

    keys      (20 * n,) uint8, the SHA-1 of each text
    starts    (n + 1,) int64, the start of each entry in the columns
    columns   the arrays that the layout names
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import durable, pickles
from retrieve_cli.storage.key_rows import KEY_TYPE, CacheLayout, CachePart, KeyRows, Level, Say, as_digests, as_keys
from retrieve_cli.storage.manifest import sha1_file

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.key_rows import Entry, Keys

_MANY, _BLOCK = 64, 16_384
"""Number of files from which on they are combined, and number of entries in each combined file."""


class ContentCache:
    """The entries of one card. Only one process at a time may write, which the writer's lock ensures."""

    def __init__(self, folder: Path, card: Json, layout: CacheLayout, *, say: Say) -> None:
        """Open nothing until the first use; damaged files are reported then."""
        self._folder = layout.place(folder, card)
        self._card = card
        self._layout = layout
        self._say = say
        self._loaded: list[CachePart] | None = None
        self._levels: list[Level] | None = None
        """Levels of parts; each is at least twice as large as the next, so that both appending and looking up are fast.
        """
        self._damaged: set[Path] = set()

    @property
    def begun(self) -> bool:
        """True if any entry was ever stored."""
        return self._folder.is_dir()

    def __contains__(self, key: bytes) -> bool:
        return bool(self._find_sound(as_keys([key]))[0][0] >= 0)

    def __getitem__(self, key: bytes) -> Entry:
        """Return the entry of a key. Raises: KeyError: it is missing."""
        return next(self.entries([key]))

    def entries(self, keys: Sequence[bytes]) -> Iterator[Entry]:
        """Yield the entries of the keys in their order. Raises: KeyError: one is missing."""
        if not keys:
            return
        parts, numbers, places = self.locate(as_keys(keys))
        for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
            yield parts[number].entry(place)

    def locate(self, keys: Keys) -> tuple[Sequence[CachePart], Rows, Rows]:
        """Return all parts, and for each key its part and its place there. Raises: KeyError: one is missing."""
        numbers, places = self._find_sound(keys)
        if len(numbers) and numbers.min() < 0:
            raise KeyError(keys[int(numbers.argmin())].hex())
        return self._parts, numbers, places

    def lacks(self, keys: Keys) -> Rows:
        """Return the places of the missing keys."""
        return np.flatnonzero(self._find_sound(keys)[0] < 0)

    def unlisted(self, keys: Keys) -> Rows:
        """Return the places of the keys that no file lists, without checking the files."""
        return np.flatnonzero(self._find(keys)[0] < 0)

    def append(
        self, keys: Sequence[bytes], entries: Sequence[Entry], *, instead_of: Iterable[Path] = ()
    ) -> Path | None:
        """Add the entries of texts, wait until they are on disk, and return the file; None without texts. Files where
        they were put aside before are removed then.

        Raises:
            OSError: the disk is full; existing files stay unchanged.
        """
        if not keys:
            return None
        path = self.put_aside(keys, entries)
        part = self._read(path, sound=True)
        if part is None:
            raise ValueError("the written file does not fit the layout")
        levels, parts = self._all_levels, self._parts
        parts.append(part)
        first = len(parts) - 1
        size = len(part.keys)
        while levels and len(levels[-1].rows) < 2 * size:
            size += len(levels[-1].rows)
            first = levels.pop().first
        levels.append(Level(first, parts[first:]))
        for file in set(instead_of) - {path}:
            file.unlink(missing_ok=True)
        return path

    def put_aside(self, keys: Sequence[bytes], entries: Sequence[Entry]) -> Path:
        """Write entries into a file that only the next process knows, and return it: part of a batch under way, which
        outlives an interruption and is replaced when the batch is complete.

        Raises:
            OSError: the disk is full; existing files are unchanged.
        """
        self.sweep()
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
        return path

    def shrink_to(self, wanted: Sequence[Keys]) -> None:
        """Rewrite the files with only these keys if there are many files, or if half of the entries have other keys."""
        index, old = Level(0, self._parts), {part.path for part in self._parts}
        kept = _rows_of(index.rows, wanted)
        if index.rows.distinct() <= 2 * len(kept) and len(old) <= _MANY + len(kept) // _BLOCK:
            return
        self._find_sound(index.rows.keys[kept])
        index = Level(0, self._parts)
        kept, parts, new = _rows_of(index.rows, wanted), list(self._parts), set()
        for start in range(0, len(kept), _BLOCK):
            rows = kept[start : start + _BLOCK]
            numbers, places = index.split(rows)
            pairs = zip(numbers.tolist(), places.tolist(), strict=True)
            entries = [parts[number].entry(place) for number, place in pairs]
            new.add(self.append(as_digests(index.rows.keys[rows]), entries))
            for number in np.unique(numbers):
                parts[number].release()
        for path in old - new:
            path.unlink(missing_ok=True)
        self._loaded, self._levels = None, None

    def sweep(self) -> None:
        """Remove partial files of interrupted writers, and damaged files."""
        _ = self._parts  # detects damaged files
        for path in (*self._folder.glob(".new-*"), *self._damaged):
            with suppress(OSError):
                path.unlink()
        self._damaged = set()

    @property
    def _parts(self) -> list[CachePart]:
        if self._loaded is not None:
            return self._loaded
        parts = self._loaded = []
        if self._folder.is_file():
            self._skip(self._folder)
        for path in sorted(self._folder.glob("[0-9a-f]*.pkl")):
            part = None
            with suppress(IndexCorrupt, OSError):
                part = self._read(path)
            if part is not None:
                parts.append(part)
            else:
                self._skip(path)
        return parts

    def _read(self, path: Path, *, sound: bool = False) -> CachePart | None:
        """Return the contents of a file; None if it has another structure. Raises: IndexCorrupt."""
        stored = pickles.load(path)
        if not self._layout.fits(stored):
            return None
        keys, starts = stored["keys"].copy(), stored["starts"].copy()
        return CachePart(path, keys.view(KEY_TYPE), starts, lambda: self._columns_of(pickles.load(path)), sound)

    def _columns_of(self, stored: Any) -> Entry:
        return tuple(stored[name] for name in self._layout.columns)

    @property
    def _all_levels(self) -> list[Level]:
        if self._levels is None:
            self._levels = [Level(0, self._parts)] if self._parts else []
        return self._levels

    def _find(self, keys: Keys) -> tuple[Rows, Rows]:
        """Return part and place of each key; part -1 for missing keys."""
        numbers, places = np.full(len(keys), -1), np.zeros(len(keys), np.int64)
        left = np.arange(len(keys))
        for level in self._all_levels:
            numbers[left], places[left] = level.find(keys[left])
            left = left[numbers[left] < 0]
        return numbers, places

    def _find_sound(self, keys: Keys) -> tuple[Rows, Rows]:
        """Return the same, for intact files only; each file is read completely once, at its first use."""
        while True:
            numbers, places = self._find(keys)
            used = set(np.unique(numbers).tolist()) - {-1}
            damaged = [number for number in used if not self._is_sound(self._parts[number])]
            if not damaged:
                return numbers, places
            for part in [self._parts[number] for number in damaged]:
                self._skip(part.path)
                self._parts.remove(part)
            self._levels = None

    def _is_sound(self, part: CachePart) -> bool:
        if not part.sound:
            with suppress(OSError):
                part.sound = sha1_file(part.path) == part.path.stem
        return part.sound

    def _skip(self, path: Path) -> None:
        self._say(f"{path} is damaged: skipped; its contents are computed again")
        self._damaged.add(path)


def prune(folder: Path, layout: CacheLayout, needed: Sequence[tuple[Json, Keys]], *, say: Say) -> None:
    """Remove entries that no generation needs. `needed` has the card and the keys of each stored generation."""
    wanted: dict[str, list[tuple[Json, Keys]]] = {}
    for card, keys in needed:
        wanted.setdefault(layout.place(folder, card).stem, []).append((card, keys))
    for path in folder.glob(f"*{layout.suffix}"):
        if path.stem not in wanted:
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
    for cards in wanted.values():
        cache = ContentCache(folder, cards[0][0], layout, say=say)
        cache.sweep()
        cache.shrink_to([keys for _, keys in cards])


def _rows_of(index: KeyRows, wanted: Sequence[Keys]) -> Rows:
    flags = np.zeros(len(index), np.bool_)
    last = np.empty(0, KEY_TYPE)
    for keys in wanted:
        rows = index.find(_differing(keys, last))
        flags[rows[rows >= 0]] = True
        last = keys
    return np.flatnonzero(flags)


def _differing(keys: Keys, last: Keys) -> Keys:
    """Return the keys without those at both ends that equal the last ones: generations are much alike."""
    both = min(len(keys), len(last))
    first = int(np.append(keys[:both] != last[:both], True).argmax())
    both -= first
    end = int(np.append(keys[len(keys) - both :][::-1] != last[len(last) - both :][::-1], True).argmax())
    return keys[first : len(keys) - end]
