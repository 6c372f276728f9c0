"""From a plan to the stages that answer it, over an open generation.

An index answers with the recipe that it was built with, not with the current configuration. The configuration controls
only the choices that the recipe does not fix: retrieval depth and fusion.
"""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from retrieve_cli.assemble import registry, rerankers
from retrieve_cli.assemble.graph import graph_of
from retrieve_cli.assemble.indexes import similar_names, vectors_of
from retrieve_cli.contracts import Stage
from retrieve_cli.errors import STEP_FAILURES, UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.stages.pipeline import Pipeline
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout, IndexRetrieval, Retrieve
from retrieve_cli.search.plan import RankPlan

if TYPE_CHECKING:
    from retrieve_cli.retrieval.stages.diversity import Cap
    from retrieve_cli.retrieval.stages.rerank import Reranker
    from retrieve_cli.retrieval.stages.retrieve import Retrieval
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.options import SearchOptions
    from retrieve_cli.storage.records.view import RecordView

SEEN_BY_EXPANSION = 50
"""Minimum number of hits before expansion: the score of the last one is where scores of paths begin."""

_SUPPORT_RANK = 20
"""Rank up to which a retriever supports a linked record."""


def pipeline_of(plan: RankPlan) -> Pipeline:
    """Return the stages of a plan without the skipped ones.

    Raises:
        UsageError: a boost or a kind of edges is invalid, or no record has the grouping field.
    """
    options, settings = plan.options, plan.opened.settings
    if options.sort is not None:
        return Pipeline((_sorted(plan),))
    boosting, reader = _boosting(plan), reader_of(plan)
    tail = [*boosting, *_recency(plan), *_cuts(plan), *_names_first(plan)]
    expansion = _expansion(plan)
    variants = plan.texts > plan.queries
    reach = max(options.k, settings.search.depth if tail or variants else 1)
    reach = max(reach, options.rerank_depth or 1) if reader else reach
    reach = max(reach, SEEN_BY_EXPANSION) if expansion else reach
    # What is linked to the candidates is reranked with them: they are no more than the retrieval depth.
    linked_first = plan.expands and settings.expansion.before_rerank
    stages = [_first(plan, max(options.k, min(reach, settings.search.depth)) if linked_first else reach)]
    if variants:
        stages = [_merge(plan, stages[0], keep=reach)]
    before, after = (expansion, []) if settings.expansion.before_rerank else ([], expansion)
    stages, tail = [*stages, *before], [*after, *tail]
    if reader is not None:
        stages.append(_rerank(plan, reader, keep=reach if tail else options.k))
    return Pipeline((*stages, *tail))


def _sorted(plan: RankPlan) -> Stage:
    """The stage that orders what matches by a field. Raises: UsageError: no visible record has the field."""
    depth, diversity = _depth(plan.opened, plan.options), plan.opened.settings.diversity
    first = _first(plan, depth)
    if plan.texts > plan.queries:
        first = _merge(plan, first, keep=depth)
    if (diversity.per_source, diversity.per_group, diversity.mmr) != (None, None, None):
        plan.say("diversity.* is not applied: `sort` orders the results")
    after = (*_boosting(plan), *_recency(plan), *_threshold(plan))
    return sorting(plan.view, plan.opened, plan.options, first, *after)


def listing_of(view: RecordView, opened: Opened, options: SearchOptions) -> Pipeline:
    """Return the stages that list records without a query.

    Raises:
        UsageError: no visible record has the field by which they are ordered.
    """
    from retrieve_cli.retrieval.stages.order import Enumerate

    layout = ChunkLayout(view.generation.starts, view.generation.chunk_id)
    stage = Enumerate(layout, view.generation.lowest, options.unit, _depth(opened, options))
    return Pipeline((stage if options.sort is None else sorting(view, opened, options, stage),))


def sorting(view: RecordView, opened: Opened, options: SearchOptions, first: Stage, *after: Stage) -> Stage:
    """Return the stage that orders what `first` matches, and `after` rescores, by the field of the options.

    Raises:
        UsageError: no visible record has the field.
    """
    from retrieve_cli.retrieval.stages.order import Sort

    written = str(options.sort)
    field, _, direction = written.rpartition(":")
    if direction.casefold() not in ("asc", "desc"):
        field, direction = written, "asc"
    descending = direction.casefold() == "desc"
    places = view.columns.find(field).places(descending=descending)
    layout = ChunkLayout(view.generation.starts, view.generation.chunk_id)
    depth = _depth(opened, options)
    return Sort(first, after, written, places, layout, options.unit, depth, options.k)


def _depth(opened: Opened, options: SearchOptions) -> int:
    return max(options.k, opened.settings.search.depth)


