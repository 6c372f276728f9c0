"""The one writer of inverted files: postings of new rows merged with those of rows that an older index has.

BM25, learned sparse vectors and the columns of records all keep, by term, the rows that have it and a number for each.
A row is added, or taken over from one older index without looking at its text. The same rows give the same arrays,
whichever of them were taken over: that is why `sync` ends in the bytes of a build from scratch.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Values = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class PostingTable:
    """Postings one behind the other: which term, in which row, and with which value."""

    terms: Rows
    """(p,) number of the term."""
    rows: Rows
    """(p,)"""
    values: Values
    """(p,) a frequency, a weight, the number of a value."""

    @classmethod
    def stored(cls, starts: Rows, rows: Values, values: Values) -> PostingTable:
        """Return the postings of a file in which those of term t lie from `starts[t]` to `starts[t + 1]`."""
        return cls(np.repeat(np.arange(len(starts) - 1), np.diff(starts)), rows, values)

    def starts(self, terms: int) -> Rows:
        """Return (terms + 1,) where the postings of each term begin; they must be in order."""
        return np.searchsorted(self.terms, np.arange(terms + 1)).astype(np.int64)


class PostingsWriter:
    """Gathers rows in their order: new ones (`add`) and rows of one older index (`keep`)."""

    def __init__(self, values: str) -> None:
        """`values` is the type code of `array` for the values: "f", "i"."""
        self._terms = array("i")
        self._values: array[Any] = array(values)
        self._sizes = array("q")
        self._origins = array("q")
        """By row, the row of the older index it is taken from, or -1."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._origins)

    def keep(self, row: int) -> None:
        """Append a row of the older index."""
        self._origins.append(row)

    def add(self, terms: Iterable[int], values: Iterable[float]) -> None:
        """Append a row with its terms, each of them once or, where order within a row counts, as often as it stands."""
        before = len(self._terms)
        self._terms.extend(terms)
        self._values.extend(values)
        self._sizes.append(len(self._terms) - before)
        self._origins.append(-1)

    def added(self) -> PostingTable:
        """Return the postings of the new rows, under the rows they have here."""
        fresh = np.flatnonzero(np.array(self._origins, np.int64) < 0)
        rows = np.repeat(fresh, np.array(self._sizes, np.int64))
        return PostingTable(np.array(self._terms, np.int64), rows, np.array(self._values, self._values.typecode))

    def kept(self, old: PostingTable, length: int) -> PostingTable:
        """Return the postings taken from an older index of `length` rows, once for each row that one of its became."""
        origins = np.array(self._origins, np.int64)
        kept = np.flatnonzero(origins >= 0)
        kept = kept[np.argsort(origins[kept], kind="stable")]  # what became of an older row lies together
        times = np.bincount(origins[kept], minlength=length)
        first = np.cumsum(times) - times
        copies = times[old.rows]
        place = np.repeat(np.arange(len(copies)), copies)
        number = np.arange(len(place)) - np.repeat(np.cumsum(copies) - copies, copies)
        return PostingTable(old.terms[place], kept[first[old.rows[place]] + number], old.values[place])

    def by_row(self, old: Values, fresh: Values) -> Values:
        """Return (rows,) what each row has, from what the older index has for each of its rows and the new ones."""
        origins = np.array(self._origins, np.int64)
        found = np.empty(len(origins), old.dtype)
        found[origins < 0] = fresh
        found[origins >= 0] = old[origins[origins >= 0]]
        return found

    def merge(self, kept: PostingTable, added: PostingTable) -> PostingTable:
        """Return both together, by term and within a term by row, under terms numbered alike."""
        terms = np.concatenate([kept.terms, added.terms])
        rows = np.concatenate([kept.rows, added.rows])
        # What was kept is in order, and a stable sort of such a sequence costs little more than a merge.
        order = np.argsort(terms * len(self) + rows, kind="stable")
        values = np.concatenate([kept.values, added.values])[order]
        return PostingTable(terms[order], rows[order].astype(np.int32), values)
