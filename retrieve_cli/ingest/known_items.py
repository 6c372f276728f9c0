"""Items of the sources compared with the records of the current generation, by the SHA-1 of each item."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Item
from retrieve_cli.frozen import Frozen
from retrieve_cli.ingest.changes import Changes
from retrieve_cli.ingest.items import Placed, is_untouched, marks_of, reading
from retrieve_cli.ingest.segment_writer import spans
from retrieve_cli.storage.segment import DIGEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Json, Mask, Rows, Source
    from retrieve_cli.storage.generation import Generation

_STEP = 1024
"""Items between two reports of progress."""
_SOURCE = 1 << 40
"""Items of a source at most: the place of an item among the items of all sources is its number plus so many for each
source before."""


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
    marks: Mapping[str, Json]
    """Its place and marks before it was read."""

    @classmethod
    def of(
        cls,
        source: Source,
        generation: Generation,
        *,
        most: int,
        marks: Mapping[str, Json] = {},
        again: Collection[str] = (),
    ) -> Survey | None:
        """Compare all items of a source with these marks; None if more than `most` of them are new. Items with the
        digests `again` count as new.

        Raises:
            SourceFailed, UsageError: it cannot be read.
        """
        known, rows, starts = _items_in(generation, source.name)
        if again:
            known = {digest: number for digest, number in known.items() if digest.hex() not in again}
        numbers, places, lines = array("q"), array("q"), array("q")
        new: list[Placed] = []
        with reading(source, "comparing") as progress:
            for place, item in enumerate(source.scan()):
                if isinstance(item, Item) and item.digest in known:
                    numbers.append(known.pop(item.digest))
                    places.append(place)
                    lines.append(item.line)
                else:
                    new.append((place, item))
                    if len(new) > most:
                        return None
                if place % _STEP == 0:
                    progress.reach(place)
            progress.reach(len(places) + len(new))
        items = np.array(numbers, np.int64)
        owners = np.repeat(np.arange(len(items)), np.diff(starts)[items])
        records = rows[spans(starts, items)]
        return cls(records, np.array(places, np.int64)[owners], np.array(lines, np.int64)[owners], new, marks)


def records_of(generation: Generation, source: str) -> Rows:
    """Return the records of a source that are in a generation, (n,) int64."""
    if source not in generation.source_names:
        return np.empty(0, np.int64)
    own = generation.row_sources == generation.source_names.index(source)
    return np.flatnonzero(own if generation.live is None else own & generation.live)


def _items_in(generation: Generation, source: str) -> tuple[dict[bytes, int], Rows, Rows]:
    """Return the items of a source in a generation: the number of each by its SHA-1, the records of all, and the place
    of the first record of each among these, with the end."""
    rows = records_of(generation, source)
    heads = np.ascontiguousarray(generation.origins[rows, :8]).view(np.uint64).ravel()
    rows = rows[np.argsort(heads, kind="stable")]  # records of one item may be in several segments
    digests = generation.origins[rows]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (digests[1:] != digests[:-1]).any(axis=1)
    starts = np.append(np.flatnonzero(first), len(rows))
    keys = digests[first].view(f"V{DIGEST}").ravel().tolist()
    return dict(zip(keys, range(len(keys)), strict=True)), rows, starts


def is_current(source: Source, generation: Generation) -> bool:
    """Return True if a generation has exactly the items of a source. Raises: SourceFailed, UsageError."""
    number = [entry.name for entry in generation.manifest.sources].index(source.name)
    noted = generation.manifest.built["sources"][number]
    if is_untouched(marks_of(source, noted), noted):
        return True
    entry = generation.manifest.sources[number]
    survey = Survey.of(source, generation, most=entry.refused)
    return survey is not None and len(survey.rows) == entry.records


class Comparison:
    """The records of the current generation that stay, and the new ones."""

    def __init__(self, before: Generation | None = None, surveys: Sequence[Survey] | None = None) -> None:
        """With `surveys`, the records of the generation `before` stay that they have; without, all are read again."""
        length = 0 if before is None else len(before.records)
        self.before = before
        self.is_sync = surveys is not None
        self.mask: Mask = np.zeros(length, np.bool_)
        """(records,) True for records of `before` that stay."""
        self.places = np.full(length, -1, np.int64)
        """(records,) the place of the item of each, among the items of all sources."""
        self.lines = np.zeros(length, np.int64)
        """(records,) the line of each now."""
        self.rows: dict[str, int] = {}
        """The number of each new record by its id."""
        self.former = array("q")
        """By new record, the row of the record of its id before; -1 without one."""
        self.new_places = array("q")
        """By new record, the place of its item."""
        for number, survey in enumerate(surveys or ()):
            self.mask[survey.rows] = True
            self.places[survey.rows] = place_of(number, 0) + survey.places
            self.lines[survey.rows] = survey.lines

    def keep(self, row: int, *, place: int, line: int) -> None:
        """Let a record stay that is the same although its item was read."""
        self.mask[row], self.places[row], self.lines[row] = True, place, line

    def former_of(self, record_id: str) -> int:
        """Return the row of the record that had an id before; -1 without one."""
        row = None if self.before is None else self.before.exact_row(record_id)
        return -1 if row is None else row

    def is_taken(self, record_id: str, former: int, *, place: int) -> bool:
        """Return True if an item before a place has the id, which the record `former` had."""
        stays = former >= 0 and self.mask[former] and self.places[former] < place
        return record_id in self.rows or bool(stays)

    def add(self, record_id: str, former: int, *, place: int) -> None:
        """Add a new record."""
        self.rows[record_id] = len(self.rows)
        self.former.append(former)
        self.new_places.append(place)

    def changes(self, contents: NDArray[np.uint8]) -> Changes:
        """Return the records that were added, changed and removed, given the digest of each new one."""
        before, names = self.before, list(self.rows)
        if before is None:
            return Changes(added=tuple(names))
        former = np.array(self.former, np.int64)
        same = np.zeros(len(former), np.bool_)
        known = np.flatnonzero(former >= 0)
        same[known] = (contents[known] == before.contents[former[known]]).all(axis=1)
        gone = ~self.mask if before.live is None else before.live & ~self.mask
        gone[former[known]] = False
        return Changes(
            added=tuple(names[row] for row in np.flatnonzero(former < 0).tolist()),
            changed=tuple(names[row] for row in known[~same[known]].tolist()),
            removed=tuple(map(before.record_id, np.flatnonzero(gone).tolist())),
            kept=int(np.count_nonzero(self.mask)) + int(np.count_nonzero(same)),
        )


def place_of(source: int, item: int) -> int:
    """Return the place of an item by the number of its source and its number there."""
    return source * _SOURCE + item
