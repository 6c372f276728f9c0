"""The one writer of inverted files: postings of new rows merged with those of rows that an older index has.

BM25, learned sparse vectors and the columns of records all keep postings by group (a term, a field): the rows that have
it, and a number for each. A row is added, or taken over from one older index without looking at its text. The same rows
give the same arrays, whichever of them were taken over: that is why `sync` ends in the bytes of a build from scratch.

What is gathered takes eight bytes a posting. It is put in order and merged a stretch of groups at a time, so that
nothing else of the size of the index is ever in memory: what is written goes to the disk as it comes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from retrieve_cli.frozen import dataclass
from retrieve_cli.storage.mapped import unreleased

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Values = NDArray[Any]
    Named: TypeAlias = tuple[Rows, Rows] | None

_BLOCK = 1 << 20
"""Postings put in order, or merged, at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PostingTable:
    """The postings of an older index: those of group g lie from `starts[g]` to `starts[g + 1]`, in order of row."""

    starts: Rows
    """(g + 1,)"""
    rows: Values
    """(p,)"""
    values: Values
    """(p,) a frequency, a weight, the number of a value."""
    length: int
    """Number of rows."""
    release: Callable[[], None] = unreleased
    """Lets go of the memory in which it was read, if it lies in a file."""

    def blocks(self) -> Iterator[slice]:
        """Yield all postings, some at a time."""
        for start in range(0, len(self.rows), _BLOCK):
            yield slice(start, min(start + _BLOCK, len(self.rows)))
            self.release()


@dataclass(frozen=True, slots=True, eq=False)
class MergedBlock:
    """The postings of some groups in order, and within a group by row."""

    groups: slice
    rows: NDArray[np.int32]
    values: Values


class Origins:
    """Where the rows of an index come from: from which rows of an older one, or from none."""

    def __init__(self, origins: Rows, length: int) -> None:
        """`origins` has by row the row of the older index, or -1; that one has `length` rows."""
        kept = np.flatnonzero(origins >= 0)
        old = origins[kept]
        self.times = np.bincount(old, minlength=length).astype(np.int32)
        """(length,) how many rows each of the older ones became."""
        self.all = bool((self.times == 1).all())
        """Whether each of them became one row."""
        self._single = bool((self.times <= 1).all())
        self.in_order = self._single and bool((old[1:] > old[:-1]).all())
        """Whether the rows that were kept lie in the order in which they lay."""
        kept = kept if self.in_order else kept[np.argsort(old, kind="stable")]
        self._kept = kept.astype(np.int32)
        self._first = np.cumsum(self.times) - self.times

    def take(self, rows: Values, values: Values) -> tuple[Rows, Values, Values]:
        """Return of postings of the older index those that are kept: their places, new rows and values."""
        times = self.times[rows]
        if self._single:
            places = np.flatnonzero(times) if not self.all else np.arange(len(rows))
            chosen = slice(None) if len(places) == len(rows) else places
            return places, self._kept[self._first[rows[chosen]]], values[chosen]
        places = np.repeat(np.arange(len(rows)), times)
        number = np.arange(len(places)) - np.repeat(np.cumsum(times) - times, times)
        return places, self._kept[self._first[rows[places]] + number], values[places]


