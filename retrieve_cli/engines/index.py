"""Indexes over the parts of a generation in an engine, with the answers of local files.

An engine only proposes candidates. They are scored here from the numbers that it stores, in the order of operations of
the local indexes, so that a score has the same bits. A list that the engine leaves short is completed exactly: first by
the engine without its approximate index, then from the stored numbers of all rows that may be listed.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts import Candidates, TermWeights
from retrieve_cli.contracts.engines import Capabilities, Part, TermCollection, VectorCollection
from retrieve_cli.engines.listing import EngineIndex, Request, Statistics, Wanted
from retrieve_cli.engines.units import Units, best, distinct, last_of
from retrieve_cli.numerics import products

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Mask, Rows, Vectors

__all__ = ["Statistics", "TermEngineIndex", "VectorEngineIndex"]

_FEW_VECTORS = 512
"""Rows of which all vectors are read rather than a list or scores from the engine: 0.8 MB of 384 dimensions."""
_FEW_WEIGHTS = 1024
"""Matching rows of which all weights are read rather than a list from the engine."""
_FETCHED = 4096
"""Rows whose vectors or weights are read at a time; bounds the memory."""
_TENANTS = 8
"""Tenants of which a sample of vectors is kept, of 6 MB each at 384 dimensions."""
_SCORED = 10_000
"""Rows that the engine scores at a time."""
_ERROR = 1e-4
"""Maximum error of an engine's inner product, as a share of the product of the norms. A distance of two errors decides
which of two scores is higher; a third one covers the rounding of the limit itself."""
_ROUNDING = 1e-6
"""Minimum error of an engine's sum of weights, as a share of the highest one."""


class _Matched(NamedTuple):
    """Rows that share a term with a query."""

    rows: Rows
    units: Rows
    """Units that match, ascending."""
    worth: Vectors | None
    """Their scores, if these decide whether they match."""


