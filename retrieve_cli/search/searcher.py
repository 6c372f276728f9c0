"""The way out: Request -> Question -> rankings -> results -> Answer, over one generation. Reads top to bottom."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.assemble.registry import retriever
from retrieve_cli.assemble.sources import watched_of
from retrieve_cli.assemble.trusted import strange_sources
from retrieve_cli.config.engine_settings import SERVERS
from retrieve_cli.config.settings import Settings, sections
from retrieve_cli.config.trust import COMMAND
from retrieve_cli.contracts import Index, Json, Query, Question, Ranking, Request, Watched
from retrieve_cli.search.answer import Answer, Attempt, Course, Engine
from retrieve_cli.search.confidence import Confidence
from retrieve_cli.search.deadline import Costs
from retrieve_cli.search.freshness import Freshness
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.questions import RequestReader, check_requests
from retrieve_cli.search.ranked import Ranked
from retrieve_cli.search.ranker import Ranker
from retrieve_cli.search.relaxation import Relaxation
from retrieve_cli.search.results import ResultReader, Shown, counter_of
from retrieve_cli.search.term_matches import matching_words, silent, weak_matches
from retrieve_cli.stages.pipeline import Edit, Pipeline
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.assemble.indexes import Indexes
    from retrieve_cli.assemble.tokenizers import Counter
    from retrieve_cli.search.facets import Facet

__all__ = ["Ranked", "SearchOptions", "Searcher"]
_OPENED_UNDER = sorted({*sections("index"), "models", "engines", *SERVERS})
"""Sections of the settings on which open files and loaded models depend."""


class _Batch(NamedTuple):
    """The values that all answers of one batch share."""

    ranked: Ranked
    timings: Mapping[str, float]
    deadline: Mapping[str, Json] | None
    notices: tuple[str, ...]
    stale: str
    engine: Engine
    courses: Mapping[int, Course]
    """By the identity of a ranking."""
    options: SearchOptions


class Searcher:
    """An open generation for any number of queries. Threads may share one: the notices and timings of a call are on its
    answers."""

    def __init__(self, store: Store, settings: Settings, generation: str | None = None) -> None:
        """Open the current generation, or the one named.

        Raises:
            IndexMissing, IndexCorrupt: there is no index, or it is damaged.
        """
        begun = time.perf_counter()
        self.store = store
        with open_generation(store, generation) as self.generation:
            self.generation.advise_random_reads()
            costs = partial(Costs, store.cache / "costs.json")
            opened = time.perf_counter() - begun
            self.ranker = Ranker(self.generation, settings, costs=costs, opened=opened)
        self._watch()

    def _watch(self) -> None:
        """Find the sources of the generation, whose changes its answers tell of."""
        strange = strange_sources(self.store.path, self.generation.manifest)
        said = f"not compared with {', '.join(strange)}, which you did not agree to read: {COMMAND}"
        self._unread = said if strange else ""
        places = {"fetched": self.store.fetched, "cache": self.store.cache, "inbox": self.store.inbox}
        self._watched = watched_of(
            self.generation.manifest,
            **places,
            docs_max_mb=self.settings.docs.max_mb,
            parsing_max_mb=self.settings.parsing.max_mb,
        )

    def source_of(self, row: int) -> Watched | None:
        """Return the source of a record; None if the generation does not say where its sources are."""
        ends = accumulate(count for count, _ in self._watched)
        return next((source for end, (_, source) in zip(ends, self._watched, strict=True) if row < end), None)

    @property
    def settings(self) -> Settings:
        return self.ranker.settings

    @property
    def _freshness(self) -> Freshness:
        return Freshness.of(self.generation.manifest, self._watched, self.settings.freshness.policy)

    @property
    def indexes(self) -> Indexes:
        return self.ranker.indexes

    def under(self, settings: Settings, indexes: Mapping[str, Index[Any]] | None = None) -> Searcher:
        """Return the same generation answering under other settings, with other indexes in the place of some."""
        sibling = copy(self)
        sibling.ranker = self.ranker.under(settings, indexes)
        return sibling

    def adopt_models(self, before: Searcher) -> None:
        """Use the query models of another generation, and the queries that they keep, if they are the same ones. To be
        called before the first query."""
        self.ranker.adopt_models(before.ranker)

    def again(self, store: Store, settings: Settings) -> Searcher | None:
        """Return the same generation as if it had been opened now, for a store that is the same folder; None if it has
        to be opened, because the settings say something else about its files and models."""
        if any(getattr(settings, name) != getattr(self.settings, name) for name in _OPENED_UNDER):
            return None
        sibling = copy(self)
        sibling.store = store
        sibling.ranker = self.ranker.again(settings)
        sibling._watch()  # noqa: SLF001  a copy of this very object
        return sibling

    def options(self, **given: Any) -> SearchOptions:
        """Return what the configuration says, with what is given and is not None in its place."""
        return SearchOptions.of(self.settings, **given)

    def answer(self, requests: Sequence[Request], options: SearchOptions | None = None) -> list[Answer]:
        """Return an answer to each request, in order: what it was read as, its ranking, and what the store has of each
        hit. Where the scores are calibrated, each hit has its confidence, and those below `min_confidence` are dropped.

        Raises:
            IndexCorrupt: a row that was found cannot be read.
            Stale: sources have changed since the build, and `freshness.policy` is `fail`.
            UsageError: a request cannot be understood; a confidence is asked for and the scores are not calibrated;
                and as `rank` does.
            Unavailable: as `rank` does.
        """
        options = options or self.options()
        if (chosen := options.settings(self.settings)) is not self.settings:
            return self.under(chosen).answer(requests, options)
        self.check(requests)
        self._freshness.expect(requests)
        kinds: dict[tuple[tuple[str, ...], bool], list[int]] = {}
        for place, request in enumerate(requests):
            kinds.setdefault((request.retrievers, bool(request.also)), []).append(place)
        found: dict[int, Answer] = {}
        for (subset, _), places in kinds.items():
            answers = self._answered([requests[place] for place in places], options.by(subset))
            found.update(zip(places, answers, strict=True))
        return [found[place] for place in range(len(requests))]

    def _answered(self, requests: Sequence[Request], options: SearchOptions) -> list[Answer]:
        """The answers to requests that ask for the same retrievers, all with variants or all without: the pipeline of
        an answer does not name a merging that only others need."""
        questions = self.read(requests)
        queries = [question.query for question in questions]
        if options.facets:
            from retrieve_cli.search.facets import expect_fields

            expect_fields(self.generation, queries, options.facets)
        rows = self.generation.records if options.unit == "record" else self.generation.chunks
        most = min(options.k, len(rows))
        relaxation = Relaxation(questions, self.settings.broadening, lambda: self.indexes.analyzer, most=most)
        with self.store.reading(self.generation.id):
            ranked = self.ranker.rank(queries, options.whole, relax=relaxation)
        rankings = ranked.rankings
        notices = [*ranked.notices, *self._beyond_depth(options)]
        begun = time.perf_counter()
        courses = Course.by_ranking(ranked.steps, rankings)
        shown = self._shown(rankings, ranked, options, notices.append)
        facets = self._facets(questions, rankings, ranked, options)
        if self._unread and all(request.tenant is None for request in requests):
            notices.append(self._unread)
        changed = self._freshness.notice([(*each.found, *each.related) for each in shown], requests) or ""
        read = time.perf_counter() - begun
        timings = self._timings(len(questions), encode=ranked.encode, search=ranked.search + read, rerank=ranked.rerank)
        deadline = ranked.deadline.report(ranked.asked, ranked.done, took_ms=timings["total"])
        engine: Engine = "naive" if options.dense_only else "advanced"
        batch = _Batch(ranked, timings, deadline, tuple(dict.fromkeys(notices)), changed, engine, courses, options)
        each = zip(questions, rankings, shown, relaxation.attempts, facets, strict=True)
        return [self._answer(*parts, batch=batch) for parts in each]

    def _beyond_depth(self, options: SearchOptions) -> Iterator[str]:
        """A notice on a page for which the retrievers are asked for more candidates than for the pages before."""
        depth, last = self.settings.search.depth, options.whole.k
        if options.offset and depth < min(last, len(self.generation.records)):
            yield f"results {depth + 1} to {last} are of a deeper search: a result of an earlier page may come again"

    def _shown(
        self, rankings: Sequence[Ranking], ranked: Ranked, options: SearchOptions, say: Callable[[str], None]
    ) -> list[Shown]:
        """The results that are shown of each ranking."""
        search, rerank = self.settings.search, self.settings.rerank
        grade = search.grade if ranked.reranker is None else None
        if grade is None and search.grade is not None and rerank.min_score is None:
            say(f"search.grade {search.grade:g} is not applied: the reranker decides (rerank.min_score)")
        if (grade, search.max_distance) != (None, None) and not any(
            retriever(name).similarity for name in ranked.retrievers
        ):
            say("without the dense retriever no result passes search.grade and search.max_distance")
        confidence = self._confidence(ranked, options, say)
        with self.store.reading(self.generation.id), ranked.deadline.timed("results"):
            return self._results(options).read(
                rankings, retrievers=ranked.retrievers, related=ranked.related, confidence=confidence
            )

    def _facets(
        self, questions: Sequence[Question], rankings: Sequence[Ranking], ranked: Ranked, options: SearchOptions
    ) -> list[dict[str, Facet]]:
        """The facets of each question, by field."""
        if not options.facets:
            return [{} for _ in questions]
        from retrieve_cli.search.facets import FacetCounter

        with self.store.reading(self.generation.id):
            counter = FacetCounter(self.generation, self._reader(), self.rank, ranked.retrievers, options)
            return counter.facets_of(questions, rankings)

    def _results(self, options: SearchOptions) -> ResultReader:
        return ResultReader(
            self.generation,
            self.indexes,
            self.settings,
            options,
            watched=self._watched,
            encoder=lambda: self.ranker.models.encoder,
        )

    def _answer(
        self,
        question: Question,
        ranking: Ranking,
        shown: Shown,
        attempts: tuple[Attempt, ...],
        facets: Mapping[str, Facet],
        *,
        batch: _Batch,
    ) -> Answer:
        """The answer to a question of a batch."""
        ranked = batch.ranked
        mute = silent(self.indexes, question.query, ranked.retrievers)
        doubts = weak_matches(
            self.generation,
            self.indexes,
            question.query,
            retrievers=ranked.retrievers,
            mute=mute,
            ranking=ranking,
            shown=shown,
            calibration=self.store.calibration,
        )
        return Answer(
            question=question,
            results=shown.results,
            unit=ranked.unit,
            strategies_used=tuple(name for name in ranked.retrievers if name not in mute),
            strategies_skipped={**ranked.skipped, **mute},
            fusion_method=ranked.fusion_method,
            pipeline=str(ranked.pipeline),
            generation=self.generation.id,
            timings_ms=batch.timings,
            matches=partial(matching_words, self.indexes, ranking.query.text),
            reranked=ranked.reranker is not None,
            rerank_strategy=ranked.rerank_strategy,
            engine=batch.engine,
            found=ranking.matches,
            confidence=shown.confidence,
            deadline=batch.deadline,
            attempts=attempts,
            trace=ranking.trace,
            spent=shown.spent,
            related=shown.related,
            course=batch.courses[id(ranking)],
            k=batch.options.k,
            offset=batch.options.offset,
            facets=facets,
            explain=batch.options.explain,
            before_budget=len(shown.found),
            similar=tuple(name for name in ranked.retrievers if retriever(name).similarity),
            notices=tuple(dict.fromkeys((*question.notices, *batch.notices, *doubts))),
            stale=batch.stale,
            skip_kinds={**ranked.skip_kinds, **dict.fromkeys(mute, "no_words")},
        )

    def counter(self) -> Counter:
        """Return the counter of the tokens of a budget. Raises: Unavailable: its tokenizer is not on this machine."""
        return counter_of(self.generation, self.settings, lambda: self.ranker.models.encoder)

    def read(self, requests: Sequence[Request]) -> list[Question]:
        """Return what the requests come to: their control tags, files and filters read.

        Raises:
            UsageError: one of them cannot be understood.
        """
        reader = self._reader()
        with self.store.reading(self.generation.id):
            return [reader.read(request) for request in requests]

    def _reader(self) -> RequestReader:
        return RequestReader(self.generation, file_tokens=self.settings.search.file_tokens, settings=self.settings)

    def check(self, requests: Sequence[Request]) -> None:
        """Hold requests to what the configuration demands of them.

        Raises:
            UsageError: a tenant is required and none is named, or a request has too many variants.
        """
        check_requests(requests, self.settings.search)

    def rank(self, queries: Sequence[Query], options: SearchOptions, edit: Edit | None = None) -> Ranked:
        """Return a ranking of each query, in order, all retrievers run over the whole batch.

        Steps for which the deadline leaves no time are skipped. `edit` changes the pipeline before it runs.

        Raises:
            UsageError: a query is empty, or `k` is below 1.
            Unavailable: a step that is needed cannot run: the only retriever, or a reranker that was asked for.
        """
        with self.store.reading(self.generation.id):
            return self.ranker.rank(queries, options, edit)

    def pipeline(self, options: SearchOptions) -> Pipeline:
        """Return the pipeline that answers under these options, as if every step could run."""
        return self.ranker.pipeline(options)

    def score_card(self, ranked: Ranked) -> dict[str, Json]:
        """Return all that decides what a score of this ranking means: two of the same card are worth the same."""
        return self.ranker.score_card(ranked)

    def _confidence(self, ranked: Ranked, options: SearchOptions, say: Callable[[str], None]) -> Confidence | None:
        """The calibration that these scores have; a notice if it was measured on another generation."""
        found = Confidence.of(self.store.calibration, self.score_card(ranked), options.min_confidence, say)
        if found and found.calibration.generation != self.generation.id:
            known = found.calibration.generation
            say(f"confidence was measured on generation {known}: retrieve eval --gold FILE --calibrate")
        return found

    def _timings(self, queries: int, **seconds: float) -> dict[str, float]:
        each = 1000.0 / max(queries, 1)
        timings = {"open": self.ranker.opened * 1000.0, **{name: spent * each for name, spent in seconds.items()}}
        return {name: round(value, 3) for name, value in {**timings, "total": sum(timings.values())}.items()}