class PostingsWriter:
    """Gathers rows in their order: new ones (`add`) and rows of one older index (`keep`)."""

    def __init__(self, values: str = "") -> None:
        """`values` is the type code of `array` for the values; without one, the value of a posting is its term."""
        self._terms = array("i")
        self._values: array[Any] | None = array(values) if values else None
        self._sizes = array("i")
        self._origins = array("i")
        """By row, the row of the older index it is taken from, or -1."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._origins)

    def keep(self, row: int) -> None:
        """Append a row of the older index."""
        self._origins.append(row)

    def keep_all(self, rows: range) -> None:
        """Append rows that lie together in the older index."""
        self._origins.frombytes(np.arange(rows.start, rows.stop, dtype=np.intc).tobytes())

    def add(self, terms: Iterable[int], values: Iterable[float] = ()) -> None:
        """Append a row with its terms, each of them once or, where order within a row counts, as often as it stands."""
        before = len(self._terms)
        self._terms.extend(terms)
        if self._values is not None:
            self._values.extend(values)
        self._sizes.append(len(self._terms) - before)
        self._origins.append(-1)

    def origins(self, length: int) -> Origins:
        """Return where the rows come from, of an older index of `length` rows."""
        return Origins(np.frombuffer(self._origins, np.intc), length)

    def by_row(self, old: Values, fresh: Values) -> Values:
        """Return (rows,) what each row has, from what the older index has for each of its rows and the new ones."""
        origins = np.frombuffer(self._origins, np.intc)
        found = np.empty(len(origins), old.dtype)
        found[origins < 0] = fresh
        found[origins >= 0] = old[origins[origins >= 0]]
        return found

    def added_by_term(self, terms: int) -> Rows:
        """Return (terms,) how many new postings each has."""
        counts = np.zeros(terms, np.int64)
        numbers = np.frombuffer(self._terms, np.intc)
        for start in range(0, len(numbers), _BLOCK):
            counts += np.bincount(numbers[start : start + _BLOCK], minlength=terms)
        return counts

    def merged(
        self, old: PostingTable, origins: Origins, counts: Rows, *, old_groups: Rows, groups: Rows, values: Named = None
    ) -> Iterator[MergedBlock]:
        """Yield all postings by group and within a group by row; what was gathered is used up then.

        `counts` has the number of postings of each group. `old_groups` has by group of the older index its group now,
        in order, -1 if nothing of it is kept; `groups` by new term the group that it belongs to. `values` has by value
        of the older index its value now, and by new term its value; None if values are what they are.
        """
        cuts = _cuts(counts)
        runs = self._sorted(groups, cuts)
        left = np.flatnonzero(old_groups >= 0)
        begins = np.append(left, len(old_groups))[np.searchsorted(old_groups[left], cuts)]
        for number, (first, end) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
            kept = _kept(old, origins, slice(int(begins[number]), int(begins[number + 1])), old_groups - first)
            added = _Run.joined([run(number) for run in runs], first)
            if values is not None:
                kept, added = kept.renamed(values[0]), added.renamed(values[1])
            rows, merged = _merge(kept, added, len(self), in_order=origins.in_order)
            old.release()
            yield MergedBlock(slice(first, end), rows.astype(np.int32, copy=False), merged)

    def _sorted(self, groups: Rows, cuts: Rows) -> list[Callable[[int], tuple[Values, Values, Values]]]:
        """Put the new postings in order of their groups, in place and some rows at a time; return what gives groups,
        rows and values of each of these runs between two of the `cuts`."""
        terms = np.frombuffer(self._terms, np.intc)
        values = terms if self._values is None else np.frombuffer(self._values, self._values.typecode)
        self._terms, self._values = array("i"), None
        fresh = np.flatnonzero(np.frombuffer(self._origins, np.intc) < 0).astype(np.int32)
        rows = np.repeat(fresh, np.frombuffer(self._sizes, np.intc))
        runs = []
        for start in range(0, len(terms), _BLOCK):
            part = slice(start, start + _BLOCK)
            owners = groups[terms[part]]
            order = _order(owners)
            rows[part] = rows[part][order]
            terms[part] = terms[part][order]
            if values is not terms:
                values[part] = values[part][order]
            bounds = start + np.searchsorted(owners[order], cuts)
            runs.append(_between(groups, terms, rows, values, bounds.tolist()))
        return runs


def _between(
    groups: Rows, terms: Values, rows: Values, values: Values, bounds: list[int]
) -> Callable[[int], tuple[Values, Values, Values]]:
    def run(number: int) -> tuple[Values, Values, Values]:
        part = slice(bounds[number], bounds[number + 1])
        return groups[terms[part]], rows[part], values[part]

    return run


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Postings, by group and within a group by row."""

    groups: Callable[[], Values]
    """Their groups: not needed where nothing is merged."""
    rows: Values
    values: Values

    def renamed(self, names: Rows) -> _Run:
        """Return the postings with other values in place of theirs."""
        return _Run(self.groups, self.rows, names[self.values])

    def keys(self, length: int) -> Rows:
        """Return (p,) int64 numbers in order of group and row, of which there are `length`."""
        return self.groups().astype(np.int64) * length + self.rows

    @classmethod
    def joined(cls, runs: list[tuple[Values, Values, Values]], first: int) -> _Run:
        """Return runs one after the other, rows rising from one to the next, as one, groups counted from `first`."""
        if not runs:
            return cls(lambda: np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
        groups, rows, values = (np.concatenate(parts) for parts in zip(*runs, strict=True))
        groups -= first
        order = _order(groups) if len(runs) > 1 else slice(None)
        return cls(lambda: groups[order], rows[order], values[order])


def _kept(old: PostingTable, origins: Origins, groups: slice, names: Rows) -> _Run:
    """Return what is kept of the postings of some groups, whose `names` they have then."""
    span = slice(int(old.starts[groups.start]), int(old.starts[groups.stop]))
    places, rows, values = origins.take(old.rows[span], old.values[span])
    starts = old.starts[groups.start : groups.stop + 1]
    return _Run(lambda: np.repeat(names[groups], np.diff(starts))[places], rows, values)


def _merge(kept: _Run, added: _Run, length: int, *, in_order: bool) -> tuple[Values, Values]:
    """Return rows and values of both; what was kept is in order of group and, if `in_order`, of row."""
    if not len(added.rows) and in_order:
        return kept.rows, kept.values
    if not len(kept.rows):
        return added.rows, added.values
    keys, new = kept.keys(length), added.keys(length)
    if in_order:
        places = np.searchsorted(keys, new, side="right")
        return np.insert(kept.rows, places, added.rows), np.insert(kept.values, places, added.values)
    order = np.argsort(np.concatenate([keys, new]), kind="stable")
    values = np.concatenate([kept.values, added.values.astype(kept.values.dtype)])
    return np.concatenate([kept.rows, added.rows])[order], values[order]


def _order(groups: Values) -> Rows:
    """Return the stable order of numbers from 0, sixteen bits at a time: NumPy sorts those by counting."""
    order: Rows = np.argsort((groups & 0xFFFF).astype(np.uint16), kind="stable")
    if len(groups) and int(groups.max()) > 0xFFFF:
        order = order[np.argsort((groups >> 16)[order].astype(np.uint16), kind="stable")]
    return order


def _cuts(counts: Rows) -> Rows:
    """Return where to part the groups, so that each stretch has about `_BLOCK` postings or is one group."""
    ends = np.cumsum(counts)
    cuts, at = [0], 0
    while at < len(counts):
        done = int(ends[at - 1]) if at else 0
        at = max(at + 1, int(np.searchsorted(ends, done + _BLOCK, side="right")))
        cuts.append(at)
    return np.array(cuts, np.int64)


def kept_by_group(old: PostingTable, origins: Origins) -> Rows:
    """Return (groups,) how many postings of each group of the older index are kept, as often as each of them is."""
    counts = np.diff(old.starts)
    if origins.all:
        return counts
    counts = counts.astype(np.int64)
    for block in old.blocks():
        others = np.flatnonzero(origins.times[old.rows[block]] != 1)
        owners = np.searchsorted(old.starts, others + block.start, side="right") - 1
        np.add.at(counts, owners, origins.times[old.rows[block][others]].astype(np.int64) - 1)
    return counts


def kept_values(old: PostingTable, origins: Origins, length: int) -> NDArray[np.bool_]:
    """Return (length,) which of the values 0 to `length` any posting that is kept has."""
    used = np.zeros(length, np.bool_)
    for block in old.blocks():
        if origins.all:
            used[old.values[block]] = True
        else:
            used[old.values[block][origins.times[old.rows[block]] > 0]] = True
    return used
