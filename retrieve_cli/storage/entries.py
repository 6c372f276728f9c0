"""Encodings of texts as arrays, by the SHA-1 of the text: lent by segments, in files of `cache/`, or in memory.

`cache/` holds the work of a build or sync that has not been published yet, so that it can resume after an
interruption. After a publication the segments hold everything, and the files are removed. A file holds one batch:

    keys      (n, 20) uint8, the SHA-1 of each text
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
from retrieve_cli.storage.key_rows import KeyRows, as_keys
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


Read = Callable[["Rows"], Sequence[Entry]]
"""Function that returns the entries in some rows of a part, in that order."""


def entries_in(starts: Rows, columns: Entry, rows: Rows) -> list[Entry]:
    """Return entries of concatenated arrays; `starts` (n + 1,) has the start of each."""
    spans = zip(starts[rows].tolist(), starts[rows + 1].tolist(), strict=True)
    return [tuple(column[start:end] for column in columns) for start, end in spans]


class EntryStore:
    """The entries of one kind and one model, in parts one behind the other. Only one process at a time may add entries,
    which the writer's lock ensures."""

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
        self._parts: list[Read] = []
        self._firsts = [0]
        """The first row of each part, then the number of rows."""
        self._keys = [as_keys([])]
        self._rows: KeyRows | None = None
        for keys, read in lent:
            self._add(keys, read)
        for path in sorted(self._folder.glob("*.pkl")):
            self._open(path, say)

    def find(self, keys: Keys) -> Rows:
        """Return the row of each key, -1 for missing keys."""
        if self._rows is None:
            self._rows = KeyRows(np.concatenate(self._keys))
            self._keys = [self._rows.keys]
        return self._rows.find(keys)

    def read(self, rows: Rows) -> list[Entry]:
        """Return the entries in some rows, in that order.

        Raises:
            KeyError: a row is -1.
            IndexCorrupt: a file is damaged.
        """
        if len(rows) and rows.min() < 0:
            raise KeyError("a text is not encoded")
        numbers = np.searchsorted(self._firsts, rows, side="right") - 1
        entries: list[Entry] = [()] * len(rows)
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            read = self._parts[number](rows[places] - self._firsts[number])
            for place, entry in zip(places.tolist(), read, strict=True):
                entries[place] = entry
        return entries

    def add(self, keys: Sequence[bytes], entries: Sequence[Entry], *, stored: bool) -> None:
        """Add the entries of texts, at least one; `stored` ones are on disk after that.

        Raises:
            OSError: the disk is full.
        """
        if stored:
            self._add(as_keys(keys), partial(_of_file, self._write(as_keys(keys), entries)))
        else:
            self._add(as_keys(keys), lambda rows: [entries[row] for row in rows])

    def _add(self, keys: Keys, read: Read) -> None:
        self._keys.append(keys)
        self._parts.append(read)
        self._firsts.append(self._firsts[-1] + len(keys))
        self._rows = None

    def _write(self, keys: Keys, entries: Sequence[Entry]) -> Path:
        starts = np.cumsum([0, *(len(entry[0]) for entry in entries)], dtype=np.int64)
        stored = {"keys": keys, "starts": starts}
        for (name, dtype), arrays in zip(self._columns.items(), zip(*entries, strict=True), strict=True):
            stored[name] = np.concatenate(arrays).astype(dtype, copy=False)
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
            self._add(stored["keys"].copy(), partial(_of_file, path))
        except (IndexCorrupt, OSError, ValueError):
            say(f"{path} is damaged: skipped; its contents are computed again")
            with suppress(OSError):
                path.unlink()


def _of_file(path: Path, rows: Rows) -> list[Entry]:
    """Return entries of a file, which is mapped only meanwhile: there may be thousands."""
    stored = pickles.load(path)
    columns = tuple(column for name, column in stored.items() if name not in ("keys", "starts"))
    return entries_in(stored["starts"], columns, rows)


def clear(cache: Path) -> None:
    """Remove all stored entries: a publication has made them superfluous. Files that cannot be removed stay."""
    for kind in (VECTORS, TOKENS, WEIGHTS, FACETS):
        for folder in cache.glob(f"*{kind.suffix}"):
            shutil.rmtree(folder, ignore_errors=True)
