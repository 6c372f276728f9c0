"""The content-addressed cache of token vectors: SHA-1 of a text under SHA-1 of a model card -> its packed tokens.

One folder a model card, `cache/<card>.tokens/`, one file a batch, named after the SHA-1 of its bytes: one that is
damaged is not what it is called, and is left out. As with vectors.py, a killed build finds what it had, a text that
comes back is not read again, and deleting the folder costs time, never an answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli import durable, pickles
from retrieve_cli.contracts import ModelCard
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.indexes.tokens import CARD, PackedTokens, Stretch, TokenTable
from retrieve_cli.manifest import sha1, sha1_file

if TYPE_CHECKING:
    from retrieve_cli.vectors import Keys

_SUFFIX = ".tokens"
_MANY = 64
"""Files beyond which they are made one."""


class TokenCache:
    """The packed tokens of one model card. One process at a time may append; the writer's lock sees to that."""

    def __init__(self, folder: Path, card: ModelCard) -> None:
        """Touches nothing until it is asked."""
        self._folder = _place(folder, asdict(card))
        self._known: dict[bytes, tuple[Path, int]] | None = None
        self._open: dict[Path, Mapping[str, Any]] = {}
        self._older: TokenTable | None = None
        self._rows: dict[bytes, int] = {}

    def lend(self, table: TokenTable, rows: dict[bytes, int]) -> None:
        """Takes what an older generation has as known: its sound table, and the row of each text there."""
        self._older, self._rows = table, rows

    def __contains__(self, key: bytes) -> bool:
        if key in self._rows:
            return True
        place = self._places.get(key)
        return place is not None and self._sound(place[0])

    def append(self, keys: Sequence[bytes], tokens: Sequence[PackedTokens]) -> None:
        """Adds the tokens of texts, and waits until they are on the disk.

        Raises:
            OSError: there is no room; what was there stays as it was.
        """
        if not keys:
            return
        places = self._places
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f".new-{os.getpid()}"
        try:
            pickles.dump(_stored(keys, tokens), new)
            durable.sync(new)
            path = self._folder / f"{sha1_file(new)}.pkl"
            new.rename(path)
        finally:
            new.unlink(missing_ok=True)
        durable.sync(self._folder)
        places.update((key, (path, at)) for at, key in enumerate(keys))

    def gather(self, keys: Sequence[bytes]) -> Iterator[Stretch]:
        """The tokens of the keys in their order; those that lie together in the older table at once.

        Raises:
            KeyError: one is not there.
        """
        at = 0
        while at < len(keys):
            row = self._rows.get(keys[at])
            end = at + 1
            if row is None or self._older is None:
                one = self._tokens(*self._places[keys[at]])
                yield Stretch(one, np.array([len(one.ids)]))
            else:
                while end < len(keys) and self._rows.get(keys[end]) == row + end - at:
                    end += 1
                yield self._older.stretch(row, row + end - at)
            at = end

    def shrink_to(self, keys: set[bytes]) -> None:
        """Makes the files one, of these keys alone, where there are many or half of what they hold is none of them."""
        paths = {path for path, _ in self._places.values()}
        kept = [key for key in self._places if key in keys]
        if len(self._places) <= 2 * len(kept) and len(paths) <= _MANY:
            return
        kept = [key for key in kept if key in self]
        tokens = [self._tokens(*self._places[key]) for key in kept]
        self._open.clear()
        self._known = {}
        self.append(kept, tokens)
        for path in paths - {path for path, _ in self._places.values()}:
            path.unlink(missing_ok=True)

    @property
    def _places(self) -> dict[bytes, tuple[Path, int]]:
        """By key, the file that has it and its place there."""
        if self._known is None:
            self._known = {}
            for path in sorted(self._folder.glob("[0-9a-f]*.pkl")) if self._folder.is_dir() else ():
                try:
                    keys = pickles.load(path)["keys"].tobytes()
                except (IndexCorrupt, KeyError, TypeError, AttributeError):
                    continue
                self._known.update((keys[at : at + 20], (path, at // 20)) for at in range(0, len(keys), 20))
        return self._known

    def _sound(self, path: Path) -> bool:
        """Whether a file is what it is called; read to the end once, when something of it is first asked for."""
        if path not in self._open:
            if sha1_file(path) != path.stem:
                self._known = {key: place for key, place in self._places.items() if place[0] != path}
                return False
            self._open[path] = pickles.load(path)
        return True

    def _tokens(self, path: Path, at: int) -> PackedTokens:
        if not self._sound(path):
            raise KeyError(path.name)
        stored = self._open[path]
        first, end = int(stored["starts"][at]), int(stored["starts"][at + 1])
        return PackedTokens(stored["ids"][first:end], stored["codes"][first:end])


def prune(folder: Path, needed: Sequence[tuple[Mapping[str, Any], Keys]]) -> None:
    """Removes what no generation needs. `needed` has the model card and the keys of each generation that is kept."""
    import shutil

    for path in folder.glob(f"*{_SUFFIX}"):
        mine = [(card, keys) for card, keys in needed if _place(folder, card) == path]
        if not mine:
            shutil.rmtree(path, ignore_errors=True)
            continue
        for left in path.glob(".new-*"):  # of a writer that was killed; only the holder of the lock comes here
            left.unlink(missing_ok=True)
        wanted = {bytes(key).ljust(20, b"\0") for _, keys in mine for key in keys.tolist()}
        TokenCache(folder, ModelCard(**mine[0][0])).shrink_to(wanted)


def _place(folder: Path, card: Mapping[str, Any]) -> Path:
    """Where the tokens of a model card are, packed as they are packed today."""
    return folder / f"{sha1([dict(card), dict(CARD)])[:12]}{_SUFFIX}"


def _stored(keys: Sequence[bytes], tokens: Sequence[PackedTokens]) -> dict[str, Any]:
    return {
        "keys": np.frombuffer(b"".join(keys), np.uint8),
        "starts": np.cumsum([0, *(len(one.ids) for one in tokens)], dtype=np.int64),
        "ids": np.concatenate([one.ids for one in tokens]).astype(np.int32),
        "codes": np.concatenate([one.codes for one in tokens]),
    }
