"""Items of the sources compared with the records of the current generation, by the SHA-1 of each item."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Item, Notice, Refused
from retrieve_cli.frozen import Frozen
from retrieve_cli.ingest.changes import Changes
from retrieve_cli.ingest.items import Placed, SourceMarks, is_untouched
from retrieve_cli.ingest.report import reading
from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.segment import DIGEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Source
    from retrieve_cli.storage.generation import Generation

    Digests = NDArray[np.uint8]

_BATCH = 4096
"""Items compared at a time."""
_SOURCE = 1 << 40
"""Items of a source at most: the place of an item among the items of all sources is its number plus so many for each
source before."""


class KnownItems:
    """The items whose records are in a generation: adjacent records of one item are a run."""

    def __init__(self, generation: Generation) -> None:
        live = generation.live
        rows = np.arange(len(generation.records)) if live is None else np.flatnonzero(live)
        digests = generation.origins if live is None else generation.origins[rows]
        names = generation.row_sources
        first = np.ones(len(rows), np.bool_)
        first[1:] = (digests[1:] != digests[:-1]).any(axis=1) | (np.diff(rows) != 1)
        self._first = rows[first]
        self._counts = np.diff(np.append(np.flatnonzero(first), len(rows)))
        self._digests: Digests = digests[first] if len(self._first) < len(rows) else digests
        self._rows = KeyRows(as_keys(self._digests))
        self._sources = names[self._first]
        self._names = {name: number for number, name in enumerate(generation.source_names)}
        self._taken = np.zeros(len(self._first), np.bool_)
        self._next = 0
        for segment in generation.segments:
            for digest in segment.reread:  # parts of these were rejected: they are read again to report it
                self._taken[(self._digests == digest).all(axis=1)] = True

    def match(self, source: str, digests: Digests) -> Rows:
        """Return the run of each item of a source, (n,) int64, -1 for items that must be read; a run matches once."""
        runs = np.full(len(digests), -1, np.int64)
        expected = np.arange(self._next, min(self._next + len(digests), len(self._first)))
        same = (self._digests[expected] == digests[: len(expected)]).all(axis=1)
        runs[: len(expected)][same] = expected[same]
        if len(others := np.flatnonzero(runs < 0)):
            runs[others] = self._rows.find(as_keys(digests[others]))
        number = self._names.get(source, -1)
        runs[(runs >= 0) & (self._taken[runs] | (self._sources[runs] != number))] = -1
        matched = np.flatnonzero(runs >= 0)
        repeated = np.ones(len(matched), np.bool_)
        repeated[np.unique(runs[matched], return_index=True)[1]] = False
        runs[matched[repeated]] = -1
        matched = matched[~repeated]
        self._taken[runs[matched]] = True
        if len(matched):
            self._next = int(runs[matched[-1]]) + 1
        return runs

    def rows(self, runs: Rows) -> tuple[Rows, Rows]:
        """Return the records of some runs, and for each the place of its run among these."""
        counts = self._counts[runs]
        owners = np.repeat(np.arange(len(runs)), counts)
        begins = np.cumsum(counts) - counts
        return self._first[runs][owners] + np.arange(len(owners)) - begins[owners], owners


class Survey(Frozen, eq=False):
    """A source whose items were compared with the records of a generation."""

    rows: Rows
    """(k,) records whose items it still has, in its order."""
    places: Rows
    """(k,) the number of the item of each."""
    lines: Rows
    """(k,) the line of each now."""
    new: Sequence[Placed]
    """Items that must be read, with their numbers."""
    marks: SourceMarks
    """Its marks before it was read."""

    @classmethod
    def of(cls, source: Source, known: KnownItems, *, most: int) -> Survey | None:
        """Compare all items; None if more than `most` of them are new. Raises: SourceFailed, UsageError."""
        rows, places, lines = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        new: list[Placed] = []
        marks = SourceMarks(source)
        with reading(source, "comparing") as progress:
            for first, items in _batches(source):
                numbers = [number for number, item in enumerate(items) if isinstance(item, Item)]
                found: list[Item] = [item for item in items if isinstance(item, Item)]
                digests = np.frombuffer(bytearray().join([item.digest for item in found]), np.uint8).reshape(-1, DIGEST)
                runs = np.full(len(items), -1, np.int64)
                runs[numbers] = known.match(source.name, digests)
                kept = np.flatnonzero(runs >= 0)
                records, owners = known.rows(runs[kept])
                rows.append(records)
                places.append(first + kept[owners])
                now = np.array([item.line if isinstance(item, Item) else 0 for item in items], np.int64)
                lines.append(now[kept][owners])
                new += [(first + number, items[number]) for number in np.flatnonzero(runs < 0).tolist()]
                if len(new) > most:
                    return None
                progress.advance(len(items))
        return cls(np.concatenate(rows), np.concatenate(places), np.concatenate(lines), new, marks)


def is_current(source: Source, generation: Generation) -> bool:
    """Return True if a generation has exactly the items of a source. Raises: SourceFailed, UsageError."""
    number = [entry.name for entry in generation.manifest.sources].index(source.name)
    if is_untouched(source, generation.manifest.built["sources"][number]):
        return True
    entry = generation.manifest.sources[number]
    survey = Survey.of(source, KnownItems(generation), most=entry.refused)
    return survey is not None and len(survey.rows) == entry.records


def _batches(source: Source) -> Iterator[tuple[int, list[Item | Refused | Notice]]]:
    """Yield the items of a source, some at a time, with the number of the first."""
    items, first = source.scan(), 0
    while some := list(islice(items, _BATCH)):
        yield first, some
        first += len(some)


class KeptRecords:
    """The records of a generation that stay, with their places and lines in the sources."""

    def __init__(self, length: int, surveys: Sequence[Survey] = ()) -> None:
        self.mask: Mask = np.zeros(length, np.bool_)
        """(records,) True for those that stay."""
        self.places = np.full(length, -1, np.int64)
        """(records,) the place of the item of each, among the items of all sources."""
        self.lines = np.zeros(length, np.int64)
        """(records,) the line of each now."""
        for number, survey in enumerate(surveys):
            self.mask[survey.rows] = True
            self.places[survey.rows] = place_of(number, 0) + survey.places
            self.lines[survey.rows] = survey.lines

    def keep(self, row: int, *, place: int, line: int) -> None:
        """Let a record stay that is the same although its item was read."""
        self.mask[row], self.places[row], self.lines[row] = True, place, line

    def drop(self, row: int) -> None:
        """Let a record go."""
        self.mask[row] = False


class Comparison:
    """Records that are read, compared with the records of the current generation."""

    def __init__(self, before: Generation | None, kept: KeptRecords | None = None) -> None:
        """`before` is the current generation, of which the `kept` records stay."""
        self.before = before
        self.kept = KeptRecords(len(before.records) if before else 0) if kept is None else kept
        self.rows: dict[str, int] = {}
        """The number of each new record by its id."""
        self.former = array("q")
        """By new record, the row of the record of its id before; -1 without one."""
        self.places = array("q")
        """By new record, the place of its item among the items of all sources."""

    def former_of(self, record_id: str) -> int:
        """Return the row of the record that had an id before; -1 without one."""
        row = None if self.before is None else self.before.exact_row(record_id)
        return -1 if row is None else row

    def is_taken(self, record_id: str, former: int, *, place: int) -> bool:
        """Return True if an item before a place has the id, which the record `former` had."""
        stays = former >= 0 and self.kept.mask[former] and self.kept.places[former] < place
        return record_id in self.rows or bool(stays)

    def add(self, record_id: str, former: int, *, place: int) -> None:
        """Add a new record."""
        self.rows[record_id] = len(self.rows)
        self.former.append(former)
        self.places.append(place)

    def changes(self, contents: Digests) -> Changes:
        """Return the records that were added, changed and removed, given the digest of each new one."""
        before, names = self.before, list(self.rows)
        if before is None:
            return Changes(added=tuple(names))
        former = np.array(self.former, np.int64)
        same = np.zeros(len(former), np.bool_)
        known = np.flatnonzero(former >= 0)
        same[known] = (contents[known] == before.contents[former[known]]).all(axis=1)
        gone = ~self.kept.mask if before.live is None else before.live & ~self.kept.mask
        gone[former[known]] = False
        return Changes(
            added=tuple(names[row] for row in np.flatnonzero(former < 0).tolist()),
            changed=tuple(names[row] for row in known[~same[known]].tolist()),
            removed=tuple(map(before.record_id, np.flatnonzero(gone).tolist())),
            kept=int(np.count_nonzero(self.kept.mask)) + int(np.count_nonzero(same)),
        )


def place_of(source: int, item: int) -> int:
    """Return the place of an item by the number of its source and its number there."""
    return source * _SOURCE + item
