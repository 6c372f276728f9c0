"""A source that was read once: the digests of unchanged items, and the other items parsed.

A sync plans and applies from the same reading: it publishes exactly the planned changes, and a changed item is parsed
once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Countable, Foldered, Item, Mapped, Mixed, Notice, Record, Refused
from retrieve_cli.contracts.terms.tenants import conflict_in
from retrieve_cli.errors import RetrieveError, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.key_rows import KEY, DigestList, KeyRows, as_keys
from retrieve_cli.storage.manifest import trace

if TYPE_CHECKING:
    from retrieve_cli.contracts import Json, Rows, Source, SourceKind
    from retrieve_cli.storage.key_rows import Keys

_EXCERPT = 200
"""Characters of a rejected record that are kept."""
_MOST_TEXT = 64 << 20
"""Characters of parsed records that are kept; a sync with more to read parses them again."""
_WORD = 28
"""Bytes of the place of a word."""
_NOTHING = Item(bytes(KEY), "", 0, tuple)
"""Placeholder for rejected lines and notices."""
_AHEAD = 16
"""Items that are read in the background at most; each may be a large document."""
_BATCH, _LARGE = 4096, 65_536
"""Items compared at a time: while a source is read, and from memory."""

Piece = Record | Refused | Notice


def pieces_of(item: Item) -> list[Piece]:
    """Return the pieces of an item. An unexpected error rejects the item, not the run: one document must not keep all
    others from being published.

    Raises:
        RetrieveError: the source itself cannot be read.
    """
    try:
        return [_owned(piece) for piece in item.read()]
    except (RetrieveError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  a parser may fail on any text from outside
        return [Refused(item.source, item.line, unforeseen(error))]


def _owned(piece: Piece) -> Piece:
    """Return the piece, rejected if it is a record with contradicting tenants."""
    if isinstance(piece, Record) and (reason := conflict_in(piece.metadata)):
        return Refused(piece.source, piece.line, reason, piece.text[:_EXCERPT])
    return piece


def unforeseen(error: Exception) -> str:
    """Return the reason to reject an item on which a part of the program failed."""
    return f"it cannot be processed ({type(error).__name__}: {shortened(str(error))}); please report it"


class ItemBatch(Frozen, eq=False):
    """Items of a source in order."""

    keys: Keys
    """(n,) their digests; zeros for rejected lines and notices."""
    lines: Rows
    """(n,)"""
    item: Callable[[int], Item | Refused | Notice]
    """Returns the item in a place."""
    sources: Sequence[str]
    """(n,) the file of each."""
    others: bool
    """True if some are not items."""

    @classmethod
    def of(cls, items: Sequence[Item | Refused | Notice]) -> ItemBatch:
        """Return a batch of items in memory."""
        found = [item if isinstance(item, Item) else _NOTHING for item in items]
        keys, lines = as_keys([item.digest for item in found]), np.array([item.line for item in found], np.int64)
        sources = [item.source for item in items]
        return cls(keys, lines, items.__getitem__, sources, any(item is _NOTHING for item in found))

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, known: KeyRows) -> Rows:
        """Return the row of the record of each item, -1 for a new item."""
        rows = known.find(self.keys)
        if self.others:
            rows[[place for place in range(len(self)) if not isinstance(self.item(place), Item)]] = -1
        return rows

    @property
    def traces(self) -> bytes:
        """Bytes that these items add to the digest of their source."""
        if self.others:
            return b"".join(trace(self.item(place)) for place in range(len(self)))
        traces = np.empty((len(self), KEY + 8), np.uint8)
        traces[:, :KEY] = self.keys.view(np.uint8).reshape(-1, KEY)
        traces[:, KEY:] = self.lines.astype(">i8").view(np.uint8).reshape(-1, 8)
        return traces.tobytes()


def batches(source: Source) -> Iterator[ItemBatch]:
    """Yield all items of a source."""
    if isinstance(source, CachedSource) and source.whole:
        yield from source.batches()
        return
    items = source.scan()
    while some := list(islice(items, _BATCH)):
        yield ItemBatch.of(some)


class ReadAhead:
    """Begins to read the next items of a batch in the background, so that all cores have work."""

    def __init__(self, batch: ItemBatch, rows: Rows) -> None:
        """`rows` has -1 for items that will be read, in order."""
        self._item = batch.item
        self._places = np.flatnonzero(rows < 0).tolist()
        self._begun = 0

    def reach(self, place: int) -> None:
        """Begin the items behind this place, which is read next."""
        end = min(bisect_left(self._places, place) + _AHEAD, len(self._places))
        for number in range(self._begun, end):
            item = self._item(self._places[number])
            if isinstance(item, Item) and item.begin is not None:
                item.begin()
        self._begun = max(self._begun, end)


def folders_of(source: Source) -> Mapping[str, Json]:
    """Return the marks of a source's folders; none if it is not of many files."""
    return source.folders() if isinstance(source, Foldered) else {}


