"""The content-addressed cache: SHA-1 of a text under SHA-1 of the card of what encoded it -> the arrays of its entry.

Vectors, packed tokens and term weights are kept alike. One folder a card, one file a batch, named after the SHA-1 of
its bytes: a build that is killed finds what it had, a text that comes back is not encoded again, and a file that is not
what it is called is skipped, which is said. Deleting the folder costs time, never an answer.

A card says what the numbers are, not which processor computed them: they may differ in their last bits from what this
one would compute. An index is a function of the entries it was given, and `sync` gives the same ones as `build`.

    keys      (20 * n,) uint8, the SHA-1 of each text
    starts    (n + 1,) int64, where each entry begins in the columns
    columns   what the layout names
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import durable, pickles
from retrieve_cli.storage.manifest import sha1, sha1_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Keys = NDArray[np.bytes_]
    """(n,) 20-byte strings."""
    Entry: TypeAlias = tuple[NDArray[Any], ...]
    """The arrays of a text, in the order of the layout's columns."""

Say: TypeAlias = Callable[[str], None]

KEY = 20
_KEY_TYPE = f"S{KEY}"
_MANY, _BLOCK = 64, 16_384
"""Files beyond which they are made fewer, and entries of each that is then written."""


def as_keys(digests: Sequence[bytes] | NDArray[np.uint8]) -> Keys:
    """Return digests, or their (n, 20) bytes, as an array that can be sorted and searched."""
    if isinstance(digests, np.ndarray):
        return np.ascontiguousarray(digests).view(_KEY_TYPE).reshape(-1)
    return np.frombuffer(b"".join(digests), _KEY_TYPE)


def as_digests(keys: Keys) -> list[bytes]:
    """Return the digests that `as_keys` was given: NumPy drops the zeros at the end of a byte string."""
    return [key.ljust(KEY, b"\0") for key in keys.tolist()]


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
    columns: Entry
    sound: bool = False
    """Whether its bytes are known to be those that were written."""

    def entry(self, place: int) -> Entry:
        """Return the entry at a place."""
        own = slice(int(self.starts[place]), int(self.starts[place + 1]))
        return tuple(column[own] for column in self.columns)


