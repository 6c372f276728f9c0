"""Requests for candidates to an engine, and what indexes over all kinds of parts have in common.

What a request sends and returns is bounded for any number of rows: a list has the requested length, rows are named by
number only if they are few or no condition describes them, and the engine counts them up to a limit.

Rows of a part, or groups of them, as the units of a list. A group is worth its best row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates
from retrieve_cli.contracts.engines import AnyOf, Capabilities, Part, Within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts.values import Mask, Rows, Vectors


Q = TypeVar("Q")
T = TypeVar("T")

_AT_ONCE = 16
"""Requests of a batch that wait for the engine at the same time."""
_SCORED = 10_000
"""Rows that the engine scores at a time."""
FEW = 512
"""Rows up to which a search names the rows that it may find, and is exact."""
_SLACK = 32
"""Minimum candidates beyond the depth."""
_MOST = 8192
"""Length of the longest list that is requested from an engine for a usual depth."""


class ListRequest(NamedTuple):
    """Limits of one search."""

    depth: int
    units: Units
    allowed: Mask | None
    visible: Mask | None
    conditions: Sequence[AnyOf] | None
    seen: Sequence[AnyOf] | None


class Scope(NamedTuple):
    """Rows that may be listed: the rows of some units."""

    units: Units
    mask: Mask | None
    """(units,) bool; None: all."""
    size: int
    """Number of the rows; of their units if many are named by conditions."""
    within: Within | None
    """The same as the engine takes it; None if it cannot be sent, or all rows may be listed."""

    @property
    def sent(self) -> bool:
        """True if the engine knows which rows may be listed."""
        return self.mask is None or self.within is not None

    def kept(self, rows: Rows, scores: Vectors) -> tuple[Rows, Vectors]:
        """Return those rows of a list that may be listed, with their scores."""
        places = self.places(rows)
        return rows[places], scores[places]

    def places(self, rows: Rows) -> Mask | slice:
        """Return the places of those rows of a list that may be listed."""
        return slice(None) if self.mask is None else self.mask[self.units.of(rows)]

    def rows(self) -> Rows:
        """Return all of them, ascending."""
        return self.units.rows(np.arange(self.units.count) if self.mask is None else self.mask.nonzero()[0])[0]

    @property
    def few(self) -> bool:
        """True if the engine knows them and they are so few that a list has all of them."""
        return self.sent and self.size <= FEW


class EngineIndex(ABC, Generic[Q]):
    """A `contracts.Index` over a part in an engine. Failures of the engine pass through unchanged."""

    def __init__(self, *, part: Part, capabilities: Capabilities) -> None:
        self.unit = part.unit
        self._rows = part.rows
        self._most_rows = capabilities.most_rows

    def __len__(self) -> int:
        return self._rows

    @property
    def takes_conditions(self) -> bool:
        """True: it is a `RemoteIndex`."""
        return True

    def search(
        self,
        queries: Sequence[Q],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
        conditions: Sequence[Sequence[AnyOf] | None] | None = None,
        seen: Sequence[Sequence[AnyOf] | None] | None = None,
    ) -> list[Candidates]:
        """Return the best rows, or groups. Each query is sent on its own, so its answer ignores the batch.

        `conditions` express `allowed` in values that an engine compares, and `seen` expresses `visible`; None: only the
        mask does.
        """
        units, none = Units(len(self), starts), [None] * len(queries)
        limits = zip(allowed or none, visible or none, conditions or none, seen or none, strict=True)
        wanted = [ListRequest(depth, units, *each) for each in limits]
        return side_by_side([partial(self._find, *each) for each in zip(queries, wanted, strict=True)])

    @abstractmethod
    def _find(self, query: Q, wanted: ListRequest) -> Candidates:
        """Return the candidates for one query."""

    def scope(self, units: Units, mask: Mask | None, conditions: Sequence[AnyOf] | None) -> Scope:
        """Return the rows of the units in a mask, None for all, and how they are named to the engine: by number if they
        are few, else by conditions, else by number if it takes as many."""
        if mask is None:
            return Scope(units, None, len(self), None)
        count = units.total(mask)
        if conditions is None or count <= FEW:  # else no array of the rows is made
            count = int(units.sizes(mask.nonzero()[0]).sum())
        if conditions is not None and count > min(FEW, self._most_rows):
            return Scope(units, mask, count, Within(conditions=conditions))
        scope = Scope(units, mask, count, None)
        return scope._replace(within=Within(rows=scope.rows())) if count <= self._most_rows else scope

    def listed(self, wanted: ListRequest, scope: Scope, ask: Ask) -> tuple[Rows, Vectors]:
        """Return the best units of a list of the engine that is long enough, if it gives one, and their scores."""
        units, depth = wanted.units, wanted.depth
        if not scope.size:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        length = 2 * depth + _SLACK if units.grouped else depth + max(depth // 4, _SLACK)
        if scope.few:
            length = scope.size
        elif not scope.sent:
            length = length * len(self) // scope.size
        while True:
            rows, scores = ask.nearest(length, within=scope.within, exact=scope.few)
            listed = ask.worth(units, *scope.kept(rows, scores))
            if len(listed[0]) >= depth or len(rows) < length or 2 * length > max(_MOST, 4 * depth):
                return best(*listed, depth)
            length *= 2

    def score(self, query: Q, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the score of each of `rows`, or of the best row of each group of rows."""
        units = Units(len(self), starts)
        listed, places = distinct(rows)
        members, _ = units.rows(listed)
        return units.worth(members, self.scores(query, members))[1][places]

    def scores(self, query: Q, rows: Rows) -> Vectors:
        """Return the score of each of some rows, (m,) float32, however many these are."""
        pieces = [rows[start : start + _SCORED] for start in range(0, len(rows), _SCORED)]
        parts = side_by_side([partial(self.ask_scores, query, piece) for piece in pieces])
        return np.concatenate([np.empty(0, np.float32), *parts])

    @abstractmethod
    def ask_scores(self, query: Q, rows: Rows) -> Vectors:
        """Return the engine's score of each of some rows, (m,) float32."""


