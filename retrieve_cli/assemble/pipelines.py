"""The pipeline that answers from a generation.

The recipe says how an index was built, not the current configuration: an index answers as it was made. The
configuration controls only what the recipe does not fix: retrieval depth and fusion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble import registry
from retrieve_cli.contracts import Json, Stage, Unit
from retrieve_cli.retrievers.retriever import Retriever
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.assemble.indexes import Indexes
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Mask
    from retrieve_cli.graph.graph import Graph
    from retrieve_cli.stages.boost import Boosted
    from retrieve_cli.stages.diversity import Cap
    from retrieve_cli.stages.fuse import Fuse
    from retrieve_cli.stages.fusion import Fusion
    from retrieve_cli.stages.rerank import Reader
    from retrieve_cli.stages.retrieve import Layout, Retrieval, Retrieve

    Prepare = Callable[[Retriever[Any]], Callable[[Sequence[str]], Sequence[Any]]]
    """Function that returns, for a retriever, the conversion of query texts to its form of query."""

SEEN_BY_EXPANSION = 50
"""Minimum number of hits before expansion: the score of the last one is where scores of paths begin."""


def layout_of(generation: Generation) -> Layout:
    """Return the layout of a generation: its chunks by record."""
    from retrieve_cli.stages.retrieve import Layout

    return Layout(generation.starts, generation.chunk_id)


def retrieving(
    generation: Generation,
    indexes: Indexes,
    settings: Settings,
    *,
    names: Sequence[str],
    unit: Unit,
    keep: int,
    prepare: Prepare,
    choosing: Callable[[int], Retrieval],
    waits: bool = False,
) -> Retrieve | Fuse:
    """Return the stage that ranks by the named retrievers; `waits` is True if a server encodes vectors.

    `choosing` makes the retriever without an index, for a given depth.
    """
    from retrieve_cli.retrievers.retriever import VECTOR
    from retrieve_cli.stages.retrieve import IndexRetrieval, Retrieve

    layout = layout_of(generation)
    remote: Collection[str] = ()
    if settings.engines.in_use:
        from retrieve_cli.assemble.engines import places

        remote = places(settings, names)

    def retrieval(name: str) -> Retrieval:
        if name not in indexes:
            return choosing(keep)
        retriever = registry.retriever(name)
        return IndexRetrieval(
            name=name,
            index=indexes[name],
            prepare=prepare(retriever),
            layout=layout,
            unit=unit,
            depth=retriever.depth(settings) or max(settings.search.depth, keep),
            waits=(waits and retriever.form is VECTOR) or name in remote,
        )

    if len(names) == 1:
        return Retrieve(retrieval(names[0]), keep=keep)
    from retrieve_cli.stages.fuse import Fuse

    return Fuse(tuple(map(retrieval, names)), fusion_of(settings, names), keep=keep)


def chooser_card(settings: Settings) -> list[Json]:
    """Return the settings that decide which language model reads records, and what it reads of them."""
    chosen = settings.llm
    model = chosen.model or settings.rerank.model
    return [model, chosen.context_tokens, chosen.max_records, chosen.description_chars, chosen.depth]


def groups_of(generation: Generation, field: str, visible: Mask | None) -> tuple[Any, list[str]]:
    """Return the groups of records by a field: (records,) int32 places among the names, -1 for none; and the names.

    With `visible`, (records,) bool, other records have no group; a field that no visible record has gives no groups.

    Raises:
        UsageError: no record has the field, and all records are visible.
    """
    from retrieve_cli.records.columns import columns_of

    columns = columns_of(generation)
    if visible is None:
        return columns.groups(field)
    shown = columns.within(visible)
    if shown.column(field) is None:
        import numpy as np

        return np.full(len(columns), -1, np.int32), []
    return shown.groups(field)


def gate(
    first: Stage, second: Stage, generation: Generation, settings: Settings, *, keep: int, visible: Mask | None
) -> Stage:
    """Return the group routing stage, which searches a second time in the groups that a first pass selects.

    Raises:
        UsageError: no record has the grouping field.
    """
    from retrieve_cli.stages.gate import Gate

    chosen = settings.gating
    groups, names = groups_of(generation, chosen.field, visible)
    return Gate(
        first,
        second,
        groups=groups,
        names=names,
        candidates=chosen.global_candidates,
        top_groups=chosen.top_groups,
        keep=keep,
        per_group=chosen.per_group,
        min_results=chosen.min_results,
    )


def merge(first: Stage, settings: Settings, *, unit: Unit, keep: int, caps: Sequence[Cap] = ()) -> Stage:
    """Return the stage that ranks each of a query's texts by `first` and merges the rankings, within `caps`."""
    from retrieve_cli.stages.merge import Merge

    rrf_k, per_text = settings.fusion.rrf_k, settings.search.per_text
    return Merge(first, unit=unit, rrf_k=rrf_k, keep=keep, per_text=per_text, caps=tuple(caps))


def quotas(generation: Generation, settings: Settings, *, visible: Mask | None) -> list[Cap]:
    """Return the cap on hits per group for group routing, which applies to all texts of a query together."""
    from retrieve_cli.stages.diversity import per_group

    gating = settings.gating
    if gating.per_group is None:
        return []
    return [per_group(gating.per_group, groups_of(generation, gating.field, visible)[0])]