def mapping_of(source: Source) -> Mapping[str, Json]:
    """Return the keys that the last scan of a source read under other names; empty if it has none."""
    return source.mapping() if isinstance(source, Mapped) else {}


def origin_of(
    source: Source, digest: str, stamp: list[int] | None, folders: Mapping[str, Json], mapping: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the manifest's note on a source: its place, its digest, its marks, and the mapping of its keys."""
    noted = {"origin": dict(source.origin), "digest": digest, "stamp": stamp}
    return {**noted, **({"folders": folders} if folders else {}), **mapping}


class CachedSource:
    """A source that was read once; it can be repeated without reading the files."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.kind: SourceKind = source.kind
        self.kinds = source.kinds if isinstance(source, Mixed) else (source.kind,)
        self.name = source.name
        self._stamp = source.stamp()
        self._folders = folders_of(source)
        self._digests = DigestList()
        self._lines = array("q")
        self._places: list[str] = []
        self._others: dict[int, Refused | Notice] = {}
        self._read: dict[int, Sequence[Piece]] = {}
        self._text = 0

    @property
    def whole(self) -> bool:
        """True if all of it is remembered; otherwise `scan` goes through the source itself."""
        return self._text <= _MOST_TEXT

    def keep(self, batch: ItemBatch, read: Mapping[int, Sequence[Piece]]) -> None:
        """Remember items; `read` has by place the pieces of those that were parsed."""
        if not self.whole:
            return
        first = len(self._lines)
        self._digests.extend(batch.keys.view(np.uint8))
        self._lines.frombytes(batch.lines.astype(np.int64, copy=False).tobytes())
        self._places.extend(batch.sources)
        for place in range(len(batch)) if batch.others else ():
            if not isinstance(item := batch.item(place), Item):
                self._others[first + place] = item
        for place, pieces in read.items():
            if isinstance(batch.item(place), Item):
                self._read[first + place] = pieces
                for record in pieces:
                    if isinstance(record, Record):
                        words = record.layout.words if record.layout is not None else None
                        self._text += len(record.text) + _WORD * len(words or ())
        if not self.whole:
            self._others, self._read = {}, {}

    @property
    def card(self) -> Mapping[str, Json]:
        return self._source.card

    @property
    def origin(self) -> Mapping[str, Json]:
        return self._source.origin

    def fetch(self) -> None:
        """Do nothing: it was fetched before it was read."""

    def stamp(self) -> list[int] | None:
        """Return the marks of the file before it was read."""
        return self._stamp

    def folders(self) -> Mapping[str, Json]:
        """Return the marks of the folders before they were read."""
        return self._folders

    def mapping(self) -> Mapping[str, Json]:
        """Return the keys that were read under other names."""
        return mapping_of(self._source)

    def count(self) -> int | None:
        """Return the number of items. Raises: OSError if the source is gone."""
        if self.whole:
            return len(self._lines)
        return self._source.count() if isinstance(self._source, Countable) else None

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """Yield every item in order."""
        if not self.whole:
            yield from self._source.scan()
            return
        yield from map(partial(self._item, 0), range(len(self._lines)))

    def batches(self) -> Iterator[ItemBatch]:
        """Yield every item in order, in batches."""
        keys, lines = as_keys(self._digests), np.array(self._lines, np.int64)
        for start in range(0, len(lines), _LARGE):
            end = min(start + _LARGE, len(lines))
            others = any(start <= place < end for place in self._others)
            item = partial(self._item, start)
            yield ItemBatch(keys[start:end], lines[start:end], item, self._places[start:end], others)

    def _item(self, first: int, place: int) -> Item | Refused | Notice:
        """Return the item in a place after the first one of a batch."""
        place += first
        if place in self._others:
            return self._others[place]
        pieces = self._read.get(place, ())
        return Item(self._digests[place], self._places[place], self._lines[place], lambda: pieces)