class ContentCache:
    """The entries of one card. One process at a time may write; the writer's lock sees to that."""

    def __init__(self, folder: Path, card: Json, layout: Layout, *, say: Say) -> None:
        """Touches nothing until it is asked; `say` is told of what is damaged."""
        self._folder = layout.place(folder, card)
        self._card = card
        self._layout = layout
        self._say = say
        self._loaded: list[Part] | None = None
        self._sorted: tuple[Keys, Rows, Rows] | None = None
        """All keys in order, and the part and the place of each."""
        self._recent: set[bytes] = set()
        """Keys that were appended since then."""
        self._damaged: set[Path] = set()

    def __contains__(self, key: bytes) -> bool:
        return key in self._recent or bool(self._find_sound(as_keys([key]))[0][0] >= 0)

    def __getitem__(self, key: bytes) -> Entry:
        """Raises: KeyError: it is not there."""
        return next(self.entries([key]))

    def entries(self, keys: Sequence[bytes]) -> Iterator[Entry]:
        """Yield the entries of the keys in their order. Raises: KeyError: one is not there."""
        if not keys:
            return
        parts, numbers, places = self.locate(as_keys(keys))
        for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
            yield parts[number].entry(place)

    def locate(self, keys: Keys) -> tuple[Sequence[Part], Rows, Rows]:
        """Return all parts, and by key the number of its part and its place there. Raises: KeyError: one is absent."""
        self._sort()
        numbers, places = self._find_sound(keys)
        if len(numbers) and numbers.min() < 0:
            raise KeyError(keys[int(numbers.argmin())].hex())
        return self._parts, numbers, places

    def lacks(self, keys: Keys) -> Rows:
        """Return the places of the keys that are not there."""
        self._sort()
        return np.flatnonzero(self._find_sound(keys)[0] < 0)

    def append(self, keys: Sequence[bytes], entries: Sequence[Entry]) -> Path | None:
        """Add the entries of texts, wait until they are on the disk, and return the file; none for no text.

        Raises:
            OSError: there is no room; what was there stays as it was.
        """
        if not keys:
            return None
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
        self._parts.append(self._part(path, pickles.load(path), sound=True))
        self._recent.update(keys)
        return path

    def shrink_to(self, keys: Keys) -> None:
        """Rewrite the files with these keys alone if there are many, or if half of what they hold is none of them."""
        self._sort()
        kept = np.unique(keys)
        kept = kept[self._find(kept)[0] >= 0]
        old = {part.path for part in self._parts}
        if len(np.unique(self._index[0])) <= 2 * len(kept) and len(old) <= _MANY + len(kept) // _BLOCK:
            return
        kept = kept[self._find_sound(kept)[0] >= 0]
        parts, numbers, places = self.locate(kept)
        digests, new = as_digests(kept), set()
        for start in range(0, len(kept), _BLOCK):
            block = slice(start, start + _BLOCK)
            found = zip(numbers[block].tolist(), places[block].tolist(), strict=True)
            new.add(self.append(digests[block], [parts[number].entry(place) for number, place in found]))
        for path in old - new:
            path.unlink(missing_ok=True)
        self._loaded, self._sorted, self._recent = None, None, set()

    def sweep(self) -> None:
        """Remove what a writer that was killed left half-written, and what is damaged."""
        _ = self._parts  # finds what is damaged
        for path in (*self._folder.glob(".new-*"), *self._damaged):
            with suppress(OSError):
                path.unlink()
        self._damaged = set()

    @property
    def _parts(self) -> list[Part]:
        if self._loaded is None:
            self._loaded = []
            self._load(self._loaded)
        return self._loaded

    def _load(self, parts: list[Part]) -> None:
        if self._folder.is_file():
            self._skip(self._folder)
        for path in sorted(self._folder.glob("[0-9a-f]*.pkl")):
            try:
                stored = pickles.load(path)
            except IndexCorrupt:
                stored = None
            if self._layout.fits(stored):
                parts.append(self._part(path, stored))
            else:
                self._skip(path)
        if (read := self._layout.read_older) is not None:
            path = self._folder.with_suffix(self._layout.older_suffix)
            parts.extend(self._part(path, stored, sound=True) for stored in read(path, self._card, self._say))

    def _part(self, path: Path, stored: Any, *, sound: bool = False) -> Part:
        columns = tuple(stored[name] for name in self._layout.columns)
        return Part(path, stored["keys"].view(_KEY_TYPE), stored["starts"], columns, sound)

    @property
    def _index(self) -> tuple[Keys, Rows, Rows]:
        if self._sorted is None:
            sizes = [len(part.keys) for part in self._parts]
            joined = np.concatenate([np.empty(0, _KEY_TYPE), *(part.keys for part in self._parts)])
            places = np.concatenate([np.empty(0, np.int64), *(np.arange(size) for size in sizes)])
            order = np.argsort(joined, kind="stable")
            self._sorted = joined[order], np.repeat(np.arange(len(sizes)), sizes)[order], places[order]
        return self._sorted

    def _sort(self) -> None:
        """Take in what was appended since the keys were last put in order."""
        if self._recent:
            self._sorted, self._recent = None, set()

    def _find(self, keys: Keys) -> tuple[Rows, Rows]:
        """Return part and place of each key; part -1 if it is not there, or was appended since the last `_sort`."""
        known, parts, places = self._index
        if not len(known):
            return np.full(len(keys), -1), np.zeros(len(keys), np.int64)
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[at] == keys, parts[at], -1), places[at]

    def _find_sound(self, keys: Keys) -> tuple[Rows, Rows]:
        """The same among files that are what they are called; each is read to the end once, when it is first needed."""
        while True:
            found = self._find(keys)
            wrong = [number for number in set(found[0].tolist()) - {-1} if not self._is_sound(self._parts[number])]
            if not wrong:
                return found
            for part in [self._parts[number] for number in wrong]:
                self._skip(part.path)
                self._parts.remove(part)
            self._sorted, self._recent = None, set()

    def _is_sound(self, part: Part) -> bool:
        if not part.sound:
            with suppress(OSError):
                part.sound = sha1_file(part.path) == part.path.stem
        return part.sound

    def _skip(self, path: Path) -> None:
        self._say(f"{path} is damaged and left out: what it held is computed again")
        self._damaged.add(path)


def prune(folder: Path, layout: Layout, needed: Sequence[tuple[Json, Keys]], *, say: Say) -> None:
    """Remove what no generation needs. `needed` has the card and the keys of each generation that is kept."""
    wanted: dict[str, list[tuple[Json, Keys]]] = {}
    for card, keys in needed:
        wanted.setdefault(layout.place(folder, card).stem, []).append((card, keys))
    for suffix in filter(None, (layout.suffix, layout.older_suffix)):
        for path in folder.glob(f"*{suffix}"):
            if path.stem not in wanted:
                shutil.rmtree(path, ignore_errors=True)
                path.unlink(missing_ok=True)
    for cards in wanted.values():
        cache = ContentCache(folder, cards[0][0], layout, say=say)
        cache.sweep()
        cache.shrink_to(np.concatenate([keys for _, keys in cards]))
