"""Encodings of texts as arrays, by the SHA-1 of the text: lent by segments, in files of `cache/`, or in memory.

`cache/` holds the work of a build or sync that has not been published yet, so that it can resume after an
interruption. After a publication the segments hold everything, and the files are removed. A file holds one batch:

    keys      (20 * n,) uint8, the SHA-1 of each text
    starts    (n + 1,) int64, the start of each entry in the columns
    columns   the arrays that the kind of encoding names

A file is named after the SHA-1 of its bytes. If there is any doubt about a file, its texts count as unknown.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import durable, pickles
from retrieve_cli.storage.key_rows import KEY, KeyRows, as_keys
from retrieve_cli.storage.manifest import sha1, sha1_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.key_rows import Keys

Entry = tuple["NDArray[Any]", ...]
"""Arrays of one text, one for each column."""


class EntryKind(NamedTuple):
    """A kind of encodings."""

    suffix: str
    """Suffix of its folders in the cache."""
    columns: Mapping[str, str]
    """Type of each array by name, such as "<i4"."""


VECTORS = EntryKind(".embeddings", {"vectors": "<f4"})
TOKENS = EntryKind(".tokens", {"ids": "<i4", "codes": "|u1"})
WEIGHTS = EntryKind(".weights", {"terms": "<i4", "weights": "<f4"})
FACETS = EntryKind(".facets", {"json": "|u1"})


class Entries(NamedTuple):
    """Arrays of some texts, concatenated."""

    starts: Rows
    """(n + 1,) the start of each entry in the columns."""
    columns: Entry

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Entries:
        """Return entries, at least one, as concatenated arrays."""
        starts = np.cumsum([0, *(len(entry[0]) for entry in entries)], dtype=np.int64)
        return cls(starts, tuple(map(np.concatenate, zip(*entries, strict=True))))

    def take(self, rows: Rows) -> Entries:
        """Return the entries in some rows, in that order."""
        first, sizes = self.starts[rows], self.starts[rows + 1] - self.starts[rows]
        starts = np.append(0, np.cumsum(sizes))
        cells = np.arange(starts[-1]) + np.repeat(first - starts[:-1], sizes)
        return Entries(starts, tuple(column[cells] for column in self.columns))

    def entry(self, row: int) -> Entry:
        """Return the arrays of one text."""
        cells = slice(int(self.starts[row]), int(self.starts[row + 1]))
        return tuple(column[cells] for column in self.columns)


Read = Callable[["Rows"], Entries]
"""Function that returns the entries in some rows of a part, in that order."""


class EntryStore:
    """The entries of one kind and one model. Only one process at a time may add entries, which the writer's lock
    ensures."""

    def __init__(
        self,
        cache: Path,
        kind: EntryKind,
        card: Json,
        *,
        lent: Sequence[tuple[Keys, Read]] = (),
        say: Callable[[str], None],
    ) -> None:
        """`card` is everything that decides an entry, apart from its text. `lent` has the entries of segments."""
        self._folder = cache / f"{sha1(card)[:12]}{kind.suffix}"
        self._columns = kind.columns
        self._lent = [KeyRows(keys) for keys, _ in lent]
        self._parts: list[Read] = [read for _, read in lent]
        self._sizes = [len(rows) for rows in self._lent]
        self._keys: list[Keys] = []
        """Keys of the parts that are not lent."""
        self._rows: KeyRows | None = None
        for path in sorted(self._folder.glob("*.pkl")):
            self._open(path, say)

    def find(self, keys: Keys) -> Rows:
        """Return the row of each key, -1 for missing keys."""
        if self._rows is None:
            self._rows = KeyRows(np.concatenate([as_keys([]), *self._keys]))
        rows, first = np.full(len(keys), -1, np.int64), 0
        for part in (*self._lent, self._rows):
            left = np.flatnonzero(rows < 0)
            places = part.find(keys[left])
            rows[left] = np.where(places < 0, -1, places + first)
            first += len(part)
        return rows

    def read(self, rows: Rows) -> Entries:
        """Return the entries in some rows, in that order.

        Raises:
            KeyError: a row is -1.
            IndexCorrupt: a file is damaged.
        """
        if len(rows) and rows.min() < 0:
            raise KeyError("a text is not encoded")
        ends = np.cumsum(self._sizes)
        numbers = np.searchsorted(ends, rows, side="right")
        order = np.argsort(numbers, kind="stable")
        pieces: list[Entries] = [
            self._parts[number](rows[numbers == number] - (ends[number] - self._sizes[number]))
            for number in np.unique(numbers).tolist()
        ]
        if len(pieces) == 1:
            return pieces[0]
        sizes = [np.diff(piece.starts) for piece in pieces]
        columns = tuple(map(np.concatenate, zip(*(piece.columns for piece in pieces), strict=True)))
        return Entries(np.append(0, np.cumsum(np.concatenate(sizes))), columns).take(np.argsort(order))

    def add(self, keys: Sequence[bytes], entries: Sequence[Entry], *, stored: bool) -> None:
        """Add the entries of texts, at least one; `stored` ones are on disk after that.

        Raises:
            OSError: the disk is full.
        """
        added, batch = as_keys(keys), Entries.of(entries)
        self._add(added, partial(_of_file, self._write(added, batch)) if stored else batch.take)

    def _add(self, keys: Keys, read: Read) -> None:
        self._keys.append(keys)
        self._parts.append(read)
        self._sizes.append(len(keys))
        self._rows = None

    def _write(self, keys: Keys, entries: Entries) -> Path:
        columns = zip(self._columns.items(), entries.columns, strict=True)
        stored = {"keys": keys.view(np.uint8), "starts": entries.starts}
        stored |= {name: column.astype(dtype, copy=False) for (name, dtype), column in columns}
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f".new-{os.getpid()}"
        try:
            pickles.dump(stored, new)
            durable.sync(new)
            path = self._folder / f"{sha1_file(new)}.pkl"
            new.rename(path)
        finally:
            new.unlink(missing_ok=True)
        durable.sync(self._folder)
        return path

    def _open(self, path: Path, say: Callable[[str], None]) -> None:
        try:
            if sha1_file(path) != path.stem:
                raise ValueError("its name is not its SHA-1")
            stored = pickles.load(path)
            if [*stored] != ["keys", "starts", *self._columns]:
                raise ValueError("it has other columns")
            self._add(as_keys(stored["keys"].reshape(-1, KEY).copy()), partial(_of_file, path))
        except (IndexCorrupt, OSError, ValueError, TypeError):
            say(f"{path} is damaged: skipped; its contents are computed again")
            with suppress(OSError):
                path.unlink()


def _of_file(path: Path, rows: Rows) -> Entries:
    """Return entries of a file, which is mapped only meanwhile: there may be thousands."""
    stored = pickles.load(path)
    columns = tuple(column for name, column in stored.items() if name not in ("keys", "starts"))
    return Entries(stored["starts"], columns).take(rows)


def clear(cache: Path) -> None:
    """Remove all stored entries: a publication has made them superfluous. Files that cannot be removed stay."""
    for kind in (VECTORS, TOKENS, WEIGHTS, FACETS):
        for folder in cache.glob(f"*{kind.suffix}"):
            shutil.rmtree(folder, ignore_errors=True)
