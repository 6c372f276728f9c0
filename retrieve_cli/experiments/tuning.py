"""Settings of the fusion, the depth and BM25's formula, searched on judged queries and held to queries not searched on.

The legs are asked once, as deep as any setting asks them; every other setting is computed from what they found. BM25's
formula is chosen by what that leg finds alone, then fusion and depth one after the other, and a change is only taken
where it is worth something. What all that gains is measured by cross-validation: each fold of queries is answered as
chosen on the other folds, so that a gain which is nothing but luck with these queries does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble import variants
from retrieve_cli.config import Settings, override
from retrieve_cli.contracts import Candidates, Json
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.differences import SIGNIFICANT
from retrieve_cli.evaluation.judgments import Run, Topic
from retrieve_cli.evaluation.measures import Scorer, depth
from retrieve_cli.evaluation.statistics import Interval, interval, randomisation
from retrieve_cli.search import Searcher
from retrieve_cli.stages.fusion import Fusion, Method, Normalization, highest, weighted_sum
from retrieve_cli.stages.pool import Pool, gather
from retrieve_cli.stages.retrieve import Leg

if TYPE_CHECKING:
    from ir_measures import Measure
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Floats = NDArray[np.float64]

FOLDS = 5
_LEAST = 10
"""Queries without which no fold says anything."""
_WORTH = 0.001
"""A block of settings is left as it is unless another choice gains more on the queries that are searched on."""
_ROUNDS = 3

_WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 20))
_NORMALIZATIONS: tuple[Normalization, ...] = ("zscore", "zscore_candidates", "minmax")
_RRF_K = (10.0, 30.0, 60.0, 100.0)
_DEPTHS = (50, 100, 200, 500)
_FORMULAS = tuple(product((0.6, 0.9, 1.2, 1.5, 2.0), (0.2, 0.4, 0.6, 0.75, 0.9)))
"""k1 and b."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One point of the space that is searched."""

    method: Method
    normalization: Normalization
    dense_weight: float
    bm25_weight: float
    rrf_k: float
    depth: int
    k1: float
    b: float

    @classmethod
    def of(cls, searcher: Searcher, settings: Settings) -> Choice:
        """What is configured, and built."""
        formula, fusion = variants.formula_of(searcher.generation), settings.fusion
        return cls(
            fusion.method, fusion.normalization, fusion.dense_weight, fusion.bm25_weight, fusion.rrf_k,
            settings.search.depth, formula.k1, formula.b,
        )  # fmt: skip

    @property
    def settings(self) -> dict[str, dict[str, Json]]:
        """By section and key; keys that say nothing under this method are left out."""
        weighted = {key: getattr(self, key) for key in ("normalization", "dense_weight", "bm25_weight")}
        fusion = {"rrf_k": self.rrf_k} if self.method == "rrf" else weighted
        bm25 = {"k1": self.k1, "b": self.b}
        return {"fusion": {"method": self.method, **fusion}, "search": {"depth": self.depth}, "bm25": bm25}

    @property
    def unweighted(self) -> tuple[Method, Normalization, float]:
        """What decides how much a leg says of a candidate, before it is weighed."""
        return (self.method, self.normalization if self.method == "weighted" else "zscore", self.rrf_k)

    def changes(self, other: Choice) -> dict[str, dict[str, Json]]:
        """What of these settings `other` has differently or does not name."""
        theirs = other.settings
        changed = {
            section: {key: value for key, value in keys.items() if theirs[section].get(key) != value}
            for section, keys in self.settings.items()
        }
        return {section: keys for section, keys in changed.items() if keys}

    def fusions(self) -> Iterator[Choice]:
        """The same with every other fusion."""
        for normalization, weight in product(_NORMALIZATIONS, _WEIGHTS):
            rest = round(1.0 - weight, 2)
            yield replace(self, method="weighted", normalization=normalization, dense_weight=weight, bm25_weight=rest)
        for rrf_k in _RRF_K:
            yield replace(self, method="rrf", rrf_k=rrf_k)

    def depths(self) -> Iterator[Choice]:
        """The same with every other depth."""
        return (replace(self, depth=depth) for depth in _DEPTHS)


