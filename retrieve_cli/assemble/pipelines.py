"""A generation's indexes, opened, and the stages that answer from them.

What an index was built with is read from its recipe, never from today's configuration: an index answers as it was
made. The configuration decides what is not part of an answer's meaning: how deep the legs are asked, how they are
fused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble.encoders import query_card
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Index, Query, Ranking, Stage, Unit
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.records.columns import columns_of
from retrieve_cli.storage.generation import BM25, CHUNKS, DENSE, RECORDS, SPLADE, Generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.graph.graph import Graph
    from retrieve_cli.retrievers.analyzer import Analyzer
    from retrieve_cli.stages.fusion import Fusion
    from retrieve_cli.stages.rerank import Reader


SEEN_BY_EXPANSION = 50
"""Hits that a walk along edges has to see: the score of the last one is where scores of paths begin."""


@dataclass(frozen=True, slots=True)
class Indexes:
    """The indexes of a generation, opened."""

    bm25: Index
    analyzer: Analyzer
    """How the BM25 index reads text; also what marks the matched words of a hit."""
    dense: Index
    splade: Index | None = None
    """Where the generation has such a leg."""


def open_indexes(generation: Generation, settings: Settings) -> Indexes:
    """Maps the indexes into memory.

    Raises:
        IndexCorrupt: one is damaged, or they disagree about their rows.
    """
    from retrieve_cli.retrievers import dense as dense_index
    from retrieve_cli.storage import pickles

    stored = pickles.load(generation.folder / BM25)
    backend = stored.get("backend") if isinstance(stored, dict) else None
    bm25: Any
    if backend == "impacts":
        from retrieve_cli.retrievers.bm25 import Bm25Index

        bm25 = Bm25Index(stored)
    elif backend == "rank_bm25":
        from retrieve_cli.retrievers.rank_bm25 import RankBm25Index

        bm25 = RankBm25Index(stored)
    else:
        raise IndexCorrupt(f"{BM25} is from an unknown engine {backend!r}", hint="build again: retrieve build")
    dense = dense_index.open_index(generation.folder / DENSE, hnsw_ef_search=settings.dense.hnsw_ef_search)
    if dense.dim != (dim := query_card(generation.manifest.recipe).dim):
        hint = "build again: retrieve build"
        raise IndexCorrupt(f"{DENSE} has vectors of {dense.dim} numbers; the recipe says {dim}", hint=hint)
    rows = {"record": len(generation.records), "chunk": len(generation.chunks)}
    generation.expect(RECORDS, rows["record"])
    generation.expect(CHUNKS, rows["chunk"])
    for name, index in ((BM25, bm25), (DENSE, dense)):
        generation.expect(name, len(index))
        if len(index) != (wanted := rows.get(index.unit)):
            hint = "build again: retrieve build"
            raise IndexCorrupt(f"{name} has {len(index)} rows for {wanted} {index.unit}s", hint=hint)
    return Indexes(bm25=bm25, analyzer=bm25.analyzer, dense=dense, splade=_splade(generation))


def _splade(generation: Generation) -> Index | None:
    if SPLADE not in generation.manifest.files:
        return None
    from retrieve_cli.retrievers.splade import SparseIndex
    from retrieve_cli.storage import pickles

    index = SparseIndex(pickles.load(generation.folder / SPLADE))
    generation.expect(SPLADE, len(index))
    generation.expect(SPLADE, len(generation.chunks))
    return index


def stored_vectors(generation: Generation, rows: Rows) -> Vectors:
    """The vectors of chunk rows, (n, dim) float32.

    Raises:
        IndexCorrupt: the dense index is damaged.
    """
    from retrieve_cli.retrievers import dense as dense_index

    return dense_index.open_index(generation.folder / DENSE, hnsw_ef_search=1).vectors(rows)


def pipeline(
    generation: Generation,
    indexes: Indexes,
    settings: Settings,
    *,
    legs: Sequence[str],
    unit: Unit,
    k: int,
    encode: Mapping[str, Callable[[Sequence[str]], Sequence[Any]]],
) -> tuple[list[Stage], str]:
    """The stages that rank by the named legs, and the fusion formula. `encode` turns query texts into what a leg
    takes."""
    from retrieve_cli.stages.fuse import Fuse
    from retrieve_cli.stages.retrieve import Layout, Leg, Retrieve

    shared: dict[str, Any] = {
        "layout": Layout(generation.starts, generation.chunk_id),
        "unit": unit,
        "depth": max(settings.search.depth, k),
    }
    nearest = {"depth": settings.search.similarity_top_k or shared["depth"]}
    splade: Any = indexes.splade  # legs are asked for only where they are
    known = {
        "bm25": lambda: Leg(name="bm25", index=indexes.bm25, prepare=lambda texts: texts, **shared),
        "dense": lambda: Leg(name="dense", index=indexes.dense, prepare=encode["dense"], **{**shared, **nearest}),
        "splade": lambda: Leg(name="splade", index=splade, prepare=encode["splade"], **shared),
    }
    asked = [known[name]() for name in legs]
    if len(asked) == 1:
        return [Retrieve(asked[0], keep=k)], "none"
    fusion = fusion_of(settings)
    return [Fuse(asked, fusion=fusion, keep=k)], str(fusion)


def gate(first: Stage, second: Stage, generation: Generation, settings: Settings, *, keep: int) -> Stage:
    """The stage that searches a second time in the groups that a first pass picks.

    Raises:
        UsageError: no record has the field that is to group them.
    """
    from retrieve_cli.stages.gate import Gate

    chosen = settings.gating
    groups, names = columns_of(generation).groups(chosen.field)
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


def merged(rankings: Sequence[Ranking], query: Query, settings: Settings, *, unit: Unit, keep: int) -> Ranking:
    """The rankings of a query's texts as one."""
    from retrieve_cli.stages.merge import merge

    per_text = settings.search.per_text
    return merge(query, rankings, unit=unit, rrf_k=settings.fusion.rrf_k, keep=keep, per_query=per_text)


