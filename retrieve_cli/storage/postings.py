"""Common writer of inverted files: merges the postings of new rows with the postings of an older index.

BM25, learned sparse vectors and the columns of records all store postings by group (a term, a field): the rows of the
group, with a number for each. A row is added, or copied from one older index without reading its text. The same rows
give the same arrays, whether they were added or copied; therefore `sync` writes the same bytes as a build from scratch.

Collected postings take eight bytes each. They are sorted and merged one range of groups at a time, so that nothing else
of the size of the index is ever in memory: merged blocks go to the disk immediately.

Rows of an index on their way into an engine.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.contracts.engines import Part

    Values = NDArray[Any]
    Named: TypeAlias = tuple[Rows, Rows] | None

_BLOCK = 1 << 20
"""Postings sorted or merged at a time."""


class PostingTable(Frozen, eq=False):
    """Postings of an older index: group g is from `starts[g]` to `starts[g + 1]`, in order of row."""

    starts: Rows
    """Start of each group, (g + 1,)."""
    rows: Values
    """Row of each posting, (p,)."""
    values: Values
    """Frequency, weight, or number of a value of each posting, (p,)."""
    length: int
    """Number of rows."""

    def blocks(self) -> Iterator[slice]:
        """Yield all postings, one block at a time."""
        for start in range(0, len(self.rows), _BLOCK):
            yield slice(start, min(start + _BLOCK, len(self.rows)))


class MergedBlock(Frozen, eq=False):
    """Postings of some groups, by group and then by row."""

    groups: slice
    rows: NDArray[np.int32]
    values: Values


@contextmanager
def _referring() -> Iterator[None]:
    """Convert the error of NumPy for a damaged index, which refers to a row or a value that it does not have."""
    try:
        yield
    except IndexError as error:
        message = f"an index refers to a missing row or value ({error})"
        raise IndexCorrupt(message, hint="build again: retrieve build") from error


class Origins:
    """Origins of the rows of an index: rows of an older index, or new."""

    def __init__(self, origins: Rows, length: int) -> None:
        """`origins` has for each row its row in the older index, or -1; the older index has `length` rows."""
        kept = np.flatnonzero(origins >= 0)
        old = origins[kept]
        self.times = np.bincount(old, minlength=length).astype(np.int32)
        """Number of rows that each older row became, (length,)."""
        self.all = bool((self.times == 1).all())
        """True if each older row became exactly one row."""
        self._single = bool((self.times <= 1).all())
        self.in_order = self._single and bool((old[1:] > old[:-1]).all())
        """True if the kept rows are in their former order."""
        kept = kept if self.in_order else kept[np.argsort(old, kind="stable")]
        self._kept = kept.astype(np.int32)
        self._first = np.cumsum(self.times) - self.times

    @_referring()
    def take(self, rows: Values, values: Values) -> tuple[Rows, Values, Values]:
        """Return places, new rows and values of the postings of the older index that are kept."""
        times = self.times[rows]
        if self._single:
            places = np.flatnonzero(times) if not self.all else np.arange(len(rows))
            chosen = slice(None) if len(places) == len(rows) else places
            return places, self._kept[self._first[rows[chosen]]], values[chosen]
        places = np.repeat(np.arange(len(rows)), times)
        number = np.arange(len(places)) - np.repeat(np.cumsum(times) - times, times)
        return places, self._kept[self._first[rows[places]] + number], values[places]


class PostingsWriter:
    """Collector of rows in order: new ones (`add`) and rows of one older index (`keep`)."""

    def __init__(self, values: str = "") -> None:
        """`values` is the type code of `array` for the values; without one, the value of a posting is its term."""
        self._terms = array("i")
        self._values: array[Any] | None = array(values) if values else None
        self._sizes = array("i")
        self._origins = array("i")
        """Row of the older index for each row, or -1."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._origins)

    def keep(self, row: int) -> None:
        """Append a row of the older index."""
        self._origins.append(row)

    def keep_all(self, rows: range) -> None:
        """Append a contiguous range of rows of the older index."""
        self._origins.frombytes(np.arange(rows.start, rows.stop, dtype=np.intc).tobytes())

    def add(self, terms: Iterable[int], values: Iterable[float] = ()) -> None:
        """Append a row with its terms: each once or, if the order within a row counts, as often as it occurs."""
        before = len(self._terms)
        self._terms.extend(terms)
        if self._values is not None:
            self._values.extend(values)
        self._sizes.append(len(self._terms) - before)
        self._origins.append(-1)

    def origins(self, length: int) -> Origins:
        """Return the origins of the rows, for an older index of `length` rows."""
        return Origins(np.frombuffer(self._origins, np.intc), length)

    def by_row(self, old: Values, fresh: Values) -> Values:
        """Return a value per row, (rows,), from the values of the older rows and of the new rows."""
        origins = np.frombuffer(self._origins, np.intc)
        values = np.empty(len(origins), old.dtype)
        values[origins < 0] = fresh
        values[origins >= 0] = old[origins[origins >= 0]]
        return values

    def added_by_term(self, terms: int) -> Rows:
        """Return the number of new postings of each term, (terms,)."""
        counts = np.zeros(terms, np.int64)
        numbers = np.frombuffer(self._terms, np.intc)
        for start in range(0, len(numbers), _BLOCK):
            counts += np.bincount(numbers[start : start + _BLOCK], minlength=terms)
        return counts

    def merged(
        self, old: PostingTable, origins: Origins, counts: Rows, *, old_groups: Rows, groups: Rows, values: Named = None
    ) -> Iterator[MergedBlock]:
        """Yield all postings by group and then by row. This consumes the collected rows.

        `counts` has the number of postings of each group. `old_groups` has for each group of the older index its new
        group, in order, -1 if it is not kept; `groups` has the group of each new term. `values` has for each value of
        the older index its new value, and the value of each new term; None if values stay unchanged.
        """
        cuts = even_cuts(counts)
        runs = self._sorted(groups, cuts)
        left = np.flatnonzero(old_groups >= 0)
        begins = np.append(left, len(old_groups))[np.searchsorted(old_groups[left], cuts)]
        for number, (first, end) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
            kept = _kept(old, origins, slice(int(begins[number]), int(begins[number + 1])), old_groups - first)
            added = _Run.joined([run(number) for run in runs], first)
            if values is not None:
                kept, added = kept.renamed(values[0]), added.renamed(values[1])
            rows, merged = _merge(kept, added, len(self), in_order=origins.in_order)
            yield MergedBlock(slice(first, end), rows.astype(np.int32, copy=False), merged)

    def _sorted(self, groups: Rows, cuts: Rows) -> Sequence[Callable[[int], tuple[Values, Values, Values]]]:
        """Sort the new postings by group, in place and block by block; return for each of these runs a function for
        its groups, rows and values between two of the `cuts`."""
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
            runs.append(partial(_between, groups, terms, rows, values, bounds.tolist()))
        return runs


