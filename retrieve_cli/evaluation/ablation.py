"""Ablation: the pipeline without each of its active parts in turn, to compare what a part gains and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite

from retrieve_cli.assemble import registry
from retrieve_cli.config.loading import override
from retrieve_cli.contracts import Stage
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.differences import Difference
from retrieve_cli.evaluation.evaluate import Evaluation
from retrieve_cli.evaluation.runs import Answers
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Normalization
from retrieve_cli.retrieval.stages.pipeline import Edit, Pipeline, Wrapping
from retrieve_cli.retrieval.stages.retrieve import Retrieve
from retrieve_cli.search.searcher import Searcher

First = Retrieve | Fuse
"""The stage that runs the retrievers."""


def ablations(base: Answers) -> list[Answers]:
    """Return a run for each active part of the pipeline, without that part and named after it.

    Raises:
        UsageError: the pipeline has no active part to leave out.
    """
    pipeline = Searcher(base.opened).pipeline()
    found = [base.edited(name, edit) for name, edit in edits(pipeline)]
    depth = base.settings.search.depth
    if isinstance(pipeline.retrieves, Fuse) and depth > 1:
        # By the setting: later stages get as many hits as the retrievers return.
        half = override(base.settings, {"search": {"depth": depth // 2}}, where="--ablate")
        found.append(base.under("half the depth", half))
    for each in pipeline.retrieves.retrievals:
        index = registry.retriever(each.name).plain(base.opened.generation)
        if index is not None:
            found.append(base.under("without field weights", base.settings, {each.name: index}))
    if not found:
        mode = base.settings.search.mode
        raise UsageError(f"--mode {mode} has no part that can be switched off", hint="omit --mode")
    return found


def edits(pipeline: Pipeline) -> Iterator[tuple[str, Edit]]:
    """Yield a name and a change of the pipeline for each active part."""
    for name, kept in _CUTS.items():
        if any(kept(stage) != stage for stage in pipeline.stages):
            yield name, _every(kept)
    if isinstance(pipeline.stages[0], Wrapping) and not hasattr(pipeline.stages[0], "per_text"):
        yield "without group routing", lambda each: Pipeline((_without_routing(each.stages[0]), *each.stages[1:]))
    first = pipeline.retrieves
    if not isinstance(first, Fuse):
        return
    if any(stage.kind == "rerank" for stage in pipeline.stages):
        yield "without the reranker", lambda each: each.without("rerank")
    for name in [each.name for each in first.retrievals][::-1]:
        yield f"without {name}", _retrieving(partial(_without, name=name))
    yield from ((name, _retrieving(edit)) for name, edit in _fusions(first))


def _fusions(first: Fuse) -> Iterator[tuple[str, Callable[[Fuse], First]]]:
    fusion = first.fusion
    if fusion.method != "weighted":
        return
    yield "ranks instead of scores", lambda fuse: replace(fuse, fusion=replace(fuse.fusion, method="rrf"))
    equal = {each.name: 0.5 for each in first.retrievals}
    if len({fusion.weight(name) for name in equal}) > 1:
        yield "equal weights", lambda fuse: replace(fuse, fusion=replace(fuse.fusion, weights=equal))
    if fusion.normalization == "zscore":
        yield "z-scores over candidates", lambda fuse: _normalized(fuse, "zscore_candidates")
    if fusion.normalization != "minmax":
        yield "min-max instead of z-scores", lambda fuse: _normalized(fuse, "minmax")


def _normalized(fuse: Fuse, normalization: Normalization) -> Fuse:
    return replace(fuse, fusion=replace(fuse.fusion, normalization=normalization))


def _without(fuse: Fuse, name: str) -> First:
    """Return the fusion without one retriever; if one is left, it ranks alone."""
    rest = tuple(each for each in fuse.retrievals if each.name != name)
    return Retrieve(rest[0], keep=fuse.keep) if len(rest) == 1 else replace(fuse, retrievals=rest)


def _retrieving(edit: Callable[[Fuse], First]) -> Edit:
    """Return a change of a pipeline: its retrievers are fused in another way."""
    return lambda pipeline: pipeline.retrieving(lambda first: edit(first) if isinstance(first, Fuse) else first)


def _without_routing(stage: Stage) -> Stage:
    return stage.inner if isinstance(stage, Wrapping) else stage


def _every(kept: Callable[[Stage], Stage | None]) -> Edit:
    """Return a change of a pipeline that is made stage by stage; None drops a stage."""

    def edit(pipeline: Pipeline) -> Pipeline:
        stages = (kept(stage) for stage in pipeline.stages)
        return Pipeline(tuple(stage for stage in stages if stage is not None))

    return edit


def _no_group_cap(stage: Stage) -> Stage | None:
    from retrieve_cli.retrieval.stages.diversity import Limit

    if not isinstance(stage, Limit):
        return stage
    caps = tuple(cap for cap in stage.caps if cap.name != "per_group")
    return replace(stage, caps=caps) if caps else None


def _no_min_score(stage: Stage) -> Stage | None:
    from retrieve_cli.retrieval.stages.threshold import Threshold

    if not isinstance(stage, Threshold):
        return stage
    rest = replace(stage, min_score=None)
    return rest if (rest.grade, rest.max_distance) != (None, None) else None


def _no_similarity_threshold(stage: Stage) -> Stage | None:
    from retrieve_cli.retrieval.stages.threshold import Threshold

    if not isinstance(stage, Threshold):
        return stage
    rest = replace(stage, grade=None, max_distance=None)
    return rest if rest.min_score is not None else None


_CUTS: Mapping[str, Callable[[Stage], Stage | None]] = {
    "without expansion": lambda stage: None if stage.kind == "expand" else stage,
    "without MMR": lambda stage: None if hasattr(stage, "trade_off") else stage,
    "without a cap per group": _no_group_cap,
    "without min_score": _no_min_score,
    "without a similarity threshold": _no_similarity_threshold,
}
"""Stages that are off until they are configured, or until the graph has edges."""


def recommendation(
    found: Evaluation, runs: Mapping[str, Evaluation], compared: Sequence[Difference], budget_ms: float
) -> str:
    """Return a recommendation: the best run by the primary measure whose 95th percentile is within the budget.

    It recommends the current configuration, unless that is too slow or another run is significantly better.
    """
    if not (isfinite(budget_ms) and budget_ms > 0):
        message = f"--latency-budget-ms is {budget_ms:g}; it takes a number of milliseconds above 0"
        raise UsageError(message, hint="for example: --latency-budget-ms 50")
    within = f"recommended within {budget_ms:g} ms (p95)"
    measure = next(iter(found.per_query))
    quick = {name: run for name, run in runs.items() if run.latency_ms["p95"] <= budget_ms}
    better = [
        each
        for each in compared
        if each.measure == measure and each.run in quick and each.interval.mean > 0 and each.significant
    ]
    if better:
        best = max(better, key=lambda each: each.interval.mean)
        return f"{within}: {best.run}, {measure} {best.interval.mean:+.4f}"
    if found.latency_ms["p95"] <= budget_ms:
        return f"{within}: as configured; no run is significantly better"
    if not quick:
        return f"{within}: none of these configurations"
    name, run = max(quick.items(), key=lambda each: each[1].metrics[measure])
    change = run.metrics[measure] - found.metrics[measure]
    return f"{within}: {name}, {measure} {change:+.4f}"