def tail(generation: Generation, settings: Settings, *, k: int) -> list[Stage]:
    """The stages that leave out hits which are not good enough, or too much like others; none by default.

    Raises:
        UsageError: no record has the field that groups them.
    """
    search, diversity = settings.search, settings.diversity
    stages: list[Stage] = []
    if (search.min_score, search.grade, search.max_distance) != (None, None, None):
        from retrieve_cli.stages.threshold import Threshold

        stages.append(Threshold(min_score=search.min_score, grade=search.grade, max_distance=search.max_distance))
    if (diversity.per_source, diversity.per_group) != (None, None):
        stages.append(_limit(generation, settings, keep=k if diversity.mmr is None else search.depth))
    if diversity.mmr is not None:
        from retrieve_cli.stages.diversity import Mmr

        stages.append(Mmr(partial(stored_vectors, generation), trade_off=diversity.mmr, keep=k))
    return stages


def expansion(generation: Generation, graph: Graph | None, settings: Settings) -> list[Stage]:
    """The stage that brings in what the first hits lead to; none where there are no edges."""
    if graph is None:
        return []
    from retrieve_cli.assemble.graph import walk
    from retrieve_cli.stages.expand import Expand
    from retrieve_cli.stages.retrieve import Layout

    chosen = settings.expansion
    layout = Layout(generation.starts, generation.chunk_id)
    name = f"expand({chosen.seeds} seeds, {chosen.depth} steps)"
    return [
        Expand(
            partial(walk, graph, generation, settings), layout, seeds=chosen.seeds, floor=SEEN_BY_EXPANSION, name=name
        )
    ]


def _limit(generation: Generation, settings: Settings, *, keep: int) -> Stage:
    from retrieve_cli.stages.diversity import Limit, per_group, per_source

    diversity = settings.diversity
    caps = [] if diversity.per_source is None else [per_source(diversity.per_source)]
    if diversity.per_group is not None:
        groups, _ = columns_of(generation).groups(settings.gating.field)
        caps.append(per_group(diversity.per_group, groups))
    return Limit(caps, keep=keep)


def rerank(reader: Reader, settings: Settings, *, k: int) -> Stage:
    """The stage that has the first hits read again, and hands on `k` of them."""
    from retrieve_cli.stages.rerank import Rerank

    chosen = settings.rerank
    keep = k if chosen.keep is None else min(k, chosen.keep)
    return Rerank(reader, depth=chosen.depth, keep=keep, interpolate=chosen.interpolate, min_score=chosen.min_score)


def fusion_of(settings: Settings) -> Fusion:
    """The fusion as configured."""
    from retrieve_cli.stages.fusion import Fusion

    fusion = settings.fusion
    return Fusion(
        method=fusion.method,
        normalization=fusion.normalization,
        rrf_k=fusion.rrf_k,
        weights={"bm25": fusion.bm25_weight, "dense": fusion.dense_weight, "splade": fusion.splade_weight},
    )
