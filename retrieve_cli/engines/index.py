"""Indexes whose lists come from an engine. Counts, and scores of other rows, come from the local files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from retrieve_cli.contracts import Candidates, Index, Matching
from retrieve_cli.contracts.engines import AnyOf, Capabilities, Collection, Within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts.engines import EngineQuery
    from retrieve_cli.contracts.values import Mask, Rows, Unit, Vectors

Q = TypeVar("Q")
T = TypeVar("T")

_AT_ONCE = 16
"""Requests of a batch that wait for the engine at the same time."""
NAMED = 512
"""Rows up to which a search names the rows that it may find."""
_SLACK = 32
"""Rows beyond the depth in a list, since some of them may not be listed."""
_LONGEST = 10_000
"""Length of the longest list that is requested from an engine."""


class EngineIndex(Generic[Q]):
    """A `contracts.RemoteIndex` over a part in an engine. Failures of the engine pass through unchanged."""

    def __init__(
        self,
        local: Index[Q],
        collection: Collection,
        *,
        capabilities: Capabilities,
        form: Callable[[Q], EngineQuery],
        lowest: Callable[..., Rows],
    ) -> None:
        """`form` turns a query of the local index into one that the engine takes; `lowest` puts rows in the order of
        their ids."""
        self.local = local
        self.unit: Unit = local.unit
        self._collection = collection
        self._most_rows = capabilities.most_rows
        self._form = form
        self._lowest = lowest

    def __len__(self) -> int:
        return len(self.local)

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
    ) -> list[Candidates]:
        """Return the best rows, or groups. Each query is sent on its own, so its answer ignores the batch.

        `conditions` express `allowed` in values that an engine compares; None: only the mask does.
        """
        none = [None] * len(queries)
        masks = zip(allowed or none, visible or none, conditions or none, strict=True)
        return _side_by_side(
            [partial(self._find, query, depth, starts, *limits) for query, limits in zip(queries, masks, strict=True)]
        )

    def score(self, query: Q, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the local score of each of `rows`, or groups."""
        return self.local.score(query, rows, starts=starts)

    def _find(
        self,
        query: Q,
        depth: int,
        starts: Rows | None,
        allowed: Mask | None,
        visible: Mask | None,
        conditions: Sequence[AnyOf] | None,
    ) -> Candidates:
        rows, scores = self._best(query, depth, starts, allowed, conditions)
        mean, deviation = (float(scores.mean()), float(scores.std())) if len(scores) else (0.0, 0.0)
        before, after = self._counts(query, starts, allowed, visible)
        return Candidates(rows, scores, mean, deviation, before, after)

    def _counts(
        self,
        query: Q,  # noqa: ARG002
        starts: Rows | None,
        allowed: Mask | None,
        visible: Mask | None,
    ) -> tuple[int, int]:
        """Return the number of visible and of allowed units that could be listed: here, all."""
        total = len(self) if starts is None else len(starts) - 1
        before = total if visible is None else int(visible.sum())
        return before, total if allowed is None else int(allowed.sum())

    def _best(
        self,
        query: Q,
        depth: int,
        starts: Rows | None,
        allowed: Mask | None,
        conditions: Sequence[AnyOf] | None,
    ) -> tuple[Rows, Vectors]:
        """Return the best units of the engine's list, and their scores."""
        total = len(self) if starts is None else len(starts) - 1
        passing = total if allowed is None else int(allowed.sum())
        if not depth or not passing:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        within = None if allowed is None else self._within(starts, allowed, conditions)
        length = depth * -(-len(self) // total) + _SLACK  # as many rows as that many units have on average
        if within is None:
            length = length * total // passing
        elif within.rows is not None and len(within.rows) <= NAMED:
            length = len(within.rows)
        rows, scores = self._collection.nearest(self._form(query), min(length, _LONGEST), within=within)
        rows, scores = _grouped(rows, scores, starts)
        if allowed is not None:
            rows, scores = rows[allowed[rows]], scores[allowed[rows]]
        rows, scores = self._by_id(rows, scores, unit=self.unit if starts is None else "record")
        order = np.argsort(_rounded(scores), kind="stable")[:depth]
        return rows[order], scores[order]

    def _by_id(self, rows: Rows, scores: Vectors, *, unit: Unit) -> tuple[Rows, Vectors]:
        """Return rows and their scores in the order of their ids if some scores are equal, else in any order."""
        keys = np.sort(_rounded(scores))
        if not (keys[1:] == keys[:-1]).any():
            return rows, scores
        order = np.argsort(rows)
        by_id = self._lowest(rows, len(rows), unit=unit)
        return by_id, scores[order][np.searchsorted(rows[order], by_id)]

    def _within(self, starts: Rows | None, allowed: Mask, conditions: Sequence[AnyOf] | None) -> Within | None:
        """Return the allowed units as the engine takes them: by number if they are few, else by conditions; None if it
        takes neither."""
        if conditions is not None and int(allowed.sum()) > NAMED:
            return Within(conditions=conditions)
        rows = np.flatnonzero(allowed if starts is None else np.repeat(allowed, np.diff(starts)))
        if len(rows) <= self._most_rows:
            return Within(rows=rows)
        return None if conditions is None else Within(conditions=conditions)


class TermEngineIndex(EngineIndex[Q]):
    """An index of terms: only rows that share one with the query are listed and counted."""

    local: Matching[Q]  # type: ignore[assignment]

    def matching(self, query: Q, *, starts: Rows | None = None, allowed: Mask | None = None) -> Rows:
        """Return the rows (or groups) with a term of the query, in ascending order."""
        return self.local.matching(query, starts=starts, allowed=allowed)

    def _counts(self, query: Q, starts: Rows | None, allowed: Mask | None, visible: Mask | None) -> tuple[int, int]:
        rows = self.local.matching(query, starts=starts, allowed=visible)
        return len(rows), len(rows) if allowed is None else int(allowed[rows].sum())


def _side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results of calls that wait for a server, in their order."""
    if len(calls) < 2:
        return [call() for call in calls]
    from concurrent.futures import ThreadPoolExecutor  # not needed for a single call

    with ThreadPoolExecutor(min(_AT_ONCE, len(calls))) as threads:
        return [done.result() for done in [threads.submit(call) for call in calls]]


def _rounded(scores: Vectors) -> NDArray[np.float64]:
    """Return keys by which rows are ordered, best first."""
    return np.asarray(-np.round(scores.astype(np.float64), 6), np.float64)


def _grouped(rows: Rows, scores: Vectors, starts: Rows | None) -> tuple[Rows, Vectors]:
    """Return the groups that some rows are of, ascending, and the best score of each."""
    if starts is None or not len(rows):
        return rows, scores
    order = np.argsort(rows, kind="stable")
    groups = np.searchsorted(starts, rows[order], side="right") - 1
    first = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    return groups[first], np.maximum.reduceat(scores[order], first)
