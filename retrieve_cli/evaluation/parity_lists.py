"""Lists of one retriever from its local index and from an engine, query by query, with and without filters.

The lists of an engine are watched, so that one that it leaves short is seen independently of the index that completes
it. The local index is the reference: without its graph, if it has one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from retrieve_cli.assemble.engines import RemoteIndexes
from retrieve_cli.contracts import Candidates, Matching
from retrieve_cli.contracts.engines import AnyOf
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.operations.diff import Agreement, Moves
from retrieve_cli.storage.records.columns import columns_of

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Index, Json, Mask, Rows
    from retrieve_cli.contracts.engines import Capabilities, EngineGeneration
    from retrieve_cli.contracts.progress import Task
    from retrieve_cli.storage.engine_record import Entry
    from retrieve_cli.storage.generation import Generation

CUTOFF = 10
"""Results of a list that are compared."""
SHARES = (0.5, 0.1, 0.01, 0.001, 0.0001)
"""Shares of the records that filters let through."""
_NEAR = 0.25
"""Most that the share of records with a stored value may be off, as a part of the wanted share."""
_SEED = 20


class ParityFilter(NamedTuple):
    """A filter."""

    share: float
    """Share of the records that was wanted."""
    mask: Mask
    """(records,) bool."""
    conditions: Sequence[AnyOf] | None = None
    """The same as a condition on stored values; None: it is a list of rows."""

    @property
    def written(self) -> str | None:
        """Return the condition as the filter language writes it."""
        return f"{self.conditions[0].field}={self.conditions[0].values[0]}" if self.conditions else None


def selections(generation: Generation) -> list[ParityFilter]:
    """Return filters by share: random rows, which are the same in every run, and a stored value if one has about that
    share. Shares of less than one record are skipped."""
    records = len(generation.records)
    order = np.random.default_rng(_SEED).permutation(records)
    found = []
    for share in SHARES:
        if (count := round(records * share)) < 1:
            continue
        mask = np.zeros(records, np.bool_)
        mask[order[:count]] = True
        found.append(ParityFilter(share, mask))
        if (condition := _nearest_value(generation, count)) is not None:
            having = columns_of(generation).having(condition.field, condition.values[0])
            found.append(ParityFilter(share, having, [condition]))
    return found


def _nearest_value(generation: Generation, wanted: int) -> AnyOf | None:
    """Return a condition on a stored value that about so many records have; None if no value is stored."""
    try:
        columns = columns_of(generation)
    except UsageError:  # an earlier version's index, without any
        return None
    best: tuple[float, AnyOf] | None = None
    for name in columns.fields:
        if (column := columns.find(name)) is None or not len(column):
            continue
        off = np.abs(np.bincount(column.values, minlength=len(column)) / wanted - 1.0)
        place = int(off.argmin())
        if off[place] <= _NEAR and (best is None or off[place] < best[0]):
            best = float(off[place]), AnyOf(column.name, [column.text(place)])
    return None if best is None else best[1]


# ------------------------------------------------------------------------------------------------- searches


class Lists(NamedTuple):
    """Numbers of lists of an engine."""

    listed: int
    """Searches for which the engine was asked for a list; of few rows, all are read instead."""
    short: int
    """Lists of the engine that had fewer rows than there are, up to the depth."""
    detected: int
    """Short lists that the index noticed."""
    completed: int
    """Lists that were completed: short ones, and others that left open which rows are best."""
    incomplete: int
    """Final lists that had fewer rows than there are."""


class QueryComparison(NamedTuple):
    """A query that was searched for in both places."""

    moves: Moves[int]
    """Differences of the engine's first results from the local ones."""
    lists: Lists
    local_ms: float
    engine_ms: float
    off: tuple[float, float] | None
    """Differences of the mean and the deviation of all scores, as shares of the local deviation; None if that is 0."""

    @classmethod
    def of(cls, ours: tuple[Candidates, float], theirs: tuple[Candidates, float], lists: Lists) -> QueryComparison:
        """Return the search for one query from what each place found, with the time it took."""
        (local, local_ms), (remote, engine_ms) = ours, theirs
        off = None
        if local.deviation > 0:
            off = abs(remote.mean - local.mean) / local.deviation, abs(remote.deviation / local.deviation - 1.0)
        first, second = (
            dict(zip(each.rows[:CUTOFF].tolist(), each.scores[:CUTOFF].tolist(), strict=True))
            for each in (local, remote)
        )
        return cls(Moves.between(first, second), lists, local_ms, engine_ms, off)


