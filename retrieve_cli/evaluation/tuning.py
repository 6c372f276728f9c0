"""Tuning of fusion, depth, BM25's formula and reranking on judged queries, checked on held-out ones.

Tuning runs each retriever and the reranker once, and then the real pipeline over their results. A formula is chosen by
the results of its retriever alone, then fusion and depth in turn by the results of the pipeline, then the number of
reranked hits and the reranker's weight; a change is only taken if it gains enough. The gain is measured by
cross-validation: each fold of queries is answered with the settings chosen on the other folds, so that overfitting is
not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import Task, noting_interruption, task
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.measures import depth
from retrieve_cli.evaluation.statistics import SIGNIFICANT, Interval, interval, randomisation
from retrieve_cli.evaluation.tuning_measures import Formula, MeasureTable, TuningSettings, formulas
from retrieve_cli.frozen import Frozen, asdict, field, replace
from retrieve_cli.search.opened import Opened

if TYPE_CHECKING:
    from ir_measures import Measure
    from numpy.typing import NDArray

    Places = NDArray[np.int64]

FOLDS = 5
_LEAST = 10
"""Least number of queries; with fewer, folds are meaningless."""
_WORTH = 0.001
"""Least gain, on the queries of the search, for which a block of settings is changed."""
_ROUNDS = 3


class Tuned(Frozen):
    """Outcome of the search."""

    measure: str
    queries: int
    folds: int
    tried: int
    """Number of settings that were computed for every query."""
    now: TuningSettings
    best: TuningSettings
    mean: float
    """Mean of the measure as configured."""
    mean_best: float
    """Mean of the best choice on the queries of the search, which is optimistic."""
    held_out: Interval
    """Mean gain on held-out queries."""
    p: float
    chosen: Sequence[TuningSettings] = field(default_factory=tuple)
    """Choices by fold."""
    reranker: str | None = None
    """Name of the reranker, if there is one."""

    @property
    def recommended(self) -> bool:
        """True if there is a change, and its gain on held-out queries is significant."""
        return self.best != self.now and self.held_out.mean > 0 and self.p <= SIGNIFICANT

    @property
    def changes(self) -> dict[str, dict[str, Json]]:
        return self.best.changes(self.now)

    @property
    def changes_index(self) -> bool:
        """True if a change takes effect only when the index is built again."""
        return bool(self.changes.keys() & dict(self.best.formulas).keys())

    @property
    def what(self) -> str:
        """Object of the tuning."""
        return "the whole pipeline" + (f", reranked by {self.reranker}" if self.reranker else ", without reranking")

    def to_json(self) -> dict[str, Json]:
        return {
            "measure": self.measure,
            "of": self.what,
            "queries": self.queries,
            "folds": self.folds,
            "settings_tried": self.tried,
            "configured": self.now.settings,
            "best": self.best.settings,
            "changes": self.changes,
            "value": self.mean,
            "value_best_in_sample": self.mean_best,
            "held_out_gain": {**asdict(self.held_out), "p": self.p},
            "chosen_by_fold": [choice.settings for choice in self.chosen],
            "recommended": self.recommended,
        }


def tune(
    opened: Opened, settings: Settings, topics: Sequence[Topic], measure: Measure, *, k: int | None = None
) -> Tuned:
    """Search the space on all queries, and again on all but one fold for each fold.

    `k` is the number of results; without it, as many as the measure needs.

    Raises:
        UsageError: there are too few judged queries, or fewer than two retrievers to fuse.
        Unavailable: a retriever or the reranker cannot run.
    """
    judged = [topic for topic in topics if topic.grades]
    if len(judged) < _LEAST:
        hint = "judge more queries: settings chosen on so few do not generalise"
        raise UsageError(f"--tune needs {_LEAST} queries with judged records; there are {len(judged)}", hint=hint)
    if not opened.options().hybrid:
        raise UsageError("--tune needs a hybrid search, whose retrievers it weights", hint="omit --mode")
    with task("tuning", "settings") as trying, noting_interruption(lambda: "during tuning; nothing is kept"):
        table = MeasureTable(opened, settings, judged, measure, k=k or depth([measure]), trying=trying)
        return _tuned(table, judged, measure, trying)


def _tuned(table: MeasureTable, judged: Sequence[Topic], measure: Measure, trying: Task) -> Tuned:
    """Search on all queries, and on all but one fold for each fold."""
    now, everyone = table.now, np.arange(len(judged))
    folds = _folds([topic.id for topic in judged])
    trying.rename(f"tuning, search 1 of {1 + len(folds)}")
    best = _Search(table, everyone).best(now)
    gains, chosen = np.zeros(len(judged)), []
    for number, fold in enumerate(folds, 2):
        trying.rename(f"tuning, search {number} of {1 + len(folds)}")
        choice = _Search(table, np.setdiff1d(everyone, fold)).best(now)
        gains[fold] = (table.values(choice) - table.values(now))[fold]
        chosen.append(choice)
    return Tuned(
        measure=str(measure),
        queries=len(judged),
        folds=len(folds),
        tried=table.tried,
        now=now,
        best=best,
        mean=float(table.values(now).mean()),
        mean_best=float(table.values(best).mean()),
        held_out=interval(gains),
        p=randomisation(gains),
        chosen=chosen,
        reranker=table.reranker,
    )


def _folds(names: Sequence[str], *, seed: int = 0) -> list[Places]:
    """Return the places of the queries of each fold; the fold of a query does not depend on their order."""
    order = np.argsort(np.array(names), kind="stable")
    return [np.sort(part) for part in np.array_split(np.random.default_rng(seed).permutation(order), FOLDS)]


class _Search(Frozen):
    """Search for the best choice on some of the queries."""

    table: MeasureTable
    places: Places
    """Places of these queries."""

    def best(self, start: TuningSettings) -> TuningSettings:
        """Return the best fusion with the best reranking for it, or the present fusion if that is as good."""
        fused = self._best_fused(start.fused)
        if start.rerank is None:
            return fused
        kept = self._best_reranked(start)
        other = self._best_reranked(replace(fused, rerank=start.rerank))
        return other if self._gains(other, kept) else kept

    def _best_fused(self, start: TuningSettings) -> TuningSettings:
        """Return the best fusion, with the best formula of each retriever alone if that gains enough."""
        found = self._descend(start)
        for name, built in start.formulas:
            formula = max(formulas(name), key=partial(self._alone, name))
            if self._alone(name, formula) <= self._alone(name, built) + _WORTH:
                continue
            other = self._descend(start.with_formula(name, formula))
            found = other if self._gains(other, found) else found
        return found

    def _descend(self, start: TuningSettings) -> TuningSettings:
        """Return the best fusion and depth, searched in turn until no change gains enough."""
        best = start
        for _ in range(_ROUNDS):
            before = best
            best = self._taken(best, best.fusions())
            best = self._taken(best, best.depths(self.table.least_depth))
            if best == before:
                break
        return best

    def _taken(self, choice: TuningSettings, block: Iterable[TuningSettings]) -> TuningSettings:
        """Return the best choice of a block if it gains enough."""
        challenger = max(block, key=self._mean, default=choice)
        return challenger if self._gains(challenger, choice) else choice

    def _best_reranked(self, start: TuningSettings) -> TuningSettings:
        """Return the best reranking if it gains enough; of equal ones, the one that reranks fewest hits."""
        found = {each: self._mean(each) for each in start.rerankings(self.table.read_depths)}
        best = max(found, key=lambda each: found[each])
        if not self._gains(best, start):
            return start
        worth = [each for each in found if found[each] >= found[best] - _WORTH and self._gains(each, start)]
        return min(worth, key=lambda each: (each.rerank.depth if each.rerank else 0, -found[each]))

    def _gains(self, choice: TuningSettings, other: TuningSettings) -> bool:
        """Return True if a choice gains enough over the other."""
        return self._mean(choice) > self._mean(other) + _WORTH

    def _mean(self, choice: TuningSettings) -> float:
        return float(self.table.values(choice)[self.places].mean())

    def _alone(self, name: str, formula: Formula) -> float:
        return float(self.table.alone(name, formula)[self.places].mean())
