"""Lists of one retriever from its local index and from an engine, query by query, with and without filters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.contracts.engines import AnyOf
from retrieve_cli.errors import UsageError
from retrieve_cli.records.columns import columns_of

if TYPE_CHECKING:
    from retrieve_cli.contracts import Candidates, Index, Json, Mask, Rows
    from retrieve_cli.progress.tasks import Task
    from retrieve_cli.storage.generation import Generation

CUTOFF = 10
"""Results of a list that are compared."""
SHARES = (0.5, 0.1, 0.01, 0.001, 0.0001)
"""Shares of the records that filters let through."""
_NEAR = 0.25
"""Most that the share of records with a stored value may be off, as a part of the wanted share."""
_SEED = 20


class Pair(NamedTuple):
    """One retriever's index in both places."""

    name: str
    local: Index[Any]
    remote: Any
    """A `RemoteIndex`."""
    starts: Rows | None
    depth: int
    lists: Callable[[], list[Rows]]
    """Function that returns the lists of the engine since its last call."""


class Selection(NamedTuple):
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


@dataclass(slots=True)
class Compared:
    """Counts over the searches for some queries, one at a time."""

    searches: int = 0
    overlap: float = 0.0
    """Sum over queries of the share of the local first ten that the engine's first ten have."""
    identical: int = 0
    same_scores: int = 0
    """Queries with the same first ten, whose scores have the same bits."""
    listed: int = 0
    """Searches for which the engine was asked for a list; of few rows, all are read instead."""
    short: int = 0
    """Lists of the engine that had fewer rows than there are, up to the depth."""
    detected: int = 0
    """Short lists that the index noticed."""
    completed: int = 0
    """Lists that were completed: short ones, and others that left open which rows are best."""
    incomplete: int = 0
    """Final lists that had fewer rows than there are."""

    def to_json(self) -> dict[str, Json]:
        return {
            "searches": self.searches,
            f"overlap@{CUTOFF}": self.mean_overlap,
            "identical": self.identical / max(self.searches, 1),
            "same_scores": self.same_scores / max(self.searches, 1),
            "listed": self.listed,
            "short": self.short,
            "detected": self.detected,
            "completed": self.completed,
            "incomplete": self.incomplete,
        }

    @property
    def mean_overlap(self) -> float:
        return self.overlap / self.searches if self.searches else 1.0


class Timed(NamedTuple):
    """Times of searches, in milliseconds, and how the statistics of their scores differ."""

    local_ms: list[float]
    remote_ms: list[float]
    means: list[float]
    """Differences of means, as shares of the local deviation."""
    deviations: list[float]
    """Differences of deviations, as shares of the local one."""


def selections(generation: Generation) -> list[Selection]:
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
        found.append(Selection(share, mask))
        if (condition := _nearest_value(generation, count)) is not None:
            having = columns_of(generation).having(condition.field, condition.values[0])
            found.append(Selection(share, having, [condition]))
    return found


def _nearest_value(generation: Generation, wanted: int) -> AnyOf | None:
    """Return the condition on a stored value that about so many records have; None if there is none."""
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


def compare(
    pair: Pair, forms: Sequence[Any], selection: Selection | None, progress: Task, *, timed: Timed | None = None
) -> Compared:
    """Return the comparison of both indexes' lists for queries in the form that they take."""
    counts = Compared()
    mask = None if selection is None else selection.mask
    limits: dict[str, Any] = {"depth": pair.depth, "starts": pair.starts}
    if selection is not None:
        limits["allowed"] = [selection.mask]
    sent = limits if selection is None else {**limits, "conditions": [selection.conditions]}
    for number, form in enumerate(forms):
        before = pair.remote.completed
        pair.lists()
        # Each is first in every other search, so that neither always finds warm caches.
        if number % 2:
            theirs, remote_ms = _search(pair.remote, form, sent)
            ours, local_ms = _search(pair.local, form, limits)
        else:
            ours, local_ms = _search(pair.local, form, limits)
            theirs, remote_ms = _search(pair.remote, form, sent)
        lists = pair.lists()
        _count(counts, pair, mask, ours, theirs, lists, completed=pair.remote.completed - before)
        if timed is not None:
            timed.local_ms.append(local_ms)
            timed.remote_ms.append(remote_ms)
            if ours.deviation > 0:
                timed.means.append(abs(theirs.mean - ours.mean) / ours.deviation)
                timed.deviations.append(abs(theirs.deviation / ours.deviation - 1.0))
        progress.advance()
    return counts


def _search(index: Any, form: Any, limits: dict[str, Any]) -> tuple[Candidates, float]:
    begun = time.perf_counter()
    (found,) = index.search([form], **limits)
    return found, 1000.0 * (time.perf_counter() - begun)


def _count(
    counts: Compared,
    pair: Pair,
    mask: Mask | None,
    ours: Candidates,
    theirs: Candidates,
    lists: list[Rows],
    *,
    completed: int,
) -> None:
    first, second = ours.rows[:CUTOFF], theirs.rows[:CUTOFF]
    most = max(len(first), len(second))
    same = np.array_equal(first, second)
    counts.searches += 1
    counts.overlap += len(np.intersect1d(first, second)) / most if most else 1.0
    counts.identical += same
    counts.same_scores += same and ours.scores[:CUTOFF].tobytes() == theirs.scores[:CUTOFF].tobytes()
    counts.listed += bool(lists)
    short = bool(lists) and _units(pair, mask, lists[-1]) < len(ours.rows)
    counts.short += short
    counts.detected += short and completed > 0
    counts.completed += completed
    counts.incomplete += len(theirs.rows) < len(ours.rows)


def _units(pair: Pair, mask: Mask | None, rows: Rows) -> int:
    """Number of allowed rows, or groups, among those of a list."""
    units = rows if pair.starts is None else np.searchsorted(pair.starts, rows, side="right") - 1
    units = units if mask is None else units[mask[units]]
    return len(np.unique(units))
