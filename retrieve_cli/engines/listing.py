"""Requests for candidates to an engine, and what indexes over all kinds of parts have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from retrieve_cli.contracts import Candidates, Unit
from retrieve_cli.contracts.engines import AnyOf, Capabilities, Part, Within
from retrieve_cli.contracts.values import Q_contra
from retrieve_cli.engines.units import Units
from retrieve_cli.storage.sampled_groups import spread_within

if TYPE_CHECKING:
    from typing import Self

    from retrieve_cli.contracts.values import Mask, Rows, Vectors

Q = TypeVar("Q")

_AT_ONCE = 4
"""Queries of a batch that wait for the engine at the same time."""
_SLACK = 32
"""Minimum candidates beyond the depth."""
_MOST = 8192
"""Length of the longest list that is requested from an engine for a usual depth."""


class Statistics(Protocol[Q_contra]):
    """Mean and deviation of a query's scores over all rows, without a pass over them."""

    def spread(self, query: Q_contra, *, grouped: bool) -> tuple[float, float]:
        """Return mean and standard deviation of the scores of all rows, or of the best rows of all groups."""


class Wanted(NamedTuple):
    """Limits of one search."""

    depth: int
    units: Units
    allowed: Mask | None
    visible: Mask | None
    conditions: Sequence[AnyOf] | None


class Request(NamedTuple):
    """Terms on which an engine is asked for a list."""

    depth: int
    """Units that are needed, of which there are as many."""
    mask: Mask | None
    """Rows that may be listed; None: all."""
    within: Within | None
    """The same as the engine takes it; None if it cannot be sent."""
    first: int
    """Length of the first list."""

    def lengths(self) -> Iterator[int]:
        """Yield lengths of lists, each twice the one before."""
        length = self.first
        while length <= max(_MOST, 4 * self.depth):
            yield length
            length *= 2

    def kept(self, rows: Rows, scores: Vectors) -> tuple[Rows, Vectors]:
        """Return those rows of a list that may be listed, with their scores."""
        if self.mask is None:
            return rows, scores
        kept = self.mask[rows]
        return rows[kept], scores[kept]


class EngineIndex(ABC, Generic[Q]):
    """A `contracts.Index` over a part in an engine. Failures of the engine pass through as they are."""

    def __init__(self, *, part: Part, capabilities: Capabilities, statistics: Statistics[Q]) -> None:
        self._part = part
        self._most_rows = capabilities.most_rows
        self._statistics = statistics
        self._lock = Lock()
        self._completed = 0
        self.population: Mask | None = None
        """Rows that the mean and the deviation of scores are computed over; None: all."""

    @property
    def unit(self) -> Unit:
        return self._part.unit

    @property
    def completed(self) -> int:
        """Number of lists that the engine left short or undecided, and that were completed exactly."""
        return self._completed

    def __len__(self) -> int:
        return self._part.rows

    def within(self, rows: Mask) -> Self:
        """Return the index over some rows, (n,) bool."""
        view = copy(self)
        view.population = rows
        return view

    def _spread(self, query: Q, units: Units) -> tuple[float, float]:
        """Return mean and standard deviation of the scores of all rows, or of the best rows of all groups."""
        if self.population is None:
            return self._statistics.spread(query, grouped=units.grouped)
        return spread_within(self.population, units.starts, partial(self._sampled, query))

    @abstractmethod
    def _sampled(self, query: Q, rows: Rows) -> Vectors:
        """Return the scores of a sample of the population, (m,) float32."""

    def search(
        self,
        queries: Sequence[Q],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
        conditions: Sequence[Sequence[AnyOf] | None] | None = None,
    ) -> list[Candidates]:
        """Return the best rows, or groups. Each query is sent on its own, so its answer ignores the batch.

        `conditions` say the same as `allowed`, in words that an engine understands; None: only the mask says it.
        """
        units, none = Units(len(self), starts), [None] * len(queries)
        limits = zip(allowed or none, visible or none, conditions or none, strict=True)
        wanted = [Wanted(depth, units, *each) for each in limits]
        if len(queries) < 2:
            return [self._find(query, each) for query, each in zip(queries, wanted, strict=True)]
        from concurrent.futures import ThreadPoolExecutor  # not needed for a single query

        with ThreadPoolExecutor(min(_AT_ONCE, len(queries))) as threads:
            return list(threads.map(self._find, queries, wanted))

    @abstractmethod
    def _find(self, query: Q, wanted: Wanted) -> Candidates:
        """Return the candidates for one query."""

    def request(self, wanted: Wanted, rows: Rows | None, among: int, depth: int) -> Request:
        """Return the request for the best `depth` units of those with some `rows`, of `among` that could be listed.

        `rows` is None if nothing restricts them.
        """
        mask, units = wanted.allowed, wanted.units
        first = 2 * depth + _SLACK if units.grouped else depth + max(depth // 4, _SLACK)
        if mask is None or rows is None:
            return Request(depth, None, None, first)
        in_rows = units.rows_in(mask)
        if len(rows) <= self._most_rows:
            return Request(depth, in_rows, Within(rows=rows), first)
        if wanted.conditions is not None:
            return Request(depth, in_rows, Within(conditions=wanted.conditions), first)
        return Request(depth, in_rows, None, first * among // len(rows))

    def count(self) -> None:
        """Count a list that the engine left short."""
        with self._lock:
            self._completed += 1