class VectorEngineIndex(EngineIndex["Vectors"]):
    """Index of vectors in an engine: scores are inner products of the stored vectors."""

    def __init__(
        self,
        collection: VectorCollection,
        *,
        part: Part,
        capabilities: Capabilities,
        statistics: Statistics[Vectors],
        longest: float = 1.0,
    ) -> None:
        """`longest` is the largest L2 norm of a row."""
        super().__init__(part=part, capabilities=capabilities, statistics=statistics)
        self._collection = collection
        self._longest = longest
        self._samples: dict[bytes, Vectors] = {}
        """Vectors of the samples of the last tenants: they are fetched once for many queries."""

    def score(self, query: Vectors, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the inner product with each of `rows`, or the best one in each group of rows."""
        listed, places = distinct(rows)
        return self._scored(query, Units(len(self), starts), listed, len(listed))[1][places]

    def vectors(self, rows: Rows) -> Vectors:
        """Return stored vectors, (m, dim) float32. Raises: IndexCorrupt: a row is missing."""
        return self._collection.vectors(rows)

    def _sampled(self, query: Vectors, rows: Rows) -> Vectors:
        key = sha256(rows.tobytes()).digest()
        if (vectors := self._samples.get(key)) is None:
            vectors = self._collection.vectors(rows)
            with self._lock:
                for oldest in list(self._samples)[: 1 - _TENANTS]:
                    del self._samples[oldest]
                self._samples[key] = vectors
        return products(np.asarray(vectors, np.float32), query)

    def _find(self, query: Vectors, wanted: Wanted) -> Candidates:
        mean, deviation = self._spread(query, wanted.units)
        after = wanted.units.total(wanted.allowed)
        depth = min(wanted.depth, after)
        near = self._near(query, wanted, depth)
        rows, scores = best(*self._scored(query, wanted.units, near, depth), depth)
        return Candidates(rows, scores, mean, deviation, wanted.units.total(wanted.visible), after)

    def _near(self, query: Vectors, wanted: Wanted, depth: int) -> Rows:
        """Return units that include the best `depth`, of which there are as many: a few more than these, or all."""
        if not depth:
            return np.empty(0, np.int64)
        allowed, units = wanted.allowed, wanted.units
        rows = None if allowed is None else np.flatnonzero(units.rows_in(allowed))
        if (len(self) if rows is None else len(rows)) <= _FEW_VECTORS:
            return units.those_in(allowed)
        request = self.request(wanted, rows, len(self), depth)
        if (listed := self._listed(query, units, request, exact=False)) is not None:
            return listed
        self.count()
        if allowed is None or request.within is not None:
            listed = self._listed(query, units, request, exact=True)
        return units.those_in(allowed) if listed is None else listed

    def _listed(self, query: Vectors, units: Units, request: Request, *, exact: bool) -> Rows | None:
        """Return the units of a list of the engine that is long enough; None if none is."""
        margin = 3 * self._error(query)
        for length in request.lengths():
            rows, scores = self._collection.nearest(query, length, within=request.within, exact=exact)
            ended, last = len(rows) < length, scores[-1:].sum()
            listed, worth = units.worth(*request.kept(rows, scores))
            if len(listed) >= request.depth and (ended or last < last_of(worth, request.depth) - margin):
                return listed
            if ended:
                return None
        return None

    def _scored(self, query: Vectors, units: Units, listed: Rows, depth: int) -> tuple[Rows, Vectors]:
        """Return those of the listed units that may be among the best `depth` of these, with exact scores."""
        rows, owners = units.rows(listed)
        if len(rows) > _FEW_VECTORS:
            # The engine's scores tell which row may be the best of its unit, and which unit may be among the best.
            rough = [self._collection.scores(query, rows[start : start + _SCORED]) for start in _steps(rows, _SCORED)]
            scores = np.concatenate(rough)
            worth = np.maximum.reduceat(scores, np.searchsorted(owners, np.arange(len(listed))))
            limits = np.maximum(worth, last_of(worth, depth)) - np.float32(3 * self._error(query))
            rows = rows[~(scores < limits[owners])]  # not `>=`: keeps NaN
        exact = [np.empty(0, np.float32)]
        for start in _steps(rows, _FETCHED):
            vectors = self._collection.vectors(rows[start : start + _FETCHED])
            exact.append(products(np.asarray(vectors, np.float32), query))
        return units.worth(rows, np.concatenate(exact))

    def _error(self, query: Vectors) -> float:
        return _ERROR * float(np.sqrt(np.einsum("i,i->", query, query))) * self._longest


class TermEngineIndex(EngineIndex[TermWeights]):
    """Index of term weights in an engine: a score is the sum over shared terms, in the order of the query, of both
    weights' product. Rows that share no term are not listed, nor those whose sum is 0."""

    def __init__(
        self,
        collection: TermCollection,
        *,
        part: Part,
        capabilities: Capabilities,
        statistics: Statistics[TermWeights],
        signed: bool = False,
    ) -> None:
        """`signed` is True if a stored weight may be 0 or below: then all rows that share a term are scored."""
        super().__init__(part=part, capabilities=capabilities, statistics=statistics)
        self._collection = collection
        self._signed = signed

    def score(self, query: TermWeights, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the score of each of `rows` (or groups of rows), 0 if no term of the query occurs."""
        units = Units(len(self), starts)
        listed, places = distinct(rows)
        members, _ = units.rows(listed)
        return units.worth(members, self._sums(query, members))[1][places]

    def matching(self, query: TermWeights, *, starts: Rows | None = None, allowed: Mask | None = None) -> Rows:
        """Return the rows (or groups of rows) with a term of the query, in ascending order."""
        matched = self._matched(query, Units(len(self), starts)).units
        return matched if allowed is None else matched[allowed[matched]]

    def _sampled(self, query: TermWeights, rows: Rows) -> Vectors:
        return self._sums(query, rows)

    def _find(self, query: TermWeights, wanted: Wanted) -> Candidates:
        mean, deviation = self._spread(query, wanted.units)
        matched = self._matched(query, wanted.units)
        before = matched.units if wanted.visible is None else matched.units[wanted.visible[matched.units]]
        kept = slice(None) if wanted.allowed is None else wanted.allowed[matched.units]
        after = matched.units[kept]
        depth = min(wanted.depth, len(after))
        scored = (
            (after, matched.worth[kept]) if matched.worth is not None else self._near(query, wanted, matched, depth)
        )
        return Candidates(*best(*scored, depth), mean, deviation, len(before), len(after))

    def _matched(self, query: TermWeights, units: Units) -> _Matched:
        """Return what matches a query."""
        used = distinct(query.terms[query.weights != 0])[0]
        rows = np.asarray(self._collection.matching(used) if len(used) else [], np.int64)
        if not self._signed and not (query.weights < 0).any():
            return _Matched(rows, distinct(units.of(rows))[0], None)
        listed, worth = units.worth(rows, self._sums(query, rows))
        counts = np.bincount(np.searchsorted(listed, units.of(rows)), minlength=len(listed))
        worth = np.where(counts < units.sizes(listed), np.maximum(worth, 0), worth)  # other rows of a group score 0
        return _Matched(rows, listed[worth != 0], worth[worth != 0])

    def _near(self, query: TermWeights, wanted: Wanted, matched: _Matched, depth: int) -> tuple[Rows, Vectors]:
        """Return units that include the best `depth`, of which there are as many, and their scores."""
        units, rows = wanted.units, matched.rows
        if wanted.allowed is not None:
            rows = rows[units.rows_in(wanted.allowed)[rows]]
        if len(rows) > _FEW_WEIGHTS and depth:
            request = self.request(wanted, rows, len(matched.rows), depth)
            if (listed := self._listed(query, units, request, len(rows))) is not None:
                return listed
            self.count()
        return units.worth(rows, self._sums(query, rows))

    def _listed(self, query: TermWeights, units: Units, request: Request, matching: int) -> tuple[Rows, Vectors] | None:
        """Return the units of a list of the engine that is long enough, and their scores; None if none is."""
        for length in request.lengths():
            rows, rough = self._collection.nearest(query, length, within=request.within)
            last = rough[-1:].sum()
            kept, scores = request.kept(rows, rough)
            exact = self._sums(query, kept)
            listed, worth = units.worth(kept, exact)
            error = float(np.abs(scores - exact).max(initial=0.0)) + _ROUNDING * float(exact.max(initial=0.0))
            if len(listed) >= request.depth and (
                len(kept) == matching or last < last_of(worth, request.depth) - 3 * error
            ):
                return listed, worth
            if len(rows) < length:
                return None
        return None

    def _sums(self, query: TermWeights, rows: Rows) -> Vectors:
        """Return the scores of different rows, (n,) float32, summed in the order of the query's terms."""
        scores = np.zeros(len(rows), np.float32)
        used = distinct(query.terms)[0]
        for start in _steps(rows, _FETCHED) if len(used) else ():
            stored = self._collection.weights(rows[start : start + _FETCHED], used)
            terms = np.concatenate([row.terms for row in stored])
            weights = np.concatenate([row.weights for row in stored])
            owners = start + np.repeat(np.arange(len(stored)), [len(row.terms) for row in stored])
            order = np.argsort(terms, kind="stable")
            ends = np.searchsorted(terms[order], [query.terms, query.terms + 1])
            for low, high, weight in zip(*ends.tolist(), query.weights.astype(np.float32), strict=True):
                postings = order[low:high]
                scores[owners[postings]] += weights[postings] * weight
        return scores


def _steps(rows: Rows, size: int) -> range:
    return range(0, len(rows), size)