def _first(plan: RankPlan, keep: int) -> Stage:
    """The stage that asks the retrievers, once or through a gate."""
    gating = plan.opened.settings.gating
    stage = _retrieving(plan, keep)
    if not plan.options.route:
        return stage
    from retrieve_cli.retrieval.stages.gate import GroupRouting

    wide = _retrieving(plan, max(keep, gating.global_candidates))
    groups, names = plan.view.groups(gating.field)
    return GroupRouting(
        wide,
        # Quotas pass over hits, so that a second search has to bring as many as the first.
        stage if gating.per_group is None else wide,
        groups=groups,
        names=names,
        candidates=gating.global_candidates,
        top_groups=gating.top_groups,
        keep=keep,
        per_group=gating.per_group,
        min_results=gating.min_results,
    )


def _retrieving(plan: RankPlan, keep: int) -> Stage:
    """The stage that ranks by the retrievers that run."""
    settings, names = plan.opened.settings, plan.running
    layout = ChunkLayout(plan.opened.generation.starts, plan.opened.generation.chunk_id)
    found = tuple(_retrieval(plan, name, layout, keep) for name in names)
    if len(found) == 1:
        return Retrieve(found[0], keep=keep)
    from retrieve_cli.retrieval.stages.fuse import Fuse

    return Fuse(found, registry.fusion_of(settings, names), keep=keep)


def _retrieval(plan: RankPlan, name: str, layout: ChunkLayout, keep: int) -> Retrieval:
    """A retriever over its index, or the one that has none."""
    opened, options = plan.opened, plan.options
    if name not in opened.indexes:
        from retrieve_cli.assemble.llm import retrieval

        return retrieval(
            opened.generation, opened.indexes, opened.settings, unit=options.unit, depth=keep, call=plan.forms
        )
    retriever = registry.retriever(name)
    return IndexRetrieval(
        name=name,
        index=opened.indexes[name],
        prepare=partial(plan.forms.known, retriever.form.name, name),
        layout=layout,
        unit=options.unit,
        depth=(options.similarity_top_k if retriever.similarity else None) or max(opened.settings.search.depth, keep),
        waits=name in plan.remote,
    )


def _merge(plan: RankPlan, first: Stage, *, keep: int) -> Stage:
    """The stage that ranks each of a query's texts by `first` and merges the rankings; the cap on hits per group
    applies to all of them together."""
    from retrieve_cli.retrieval.stages.merge import Merge

    settings, unit = plan.opened.settings, plan.options.unit
    caps = [_per_group(plan, settings.gating.per_group)] if plan.options.route and settings.gating.per_group else []
    return Merge(first, unit=unit, rrf_k=settings.fusion.rrf_k, keep=keep, caps=tuple(caps))


def _expansion(plan: RankPlan) -> list[Stage]:
    """The stage that follows edges from the first hits; none if there are no edges. Raises: UsageError: a configured
    kind of edges is not in the graph."""
    generation, chosen = plan.opened.generation, plan.opened.settings.expansion
    if not plan.expands or (graph := graph_of(generation)) is None:
        return []
    from retrieve_cli.assemble.graph import walk, walks_of
    from retrieve_cli.retrieval.stages.expand import Expand, Support

    appends = chosen.placement == "append"
    stage = Expand(
        partial(walk, graph, chosen, walks_of(graph, chosen)),
        ChunkLayout(generation.starts, generation.chunk_id),
        seeds=chosen.seeds,
        floor=SEEN_BY_EXPANSION,
        depth=chosen.depth,
        how=chosen,
        support=Support(plan.running, _SUPPORT_RANK) if appends and not chosen.before_rerank else None,
        related=chosen.max_related if appends and plan.keep is None else 0,
    )
    return [stage]


def reader_of(plan: RankPlan) -> Reranker | None:
    """Return the reranker; None without one, or if it cannot run. A server receives the time that is left now."""
    if plan.reranker is None or plan.reranker in plan.omitted:
        return None
    opened, options, left = plan.opened, plan.options, plan.deadline.left
    models = opened.models  # a kept reranker that held the open generation would keep it open
    hurries = rerankers.hurries(opened.settings, left)
    most = rerankers.most_picked(opened.settings, keep=options.rerank_keep, k=options.k)
    make = partial(
        rerankers.reader,
        opened.generation,
        opened.settings,
        unit=options.unit,
        encoder=lambda: models.encoder,
        vectors=vectors_of(opened.generation, opened.indexes),
        most=most,
        within=left if hurries else None,
    )
    try:
        if hurries:
            return make()
        return opened.readers.get((rerankers.card(opened.settings, most), options.unit), make)
    except STEP_FAILURES as error:
        plan.omitted.add(plan.reranker, error)
        return None


def with_reranker(stage: Stage, reader: Reranker) -> Stage:
    """Return a reranking stage with another reranker."""
    from retrieve_cli.retrieval.stages.rerank import RerankStage

    return replace(stage, reader=reader) if isinstance(stage, RerankStage) else stage


