"""Indexes over the parts of a generation in an engine, which computes lists, scores and numbers of matches, all of
them bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Candidates, Relation, TermWeights
from retrieve_cli.contracts.engines import AnyOf, Capabilities, Part, TermCollection, VectorCollection, Within
from retrieve_cli.engines.listing import Ask, EngineIndex, ListRequest, Scope, Units, distinct, side_by_side, spread

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Mask, Rows, Vectors

COUNTED = 10_000
"""Number up to which matches are counted; beyond it, only a lower bound is reported."""
_GROUPED = 2_000
"""Matching rows that are read, at most, to count the records that they are of."""


class VectorEngineIndex(EngineIndex["Vectors"]):
    """Index of vectors in an engine: scores are inner products of the stored vectors."""

    def __init__(self, collection: VectorCollection, *, part: Part, capabilities: Capabilities) -> None:
        super().__init__(part=part, capabilities=capabilities)
        self._collection = collection

    def ask_scores(self, query: Vectors, rows: Rows) -> Vectors:
        """Return the inner product with each of some rows, (m,) float32."""
        return self._collection.scores(query, rows)

    def vectors(self, rows: Rows) -> Vectors:
        """Return stored vectors, (m, dim) float32. Raises: IndexCorrupt: a row is missing."""
        return self._collection.vectors(rows)

    def _find(self, query: Vectors, wanted: ListRequest) -> Candidates:
        before, after = wanted.units.total(wanted.visible), wanted.units.total(wanted.allowed)
        rows, scores = np.empty(0, np.int64), np.empty(0, np.float32)
        if min(wanted.depth, after):
            ask = Ask(partial(self._collection.nearest, query), Units.worth)
            rows, scores = self.listed(wanted, self.scope(wanted.units, wanted.allowed, wanted.conditions), ask)
        return Candidates(rows, scores, *spread(scores), before, after)


class TermEngineIndex(EngineIndex[TermWeights]):
    """Index of term weights in an engine: a score is the sum over shared terms of both weights' product. Rows that
    share no term are not listed, nor those whose sum is 0."""

    def __init__(self, collection: TermCollection, *, part: Part, capabilities: Capabilities) -> None:
        super().__init__(part=part, capabilities=capabilities)
        self._collection = collection

    def ask_scores(self, query: TermWeights, rows: Rows) -> Vectors:
        """Return the score of each of some rows, (m,) float32, 0 if no term of the query occurs."""
        used = _used(query)
        return self._collection.scores(used, rows) if len(used.terms) else np.zeros(len(rows), np.float32)

    def matching(
        self,
        query: TermWeights,
        *,
        starts: Rows | None = None,
        allowed: Mask | None = None,
        conditions: Sequence[AnyOf] | None = None,
    ) -> Rows:
        """Return rows (or groups of rows) with a term of the query, in ascending order: all of them, or the groups of
        the first 10,000 rows."""
        used, units = _used(query), Units(len(self), starts)
        if not len(used.terms):
            return np.empty(0, np.int64)
        scope = self.scope(units, allowed, conditions)
        rows = self._collection.matching(used.terms, COUNTED, within=scope.within)
        return distinct(units.of(rows[scope.places(rows)]))[0]

    def _find(self, query: TermWeights, wanted: ListRequest) -> Candidates:
        used, units = _used(query), wanted.units
        if not len(used.terms) or not wanted.depth:
            return Candidates(np.empty(0, np.int64), np.empty(0, np.float32), 0.0, 0.0, 0, 0, "eq")
        scope = self.scope(units, wanted.allowed, wanted.conditions)

        def nearest(limit: int, *, within: Within | None, exact: bool) -> tuple[Rows, Vectors]:  # noqa: ARG001
            return self._collection.nearest(used, limit, within=within)  # lists of terms are exact

        ask = Ask(nearest, _worth)
        calls: list[Callable[[], Any]] = [partial(self.listed, wanted, scope, ask)]
        calls.append(partial(self._count, used, units, scope))
        if wanted.allowed is not None:
            calls.append(partial(self._count, used, units, self.scope(units, wanted.visible, wanted.seen)))
        answers = side_by_side(calls)
        (rows, scores), (after, relation), (before, more) = answers[0], answers[1], answers[-1]
        return Candidates(rows, scores, *spread(scores), before, after, more if relation == "eq" else relation)

    def _count(self, query: TermWeights, units: Units, scope: Scope) -> tuple[int, Relation]:
        """Return the number of units of a scope that share a term with a query, or one that it exceeds."""
        if not scope.size:
            return 0, "eq"
        if scope.sent and not units.grouped:
            found = self._collection.count(query.terms, COUNTED + 1, within=scope.within)
            return min(found, COUNTED), "gte" if found > COUNTED else "eq"
        rows = self._collection.matching(query.terms, _GROUPED + 1, within=scope.within)
        return len(distinct(units.of(rows[scope.places(rows)]))[0]), "gte" if len(rows) > _GROUPED else "eq"


def _worth(units: Units, rows: Rows, scores: Vectors) -> tuple[Rows, Vectors]:
    """Return the units that some rows are of, and their scores, without those whose score is 0."""
    listed, worth = units.worth(rows, scores)
    counts = np.bincount(np.searchsorted(listed, units.of(rows)), minlength=len(listed))
    worth = np.where(counts < units.sizes(listed), np.maximum(worth, 0), worth)  # its other rows score 0
    return listed[worth != 0], worth[worth != 0]


def _used(query: TermWeights) -> TermWeights:
    """Return the terms of a query that have a weight, in its order."""
    kept = query.weights != 0
    return query if kept.all() else TermWeights(query.terms[kept], query.weights[kept])
