"""The way out: Request -> Question -> rankings -> results -> Answer, over one generation. Reads top to bottom.

Sources that have changed since the build: reported (`warn`), or a reason to answer nothing (`fail`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from retrieve_cli.assemble.registry import fusion_of, retriever
from retrieve_cli.config.plugins import LLM
from retrieve_cli.contracts import Json, Query, Question, Request
from retrieve_cli.errors import Stale, Unavailable
from retrieve_cli.retrieval.stages.pipeline import Edit, Pipeline
from retrieve_cli.search.answer import Answer, Course
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.pipelines import pipeline_of
from retrieve_cli.search.plan import plan
from retrieve_cli.search.questions import RequestReader, check_requests
from retrieve_cli.search.ranking import Ranked, rank
from retrieve_cli.search.relaxation import Attempt, Relaxation
from retrieve_cli.search.results import Confidence, ResultReader, Shown
from retrieve_cli.search.rewording import rewording_of
from retrieve_cli.search.term_matches import matching_words, silent, weak_matches
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from retrieve_cli.contracts import Analyzer, Watched
    from retrieve_cli.search.answer import Result
    from retrieve_cli.search.facets import Facet
    from retrieve_cli.storage.manifest import Manifest


class Searcher:
    """The way of requests through an open generation, as options choose it: made for a call, and never changed."""

    def __init__(self, opened: Opened, options: SearchOptions | None = None) -> None:
        """Without options, the configured ones; choices that they leave open are as configured."""
        self.opened = opened
        self.options = (options or opened.options()).filled(opened.settings)

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Return an answer to each request, in order: the parsed question, its ranking, and the stored row of each hit.
        If the scores are calibrated, each hit has its confidence, and hits below `min_confidence` are dropped.

        Raises:
            IndexCorrupt: a row that was found cannot be read.
            Stale: sources have changed since the build, and `freshness.policy` is `fail`.
            UsageError: a request is invalid; a confidence is requested and the scores are not calibrated; and as for
                `rank`.
            Unavailable: as for `rank`.
        """
        self.check(requests)
        self._freshness.expect(requests)
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for place, request in enumerate(requests):
            kind = (request.retrievers, bool(request.also), request.like, request.not_like)
            kinds.setdefault(kind, []).append(place)
        found: dict[int, Answer] = {}
        for (subset, *_), places in kinds.items():
            searcher = Searcher(self.opened, self.options.by(subset)) if subset else self
            answers = searcher._answered([requests[place] for place in places])  # noqa: SLF001  of this class
            found.update(zip(places, answers, strict=True))
        return [found[place] for place in range(len(requests))]

    def _answered(self, requests: Sequence[Request]) -> list[Answer]:
        """The answers to requests that ask for the same retrievers and examples, all with variants or all without: the
        pipeline of an answer does not name a merging that only others need."""
        opened, options = self.opened, self.options
        generation = opened.generation
        questions = self.read(requests)
        queries = [question.query for question in questions]
        kinds = [(query.lists, bool(query.named)) for query in queries]
        if len({*kinds}) > 1:  # each is answered as it would be alone
            apart = {kind: [one for one, own in zip(requests, kinds, strict=True) if own == kind] for kind in {*kinds}}
            answers = {kind: iter(self._answered(same)) for kind, same in apart.items()}
            return [next(answers[kind]) for kind in kinds]
        if options.facets:
            from retrieve_cli.search.facets import expect_fields

            expect_fields(generation, queries, options.facets)
        most = min(options.k, generation.size if options.unit == "record" else generation.chunk_size)
        relaxation = Relaxation(questions, opened.settings.broadening, lambda each: self._reading(each)(), most=most)
        with opened.store.reading(generation.id):
            ranked = rank(opened, queries, options.whole, relax=relaxation)
        notices = list(ranked.notices)
        depth, last = opened.settings.search.depth, options.whole.k
        if options.offset and depth < min(last, generation.size):
            deeper = f"results {depth + 1} to {last} are of a deeper search: a result of an earlier page may come again"
            notices.append(deeper)
        begun = time.perf_counter()
        shown = self._shown(ranked, notices.append)
        notices += opened.indexes.notices()
        facets = self._facets(questions, ranked)
        if opened.unread and all(request.tenant is None for request in requests):
            notices.append(opened.unread)
        changed = self._freshness.notice([(*each.found, *each.related) for each in shown], requests) or ""
        read = time.perf_counter() - begun
        seconds = {"encode": ranked.encode, "search": ranked.search + read, "rerank": ranked.rerank}
        each = 1000.0 / max(len(questions), 1)
        spent = {"open": opened.seconds * 1000.0, **{name: value * each for name, value in seconds.items()}}
        timings = {name: round(value, 3) for name, value in {**spent, "total": sum(spent.values())}.items()}
        deadline = ranked.deadline.report(ranked.asked, ranked.done, took_ms=timings["total"])
        answer = partial(self._answer, ranked, timings, deadline, changed, tuple(dict.fromkeys(notices)))
        parts = zip(questions, shown, relaxation.attempts, facets, strict=True)
        return [answer(place, *own) for place, own in enumerate(parts)]

    def _shown(self, ranked: Ranked, say: Callable[[str], None]) -> list[Shown]:
        opened, options = self.opened, self.options
        grade = options.grade if ranked.reranker is None else None
        if grade is None and options.grade is not None and options.rerank_min_score is None:
            say(f"search.grade {options.grade:g} is not applied: the reranker decides (rerank.min_score)")
        if not ranked.retrievers:  # a list of records, none of them scored
            with opened.store.reading(opened.generation.id):
                return ResultReader(opened, options).read(ranked, None)
        if (grade, opened.settings.search.max_distance) != (None, None) and not any(
            retriever(name).similarity for name in ranked.retrievers
        ):
            say("without the dense retriever no result passes search.grade and search.max_distance")
        confidence = Confidence.of(opened.store.calibration, self.score_card(ranked), options.min_confidence, say)
        if confidence and (measured := confidence.calibration.generation) != opened.generation.id:
            say(f"confidence was measured on generation {measured}: retrieve eval --gold FILE --calibrate")
        with opened.store.reading(opened.generation.id):
            return ResultReader(opened, options).read(ranked, confidence)

    def _facets(self, questions: Sequence[Question], ranked: Ranked) -> list[dict[str, Facet]]:
        if not self.options.facets:
            return [{} for _ in questions]
        from retrieve_cli.search.facets import FacetCounter

        with self.opened.store.reading(self.opened.generation.id):
            counter = FacetCounter(self.opened, self._reader(), ranked.retrievers, self.options)
            return counter.facets_of(questions, ranked.rankings)

    def _answer(
        self,
        ranked: Ranked,
        timings: Mapping[str, float],
        deadline: Mapping[str, Json] | None,
        changed: str,
        notices: Sequence[str],
        place: int,
        question: Question,
        shown: Shown,
        attempts: tuple[Attempt, ...],
        facets: Mapping[str, Facet],
    ) -> Answer:
        opened, options, ranking = self.opened, self.options, ranked.rankings[place]
        query = ranking.query
        reader = self._reading(question)
        mute = silent(opened, question.query, ranked.retrievers, reader=reader)
        doubts = weak_matches(opened, question.query, ranked.retrievers, mute=mute, ranking=ranking, shown=shown)
        return Answer(
            question=question,
            results=shown.results,
            unit=ranked.unit,
            strategies_used=tuple(name for name in ranked.retrievers if name not in mute),
            strategies_skipped={**ranked.skipped, **mute},
            fusion_method=ranked.fusion_method,
            pipeline=str(ranked.pipeline),
            generation=opened.generation.id,
            timings_ms=timings,
            matches=partial(matching_words, reader, " ".join([query.text, *dict(query.beside)])),
            reranked=ranked.reranker is not None,
            rerank_strategy=ranked.rerank_strategy,
            engine="naive" if options.dense_only else "advanced",
            found=ranking.matches,
            confidence=shown.confidence,
            deadline=deadline,
            attempts=attempts,
            trace=ranking.trace,
            spent=shown.spent,
            related=shown.related,
            course=Course.of(ranked.steps, place),
            k=options.k,
            offset=options.offset,
            facets=facets,
            explain=options.explain,
            brief=options.related == "brief",
            before_budget=len(shown.found),
            similar=tuple(name for name in ranked.retrievers if retriever(name).similarity),
            notices=tuple(dict.fromkeys((*question.notices, *notices, *doubts))),
            stale=changed,
            skip_kinds={**ranked.skip_kinds, **dict.fromkeys(mute, "no_words")},
        )

    def _reading(self, question: Question) -> Callable[[], Analyzer]:
        """Return a function for the analyzer of the records that exist for a question; few answers need it."""
        return cache(partial(self.opened.indexes.analyzer_of, question.query.own, self.opened.generation.starts))

    def read(self, requests: Sequence[Request]) -> list[Question]:
        """Return what the requests come to: their control tags, files and filters read.

        Raises:
            UsageError: one of them cannot be understood.
        """
        reader = self._reader()
        with self.opened.store.reading(self.opened.generation.id):
            return [reader.read(request) for request in requests]

    def _reader(self) -> RequestReader:
        settings = self.opened.settings
        return RequestReader(
            self.opened.generation,
            file_tokens=settings.search.file_tokens,
            settings=settings,
            indexes=self.opened.indexes,
            rewording=rewording_of(self.opened, self.options),
            sorts=self.options.sort is not None,
        )

    def check(self, requests: Sequence[Request]) -> None:
        """Hold requests to what the configuration demands of them.

        Raises:
            UsageError: a tenant is required and none is named, or a request has too many variants.
        """
        check_requests(requests, self.opened.settings.search)

    def rank(self, queries: Sequence[Query], edit: Edit | None = None) -> Ranked:
        """Return a ranking of each query, in order, all retrievers run over the whole batch.

        Steps for which the deadline leaves no time are skipped. `edit` changes the pipeline before it runs.

        Raises:
            UsageError: a query is empty, or `k` is below 1.
            Unavailable: a step that is needed cannot run: the only retriever, or a reranker that was asked for.
        """
        with self.opened.store.reading(self.opened.generation.id):
            return rank(self.opened, queries, self.options, edit)

    def pipeline(self) -> Pipeline:
        """Return the pipeline that answers, as if every step could run.

        Raises:
            Unavailable: a step of it cannot run.
        """
        planned = plan(self.opened, self.options, queries=[Query("")], say=lambda _: None)
        pipeline = pipeline_of(planned)
        for step, why in planned.omitted.reasons.items():
            raise Unavailable(f"{step} cannot run: {why}", hint="fix that, or switch it off")
        return pipeline

    def score_card(self, ranked: Ranked) -> dict[str, Json]:
        """Return all that decides what a score of this ranking means: two of the same card are worth the same."""
        settings = self.opened.settings
        first = ranked.pipeline.retrieves
        fusion = fusion_of(settings, ranked.retrievers)
        moved = [step.name for step in ranked.steps if step.stage.rescores]
        alone = len(ranked.retrievers) == 1
        card = {
            "recipe": sha1(self.opened.generation.manifest.recipe.to_json()),
            "unit": ranked.unit,
            "legs": list(ranked.retrievers),
            "fusion": ranked.fusion_method,
            "weights": [fusion.weight(name) for name in ranked.retrievers],
            # Over all rows, a score does not depend on how many candidates there are.
            "depth": None if alone or fusion.over_all_rows else max(settings.search.depth, first.keep),
            "rerank": [ranked.reranker, self.options.rerank_interpolate] if ranked.reranker else None,
            **({"rescored": moved} if moved else {}),
        }
        if LLM in ranked.retrievers:
            from retrieve_cli.assemble.llm import card as card_of_model

            card["llm"] = card_of_model(settings)
        return card

    @property
    def _freshness(self) -> Freshness:
        opened = self.opened
        return Freshness.of(opened.generation.manifest, opened.watched, opened.settings.freshness.policy)