def tail(
    generation: Generation,
    settings: Settings,
    *,
    k: int,
    min_score: float | None,
    visible: Mask | None,
    vectors: Callable[[Any], Any],
) -> list[Stage]:
    """Return the stages that drop weak or redundant hits; none by default. `vectors` returns those of chunk rows.

    Raises:
        UsageError: no record has the grouping field.
    """
    search, diversity = settings.search, settings.diversity
    stages: list[Stage] = []
    if (min_score, search.grade, search.max_distance) != (None, None, None):
        from retrieve_cli.stages.threshold import Threshold

        similar = similar_names(generation)
        tests = {"grade": search.grade, "max_distance": search.max_distance}
        stages.append(Threshold(min_score, **tests, similar=similar, min_results=min(search.min_results, k), k=k))
    if (diversity.per_source, diversity.per_group) != (None, None):
        keep = k if diversity.mmr is None else search.depth
        stages.append(_limit(generation, settings, keep=keep, visible=visible))
    if diversity.mmr is not None:
        from retrieve_cli.stages.diversity import Mmr

        stages.append(Mmr(vectors, trade_off=diversity.mmr, keep=k))
    return stages


def boosting(boosts: Sequence[Boosted]) -> list[Stage]:
    """Return the stage that multiplies scores of hits with given properties; none without boosts."""
    if not boosts:
        return []
    from retrieve_cli.stages.boost import Boost

    return [Boost(tuple(boosts))]


def similar_names(generation: Generation) -> tuple[str, ...]:
    """Return the retrievers of a generation whose score is a similarity."""
    retrievers = registry.loadable(generation.manifest.recipe.retrievers)
    return tuple(retriever.name for retriever in retrievers if retriever.similarity)


def vectors_file(generation: Generation) -> str | None:
    """Return the artifact with the vectors of chunks; None if there is none."""
    names = similar_names(generation)
    return registry.retriever(names[0]).file if names else None


def vectors_of(generation: Generation, indexes: Indexes) -> Callable[[Any], Any]:
    """Return a function that returns the vectors of chunk rows, (n, dim) float32, wherever their index lives."""

    def vectors(rows: Any) -> Any:
        names = similar_names(generation)
        index: Any = indexes[names[0]] if names else None
        return index.vectors(rows) if hasattr(index, "vectors") else stored_vectors(generation, rows)

    return vectors


def stored_vectors(generation: Generation, rows: Any) -> Any:
    """Return the vectors of chunk rows, (n, dim) float32.

    Raises:
        IndexCorrupt: the file is damaged, or missing.
    """
    from retrieve_cli.retrievers import dense

    return dense.stored_vectors(generation, rows)


def expansion(
    generation: Generation, graph: Graph | None, settings: Settings, *, retrievers: Sequence[str], lists: bool = True
) -> list[Stage]:
    """Return the stage that follows edges from the first hits; none if there are no edges.

    `retrievers` are those that may support a hit; `lists` says if linked records may be listed beside the results.

    Raises:
        UsageError: a configured kind of edges is not in the graph.
    """
    if graph is None:
        return []
    from retrieve_cli.assemble.graph import walk, walks_of
    from retrieve_cli.stages.expand import Expand, Support

    chosen = settings.expansion
    walking = partial(walk, graph, generation, chosen, walks_of(graph, chosen))
    layout = layout_of(generation)
    appends = chosen.placement == "append"
    stage = Expand(
        walking,
        layout,
        seeds=chosen.seeds,
        floor=SEEN_BY_EXPANSION,
        depth=chosen.depth,
        how=chosen,
        support=Support(tuple(retrievers), chosen.support_rank) if appends and not chosen.before_rerank else None,
        related=chosen.max_related if appends and lists else 0,
    )
    return [stage]


def _limit(generation: Generation, settings: Settings, *, keep: int, visible: Mask | None) -> Stage:
    from retrieve_cli.stages.diversity import Limit, per_group, per_source

    diversity = settings.diversity
    caps = [] if diversity.per_source is None else [per_source(diversity.per_source)]
    if diversity.per_group is not None:
        groups, _ = groups_of(generation, settings.gating.field, visible)
        caps.append(per_group(diversity.per_group, groups))
    return Limit(tuple(caps), keep=keep)


def rerank(reader: Reader, settings: Settings, *, k: int) -> Stage:
    """Return the stage that reranks the top hits and passes on `k` of them."""
    from retrieve_cli.stages.rerank import Rerank

    chosen = settings.rerank
    return Rerank(
        reader,
        reader.name,
        depth=chosen.depth,
        keep=k if chosen.keep is None else min(k, chosen.keep),
        interpolate=chosen.interpolate,
        min_score=chosen.min_score,
        judged_only=chosen.keep is not None,
    )


def with_reranker(stage: Stage, reader: Reader) -> Stage:
    """Return a reranking stage with another reranker."""
    from retrieve_cli.stages.rerank import Rerank

    return replace(stage, reader=reader) if isinstance(stage, Rerank) else stage


def fusion_of(settings: Settings, names: Sequence[str]) -> Fusion:
    """Return the configured fusion of some retrievers."""
    from retrieve_cli.stages.fusion import Fusion

    fusion = settings.fusion
    return Fusion(
        method=fusion.method,
        normalization=fusion.normalization,
        rrf_k=fusion.rrf_k,
        weights=registry.weights(names, fusion.weights),
    )
