"""The way out: Request -> Question -> rankings -> results -> Answer, over the live generation. Reads top to bottom."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from retrieve_cli.config.settings import BroadeningSettings, Settings
from retrieve_cli.contracts import Answer, Attempt, Index, Json, Query, Question, Ranking, Request, Stage, Unit
from retrieve_cli.errors import UsageError
from retrieve_cli.search.confidence import Trust
from retrieve_cli.search.deadline import Costs
from retrieve_cli.search.questions import RequestReader
from retrieve_cli.search.ranker import Mode, Ranked, Ranker
from retrieve_cli.search.relaxation import broadened
from retrieve_cli.search.results import ResultReader, Shown, staleness
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.assemble.pipelines import Indexes
    from retrieve_cli.contracts import Analyzer

__all__ = ["Mode", "Ranked", "Searcher"]


class _Asked(TypedDict):
    """What `rank` is asked besides the queries."""

    k: int
    mode: Mode
    unit: Unit
    rerank: bool | None


class Searcher:
    """A generation, opened for as many queries as one likes."""

    def __init__(self, store: Store, settings: Settings, generation: str | None = None) -> None:
        """Opens the live generation, or the one named.

        Raises:
            IndexMissing, IndexCorrupt: there is nothing sound to search.
        """
        begun = time.perf_counter()
        self._store = store
        self.notices: list[str] = []
        """What the user should know about the last answers; the caller prints them."""
        opened = store.open(generation)
        with store.reading(opened[1].id):
            self.generation = Generation(*opened)
            self._ranker = Ranker(
                self.generation,
                settings,
                costs=Costs(store.cache / "costs.json"),
                opened=time.perf_counter() - begun,
                say=self.notices.append,
            )

    @property
    def settings(self) -> Settings:
        return self._ranker.settings

    @property
    def indexes(self) -> Indexes:
        return self._ranker.indexes

    def answer(
        self,
        requests: Sequence[Request],
        *,
        k: int | None = None,
        mode: Mode | None = None,
        unit: Unit = "record",
        rerank: bool | None = None,
        min_confidence: float | None = None,
    ) -> list[Answer]:
        """An answer to each request, in order: what it was read as, its ranking, and what the store has of each hit.

        What is not said is as configured. Where the scores are calibrated, each hit has its confidence, and those below
        `min_confidence` are left out.

        Raises:
            IndexCorrupt: a row that was found cannot be read.
            UsageError: a request cannot be understood; a confidence is asked for and the scores are not calibrated;
                and as `rank` does.
            Unavailable: as `rank` does.
        """
        search = self.settings.search
        naive = search.similarity_top_k if search.engine == "naive" else None
        asked: _Asked = {"k": k or naive or search.k, "mode": mode or search.mode, "unit": unit, "rerank": rerank}
        self._check(requests)
        questions = self.read(requests)
        ranked = self.rank([question.query for question in questions], **asked)
        begun = time.perf_counter()
        rankings, attempts = broadened(
            questions,
            ranked.rankings,
            self.settings.broadening if ranked.deadline.left != 0.0 else BroadeningSettings(max_retries=0),
            analyzer=self.indexes.analyzer,
            rank=lambda queries: self.rank(queries, **asked).rankings,
            most=self._most(ranked, asked),
        )
        shown = self._shown(rankings, ranked, min_confidence)
        read = time.perf_counter() - begun
        timings = self._timings(len(questions), encode=ranked.encode, search=ranked.search + read, rerank=ranked.rerank)
        deadline = ranked.deadline.told(ranked.asked, ranked.done, took_ms=timings["total"])
        return [
            self._answer(*each, at=at, ranked=ranked, timings=timings, deadline=deadline)
            for at, each in enumerate(zip(questions, rankings, shown, attempts, strict=True))
        ]

    def _shown(self, rankings: Sequence[Ranking], ranked: Ranked, least: float | None) -> list[Shown]:
        """What is shown of each ranking."""
        search = self.settings.search
        if "dense" not in ranked.legs and (search.grade, search.max_distance) != (None, None):
            self.notices.append("without the dense leg nothing passes search.grade and search.max_distance")
        trust = self._trust(ranked, least)
        with self._store.reading(self.generation.manifest.id), ranked.deadline.timed("results"):
            shown = self._results.read(rankings, legs=ranked.legs, trust=trust)
        if stale := staleness([each.found for each in shown]):
            self.notices.append(stale)
        return shown

    @property
    def _results(self) -> ResultReader:
        return ResultReader(
            self.generation,
            self.indexes,
            self.settings,
            fetched=self._store.fetched,
            encoder=lambda: self._ranker.encoder,
            graph=lambda: self._ranker.graph,
        )

    def _answer(
        self,
        question: Question,
        ranking: Ranking,
        shown: Shown,
        attempts: tuple[Attempt, ...],
        *,
        at: int,
        ranked: Ranked,
        timings: Mapping[str, float],
        deadline: Mapping[str, Json] | None,
    ) -> Answer:
        """The answer to the question at this place of its batch."""
        mute = self._silent(question.query, ranked.legs)
        return Answer(
            question=question,
            results=shown.results,
            unit=ranked.unit,
            strategies_used=tuple(leg for leg in ranked.legs if leg not in mute),
            strategies_skipped={**ranked.skipped, **mute},
            fusion_method=ranked.fusion_method,
            pipeline=ranked.pipeline,
            generation=self.generation.manifest.id,
            timings_ms=timings,
            matches=partial(_matches, self.indexes.analyzer, ranking.query.text),
            reranked=ranked.reranker is not None,
            confidence=shown.confidence,
            deadline=deadline,
            attempts=attempts,
            trace=ranking.trace,
            spent=shown.spent,
            stages=tuple((step.name, len(step.rankings[at].hits)) for step in ranked.steps),
        )

    def _most(self, ranked: Ranked, asked: _Asked) -> int:
        """How many results there can be at most."""
        generation, settings = self.generation, self.settings
        limits = [asked["k"], len(generation.records if asked["unit"] == "record" else generation.chunks)]
        if settings.search.engine == "naive":
            limits.append(settings.search.similarity_top_k or asked["k"])
        if ranked.reranker is not None:
            limits.append(settings.rerank.keep or asked["k"])
        return min(limits)

    def read(self, requests: Sequence[Request]) -> list[Question]:
        """What the requests come to: their control tags, files and filters read.

        Raises:
            UsageError: one of them cannot be understood.
        """
        reader = RequestReader(self.generation, file_tokens=self.settings.search.file_tokens)
        with self._store.reading(self.generation.manifest.id):
            questions = [reader.read(request) for request in requests]
        self.notices += [notice for question in questions for notice in question.notices]
        return questions

    def _check(self, requests: Sequence[Request]) -> None:
        """Holds requests to what the configuration demands of them.

        Raises:
            UsageError: a tenant is required and none is named, or a request has too many texts.
        """
        search = self.settings.search
        for request in requests:
            if search.require_tenant and request.tenant is None:
                message = "this index is searched for one tenant at a time (search.require_tenant)"
                raise UsageError(message, hint="name it: --tenant X")
            if len(request.also) > search.max_also:
                message = f"query {request.id!r} has {len(request.also)} other texts, more than search.max_also"
                raise UsageError(message, hint=f"give at most {search.max_also}, or raise it")

    def rank(
        self, queries: Sequence[Query], *, k: int, mode: Mode, unit: Unit = "record", rerank: bool | None = None
    ) -> Ranked:
        """A ranking of each query, in order, all legs run over the whole batch.

        What is configured reads the first hits of a hybrid search again; `rerank` says whether it does in any mode.
        Steps for which `search.deadline_ms` leaves no time are left out.

        Raises:
            UsageError: a query is empty, or `k` is below 1.
            Unavailable: a step that is needed cannot run: the only leg, or a reranker that was asked for.
        """
        with self._store.reading(self.generation.manifest.id):
            return self._ranker.rank(queries, k=k, mode=mode, unit=unit, rerank=rerank)

    def pipeline(self, legs: Sequence[str], *, k: int, unit: Unit) -> tuple[list[Stage], str]:
        """The stages that rank by these legs, for queries that were encoded, and the fusion formula."""
        return self._ranker.pipeline(legs, k=k, unit=unit)

    def encode(self, queries: Sequence[Query]) -> None:
        """Turns queries to vectors, for the dense leg to find.

        Raises:
            Unavailable: the model is not on this machine.
        """
        self._ranker.encode(queries)

    def score_card(self, ranked: Ranked) -> dict[str, Json]:
        """All that decides what a score of this ranking means: two of the same card are worth the same."""
        return self._ranker.score_card(ranked)

    def under(self, settings: Settings, bm25: Index | None = None) -> Searcher:
        """The same generation answering under other settings, and from another BM25 index where one is given."""
        sibling = copy(self)
        sibling._ranker = self._ranker.under(settings, bm25)  # noqa: SLF001  its own kind
        return sibling

    def _trust(self, ranked: Ranked, least: float | None) -> Trust | None:
        """The calibration that these scores have, and a word where it was measured on another generation."""
        trust = Trust.of(self._store.calibration, self.score_card(ranked), least, self.notices.append)
        if trust and trust.calibration.generation != self.generation.manifest.id:
            known = trust.calibration.generation
            self.notices.append(f"confidence was measured on generation {known}: retrieve eval --gold FILE --calibrate")
        return trust

    def _silent(self, query: Query, legs: Sequence[str]) -> dict[str, str]:
        """Legs that ran and could say nothing about this query."""
        if "bm25" in legs and not self.indexes.analyzer.terms(query.text):
            return {"bm25": "the query has no words besides stop words"}
        return {}

    def _timings(self, queries: int, **seconds: float) -> dict[str, float]:
        each = 1000.0 / max(queries, 1)
        timings = {"open": self._ranker.opened * 1000.0, **{name: spent * each for name, spent in seconds.items()}}
        return {name: round(value, 3) for name, value in {**timings, "total": sum(timings.values())}.items()}


def _matches(analyzer: Analyzer, query: str, text: str) -> list[tuple[int, int]]:
    """Spans of the words of `text` that share a term with the query."""
    wanted = set(analyzer.terms(query))
    return [(start, end) for start, end, terms in analyzer.spans(text) if wanted.intersection(terms)]
