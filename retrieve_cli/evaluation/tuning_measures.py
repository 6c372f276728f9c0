"""Measure of each judged query under any choice of settings: the real pipeline over remembered candidates.

Search space of tuning: the settings that vary, and the neighbours of a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble import registry
from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Card, Json, Ranking
from retrieve_cli.contracts.progress import Task, task
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.evaluate import queries_of
from retrieve_cli.evaluation.judgments import Run, Topic
from retrieve_cli.evaluation.measures import Scorer, depth
from retrieve_cli.evaluation.memory import PoolMemory, RememberedRetrieval, RetrievalMemory, remembering
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Method, Normalization
from retrieve_cli.retrieval.stages.pipeline import Pipeline
from retrieve_cli.retrieval.stages.rerank import Reranker, RerankStage
from retrieve_cli.retrieval.stages.retrieve import Retrieve
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.searcher import Searcher

if TYPE_CHECKING:
    from ir_measures import Measure
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_BATCH = 16
"""Queries that are ranked at a time when nothing is known of them."""
_FORMULAS_KEPT = 2
"""Formulas whose candidates are remembered at a time: the configured one and the one being tried."""


def _options_of(opened: Opened, k: int) -> SearchOptions:
    """Return options without a deadline, and with every retriever: one of weight 0 may be worth more."""
    options = replace(opened.options(k=k), deadline_ms=None)
    if options.hybrid and not options.retrievers:
        return replace(options, retrievers=tuple(registry.ordered(opened.generation.manifest.recipe.retrievers)))
    return options


class MeasureTable:
    """Measure of every query under any choice, computed at first use."""

    def __init__(
        self,
        opened: Opened,
        settings: Settings,
        topics: Sequence[Topic],
        measure: Measure,
        *,
        k: int,
        trying: Task | None = None,
    ) -> None:
        """Take `k`, the number of results, of which the measure may need fewer, and `trying`, which counts settings.

        Raises:
            UsageError: fewer than two retrievers answer, so there is nothing to fuse.
            Unavailable: a step of the pipeline cannot run.
        """
        self._opened = opened
        self._trying = trying
        self._settings = settings
        self._topics = topics
        self._queries = queries_of(opened, topics, [])
        self._options = _options_of(opened, k)
        self._looked_at = depth([measure])
        self._scorer = Scorer([measure], {topic.id: topic.grades for topic in topics})
        self._known: dict[str, Floats] = {}
        configured = Searcher(opened, self._options).pipeline()
        names = [each.name for each in configured.retrieves.retrievals]
        if len(names) < 2:
            raise UsageError(f"--tune needs at least two retrievers, and only {names[0]} answers", hint="omit --mode")
        cards = {name: opened.generation.manifest.recipe.retrievers[name] for name in names}
        self._rerank = next((stage for stage in configured.stages if isinstance(stage, RerankStage)), None)
        together = settings.rerank.backend == "llm"
        self._reader: Reranker | None = (
            None if self._rerank is None else remembering(self._rerank.reader, together=together)
        )
        self.now = TuningSettings.of(settings, cards, reranked=self._rerank is not None)
        self.read_depths = () if self._rerank is None else (settings.rerank.depth,) if together else READ
        """Numbers of hits that may be reranked."""
        self._deepest = max(*DEPTHS, settings.search.depth, k, *self.read_depths, 0)
        self._memory = lru_cache(maxsize=_FORMULAS_KEPT * len(names))(self._fresh_memory)
        self._pools = PoolMemory()
        self._varied = lru_cache(maxsize=_FORMULAS_KEPT)(self._vary)
        self._record_id = lru_cache(maxsize=None)(opened.generation.record_id)

    @property
    def reranker(self) -> str | None:
        """Name of the reranker, if there is one."""
        return self._reader.name if self._reader else None

    @property
    def least_depth(self) -> int:
        """Least retrieval depth, however small the configured one is."""
        return self._options.k

    @property
    def tried(self) -> int:
        """Number of settings that have been computed."""
        return len(self._known)

    def values(self, choice: TuningSettings) -> Floats:
        """Return the measure of each query, (n,)."""
        return self._value(repr(choice.settings), lambda: self.pipeline(choice))

    def alone(self, name: str, formula: Formula) -> Floats:
        """Return the measure of each query if one retriever answers alone, (n,)."""
        options = replace(self._options, retrievers=(name,), rerank=False, expand=False)

        def pipeline() -> Pipeline:
            return self._remembering(Searcher(self._varied(((name, formula),)), options).pipeline(), ((name, formula),))

        return self._value(repr((name, formula)), pipeline)

    def pipeline(self, choice: TuningSettings) -> Pipeline:
        """Return the pipeline that answers under a choice, over remembered candidates."""
        settings = override(self._settings, choice.of_answers, where="--tune")
        opened = self._varied(choice.formulas).under(settings)
        options = self._options if choice.rerank is not None else replace(self._options, rerank=False)
        return self._remembering(Searcher(opened, options).pipeline(), choice.formulas)

    def run(self, choice: TuningSettings) -> Run:
        """Return the run under a choice."""
        return self._run(self.pipeline(choice)([Ranking(query) for query in self._queries]))

    def _run(self, rankings: Sequence[Ranking]) -> dict[str, dict[str, float]]:
        return {
            ranking.query.id: {self._record_id(hit.record): hit.score for hit in ranking.hits[: self._options.k]}
            for ranking in rankings
        }

    def _measured(self, pipeline: Pipeline) -> Run:
        """Return the part of a run that the measure needs; all hits of a query with ties at its end."""
        short = _passing_on(pipeline, self._looked_at + 1)
        rankings = self._ranked(short)
        tied = [] if short == pipeline else [Ranking(each.query) for each in rankings if self._tied(each)]
        return {**self._run(rankings), **(self._run(pipeline(tied)) if tied else {})}

    def _ranked(self, pipeline: Pipeline) -> list[Ranking]:
        """The rankings of all queries; when retrievers and reranker first run, in batches that are counted."""
        rankings = [Ranking(query) for query in self._queries]
        if self._known:
            return pipeline(rankings)
        ranked: list[Ranking] = []
        with task("searching", "queries", len(rankings)) as searching:
            for start in range(0, len(rankings), _BATCH):
                ranked += pipeline(rankings[start : start + _BATCH])
                searching.reach(len(ranked))
        return ranked

    def _tied(self, ranking: Ranking) -> bool:
        """Return True if a hit beyond the cutoff may tie with one that counts: the measure orders ties in its own way.

        It keeps scores in single precision.
        """
        last = [np.float32(hit.score) for hit in ranking.hits[self._looked_at - 1 : self._looked_at + 1]]
        return len(last) == 2 and bool(last[0] == last[1])

    def _value(self, key: str, pipeline: Callable[[], Pipeline]) -> Floats:
        if key not in self._known:
            (by_query,) = self._scorer(self._measured(pipeline())).values()
            self._known[key] = np.array([by_query[topic.id] for topic in self._topics], np.float64)
            if self._trying is not None:
                self._trying.advance()
        return self._known[key]

    def _remembering(self, pipeline: Pipeline, formulas: tuple[tuple[str, Formula], ...]) -> Pipeline:
        """Return the pipeline over retrievers and a reranker that remember."""
        by_name = dict(formulas)

        def remembered(stage: Retrieve | Fuse) -> Retrieve | Fuse:
            known = tuple(
                RememberedRetrieval(each, self._memory(each.name, by_name.get(each.name, ())))
                for each in stage.retrievals
            )
            if isinstance(stage, Retrieve):
                return replace(stage, retrieval=known[0])
            return replace(stage, retrievals=known, gather=self._pools)

        reader = self._reader
        stages = (
            replace(stage, reader=reader) if isinstance(stage, RerankStage) and reader is not None else stage
            for stage in pipeline.retrieving(remembered).stages
        )
        return Pipeline(tuple(stages))

    def _fresh_memory(self, name: str, formula: Formula) -> RetrievalMemory:  # noqa: ARG002  they are its key
        return RetrievalMemory(self._deepest)

    def _vary(self, formulas: tuple[tuple[str, Formula], ...]) -> Opened:
        """Return the index with these formulas of its retrievers."""
        built = dict(self.now.formulas)
        opened = self._opened
        recipe = opened.generation.manifest.recipe
        varied = {
            name: registry.retriever(name).varied(opened.indexes[name], recipe.retrievers[name], dict(formula))
            for name, formula in formulas
            if formula != built.get(name)
        }
        return opened.under(self._settings, varied)


def _passing_on(pipeline: Pipeline, count: int) -> Pipeline:
    """Return the pipeline whose last stage passes on at most `count` hits, if the stage has such a limit."""
    *before, last = pipeline.stages
    if not isinstance(last, Retrieve | Fuse | RerankStage):
        return pipeline
    return Pipeline((*before, replace(last, keep=min(last.keep, count))))


DEPTHS = (50, 100, 200, 500)
READ = (20, 50, 100)
"""Numbers of hits that are reranked."""
_INTERPOLATIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 20))
_NORMALIZATIONS: tuple[Normalization, ...] = ("zscore", "zscore_candidates", "minmax")
_RRF_K = (10.0, 30.0, 60.0, 100.0)

Formula = tuple[tuple[str, float], ...]
"""Keys of a retriever's section that change its scores and not its rows, with their values."""