def _between(
    groups: Rows, terms: Values, rows: Values, values: Values, bounds: list[int], number: int
) -> tuple[Values, Values, Values]:
    part = slice(bounds[number], bounds[number + 1])
    return groups[terms[part]], rows[part], values[part]


class _Run(Frozen, eq=False):
    """Postings, by group and then by row."""

    groups: Callable[[], Values]
    """Function for their groups, which are only needed for merging."""
    rows: Values
    values: Values

    def renamed(self, names: Rows) -> _Run:
        """Return the postings with their values replaced."""
        return _Run(self.groups, self.rows, names[self.values])

    def keys(self, length: int) -> Rows:
        """Return (p,) int64 sort keys by group and row, of which there are `length`."""
        return self.groups().astype(np.int64) * length + self.rows

    @classmethod
    def joined(cls, runs: list[tuple[Values, Values, Values]], first: int) -> _Run:
        """Concatenate runs with ascending rows into one run; groups are counted from `first`."""
        if not runs:
            return cls(lambda: np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
        groups, rows, values = (np.concatenate(parts) for parts in zip(*runs, strict=True))
        groups -= first
        order = _order(groups) if len(runs) > 1 else slice(None)
        return cls(lambda: groups[order], rows[order], values[order])


@_referring()
def _kept(old: PostingTable, origins: Origins, groups: slice, names: Rows) -> _Run:
    """Return the kept postings of some groups, under the new `names` of these groups."""
    span = slice(int(old.starts[groups.start]), int(old.starts[groups.stop]))
    places, rows, values = origins.take(old.rows[span], old.values[span])
    starts = old.starts[groups.start : groups.stop + 1]
    return _Run(lambda: np.repeat(names[groups], np.diff(starts))[places], rows, values)


def _merge(kept: _Run, added: _Run, length: int, *, in_order: bool) -> tuple[Values, Values]:
    """Return rows and values of both runs; `kept` is sorted by group and, if `in_order`, by row."""
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
    """Return the stable order of numbers from 0, sixteen bits at a time, for which NumPy uses a counting sort."""
    order: Rows = np.argsort((groups & 0xFFFF).astype(np.uint16), kind="stable")
    if len(groups) and int(groups.max()) > 0xFFFF:
        order = order[np.argsort((groups >> 16)[order].astype(np.uint16), kind="stable")]
    return order


def even_cuts(counts: Rows) -> Rows:
    """Return boundaries that divide the groups into ranges of about `_BLOCK` postings, or of one group."""
    ends = np.cumsum(counts)
    cuts, last = [0], 0
    while last < len(counts):
        done = int(ends[last - 1]) if last else 0
        last = max(last + 1, int(np.searchsorted(ends, done + _BLOCK, side="right")))
        cuts.append(last)
    return np.array(cuts, np.int64)


@_referring()
def kept_by_group(old: PostingTable, origins: Origins) -> Rows:
    """Return the number of kept postings of each group of the older index, (groups,), counting multiple copies."""
    counts = np.diff(old.starts)
    if origins.all:
        return counts
    counts = counts.astype(np.int64)
    for block in old.blocks():
        others = np.flatnonzero(origins.times[old.rows[block]] != 1)
        owners = np.searchsorted(old.starts, others + block.start, side="right") - 1
        np.add.at(counts, owners, origins.times[old.rows[block][others]].astype(np.int64) - 1)
    return counts


@_referring()
def kept_values(old: PostingTable, origins: Origins, length: int) -> NDArray[np.bool_]:
    """Return (length,) bool: True for the values from 0 to `length` that occur in a kept posting."""
    used = np.zeros(length, np.bool_)
    for block in old.blocks():
        if origins.all:
            used[old.values[block]] = True
        else:
            used[old.values[block][origins.times[old.rows[block]] > 0]] = True
    return used


_SORTED = 1 << 20
"""Postings sorted at a time: they stay in the processor's cache."""


class PostingBlock(NamedTuple):
    """Postings by group and then by row."""

    rows: NDArray[np.int32]
    values: Values


class PostingSorter:
    """Collector of postings: a group (a term), a row and a float32 value each, twelve bytes in memory."""

    def __init__(self) -> None:
        self._groups = array("i")
        self._rows = array("i")
        self._values = array("f")

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, groups: Values, rows: Values, values: Values) -> None:
        """Add postings, (p,) each; a group has a row once."""
        self._groups.frombytes(groups.astype(np.intc, copy=False).tobytes())
        self._rows.frombytes(rows.astype(np.intc, copy=False).tobytes())
        self._values.frombytes(values.astype(np.float32, copy=False).tobytes())

    def blocks(self) -> Iterator[PostingBlock]:
        """Yield the rows and values of all postings in the order in which they were added."""
        rows, values = np.frombuffer(self._rows, np.intc), np.frombuffer(self._values, np.float32)
        for start in range(0, len(rows), _SORTED):
            block = slice(start, start + _SORTED)
            yield PostingBlock(rows[block], values[block])

    def counts(self, groups: int) -> Rows:
        """Return the number of postings of each of the groups, (groups,)."""
        counts = np.zeros(groups, np.int64)
        numbers = np.frombuffer(self._groups, np.intc)
        for start in range(0, len(numbers), _SORTED):
            counts += np.bincount(numbers[start : start + _SORTED], minlength=groups)
        return counts

    def sorted(self, counts: Rows, numbers: Rows | NDArray[np.int32]) -> Iterator[PostingBlock]:
        """Yield all postings by the number of their group and then by row. This consumes them.

        `numbers` has the number of each group, and `counts` the number of postings of each number.
        """
        groups = np.frombuffer(self._groups, np.intc)
        for start in range(0, len(groups), _SORTED):
            groups[start : start + _SORTED] = numbers[groups[start : start + _SORTED]]
        rows, values = np.frombuffer(self._rows, np.intc), np.frombuffer(self._values, np.float32)
        for first, end in pairwise(even_cuts(counts).tolist()):
            order = _in_order(groups, rows, first, end)
            yield PostingBlock(rows[order], values[order])


