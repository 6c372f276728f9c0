"""`dead.pkl`: rows of the older segments of a generation that are gone, and how far lines of the others moved.

By the name of a segment:

    dead            (d,) int32 records that are gone, ascending; or `bits` (ceil(n / 8),) uint8, one bit a record
    moved, shifts   (m,) int64 records from which on, up to the next of these, lines moved by so many
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage import pickles

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.segment import Segment

_BITS = 32
"""Bits of a row: with more dead rows than one in so many, a bit for each record is smaller."""


class Remains(Frozen, eq=False):
    """Rows of a segment that are gone, and the moves of the others."""

    dead: Rows
    """(d,) records that are gone, ascending."""
    starts: Rows
    """(m,) first records of the runs whose lines moved by the same number, ascending."""
    shifts: Rows
    """(m,) by how many lines each of these moved."""

    @classmethod
    def of(cls, dead: Rows, before: Rows, after: Rows) -> Remains:
        """Return the remains without the `dead` records, with the lines of the others `before` and now; lines of dead
        records do not matter."""
        shifts = (after - before).astype(np.int64)
        if len(dead) and len(shifts):  # a dead record moves with the one before it, so that runs are long
            alive = np.ones(len(shifts), np.bool_)
            alive[dead] = False
            last = np.maximum.accumulate(np.where(alive, np.arange(len(shifts)), -1))
            shifts = np.where(last >= 0, shifts[np.maximum(last, 0)], 0)
        starts = np.flatnonzero(np.diff(shifts, prepend=0))
        return cls(dead.astype(np.int64), starts, shifts[starts])

    def equals(self, other: Remains) -> bool:
        """Return True if both are the same."""
        pairs = ((self.dead, other.dead), (self.starts, other.starts), (self.shifts, other.shifts))
        return all(np.array_equal(*pair) for pair in pairs)

    def shift_of(self, record: int) -> int:
        """Return by how many lines a record moved."""
        run = int(np.searchsorted(self.starts, record, side="right")) - 1
        return int(self.shifts[run]) if run >= 0 else 0

    def moved(self, lines: Rows) -> Rows:
        """Return the lines of all records now."""
        runs = np.searchsorted(self.starts, np.arange(len(lines)), side="right")
        moved: Rows = lines + np.append(0, self.shifts)[runs]
        return moved


def write(path: Path, remains: Mapping[str, Remains], lengths: Mapping[str, int]) -> None:
    """Write the file; `lengths` has the number of records of each segment."""
    stored: dict[str, Any] = {}
    for name, left in remains.items():
        entry = {"moved": left.starts.astype(np.int64), "shifts": left.shifts.astype(np.int64)}
        if _BITS * len(left.dead) > lengths[name]:
            flags = np.zeros(lengths[name], np.bool_)
            flags[left.dead] = True
            stored[name] = {"bits": np.packbits(flags), **entry}
        else:
            stored[name] = {"dead": left.dead.astype(np.int32), **entry}
    pickles.dump(stored, path)


def read(path: Path, segments: Sequence[Segment]) -> dict[str, Remains]:
    """Return the remains of each older segment. Raises: IndexCorrupt: the file is damaged."""
    stored = pickles.load(path)
    try:
        return {
            segment.name: _read(stored[segment.name], segment.record_count)
            for segment in segments
            if segment.name in stored
        }
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise IndexCorrupt(f"{path} is damaged ({quoted(error)})", hint="retrieve inspect verify") from error


def _read(entry: Mapping[str, Any], length: int) -> Remains:
    if "bits" in entry:
        dead = np.flatnonzero(np.unpackbits(entry["bits"], count=length))
    else:
        dead = entry["dead"].astype(np.int64)
    left = Remains(dead, entry["moved"], entry["shifts"])
    for rows in (left.dead, left.starts):
        if len(rows) and (rows[0] < 0 or rows[-1] >= length or not (rows[1:] > rows[:-1]).all()):
            raise ValueError(f"its rows are not among {length}")
    if len(left.starts) != len(left.shifts):
        raise ValueError("its runs disagree")
    return left