class Reranking(Frozen):
    """The depth of reranking, and its share in the score."""

    depth: int
    interpolate: float


class TuningSettings(Frozen):
    """Point of the search space."""

    method: Method
    normalization: Normalization
    weights: tuple[tuple[str, float], ...]
    """Weights by retriever."""
    rrf_k: float
    depth: int
    formulas: tuple[tuple[str, Formula], ...] = ()
    """Formulas by retriever."""
    rerank: Reranking | None = None
    """Reranking of the fused hits; None without a reranker."""

    @classmethod
    def of(cls, settings: Settings, cards: Mapping[str, Card], *, reranked: bool) -> TuningSettings:
        """Return the configured choice; `cards` holds the card of each retriever that answers."""
        fusion = settings.fusion
        return cls(
            method=fusion.method,
            normalization=fusion.normalization,
            weights=tuple(registry.fusion_of(settings, list(cards)).weights.items()),
            rrf_k=fusion.rrf_k,
            depth=settings.search.depth,
            formulas=tuple((name, formula) for name, card in cards.items() if (formula := formula_of(name, card))),
            rerank=Reranking(settings.rerank.depth, settings.rerank.interpolate) if reranked else None,
        )

    @property
    def settings(self) -> dict[str, dict[str, Json]]:
        """Settings by section and key, without keys that have no effect under this method."""
        weighted = {"normalization": self.normalization, "weights": dict(self.weights)}
        fusion: dict[str, Json] = {"rrf_k": self.rrf_k} if self.method == "rrf" else weighted
        formulas: dict[str, dict[str, Json]] = {name: dict(formula) for name, formula in self.formulas}
        found: dict[str, dict[str, Json]] = {
            "fusion": {"method": self.method, **fusion},
            "search": {"depth": self.depth},
            **formulas,
        }
        if self.rerank is not None:
            found["rerank"] = {"depth": self.rerank.depth, "interpolate": self.rerank.interpolate}
        return found

    @property
    def of_answers(self) -> dict[str, dict[str, Json]]:
        """Settings that do not change the index."""
        formulas = dict(self.formulas)
        return {section: keys for section, keys in self.settings.items() if section not in formulas}

    @property
    def fused(self) -> TuningSettings:
        """Choice without reranking."""
        return replace(self, rerank=None)

    def changes(self, other: TuningSettings) -> dict[str, dict[str, Json]]:
        """Return the settings that differ between this choice and `other`."""
        theirs = other.settings
        changed = {
            section: {key: value for key, value in keys.items() if theirs.get(section, {}).get(key) != value}
            for section, keys in self.settings.items()
        }
        return {section: keys for section, keys in changed.items() if keys}

    def with_formula(self, name: str, formula: Formula) -> TuningSettings:
        """Return the choice with another formula of a retriever."""
        return replace(self, formulas=tuple((each, formula if each == name else own) for each, own in self.formulas))

    def fusions(self) -> Iterator[TuningSettings]:
        """Yield the choice with every other fusion: each retriever's weight in turn, the others in proportion.

        Others whose weights are all 0 share equally.
        """
        names = [name for name, _ in self.weights][::-1]
        turns = names[:1] if len(names) <= 2 else names
        for normalization, name, weight in product(_NORMALIZATIONS, turns, _WEIGHTS):
            others = {each: own for each, own in self.weights if each != name}
            others = others if any(others.values()) else dict.fromkeys(others, 1.0)
            share = (1.0 - weight) / sum(others.values())
            chosen = {**{each: round(own * share, 2) for each, own in others.items()}, name: weight}
            weights = tuple((each, chosen[each]) for each, _ in self.weights)
            yield replace(self, method="weighted", normalization=normalization, weights=weights)
        for rrf_k in _RRF_K:
            yield replace(self, method="rrf", rrf_k=rrf_k)

    def depths(self, least: int) -> Iterator[TuningSettings]:
        """Yield the choice with every other retrieval depth of at least `least`."""
        return (replace(self, depth=each) for each in DEPTHS if each >= least)

    def rerankings(self, depths: Sequence[int]) -> Iterator[TuningSettings]:
        """Yield the choice with every other reranking, at the current depth or one of `depths`."""
        if self.rerank is None:
            return
        interpolations = sorted({*_INTERPOLATIONS, self.rerank.interpolate})
        for hits, interpolate in product(sorted({*depths, self.rerank.depth}), interpolations):
            yield replace(self, rerank=Reranking(hits, interpolate))


def formula_of(name: str, card: Card) -> Formula:
    """Return the formula that a retriever was built with; empty if it has none to change."""
    keys = registry.retriever(name).tunable
    return tuple((key, float(card[key])) for key in keys) if all(key in card for key in keys) else ()


def formulas(name: str) -> list[Formula]:
    """Return every formula of a retriever that is tried."""
    grid = registry.retriever(name).tunable
    return [tuple(zip(grid, values, strict=True)) for values in product(*grid.values())] if grid else []