Policy = Literal["warn", "fail", "sync"]
_HINT = "bring the index up to date: retrieve sync"


class Freshness(NamedTuple):
    """The sources of a generation, and the policy for changed ones."""

    policy: Policy
    sources: Sequence[tuple[str, Watched]]
    """By name, in order."""

    @classmethod
    def of(cls, manifest: Manifest, watched: Mapping[str, Watched], policy: Policy) -> Freshness:
        """Return the freshness of a generation; `watched` is empty if its manifest does not name its sources."""
        names = [entry.name for entry in manifest.sources if entry.name in watched]
        return cls(policy, [(name, watched[name]) for name in names])

    def expect(self, requests: Sequence[Request]) -> None:
        """Compare the marks of all sources, before anything is searched.

        Raises:
            Stale: one has changed and the policy is `fail`. The message names it for no tenant: it may have none of it.
        """
        if self.policy != "fail":
            return
        if changed := [f"{name}: {said}" for name, source in self.sources if (said := source.stale())]:
            named = f" ({', '.join(changed)})" if _all_see(requests) else ""
            raise Stale(f"the sources have changed since the build{named}", hint=_HINT)

    def notice(self, results: Sequence[Sequence[Result]], requests: Sequence[Request]) -> str | None:
        """Return a sentence on the hits whose sources have changed; if none has, on changes that no hit can show.

        Raises:
            Stale: a hit's source has changed and the policy is `fail`.
        """
        states = [result.freshness for found in results for result in found]
        if changed := len(states) - states.count("fresh"):
            gone = states.count("deleted")
            what = f"{changed} of {len(states)} hits" + (f" ({gone} of them deleted)" if gone else "")
            sentence = f"the sources of {what} have changed since the build"
            if self.policy == "fail":
                raise Stale(sentence, hint=_HINT)
            return f"{sentence}: retrieve sync"
        if self.policy == "fail" or not _all_see(requests):
            return None
        grown = [f"{name}: {said}" for name, source in self.sources if (said := source.grown())]
        return f"{', '.join(grown)} since the build: retrieve sync" if grown else None


def _all_see(requests: Sequence[Request]) -> bool:
    """True if every record is visible to each of the requests."""
    return all(request.tenant is None for request in requests)