class Ask(NamedTuple):
    """A question to a part."""

    nearest: Callable[..., tuple[Rows, Vectors]]
    """Returns the best rows and their scores, best first: `nearest(limit, within=..., exact=...)`."""
    worth: Callable[[Units, Rows, Vectors], tuple[Rows, Vectors]]
    """Returns the units that some rows are of, and their scores."""


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results of calls that wait for a server, in their order."""
    if len(calls) < 2:
        return [call() for call in calls]
    from concurrent.futures import ThreadPoolExecutor  # not needed for a single call

    with ThreadPoolExecutor(min(_AT_ONCE, len(calls))) as threads:
        return [done.result() for done in [threads.submit(call) for call in calls]]


Number = TypeVar("Number", np.int32, np.int64)


class Units:
    """The rows of a part; with `starts` (first row of each group, then the number of rows) its groups."""

    def __init__(self, rows: int, starts: Rows | None) -> None:
        several = starts is not None and len(starts) > 1 and int(starts[-1]) > len(starts) - 1
        self.starts = starts if several else None
        self.grouped = starts is not None
        self.count = rows if starts is None else len(starts) - 1

    def of(self, rows: Rows) -> Rows:
        """Return the unit of each row."""
        return rows if self.starts is None else np.searchsorted(self.starts, rows, side="right") - 1

    def sizes(self, units: Rows) -> Rows:
        """Return the number of rows of each unit."""
        return np.ones(len(units), np.int64) if self.starts is None else self.starts[units + 1] - self.starts[units]

    def rows(self, units: Rows) -> tuple[Rows, Rows]:
        """Return all rows of some units, and the place in `units` that each belongs to, ascending."""
        sizes = self.sizes(units)
        owners = np.repeat(np.arange(len(units)), sizes)
        if self.starts is None:
            return units, owners
        return np.repeat(self.starts[units] - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(owners)), owners

    def total(self, mask: Mask | None) -> int:
        """Return the number of units in a mask; all units if there is no mask."""
        return self.count if mask is None else int(mask.sum())

    def worth(self, rows: Rows, scores: Vectors) -> tuple[Rows, Vectors]:
        """Return the units that have any of these different rows, ascending, and the best of their scores."""
        order = np.argsort(rows, kind="stable")
        units, scores = self.of(rows[order]), scores[order]
        first = np.flatnonzero(np.append(True, units[1:] != units[:-1])[: len(units)])
        return units[first], (np.maximum.reduceat(scores, first) if len(first) else scores)


def distinct(numbers: NDArray[Number]) -> tuple[NDArray[Number], Rows]:
    """Return different numbers, ascending, and the place of each given number among them. (numpy.unique would import
    numpy.ma.)"""
    ordered = np.sort(numbers)
    different = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return different, np.searchsorted(different, numbers)


def best(units: Rows, scores: Vectors, depth: int) -> tuple[Rows, Vectors]:
    """Return the `depth` units with the highest scores and these, best first; equal ones in order of the units."""
    order = np.lexsort((units, -scores))[:depth]
    return units[order].astype(np.int64), scores[order]


def spread(scores: Vectors) -> tuple[float, float]:
    """Return mean and standard deviation of the scores of a list; 0 without any."""
    return (float(scores.mean()), float(scores.std())) if len(scores) else (0.0, 0.0)
