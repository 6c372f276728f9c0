"""Tuning: a grid of settings, each evaluated on the judged queries, and the choice checked on held-out ones.

The grid varies the fusion of the retrievers, and with it the reranker's weight or, without a reranker, the formulas of
the retrievers (k1 and b of BM25). The gain is measured by cross-validation: each fold of queries is answered with the
setting that is best on the other folds, so that overfitting is not counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble import registry
from retrieve_cli.config.loading import override
from retrieve_cli.contracts import Json, Query
from retrieve_cli.contracts.progress import noting_interruption, task
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.evaluate import check_complete, queries_of, rank, run_of
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.measures import Scorer
from retrieve_cli.evaluation.runs import Answers
from retrieve_cli.evaluation.statistics import SIGNIFICANT, Interval, interval, randomisation
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.search.searcher import Searcher

if TYPE_CHECKING:
    from ir_measures import Measure
    from numpy.typing import NDArray

    from retrieve_cli.config.settings import Settings

    Floats = NDArray[np.float64]
    Places = NDArray[np.int64]

MOST = 60
"""Settings of the grid, the configured one among them."""
FOLDS = 5
_LEAST = 10
"""Least number of queries; with fewer, folds are meaningless."""
_WORTH = 0.001
"""Least gain, on the queries of the choice, for which another setting is taken."""
_SHARES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
"""Weights of one retriever among all of them."""
_RRF_K = (10.0, 60.0)
_INTERPOLATIONS = (0.0, 0.25, 0.5, 0.75, 1.0)

Setting = Mapping[str, Json]
"""Values that differ from the configuration, by `section.key`."""


class Tuned(Frozen):
    """Outcome of the search."""

    measure: str
    queries: int
    tried: int
    """Number of settings, the configured one among them."""
    best: Setting
    """The best setting on all queries; empty: the configured one."""
    mean: float
    """Mean of the measure as configured."""
    mean_best: float
    """Mean under the best setting on the queries that it was chosen on, which is optimistic."""
    held_out: Interval
    """Mean on held-out queries, each answered with the setting that is best on the other folds."""
    gain: Interval
    """Mean gain on held-out queries over the configuration."""
    p: float

    @property
    def recommended(self) -> bool:
        """True if there is a change, and its gain on held-out queries is significant."""
        return bool(self.best) and self.gain.mean > 0 and self.p <= SIGNIFICANT

    @property
    def changes(self) -> dict[str, dict[str, Json]]:
        """The best setting by section and key."""
        return nested(self.best)

    @property
    def changes_index(self) -> bool:
        """True if a change takes effect only when the index is built again."""
        return bool(self.changes.keys() - {"fusion", "rerank"})

    @property
    def lines(self) -> list[str]:
        """The best setting as lines for config.yaml."""
        return [
            line
            for section, keys in self.changes.items()
            for line in (f"{section}:", *(f"  {key}: {json.dumps(value)}" for key, value in keys.items()))
        ]

    def to_json(self) -> dict[str, Json]:
        return {
            "metric": self.measure,
            "queries": self.queries,
            "folds": FOLDS,
            "settings_tried": self.tried,
            "changes": self.changes,
            "value": self.mean,
            "value_best_in_sample": self.mean_best,
            "held_out": asdict(self.held_out),
            "held_out_gain": {**asdict(self.gain), "p": self.p},
            "recommended": self.recommended,
        }


def nested(setting: Setting) -> dict[str, dict[str, Json]]:
    """Return a setting by section and key."""
    sections: dict[str, dict[str, Json]] = {}
    for name, value in setting.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, {})[key] = value
    return sections


def tune(index: Answers, topics: Sequence[Topic], measure: Measure, *, k: int) -> Tuned:
    """Evaluate every setting of the grid on all queries with `k` results, and choose by folds.

    Raises:
        UsageError: there are too few judged queries, or fewer than two retrievers to fuse.
        Unavailable: a retriever or the reranker cannot run.
    """
    judged = [topic for topic in topics if topic.grades]
    if len(judged) < _LEAST:
        message = f"--tune needs {_LEAST} queries with judged records; there are {len(judged)}"
        hint = "judge more queries: settings chosen on so few do not generalise"
        raise UsageError(message, hint=hint)
    settings = list(islice(grid(index), MOST))
    scorer = Scorer([measure], {topic.id: topic.grades for topic in judged})
    queries = queries_of(index.opened, judged, [])
    rows = []
    note = noting_interruption(lambda: "during tuning; nothing is kept")
    with task("tuning", "settings", len(settings)) as trying, note:
        for setting in settings:
            rows.append(_values(index, setting, queries, scorer, k=k))
            trying.advance()
    return _chosen(settings, np.array(rows), [topic.id for topic in judged], str(measure))


def _values(index: Answers, setting: Setting, queries: Sequence[Query], scorer: Scorer, *, k: int) -> list[float]:
    """Return the measure of each query under a setting."""
    changed = override(index.settings, nested(setting), where="--tune")
    opened = index.with_changes("--tune", setting, changed).opened
    ranked = rank(opened, queries, k=k)
    check_complete(ranked, "tuning", "fix that, or tune without it (rerank.backend: none)")
    (values,) = scorer(run_of(opened, ranked)).values()
    return [values[query.id] for query in queries]


def _chosen(settings: Sequence[Setting], table: Floats, names: Sequence[str], measure: str) -> Tuned:
    """Choose by `table`, (settings, queries), of which the first setting is the configured one."""
    held_out = np.zeros(len(names))
    for fold in folds(names):
        others = np.setdiff1d(np.arange(len(names)), fold)
        held_out[fold] = table[_best(table[:, others]), fold]
    best = _best(table)
    gains = held_out - table[0]
    return Tuned(
        measure=measure,
        queries=len(names),
        tried=len(settings),
        best=settings[best],
        mean=float(table[0].mean()),
        mean_best=float(table[best].mean()),
        held_out=interval(held_out),
        gain=interval(gains),
        p=randomisation(gains),
    )


def _best(table: Floats) -> int:
    """Return the place of the best setting; the first one, as configured, unless another gains enough."""
    means = table.mean(axis=1)
    best = int(means.argmax())
    return best if means[best] > means[0] + _WORTH else 0


def folds(names: Sequence[str], *, seed: int = 0) -> list[Places]:
    """Return the places of the queries of each fold; the fold of a query does not depend on their order."""
    order = np.argsort(np.array(names), kind="stable")
    shuffled = np.random.default_rng(seed).permutation(order)
    return [np.sort(part) for part in np.array_split(shuffled, FOLDS)]


# ----------------------------------------------------------------------------------------------- the grid


def grid(index: Answers) -> Iterator[Setting]:
    """Yield the settings of the grid; the first is empty, the configured one.

    Raises:
        UsageError: fewer than two retrievers answer, so there is nothing to fuse.
    """
    options, settings = index.opened.options(), index.settings
    recipe = index.opened.generation.manifest.recipe
    names = options.retrievers or registry.ordered(recipe.retrievers)
    if not options.hybrid or len(names) < 2:
        hint = "omit --mode, or build with two retrievers"
        raise UsageError("--tune needs a hybrid search, whose retrievers it weights", hint=hint)
    stages = Searcher(index.opened, options).pipeline().stages
    reranks = any(stage.kind == "rerank" for stage in stages)
    others = _rerankings(settings.rerank.interpolate) if reranks else _formulas(names, settings)
    fusion = registry.fusion_of(settings, names)
    fusions = _fusions(fusion.method, fusion.normalization, fusion.weights)
    for other, chosen in product([{}, *others], [{}, *fusions]):
        yield {**chosen, **other}


def _fusions(method: str, normalization: str, weights: Mapping[str, float]) -> Iterator[Setting]:
    """Yield other fusions: each retriever's weight in turn, the others in proportion, and ranks."""
    weighted: Setting = {} if method == "weighted" else {"fusion.method": "weighted"}
    names = list(weights)
    for name in names[-1:] if len(names) == 2 else names:
        others = {each: weight for each, weight in weights.items() if each != name}
        if not any(others.values()):
            others = dict.fromkeys(others, 1.0)
        for share in _SHARES:
            rest = (1.0 - share) / sum(others.values())
            parts = {each: round(weight * rest, 3) for each, weight in others.items()}
            chosen = {each: share if each == name else parts[each] for each in names}
            if chosen != dict(weights) or weighted:
                yield {**weighted, "fusion.weights": chosen}
    if normalization != "minmax":
        yield {**weighted, "fusion.normalization": "minmax"}
    for rrf_k in _RRF_K:
        yield {"fusion.method": "rrf", "fusion.rrf_k": rrf_k}


def _rerankings(interpolate: float) -> list[Setting]:
    """Return other weights of the reranker."""
    return [{"rerank.interpolate": value} for value in _INTERPOLATIONS if value != interpolate]


def _formulas(names: Sequence[str], settings: Settings) -> Iterator[Setting]:
    """Yield other formulas of each retriever that has one, which change its scores but not its rows."""
    for name in names:
        tunable = registry.retriever(name).tunable
        for values in product(*tunable.values()):
            changes = {f"{name}.{key}": value for key, value in zip(tunable, values, strict=True)}
            if any(attrgetter(key)(settings) != value for key, value in changes.items()):
                yield changes
