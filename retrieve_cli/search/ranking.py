"""Queries to rankings over an open generation: plan, make the pipeline, run it step by step. Reads top to bottom."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.assemble import registry
from retrieve_cli.contracts import Hit, Query, Ranking, Stage, Unit
from retrieve_cli.errors import STEP_FAILURES
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.retrieval.stages.pipeline import Edit, Pipeline, Step
from retrieve_cli.retrieval.stages.retrieve import NotAsked
from retrieve_cli.search.access import seen_by_any
from retrieve_cli.search.deadline import Deadline
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.pipelines import listing_of, pipeline_of, reader_of, with_reranker
from retrieve_cli.search.plan import RankPlan, check, plan, steps_of

if TYPE_CHECKING:
    from retrieve_cli.retrieval.stages.expand import Expand
    from retrieve_cli.search.relaxation import Relaxation

EXPANSION = "expansion"
"""Adding linked records, as a step that may be skipped."""


class Ranked(Frozen):
    """The rankings of a batch, and how they came about."""

    rankings: Sequence[Ranking]
    steps: Sequence[Step]
    pipeline: Pipeline
    """The stages that ran."""
    unit: Unit
    retrievers: tuple[str, ...]
    """Those that ran."""
    skipped: Mapping[str, str]
    """Why a step that was asked for did not."""
    encode: float
    search: float
    rerank: float
    """Seconds for the whole batch."""
    asked: tuple[str, ...]
    done: tuple[str, ...]
    """Retrievers and reranker: those that were to run, and those that did."""
    deadline: Deadline
    notices: tuple[str, ...]
    """Notices for the user."""
    skip_kinds: Mapping[str, str]
    """Kind of the reason for which a step was skipped: the kind of an error, `deadline` or `substituted`."""

    @property
    def reranker(self) -> str | None:
        """The reranker, and how many hits it read: `maxsim@50`."""
        return next((step.name for step in self.steps if step.stage.kind == "rerank"), None)

    @property
    def rerank_strategy(self) -> str | None:
        """The backend of the reranker, if it ran: `maxsim`, `cross_encoder`, the name of a plug-in."""
        return next((step for step in self.done if step not in self.retrievers), None)

    @property
    def fusion_method(self) -> str:
        """The fusion formula."""
        return str(getattr(self.pipeline.retrieves, "fusion", "none")) if self.retrievers else "none"

    @property
    def most_related(self) -> int:
        """The most related records that are listed beside the results of a query; 0 if none are."""
        return 0 if (stage := self._expansion) is None else stage.related

    def related(self, ranking: Ranking) -> tuple[Hit, ...]:
        """Return the records that results link to and that are listed beside them, best first."""
        return () if (stage := self._expansion) is None else stage.linked(ranking)

    @property
    def _expansion(self) -> Expand | None:
        if not any(stage.kind == "expand" for stage in self.pipeline.stages):
            return None
        from retrieve_cli.retrieval.stages.expand import Expand  # an index without edges does without it

        return next((stage for stage in self.pipeline.stages if isinstance(stage, Expand)), None)


def shown(steps: Sequence[Step], k: int) -> list[Ranking]:
    """Return the first hits of the last step, with the evidence of the retrievers from the first step."""
    ends = zip(steps[0].rankings, steps[-1].rankings, strict=True)
    return [replace(last.first(k), matches=first.matches) for first, last in ends]


def rank(
    opened: Opened,
    queries: Sequence[Query],
    options: SearchOptions,
    edit: Edit | None = None,
    relax: Relaxation | None = None,
) -> Ranked:
    """Return a ranking of each query, in order, all retrievers run over the whole batch.

    `options` have no gap; `edit` changes the pipeline before it runs; `relax` retries queries for which its first
    stage finds too little.

    Raises:
        UsageError: a query is empty, or `k` is below 1.
        Unavailable, ModelFailed: a step that is needed cannot run: the only retriever, or a reranker that was asked
            for.
    """
    check(queries, options)
    if any(query.lists for query in queries):
        return _listed(opened, queries, options)
    notices: list[str] = []
    planned = plan(opened, options, queries=queries, say=notices.append)
    begun = time.perf_counter()
    while True:
        pipeline = pipeline_of(planned)
        pipeline = edit(pipeline) if edit else pipeline
        try:
            steps, reranking = _run(pipeline, queries, planned, relax)
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


_OF_SCORES = ("rerank", "expand", "boosts", "min_score", "min_confidence", "grade")
"""Options that mean nothing for a list without scores."""


def _listed(opened: Opened, queries: Sequence[Query], options: SearchOptions) -> Ranked:
    """The rankings of queries without words: all records that they may find, none of them scored."""
    begun = time.perf_counter()
    pipeline = listing_of(seen_by_any(opened.generation, queries), opened, options)
    ignored = ", ".join(name for name in _OF_SCORES if getattr(options, name))
    steps = list(pipeline.run(list(map(Ranking, queries))))
    deadline = Deadline(options.deadline_ms, queries=len(queries), spent=opened.seconds, durations=opened.durations)
    return Ranked(
        rankings=shown(steps, options.k),
        steps=steps,
        pipeline=pipeline,
        unit=options.unit,
        retrievers=(),
        skipped={},
        encode=0.0,
        search=time.perf_counter() - begun,
        rerank=0.0,
        asked=(),
        done=(),
        deadline=deadline,
        notices=(f"a list without a query has no scores: not applied: {ignored}",) if ignored else (),
        skip_kinds={},
    )


def _run(
    pipeline: Pipeline, queries: Sequence[Query], plan: RankPlan, relax: Relaxation | None
) -> tuple[list[Step], float]:
    """The steps that ran, and the seconds that reranking took; it is skipped if it cannot be done in time."""
    rankings = [Ranking(query) for query in queries]
    steps: list[Step] = []
    reranking = 0.0
    for stage in pipeline.stages:
        begun = time.perf_counter()
        found: list[Ranking] | None
        if not steps:
            found = _retrieve(stage, rankings, plan, relax)
        elif stage.kind == "rerank":
            found = _rerank(stage, rankings, plan)
            reranking += time.perf_counter() - begun if found is not None else 0.0
        elif stage.kind == "expand":
            found = _expand(stage, rankings, plan)
        else:
            found = stage(rankings)
        if found is not None:
            rankings = found
            steps.append(Step(stage, found))
    return steps, reranking


def _retrieve(stage: Stage, rankings: Sequence[Ranking], plan: RankPlan, relax: Relaxation | None) -> list[Ranking]:
    """The candidates of the first stage; by fewer terms where they are too few."""
    with plan.deadline.timed(*(name for name in plan.running if name in plan.remote)):
        found = stage(rankings)
    useful = plan.deadline.left != 0.0 and any(registry.retriever(name).relaxes for name in plan.running)
    return relax(found, lambda queries: stage(list(map(Ranking, queries)))) if relax and useful else found


def _expand(stage: Stage, rankings: Sequence[Ranking], plan: RankPlan) -> list[Ranking] | None:
    if why := plan.deadline.no_room_for(EXPANSION):
        plan.omitted.give_up(EXPANSION, why)
        return None
    with plan.deadline.timed(EXPANSION):
        return stage(rankings)


def _rerank(stage: Stage, rankings: Sequence[Ranking], plan: RankPlan) -> list[Ranking] | None:
    name = str(plan.reranker)
    optional = plan.opened.settings.rerank.policy == "optional"
    if optional and (why := plan.deadline.no_room_for(name)):
        plan.omitted.give_up(name, why)
        return None
    reader = None if plan.deadline.left is None else reader_of(plan)
    try:
        with plan.deadline.timed(name):
            return (stage if reader is None else with_reranker(stage, reader))(rankings)
    except STEP_FAILURES as error:
        plan.omitted.add(name, error)
        return None
