"""The records of a build or sync: rows of the current generation that stay, and others by id and content.

Rows of the current generation that a sync keeps: records with an unchanged source and recipe.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.frozen import Frozen
from retrieve_cli.ingest.cached_source import ItemBatch, ReadAhead
from retrieve_cli.ingest.changes import Changes, ChunkChanges
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.key_rows import KEY, DigestList
from retrieve_cli.storage.vocabulary import TextNumbers, TextRows, Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows


class Contents(Frozen, eq=False):
    """Ids of records, the SHA-1 of the content of each, and the texts of their chunks."""

    ids: Vocabulary
    digests: NDArray[np.uint8]
    """(n, 20)"""
    starts: Rows
    """(n + 1,) the first chunk of each record, then the number of chunks."""
    texts: NDArray[np.uint8]
    """(chunks, 20) the SHA-1 of the text of each chunk."""

    @classmethod
    def of(cls, generation: Generation) -> Contents:
        """Return the contents of a generation."""
        return cls(generation.ids, generation.contents, generation.starts, generation.texts)

    @classmethod
    def nothing(cls) -> Contents:
        """Return the contents of an empty index."""
        digests = np.empty((0, KEY), np.uint8)
        return cls(Vocabulary(np.empty(0, np.uint8), np.zeros(1, np.int64)), digests, np.zeros(1, np.int64), digests)


class Inventory:
    """The records of a build or a sync as they come, compared with those that were current before."""

    def __init__(self, before: Contents) -> None:
        self._before = before
        self._rows = TextRows(before.ids)
        self._kept = np.full(len(before.ids), -1, np.int32)
        """By row before, the row of the record that was kept; -1: none."""
        self._replaced = np.zeros(len(before.ids), np.bool_)
        """By row before, True if a record that was read now has its id."""
        self._new = TextNumbers()
        self._new_rows = array("i")
        self._digests = DigestList()
        self._length = 0

    def __len__(self) -> int:
        """Number of records."""
        return self._length

    def free(self, rows: Rows) -> int:
        """Return how many rows, from the first on, can be kept: their ids are free, and no row is repeated."""
        taken = (self._kept[rows] >= 0) | self._replaced[rows]
        end = int(taken.argmax()) if taken.any() else len(rows)
        if (rows[1:end] > rows[: max(end - 1, 0)]).all():
            return end
        repeated = np.ones(end, np.bool_)
        repeated[np.unique(rows[:end], return_index=True)[1]] = False
        return int(np.append(repeated, True).argmax())

    def keep(self, rows: Rows) -> None:
        """Add unchanged rows."""
        self._kept[rows] = np.arange(self._length, self._length + len(rows))
        self._length += len(rows)

    def add(self, name: str, digest: bytes) -> None:
        """Add a record whose id is free."""
        text = name.encode()
        self._new.add(text)
        self._new_rows.append(self._length)
        self._digests.append(digest)
        if (row := self._rows.row(text)) >= 0:
            self._replaced[row] = True
        self._length += 1

    def row(self, name: str) -> int | None:
        """Return the row of the record that has an id."""
        text = name.encode("utf-8", "surrogatepass")
        if (number := self._new.number(text)) >= 0:
            return self._new_rows[number]
        before = self._rows.row(text)
        return int(self._kept[before]) if before >= 0 and self._kept[before] >= 0 else None

    def changes(self) -> Changes:
        """Return the records that were added, changed and removed."""
        names = self._before.ids
        added, changed, same = [], [], int((self._kept >= 0).sum())
        for number, digest in enumerate(self._digests):
            text = self._new.texts[number]
            row = self._rows.row(text)
            if row < 0:
                added.append(text.decode())
            elif self._before.digests[row].tobytes() != digest:
                changed.append(text.decode())
            else:
                same += 1
        gone = np.flatnonzero((self._kept < 0) & ~self._replaced)
        removed = tuple(names.raw(row).decode() for row in gone.tolist())
        return Changes(tuple(added), tuple(changed), removed, same)

    def chunk_changes(self, starts: Rows, texts: NDArray[np.uint8]) -> ChunkChanges:
        """Return how many chunks were added, changed, removed and kept.

        `starts` and `texts` describe all accepted records, in the form of `Contents`.
        """
        before, sizes = self._before, np.diff(self._before.starts)
        kept = int(sizes[self._kept >= 0].sum())
        removed = int(sizes[(self._kept < 0) & ~self._replaced].sum())
        added = changed = 0
        for number, row in enumerate(self._new_rows):
            new = texts[int(starts[row]) : int(starts[row + 1])]
            old_row = self._rows.row(self._new.texts[number])
            if old_row < 0:
                added += len(new)
                continue
            old = before.texts[int(before.starts[old_row]) : int(before.starts[old_row + 1])]
            both = min(len(old), len(new))
            same = both if new.tobytes() == old.tobytes() else int((old[:both] == new[:both]).all(axis=1).sum())
            kept, changed = kept + same, changed + both - same
            added, removed = added + len(new) - both, removed + len(old) - both
        return ChunkChanges(added, changed, removed, kept)


def changes_between(before: Contents, after: Contents) -> tuple[Changes, ChunkChanges]:
    """Return the changes of records and of chunks between two states."""
    inventory = Inventory(before)
    for row, digest in enumerate(after.digests):
        inventory.add(after.ids[row], digest.tobytes())
    return inventory.changes(), inventory.chunk_changes(after.starts, after.texts)


def walk(batch: ItemBatch, rows: Rows, inventory: Inventory) -> Iterator[tuple[range, bool]]:
    """Yield the places of items in order, and True for those that are kept, as many as possible at a time; these are
    added to the inventory. Others come one at a time, and the next of these are read in the background. `rows` has the
    row before of each item, or -1."""
    ahead = ReadAhead(batch, rows)
    unknown = np.append(np.flatnonzero(rows < 0), len(rows)).tolist()
    at = 0
    for stop in unknown:
        while at < stop:
            count = inventory.free(rows[at:stop])
            if count:
                inventory.keep(rows[at : at + count])
            ahead.reach(at)
            yield range(at, at + max(count, 1)), count > 0
            at += max(count, 1)
        if stop < len(rows):
            ahead.reach(stop)
            yield range(stop, stop + 1), False
        at = stop + 1