@dataclass(frozen=True, slots=True)
class Tuned:
    """What the search came to."""

    measure: str
    queries: int
    folds: int
    tried: int
    """Settings whose value was computed for every query."""
    now: Choice
    best: Choice
    mean: float
    """Of the measure, as configured."""
    mean_best: float
    """Of the best choice on the very queries that it was searched on: too good by some luck."""
    held_out: Interval
    """Gain on queries that the choice was not searched on, a query."""
    p: float
    chosen: Sequence[Choice] = field(default_factory=tuple)
    """By fold."""

    @property
    def recommended(self) -> bool:
        """Whether there is a change, and its gain on held-out queries is beyond noise."""
        return self.best != self.now and self.held_out.mean > 0 and self.p <= SIGNIFICANT

    @property
    def changes(self) -> dict[str, dict[str, Json]]:
        return self.best.changes(self.now)

    def to_json(self) -> dict[str, Json]:
        return {
            "measure": self.measure,
            "of": "the fused legs, before any reranking",
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


def tune(searcher: Searcher, settings: Settings, topics: Sequence[Topic], measure: Measure) -> Tuned:
    """Searches the space on all queries, and again on all but one fold for each fold.

    Raises:
        UsageError: there are too few judged queries, or not both legs to be fused.
        Unavailable: the dense leg cannot run.
    """
    judged = [topic for topic in topics if topic.grades]
    if len(judged) < _LEAST:
        hint = "judge more of them: a choice made on so few says nothing of others"
        raise UsageError(f"--tune needs {_LEAST} queries with judged records; there are {len(judged)}", hint=hint)
    if settings.search.mode != "hybrid":
        raise UsageError("--tune weighs the legs of a hybrid search", hint="leave --mode out")
    table = _Table(searcher, settings, judged, measure)
    now = Choice.of(searcher, settings)
    best = table.search(now, np.arange(len(judged)))
    folds = _folds([topic.id for topic in judged])
    gains, chosen = np.zeros(len(judged)), []
    for fold in folds:
        choice = table.search(now, np.setdiff1d(np.arange(len(judged)), fold))
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
    )


def _folds(names: Sequence[str], *, seed: int = 0) -> list[NDArray[np.int64]]:
    """Places of the queries of each fold; which fold a query falls into does not depend on their order."""
    order = np.argsort(np.array(names), kind="stable")
    return [np.sort(part) for part in np.array_split(np.random.default_rng(seed).permutation(order), FOLDS)]