def _rerank(plan: RankPlan, reader: Reranker, *, keep: int) -> Stage:
    from retrieve_cli.retrieval.stages.rerank import RerankStage

    options = plan.options
    return RerankStage(
        reader,
        reader.name,
        depth=options.rerank_depth or 1,
        keep=keep if options.rerank_keep is None else min(keep, options.rerank_keep),
        interpolate=options.rerank_interpolate or 0.0,
        min_score=options.rerank_min_score,
        judged_only=options.rerank_keep is not None,
    )


def _boosting(plan: RankPlan) -> list[Stage]:
    """The stage that multiplies scores of hits with given properties: by boosts of the request, and by configured
    boosts with other conditions; none without boosts. Raises: UsageError: a boost of the request is invalid, or names a
    field that no visible record has."""
    if not plan.options.boosts and not plan.opened.settings.boost.factors:
        return []
    from retrieve_cli.retrieval.queries.filters import configured_boosts, parse_boost
    from retrieve_cli.retrieval.stages.boost import Boost, Boosted
    from retrieve_cli.search.conditions import satisfying

    given = {str(boost.condition): boost for boost in map(parse_boost, plan.options.boosts)}
    known = {str(boost.condition): boost for boost in configured_boosts(plan.opened.settings.boost.factors)}
    found = []
    for written, boost in {**known, **given}.items():
        try:
            passing = satisfying(plan.view, boost.condition)
        except UsageError as error:
            if written in given:
                raise
            plan.say(f"{error.message}: boost.{boost.condition.field} raises nothing")
            continue
        found.append(Boosted(str(boost), boost.factor, passing.records, passing.chunks))
    return [Boost(tuple(found))] if found else []


def _recency(plan: RankPlan) -> list[Stage]:
    """The stage that raises records by their dates; none if no field is configured, or no visible record has a date.

    Age is counted from the latest date among the visible records that is not after the build: one date in the future
    does not make all others old, and an answer does not depend on the day it is given.
    """
    chosen = plan.opened.settings.recency
    if chosen.field is None:
        return []
    from retrieve_cli.retrieval.stages.boost import Boost, Recent, day_of

    column = plan.view.columns.column(chosen.field)
    newest = None
    if column is not None:
        built = day_of(str(plan.opened.generation.manifest.built.get("at"))) or date.max.toordinal()
        for day in filter(None, map(day_of, column.texts(descending=True))):
            newest = min(day, built)
            if day <= built:
                break
    if column is None or newest is None:
        plan.say(f"no record has a date in {chosen.field}: recency.field raises nothing")
        return []
    written = f"{column.name}, {chosen.half_life:g} d"
    return [Boost((Recent(written, 1.0, chosen.half_life, newest, column),), name="recency")]


def _names_first(plan: RankPlan) -> list[Stage]:
    """The stage that puts the records that a query lists first; none for other queries."""
    if not plan.names:
        return []
    from retrieve_cli.retrieval.stages.order import NamesFirst

    return [NamesFirst(ChunkLayout(plan.opened.generation.starts, plan.opened.generation.chunk_id))]


def _cuts(plan: RankPlan) -> list[Stage]:
    """The stages that drop weak or redundant hits; none by default. Raises: UsageError: no record has the grouping
    field."""
    opened, options = plan.opened, plan.options
    search, diversity = opened.settings.search, opened.settings.diversity
    stages = _threshold(plan)
    if (diversity.per_source, diversity.per_group) != (None, None):
        from retrieve_cli.retrieval.stages.diversity import Limit, per_source

        caps = [] if diversity.per_source is None else [per_source(diversity.per_source)]
        caps += [] if diversity.per_group is None else [_per_group(plan, diversity.per_group)]
        stages.append(Limit(tuple(caps), keep=options.k if diversity.mmr is None else search.depth))
    if diversity.mmr is not None:
        from retrieve_cli.retrieval.stages.diversity import Mmr

        stages.append(Mmr(vectors_of(opened.generation, opened.indexes), trade_off=diversity.mmr, keep=options.k))
    return stages


def _threshold(plan: RankPlan) -> list[Stage]:
    """The stage that drops hits of low scores; none without a threshold."""
    opened, options = plan.opened, plan.options
    search = opened.settings.search
    stages: list[Stage] = []
    if (options.min_score, options.grade, search.max_distance) != (None, None, None):
        from retrieve_cli.retrieval.stages.threshold import Threshold

        stages.append(
            Threshold(
                options.min_score,
                grade=options.grade,
                max_distance=search.max_distance,
                similar=similar_names(opened.generation),
                min_results=min(search.min_results, options.k),
                k=options.k,
            )
        )
    return stages


def _per_group(plan: RankPlan, most: int) -> Cap:
    from retrieve_cli.retrieval.stages.diversity import per_group

    groups, _ = plan.view.groups(plan.opened.settings.gating.field)
    return per_group(most, groups)