class Compared(NamedTuple):
    """Searches for some queries in both places, one at a time."""

    searches: Sequence[QueryComparison]

    @property
    def agreement(self) -> Agreement:
        return Agreement.of(each.moves for each in self.searches)

    @property
    def lists(self) -> Lists:
        return Lists(*map(sum, zip(*(each.lists for each in self.searches), strict=True)))

    @property
    def latency_ms(self) -> dict[str, dict[str, float]]:
        """Percentiles of the times of a search, by place."""
        times = np.array([(each.local_ms, each.engine_ms) for each in self.searches])
        places = zip(("local", "engine"), times.T, strict=True)
        return {place: {f"p{share}": float(np.percentile(own, share)) for share in (50, 95)} for place, own in places}

    @property
    def statistics(self) -> dict[str, float]:
        """Differences of the mean and of the deviation of scores, as shares of the local deviation."""
        means, deviations = ([each.off[place] for each in self.searches if each.off] for place in (0, 1))
        return {"mean": mean(means), "deviation": mean(deviations), "deviation_max": max(deviations, default=0.0)}

    def to_json(self) -> dict[str, Json]:
        found = self.agreement
        return {
            "searches": found.queries,
            f"overlap@{CUTOFF}": found.overlap,
            "identical": found.identical,
            "same_scores": found.same_scores,
            "largest_difference": found.apart,
            **self.lists._asdict(),
        }


class Pair(NamedTuple):
    """One retriever's index in both places."""

    local: Index[Any]
    remote: Any
    """A `RemoteIndex`."""
    starts: Rows | None
    depth: int
    lists: Callable[[], Sequence[Rows]]
    """Function that returns the lists of the engine since its last call."""

    def compare(self, forms: Sequence[Any], selection: ParityFilter | None, progress: Task) -> Compared:
        """Return the searches for queries, in the form that the indexes take, in both places."""
        limits: dict[str, Any] = {"depth": self.depth, "starts": self.starts}
        places = [(self.local, limits), (self.remote, limits)]
        if selection is not None:
            limits["allowed"] = [selection.mask]
            places[1] = (self.remote, {**limits, "conditions": [selection.conditions]})
        searches = []
        for number, form in enumerate(forms):
            # Each is first in every other search, so that neither always finds warm caches.
            order = -1 if number % 2 else 1
            before = self.remote.completed
            self.lists()
            ours, theirs = [_search(index, form, given) for index, given in places[::order]][::order]
            lists = self._lists(ours[0], theirs[0], selection, completed=self.remote.completed - before)
            searches.append(QueryComparison.of(ours, theirs, lists))
            progress.advance()
        return Compared(searches)

    def _lists(self, ours: Candidates, theirs: Candidates, selection: ParityFilter | None, *, completed: int) -> Lists:
        lists = self.lists()
        short = False
        if lists:
            units = lists[-1] if self.starts is None else np.searchsorted(self.starts, lists[-1], side="right") - 1
            units = units if selection is None else units[selection.mask[units]]
            short = len(np.unique(units)) < len(ours.rows)
        return Lists(bool(lists), short, short and completed > 0, completed, len(theirs.rows) < len(ours.rows))


def _search(index: Any, form: Any, limits: Mapping[str, Any]) -> tuple[Candidates, float]:
    begun = time.perf_counter()
    (found,) = index.search([form], **limits)
    return found, 1000.0 * (time.perf_counter() - begun)


def mean(values: Iterable[float]) -> float:
    """Return the mean of values; 0.0 without any."""
    kept = list(values)
    return float(np.mean(kept)) if kept else 0.0


# ------------------------------------------------------------------------------------------------- indexes