class _Table:
    """The measure of every query under any choice, computed when it is first asked for."""

    def __init__(self, searcher: Searcher, settings: Settings, topics: Sequence[Topic], measure: Measure) -> None:
        self._topics = topics
        self._texts = [topic.text for topic in topics]
        self._k = depth([measure])
        deepest = max(*_DEPTHS, settings.search.depth, self._k)
        self._searcher = searcher.under(override(settings, {"search": {"depth": deepest}}, where="--tune"))
        if skipped := self._searcher.encode(self._texts):
            raise next(iter(skipped.values()))
        self._scorer = Scorer([measure], {topic.id: topic.grades for topic in topics})
        self._known: dict[str, Floats] = {}
        self._pools = lru_cache(maxsize=2)(self._gather)
        self._contributions = lru_cache(maxsize=1)(self._contribute)

    @property
    def tried(self) -> int:
        return len(self._known)

    def search(self, start: Choice, rows: NDArray[np.int64]) -> Choice:
        """The best choice on the queries of these places."""
        found = self._descend(start, rows)
        formula = max(_FORMULAS, key=lambda each: float(self._of_words(*each)[rows].mean()))
        gain = self._of_words(*formula)[rows].mean() - self._of_words(start.k1, start.b)[rows].mean()
        if gain <= _WORTH:
            return found
        other = self._descend(replace(start, k1=formula[0], b=formula[1]), rows)
        return other if self._mean(other, rows) > self._mean(found, rows) + _WORTH else found

    def _descend(self, start: Choice, rows: NDArray[np.int64]) -> Choice:
        """Fusion and depth in turn, until nothing is worth a change."""
        best = start
        for _ in range(_ROUNDS):
            before = best
            for block in (best.fusions, best.depths):
                challenger = max(block(), key=lambda choice: self._mean(choice, rows))
                if self._mean(challenger, rows) > self._mean(best, rows) + _WORTH:
                    best = challenger
            if best == before:
                break
        return best

    def _mean(self, choice: Choice, rows: NDArray[np.int64]) -> float:
        return float(self.values(choice)[rows].mean())

    def values(self, choice: Choice) -> Floats:
        """(n,) the measure of each query."""
        return self._value(repr(choice.settings), lambda: self.run(choice))

    def run(self, choice: Choice) -> Run:
        """What the pipeline answers under these settings."""
        weights = {"bm25": choice.bm25_weight, "dense": choice.dense_weight}
        fusion = Fusion(choice.method, choice.normalization, choice.rrf_k, weights)
        by_leg = np.array([fusion.weight(leg.name) for leg in self._legs])
        # Weights are the innermost loop of the search, and no part of what the legs contribute.
        contributed = self._contributions(choice.k1, choice.b, choice.depth, *choice.unweighted)
        return {
            topic.id: self._first(rows, weighted_sum(parts, by_leg))
            for topic, (rows, parts) in zip(self._topics, contributed, strict=True)
        }

    def _of_words(self, k1: float, b: float) -> Floats:
        """(n,) the measure of each query where the leg of words answers alone."""

        def run() -> Run:
            found = self._words(k1, b).find(self._texts)
            return {
                topic.id: self._first(listed.rows, listed.scores.astype(np.float64))
                for topic, listed in zip(self._topics, found, strict=True)
            }

        return self._value(repr((k1, b)), run)

    def _value(self, key: str, run: Callable[[], Run]) -> Floats:
        if key not in self._known:
            (by_query,) = self._scorer(run()).values()
            self._known[key] = np.array([by_query[topic.id] for topic in self._topics], np.float64)
        return self._known[key]

    def _first(self, rows: Rows, scores: Floats) -> dict[str, float]:
        """The first records and their scores; equal scores in the order of their ids, as rankings have it."""
        name = self._searcher.generation.record_id
        found = sorted((-float(scores[at]), name(int(rows[at]))) for at in highest(scores, self._k))
        return {record: -score for score, record in found[: self._k]}

    def _contribute(
        self, k1: float, b: float, depth: int, method: Method, normalization: Normalization, rrf_k: float
    ) -> list[tuple[Rows, Floats]]:
        """By query: its candidates, and what each leg says of each of them."""
        fusion = Fusion(method, normalization, rrf_k)
        pools = (pool.cut(max(depth, self._k)) for pool in self._pools(k1, b))
        return [(pool.rows, pool.contributions(fusion)) for pool in pools]

    def _gather(self, k1: float, b: float) -> list[Pool]:
        """What the legs find, as deep as any choice asks them. A formula changes what one leg finds."""
        legs = (self._words(k1, b), self._legs[1])
        found = zip(legs[0].find(self._texts), self._listed, strict=True)
        asked = zip(self._texts, legs[1].prepare(self._texts), strict=True)
        return [gather(legs, each, lists) for each, lists in zip(asked, found, strict=True)]

    def _words(self, k1: float, b: float) -> Leg:
        """The leg of words under this formula."""
        words = self._legs[0]
        if (k1, b) == self._built:
            return words
        formula = variants.formula_of(self._searcher.generation, k1=k1, b=b)
        return replace(words, index=variants.reweighted(self._searcher.indexes, formula))

    @cached_property
    def _legs(self) -> tuple[Leg, Leg]:
        """The legs of words and of vectors."""
        (stage,), _ = self._searcher.pipeline(("bm25", "dense"), k=1, unit="record")
        words, vectors = stage.legs  # type: ignore[attr-defined]  # two legs make a fusion
        return words, vectors

    @cached_property
    def _listed(self) -> list[Candidates]:
        """What the leg of vectors finds, which no choice changes."""
        return self._legs[1].find(self._legs[1].prepare(self._texts))

    @cached_property
    def _built(self) -> tuple[float, float]:
        formula = variants.formula_of(self._searcher.generation)
        return formula.k1, formula.b