def _in_order(groups: Values, rows: Values, first: int, end: int) -> Rows:
    """Return the places of the postings of the groups from `first` to `end`, by group and then by row."""
    places = np.flatnonzero((groups >= first) & (groups < end))
    added = rows[places]
    if bool((added[1:] < added[:-1]).any()):
        places = places[np.argsort(added, kind="stable")]
    # Sorting numbers with their places in the lower half is five times as fast as argsort.
    keys = (groups[places].astype(np.int64) - first) << 32 | np.arange(len(places))
    keys.sort()
    order: Rows = places[keys & 0xFFFFFFFF]
    return order


_POSTINGS = 1 << 23
"""Postings that are sorted by row at a time; bounds the memory."""
_ROWS = 2048
"""Rows passed on at a time."""


class Exported(NamedTuple):
    """Rows of an index for an engine: either vectors, or an inverted file."""

    part: Part
    vectors: Callable[[], Iterator[Vectors]] | None = None
    """Function that returns all vectors in blocks, (m, dim) float32 each."""
    postings: PostingTable | None = None

    def blocks(self) -> Iterator[Vectors | list[TermWeights]]:
        """Yield all rows in order, some at a time."""
        if self.vectors is not None:
            yield from self.vectors()
        elif self.postings is not None:
            yield from weights_by_row(self.postings)


