"""Queries to rankings over one generation: plan, make the pipeline, run it step by step. Reads top to bottom."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble import pipelines, registry, rerankers
from retrieve_cli.assemble.graph import graph_of
from retrieve_cli.assemble.indexes import open_indexes
from retrieve_cli.config.engine_settings import SERVERS
from retrieve_cli.config.plugins import LLM
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Index, Json, Query, Ranking, Stage
from retrieve_cli.errors import STEP_FAILURES, Unavailable
from retrieve_cli.search.deadline import Costs, Deadline
from retrieve_cli.search.encoding import QueryForms, QueryModels
from retrieve_cli.search.omissions import sacrifice
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.plan import RankPlan, check, plan, steps_of
from retrieve_cli.search.ranked import Ranked, shown
from retrieve_cli.stages.pipeline import Edit, Pipeline, Step
from retrieve_cli.stages.retrieve import NotAsked
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from retrieve_cli.search.relaxation import Relaxation
    from retrieve_cli.stages.rerank import Reader
    from retrieve_cli.stages.retrieve import Retrieval

_READERS = 16
"""Rerankers that are kept: requests may choose how many results a chat model picks, each number another reranker."""


class Ranker:
    """The stages over a generation, with the models that its queries need. Threads may share one."""

    def __init__(
        self, generation: Generation, settings: Settings, *, costs: Callable[..., Costs], opened: float
    ) -> None:
        """`opened` are the seconds that it took to open the generation, which a deadline counts.

        Raises:
            IndexCorrupt: an index is damaged, or they disagree.
        """
        begun = time.perf_counter()
        self.generation = generation
        self.settings = settings
        self.indexes = open_indexes(generation, settings)
        self.models = QueryModels(settings, generation.manifest.recipe)
        self._readers: dict[object, Reader | None] = {}
        self._making = RLock()
        self._costs = costs({name: registry.retriever(name).cost for name in self.indexes})
        self.opened = opened + time.perf_counter() - begun
        """Seconds."""

    def under(self, settings: Settings, indexes: Mapping[str, Index[Any]] | None = None) -> Ranker:
        """Return the same generation under other settings, with other indexes in the place of some."""
        sibling = copy(self)
        sibling.settings = settings
        sibling.models = self.models.under(settings)
        if _of_indexes(settings) != _of_indexes(self.settings):
            sibling.indexes = open_indexes(self.generation, settings)
        if indexes:
            sibling.indexes = sibling.indexes.replaced(indexes)
        return sibling

    def adopt_models(self, before: Ranker) -> None:
        """Use the models that were loaded for another generation, if both were built and are asked in the same way."""
        if before.generation.manifest.recipe == self.generation.manifest.recipe and before.settings == self.settings:
            self.models = before.models

    def again(self, settings: Settings) -> Ranker:
        """Return the same generation under other settings, as if it had been opened now, in no time."""
        sibling = self.under(settings)
        sibling._costs = self._costs.again()  # noqa: SLF001  a copy of this very object
        sibling.opened = 0.0
        return sibling

    def rank(
        self,
        queries: Sequence[Query],
        options: SearchOptions,
        edit: Edit | None = None,
        *,
        relax: Relaxation | None = None,
    ) -> Ranked:
        """Return a ranking of each query, in order, all retrievers run over the whole batch.

        `edit` changes the pipeline before it runs, `relax` retries queries for which its first stage finds too little.

        Raises:
            UsageError: a query is empty, or `k` is below 1.
            Unavailable, ModelFailed: a step that is needed cannot run: the only retriever, or a reranker that was asked
                for.
        """
        check(queries, options)
        notices: list[str] = []
        planned = self._planned(queries, options, notices.append)
        begun = time.perf_counter()
        while True:
            pipeline = self._pipeline(planned)
            pipeline = edit(pipeline) if edit else pipeline
            try:
                steps, reranking = self._run(pipeline, queries, planned, relax)
                break
            except NotAsked as failure:  # the others answer; what they found of texts is not encoded again
                planned = planned.without(failure)
        seconds = time.perf_counter() - begun
        reranker = planned.reranker if any(step.stage.kind == "rerank" for step in steps) else None
        return Ranked(
            rankings=shown(steps, planned.most(reranked=reranker is not None)),
            steps=steps,
            pipeline=Pipeline(tuple(step.stage for step in steps)),
            unit=options.unit,
            retrievers=planned.running,
            skipped=planned.skipped,
            encode=planned.forms.seconds,
            search=max(seconds - reranking - planned.forms.seconds, 0.0),
            rerank=reranking,
            asked=steps_of(planned.asked, planned.reranker),
            done=steps_of(planned.running, reranker),
            deadline=planned.deadline,
            notices=tuple(notices),
            skip_kinds=planned.skip_kinds,
        )

    def pipeline(self, options: SearchOptions) -> Pipeline:
        """Return the pipeline that answers under these options.

        Raises:
            Unavailable: a step of it cannot run.
        """
        planned = self._planned([Query("")], options, lambda _: None)
        pipeline = self._pipeline(planned)
        for step, why in planned.omitted.reasons.items():
            raise Unavailable(f"{step} cannot run: {why}", hint="fix that, or switch it off")
        return pipeline

    def _planned(self, queries: Sequence[Query], options: SearchOptions, say: Callable[[str], None]) -> RankPlan:
        texts = sum(1 + len(query.also) for query in queries)
        deadline = Deadline(options.deadline_ms, queries=texts, spent=self.opened, costs=self._costs)
        forms = QueryForms(self.models, deadline, say)
        return plan(self.generation, self.settings, options, texts=texts, queries=queries, forms=forms, say=say)

    # ------------------------------------------------------------------------------------------ pipeline

    def _pipeline(self, plan: RankPlan) -> Pipeline:
        """The stages, less what is skipped."""
        options, settings = plan.options, self.settings
        reader = self._reader(plan)
        cuts = pipelines.tail(
            self.generation,
            settings,
            k=options.k,
            min_score=options.min_score,
            visible=plan.visible,
            vectors=pipelines.vectors_of(self.generation, self.indexes),
        )
        tail = [*pipelines.boosting(plan.boosts), *cuts]
        graph = graph_of(self.generation) if plan.expands else None
        expansion = pipelines.expansion(
            self.generation, graph, settings, retrievers=plan.running, lists=plan.keep is None
        )
        variants = plan.texts > plan.queries
        reach = max(options.k, settings.search.depth if tail or variants else 1, settings.rerank.depth if reader else 1)
        reach = max(reach, pipelines.SEEN_BY_EXPANSION) if expansion else reach
        # What is linked to the candidates is reranked with them: they are no more than the retrieval depth.
        linked_first = plan.expands and settings.expansion.before_rerank
        stages = [self._first(plan, max(options.k, min(reach, settings.search.depth)) if linked_first else reach)]
        if variants:
            caps = pipelines.quotas(self.generation, settings, visible=plan.visible) if options.route else ()
            stages = [pipelines.merge(stages[0], settings, unit=options.unit, keep=reach, caps=caps)]
        before, after = (expansion, []) if settings.expansion.before_rerank else ([], expansion)
        stages, tail = [*stages, *before], [*after, *tail]
        if reader is not None:
            stages.append(pipelines.rerank(reader, settings, k=reach if tail else options.k))
        return Pipeline((*stages, *tail))

    def _first(self, plan: RankPlan, keep: int) -> Stage:
        """The stage that asks the retrievers, once or through a gate."""
        gating = self.settings.gating
        stage = self._retrieving(plan, keep)
        if not plan.options.route:
            return stage
        wide = self._retrieving(plan, max(keep, gating.global_candidates))
        # Quotas pass over hits, so that a second search has to bring as many as the first.
        second = stage if gating.per_group is None else wide
        return pipelines.gate(wide, second, self.generation, self.settings, keep=keep, visible=plan.visible)

    def _retrieving(self, plan: RankPlan, keep: int) -> Stage:
        forms = plan.forms
        return pipelines.retrieving(
            self.generation,
            self.indexes,
            self.settings,
            names=plan.running,
            unit=plan.options.unit,
            keep=keep,
            prepare=lambda retriever: lambda texts: forms.known(retriever.form.name, retriever.name, texts),
            choosing=partial(self._choosing, plan),
            waits=self.models.waits,
        )

    def _choosing(self, plan: RankPlan, depth: int) -> Retrieval:
        """The retriever that has no index."""
        from retrieve_cli.assemble.llm import retrieval

        return retrieval(
            self.generation,
            self.indexes,
            self.settings,
            unit=plan.options.unit,
            depth=depth,
            left=lambda: plan.deadline.left,
            say=plan.say,
            timed=partial(plan.forms.timed, LLM),
        )

    def _reader(self, plan: RankPlan) -> Reader | None:
        """The reranker; None if there is none, or if it cannot run."""
        if plan.reranker is None or plan.reranker in plan.omitted:
            return None
        unit = plan.options.unit
        settings = rerankers.for_request(self.settings, k=plan.options.k, left=plan.deadline.left)
        key = (rerankers.card(settings), unit)
        models = self.models  # a kept reranker that held this ranker would keep the generation open
        try:
            with self._making:
                found = self._readers.get(key) or rerankers.reader(
                    self.generation,
                    settings,
                    unit=unit,
                    encoder=lambda: models.encoder,
                    vectors=pipelines.vectors_of(self.generation, self.indexes),
                )
                if settings is self.settings and len(self._readers) < _READERS:  # its weights are loaded once
                    self._readers[key] = found
        except STEP_FAILURES as error:
            plan.omitted.add(plan.reranker, error)
            return None
        return found

    # ----------------------------------------------------------------------------------------------- run

    def _run(
        self, pipeline: Pipeline, queries: Sequence[Query], plan: RankPlan, relax: Relaxation | None
    ) -> tuple[list[Step], float]:
        """The steps that ran, and the seconds that reranking took; it is skipped if it cannot be done in time."""
        rankings = [Ranking(query) for query in queries]
        steps: list[Step] = []
        reranking = 0.0
        for stage in pipeline.stages:
            begun = time.perf_counter()
            if stage.kind == "rerank":
                found = self._rerank(stage, rankings, plan)
                reranking += time.perf_counter() - begun if found is not None else 0.0
            elif steps:
                found = stage(rankings)
            else:
                found = self._retrieve(stage, rankings, plan, relax)
            if found is not None:
                rankings = found
                steps.append(Step(stage, found))
        return steps, reranking

    def _retrieve(
        self, stage: Stage, rankings: Sequence[Ranking], plan: RankPlan, relax: Relaxation | None
    ) -> list[Ranking]:
        """The candidates of the first stage; by fewer terms where they are too few."""
        begun = time.perf_counter()
        found = stage(rankings)
        plan.deadline.record("search", time.perf_counter() - begun - plan.forms.seconds)
        useful = plan.deadline.left != 0.0 and any(registry.retriever(name).relaxes for name in plan.running)
        return relax(found, lambda queries: stage(list(map(Ranking, queries)))) if relax and useful else found

    def _rerank(self, stage: Stage, rankings: Sequence[Ranking], plan: RankPlan) -> list[Ranking] | None:
        name = str(plan.reranker)
        if name in sacrifice(self.settings, plan.retrievers, name) and (why := plan.deadline.no_room_for(name)):
            plan.omitted.give_up(name, why)
            return None
        # A server is given the time that is left now.
        reader = None if plan.deadline.left is None else self._reader(plan)
        try:
            with plan.deadline.timed(name):
                return (stage if reader is None else pipelines.with_reranker(stage, reader))(rankings)
        except STEP_FAILURES as error:
            plan.omitted.add(name, error)
            return None

    def score_card(self, ranked: Ranked) -> dict[str, Json]:
        """Return all that decides what a score of this ranking means: two of the same card are worth the same."""
        first = ranked.pipeline.retrieves
        fusion = pipelines.fusion_of(self.settings, ranked.retrievers)
        moved = [step.name for step in ranked.steps if step.stage.rescores]
        alone = len(ranked.retrievers) == 1
        return {
            "recipe": sha1(self.generation.manifest.recipe.to_json()),
            "unit": ranked.unit,
            "legs": list(ranked.retrievers),
            "fusion": ranked.fusion_method,
            "weights": [fusion.weight(name) for name in ranked.retrievers],
            # Over all rows, a score does not depend on how many candidates there are.
            "depth": None if alone or fusion.over_all_rows else max(self.settings.search.depth, first.keep),
            "rerank": [ranked.reranker, self.settings.rerank.interpolate] if ranked.reranker else None,
            **({"rescored": moved} if moved else {}),
            **({"llm": pipelines.chooser_card(self.settings)} if LLM in ranked.retrievers else {}),
        }


def _of_indexes(settings: Settings) -> tuple[object, ...]:
    """Return the sections of the settings on which open indexes depend."""
    return (settings.dense, settings.engines, *(getattr(settings, name) for name in SERVERS))
