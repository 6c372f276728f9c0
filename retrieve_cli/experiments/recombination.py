"""What any choice of settings answers to a set of queries, computed from what was found and read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble import variants
from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Candidates, Hit
from retrieve_cli.evaluation.judgments import Run, Topic
from retrieve_cli.evaluation.measures import Scorer, depth as depth_of
from retrieve_cli.experiments.choices import DEPTHS, READ, Choice, Reranking
from retrieve_cli.experiments.evaluate import queries_of
from retrieve_cli.experiments.rereading import rereading
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.stages.fusion import Fusion, Method, Normalization, highest, weighted_sum
from retrieve_cli.stages.pool import Pool, gather
from retrieve_cli.stages.rerank import rescored
from retrieve_cli.stages.retrieve import Leg

if TYPE_CHECKING:
    from ir_measures import Measure
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Ranked:
    """The first records of one query under a fusion, best first."""

    rows: Rows
    scores: Floats


class Recombination:
    """The measure of every query under any choice, computed when it is first asked for."""

    def __init__(
        self, searcher: Searcher, settings: Settings, topics: Sequence[Topic], measure: Measure, *, k: int
    ) -> None:
        """`k` is how many results are asked for, of which the measure may look at fewer."""
        self._topics = topics
        self._queries = queries_of(searcher, topics, [])
        self._texts = [query.text for query in self._queries]
        self._within = [query.records for query in self._queries]
        self._k = k
        self._cut = min(k, depth_of([measure]))
        self._settings = settings.rerank
        self._rereading = rereading(searcher.generation, settings)
        self.now = self._configured(searcher, settings)
        deepest = max(*DEPTHS, settings.search.depth, k, *self.read_depths)
        self._searcher = searcher.under(override(settings, {"search": {"depth": deepest}}, where="--tune"))
        self._searcher.encode(self._queries)
        self._scorer = Scorer([measure], {topic.id: topic.grades for topic in topics})
        self._known: dict[str, Floats] = {}
        self._pools = lru_cache(maxsize=2)(self._gather)
        self._contributions = lru_cache(maxsize=1)(self._contribute)
        self._ranked = lru_cache(maxsize=4)(self._rank)
        self._read = lru_cache(maxsize=4)(self._read_again)
        self._name = lru_cache(maxsize=None)(self._searcher.generation.record_id)

    def _configured(self, searcher: Searcher, settings: Settings) -> Choice:
        fused = Choice.of(searcher, settings)
        return replace(fused, rerank=Reranking.of(settings)) if self._rereading else fused

    @property
    def reranker(self) -> str | None:
        """What reads hits again, where something does."""
        return self._rereading.name if self._rereading else None

    @property
    def read_depths(self) -> tuple[int, ...]:
        """How many hits may be read again."""
        if self._rereading is None:
            return ()
        return READ if self._rereading.any_depth else (self._settings.depth,)

    @property
    def least_depth(self) -> int:
        """The fewest candidates that a leg is asked for, however few are configured."""
        return self._k

    @property
    def tried(self) -> int:
        """How many settings have been computed."""
        return len(self._known)

    def values(self, choice: Choice) -> Floats:
        """(n,) the measure of each query."""
        return self._value(repr(choice.settings), lambda: self.run(choice))

    def of_words(self, k1: float, b: float) -> Floats:
        """(n,) the measure of each query where the leg of words answers alone."""

        def run() -> Run:
            found = self._words(k1, b).find(self._texts, self._within)
            return {
                topic.id: self._first(listed.rows, listed.scores.astype(np.float64))
                for topic, listed in zip(self._topics, found, strict=True)
            }

        return self._value(repr((k1, b)), run)

    def run(self, choice: Choice) -> Run:
        """What the pipeline answers under these settings."""
        if choice.rerank is not None:
            return self._run_again(choice.fused, choice.rerank)
        fused = self._fused(choice, self._k)
        return {topic.id: self._first(*each) for topic, each in zip(self._topics, fused, strict=True)}

    def _run_again(self, fused: Choice, rerank: Reranking) -> Run:
        """What is answered where the first hits are read again."""
        chosen = self._settings
        keep = self._k if chosen.keep is None else min(self._k, chosen.keep)
        found = {}
        ranked = self._ranked(fused, max(self._k, rerank.depth))
        for topic, each, read in zip(self._topics, ranked, self._read(fused, rerank.depth), strict=True):
            scores, stays = rescored(each.scores, read, interpolate=rerank.interpolate, min_score=chosen.min_score)
            places = np.flatnonzero(stays)
            kept = places[np.argsort(-scores[places], kind="stable")][:keep]  # equal ones stay as they stood
            found[topic.id] = self._measured(each.rows[kept], scores[kept])
        return found

    def _value(self, key: str, run: Callable[[], Run]) -> Floats:
        if key not in self._known:
            (by_query,) = self._scorer(run()).values()
            self._known[key] = np.array([by_query[topic.id] for topic in self._topics], np.float64)
        return self._known[key]

    def _first(self, rows: Rows, scores: Floats) -> dict[str, float]:
        """The first records and their scores, as far as the measure looks."""
        at = highest(scores, self._k)
        if len(at) > self._k:
            first = self._in_order(rows, scores, self._k)
            return self._measured(first.rows, first.scores)
        return self._measured(rows[at], scores[at])

    def _measured(self, rows: Rows, scores: Floats) -> dict[str, float]:
        """Those that the measure may look at; it keeps scores in single precision, and breaks ties its own way."""
        at = highest(scores.astype(np.float32).astype(np.float64), self._cut)
        return {self._name(int(rows[place])): float(scores[place]) for place in at}

    def _in_order(self, rows: Rows, scores: Floats, count: int) -> _Ranked:
        """The first `count`; equal scores in the order of their chunks' ids, as rankings have it."""
        keys = [(-float(scores[at]), f"{self._name(int(rows[at]))}#", at) for at in highest(scores, count)]
        at = np.array([at for *_, at in sorted(keys)[:count]], np.int64)
        return _Ranked(rows[at], scores[at])

    def _rank(self, fused: Choice, reach: int) -> list[_Ranked]:
        return [self._in_order(rows, scores, reach) for rows, scores in self._fused(fused, reach)]

    def _read_again(self, fused: Choice, depth: int) -> list[Floats]:
        """By query, what the reranker says of the first `depth` hits."""
        ranked = self._ranked(fused, max(self._k, depth))
        return [self._scores(place, each.rows[:depth], fused) for place, each in enumerate(ranked)]

    def _scores(self, place: int, records: Rows, fused: Choice) -> Floats:
        if self._rereading is None or not len(records):
            return np.empty(0)
        query = self._queries[place]
        rows = self._searcher.generation.starts[records]
        if self._rereading.by_chunk:
            legs = (self._words(fused.k1, fused.b), self._legs[1])
            leg = next(leg for leg in legs if leg.index.unit == "chunk")
            rows = leg.best_chunks(leg.prepare([query.text])[0], records)
        hits = [Hit("", int(row), int(record), 0.0) for row, record in zip(rows, records, strict=True)]
        return self._rereading.scores(query, hits)

    def _fused(self, choice: Choice, reach: int) -> Iterator[tuple[Rows, Floats]]:
        """By query, its candidates and their fused scores, where `reach` of them are asked for."""
        weights = {"bm25": choice.bm25_weight, "dense": choice.dense_weight}
        fusion = Fusion(choice.method, choice.normalization, choice.rrf_k, weights)
        by_leg = np.array([fusion.weight(leg.name) for leg in self._legs])
        # Weights are the innermost loop of the search, and no part of what the legs contribute.
        depth = max(choice.depth, reach)
        contributed = self._contributions(choice.k1, choice.b, depth, *choice.unweighted)
        return ((rows, weighted_sum(parts, by_leg)) for rows, parts in contributed)

    def _contribute(
        self, k1: float, b: float, depth: int, method: Method, normalization: Normalization, rrf_k: float
    ) -> list[tuple[Rows, Floats]]:
        """By query: its candidates, and what each leg says of each of them."""
        fusion = Fusion(method, normalization, rrf_k)
        pools = (pool.cut(depth) for pool in self._pools(k1, b))
        return [(pool.rows, pool.contributions(fusion)) for pool in pools]

    def _gather(self, k1: float, b: float) -> list[Pool]:
        """What the legs find, as deep as any choice asks them. A formula changes what one leg finds."""
        legs = (self._words(k1, b), self._legs[1])
        found = zip(legs[0].find(self._texts, self._within), self._listed, strict=True)
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
        return self._legs[1].find(self._legs[1].prepare(self._texts), self._within)

    @cached_property
    def _built(self) -> tuple[float, float]:
        formula = variants.formula_of(self._searcher.generation)
        return formula.k1, formula.b