def weights_by_row(table: PostingTable) -> Iterator[list[TermWeights]]:
    """Yield the rows of an inverted file in order, some at a time, each with its terms in ascending order.

    Groups of the table are terms. The postings are read once for every eight millions of them.
    """
    total = int(table.starts[-1])
    parts = max(1, -(-total // _POSTINGS))
    counts = np.bincount(table.rows, minlength=table.length) if parts > 1 else np.empty(0, np.int64)
    bounds = [0, *np.searchsorted(np.cumsum(counts), [part * total / parts for part in range(1, parts)]), table.length]
    for first, end in pairwise(bounds):
        yield from _rows(table, int(first), int(end))


def _rows(table: PostingTable, first: int, end: int) -> Iterator[list[TermWeights]]:
    """Yield rows from `first` up to but not `end`, from one pass over the postings."""
    chosen = np.flatnonzero((table.rows >= first) & (table.rows < end))
    rows = table.rows[chosen]
    order = chosen[np.argsort(rows, kind="stable")]  # postings are in order of term: so are those of a row
    terms = (np.searchsorted(table.starts, order, side="right") - 1).astype(np.int32)
    weights = table.values[order].astype(np.float32)
    ends = np.searchsorted(np.sort(rows), np.arange(first, end + 1))
    for start in range(first, end, _ROWS):
        stop = min(start + _ROWS, end)
        places = ends[start - first : stop - first + 1].tolist()
        yield [TermWeights(terms[low:high], weights[low:high]) for low, high in pairwise(places)]