class _Over:
    """An object of which some methods are replaced."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class WatchedIndexes(RemoteIndexes):
    """Indexes of a generation in engines. The lists of each are kept until they are taken."""

    def __init__(self, generation: Generation, settings: Settings, *, by_conditions: bool = False) -> None:
        """`by_conditions` sends filters as conditions even if the engine would take the numbers of the rows."""
        super().__init__(generation, settings)
        self._by_conditions = by_conditions
        self._lists: dict[str, list[Rows]] = defaultdict(list)

    def lists(self, part: str) -> Sequence[Rows]:
        """Return the rows of each list of a part since the last call, in the order of the requests."""
        found = list(self._lists[part])
        self._lists[part].clear()
        return found

    def _capabilities(self, name: str) -> Capabilities:
        found = super()._capabilities(name)
        return found._replace(most_rows=0) if self._by_conditions else found

    def _open(self, name: str, entry: Entry) -> EngineGeneration:
        return cast("EngineGeneration", _WatchedGeneration(super()._open(name, entry), self._lists))


class _WatchedGeneration(_Over):
    """A generation in an engine, its collections watched."""

    def __init__(self, opened: EngineGeneration, lists: dict[str, list[Rows]]) -> None:
        super().__init__(opened)
        self._lists = lists

    def vectors(self, part: str) -> Any:
        return _WatchedCollection(self._inner.vectors(part), self._lists[part])

    def terms(self, part: str) -> Any:
        return _WatchedCollection(self._inner.terms(part), self._lists[part])


class _WatchedCollection(_Over):
    """A collection; exact searches, which complete lists, are not watched."""

    def __init__(self, collection: Any, lists: list[Rows]) -> None:
        super().__init__(collection)
        self._lists = lists

    def nearest(self, *query: Any, **limits: Any) -> Any:
        rows, scores = self._inner.nearest(*query, **limits)
        if not limits.get("exact"):
            self._lists.append(rows)
        return rows, scores


class ExactIndex(_Over):
    """The answers that an index would give without its graph: every row is scored."""

    def search(
        self,
        queries: Sequence[Any],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
    ) -> list[Candidates]:
        """Return the best rows, or groups, of all."""
        none = [None] * len(queries)
        limits = zip(queries, allowed or none, visible or none, strict=True)
        return [self._find(*each, depth=depth, starts=starts) for each in limits]

    def _find(
        self, query: Any, allowed: Mask | None, visible: Mask | None, *, depth: int, starts: Rows | None
    ) -> Candidates:
        every = np.arange(len(self) if starts is None else len(starts) - 1)
        scores = self.score(query, every, starts=starts)
        mean, deviation = float(scores.mean(dtype=np.float64)), float(scores.std(dtype=np.float64))
        rows = every if allowed is None else np.flatnonzero(allowed)
        kept = rows[np.lexsort((rows, -scores[rows]))[:depth]]
        before = len(every) if visible is None else int(np.count_nonzero(visible))
        return Candidates(kept, scores[kept], mean, deviation, before, len(rows))


class _SameSpread(_Over):
    """Lists of a local index with the mean and the deviation that an index in an engine has for the same queries."""

    def __init__(self, local: Index[Any], remote: Index[Any]) -> None:
        super().__init__(local)
        self._remote = remote

    def search(self, queries: Sequence[Any], **limits: Any) -> list[Candidates]:
        """Return what the local index returns, but for mean and deviation."""
        pairs = zip(self._inner.search(queries, **limits), self._remote.search(queries, **limits), strict=True)
        return [replace(ours, mean=theirs.mean, deviation=theirs.deviation) for ours, theirs in pairs]


class _MatchingWithSameSpread(_SameSpread):
    """The same over an index whose rows match by a term."""

    def matching(self, query: Any, **limits: Any) -> Rows:
        """Return all rows, or groups, that match."""
        rows: Rows = self._inner.matching(query, **limits)
        return rows


def with_same_spread(local: Index[Any], remote: Index[Any]) -> Index[Any]:
    """Return a local index whose scores are normalised in a fusion in the same way as scores of the remote index."""
    kind = _MatchingWithSameSpread if isinstance(local, Matching) else _SameSpread
    return cast("Index[Any]", kind(local, remote))
