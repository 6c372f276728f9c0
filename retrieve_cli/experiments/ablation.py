"""The worth of each stage: a list of pipelines, each without one active part, its gain against its
milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite

from retrieve_cli.assemble import registry
from retrieve_cli.config.loading import override
from retrieve_cli.contracts import Stage
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.differences import Difference
from retrieve_cli.experiments.evaluate import Evaluation
from retrieve_cli.experiments.runs import Answers
from retrieve_cli.stages.fuse import Fuse
from retrieve_cli.stages.fusion import Normalization
from retrieve_cli.stages.pipeline import Edit, Pipeline, Wrapping
from retrieve_cli.stages.retrieve import Retrieve

First = Retrieve | Fuse
"""The stage that asks the retrievers."""


def ablations(base: Answers) -> list[Answers]:
    """Return the same index with each part of its pipeline switched off in turn, named after what it does without.

    Raises:
        UsageError: there is none that could be.
    """
    pipeline = base.searcher.pipeline(base.searcher.options())
    found = [base.edited(name, edit) for name, edit in edits(pipeline)]
    depth = base.settings.search.depth
    if isinstance(pipeline.retrieves, Fuse) and depth > 1:
        # By the setting: stages behind the retrievers see as many hits as these are asked for.
        half = override(base.settings, {"search": {"depth": depth // 2}}, where="--ablate")
        found.append(base.under("half of the depth", half))
    for each in pipeline.retrieves.retrievals:
        index = registry.retriever(each.name).plain(base.searcher.generation)
        if index is not None:
            found.append(base.under("without field weights", base.settings, {each.name: index}))
    if not found:
        mode = base.settings.search.mode
        raise UsageError(f"nothing of --mode {mode} can be switched off", hint="leave --mode out")
    return found


def edits(pipeline: Pipeline) -> Iterator[tuple[str, Edit]]:
    """Yield a change of the pipeline for each part that is active, and what it is called."""
    for name, kept in _CUTS.items():
        if any(kept(stage) != stage for stage in pipeline.stages):
            yield name, _every(kept)
    if isinstance(pipeline.stages[0], Wrapping) and not hasattr(pipeline.stages[0], "per_text"):
        yield "without the gate", lambda each: Pipeline((_ungated(each.stages[0]), *each.stages[1:]))
    first = pipeline.retrieves
    if not isinstance(first, Fuse):
        return
    if any(stage.kind == "rerank" for stage in pipeline.stages):
        yield "without the reranker", lambda each: each.without("rerank")
    for name in [each.name for each in first.retrievals][::-1]:
        yield f"without the {name} leg", _retrieving(partial(_without, name=name))
    yield from ((name, _retrieving(edit)) for name, edit in _fusions(first))


def _fusions(first: Fuse) -> Iterator[tuple[str, Callable[[Fuse], First]]]:
    """Other fusions of the same candidates."""
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
    """The fusion without one retriever; the only other one ranks alone."""
    rest = tuple(each for each in fuse.retrievals if each.name != name)
    return Retrieve(rest[0], keep=fuse.keep) if len(rest) == 1 else replace(fuse, retrievals=rest)


def _retrieving(edit: Callable[[Fuse], First]) -> Edit:
    """The change of a pipeline whose retrievers are fused in another way."""
    return lambda pipeline: pipeline.retrieving(lambda first: edit(first) if isinstance(first, Fuse) else first)


def _ungated(stage: Stage) -> Stage:
    return stage.inner if isinstance(stage, Wrapping) else stage


def _every(kept: Callable[[Stage], Stage | None]) -> Edit:
    """The change of a pipeline that goes through its stages; None drops one."""

    def edit(pipeline: Pipeline) -> Pipeline:
        stages = (kept(stage) for stage in pipeline.stages)
        return Pipeline(tuple(stage for stage in stages if stage is not None))

    return edit


def _no_expansion(stage: Stage) -> Stage | None:
    return None if stage.kind == "expand" else stage


def _no_novelty(stage: Stage) -> Stage | None:
    return None if hasattr(stage, "trade_off") else stage


def _no_group_cap(stage: Stage) -> Stage | None:
    from retrieve_cli.stages.diversity import Limit

    if not isinstance(stage, Limit):
        return stage
    caps = tuple(cap for cap in stage.caps if cap.name != "per_group")
    return replace(stage, caps=caps) if caps else None


def _no_least_score(stage: Stage) -> Stage | None:
    from retrieve_cli.stages.threshold import Threshold

    if not isinstance(stage, Threshold):
        return stage
    rest = replace(stage, min_score=None)
    return rest if (rest.grade, rest.max_distance) != (None, None) else None


def _no_least_similarity(stage: Stage) -> Stage | None:
    from retrieve_cli.stages.threshold import Threshold

    if not isinstance(stage, Threshold):
        return stage
    rest = replace(stage, grade=None, max_distance=None)
    return rest if rest.min_score is not None else None


_CUTS: Mapping[str, Callable[[Stage], Stage | None]] = {
    "without expansion": _no_expansion,
    "without relevance against novelty": _no_novelty,
    "without a cap per group": _no_group_cap,
    "without a least score": _no_least_score,
    "without a least similarity": _no_least_similarity,
}
"""Stages that are off until they are configured, or until there are edges."""


def recommendation(
    found: Evaluation, runs: Mapping[str, Evaluation], compared: Sequence[Difference], budget_ms: float
) -> str:
    """Which configuration to take so that 95 of 100 queries end within the budget, by the first measure.

    The one as configured, unless it is too slow, or another one is better beyond noise.
    """
    if not (isfinite(budget_ms) and budget_ms > 0):
        raise UsageError(f"--latency-budget-ms is {budget_ms:g}", hint="it is a time above 0, in milliseconds: 50")
    measure = next(iter(found.per_query))
    quick = {name: run for name, run in runs.items() if run.latency_ms["p95"] <= budget_ms}
    better = [
        each
        for each in compared
        if each.measure == measure and each.run in quick and each.interval.mean > 0 and each.significant
    ]
    if better:
        best = max(better, key=lambda each: each.interval.mean)
        return f"within {budget_ms:g} ms: {best.run}, {measure} {best.interval.mean:+.4f}"
    if found.latency_ms["p95"] <= budget_ms:
        return f"within {budget_ms:g} ms: as configured; nothing is better beyond noise"
    if not quick:
        return f"within {budget_ms:g} ms: none of these configurations"
    name, run = max(quick.items(), key=lambda each: each[1].metrics[measure])
    change = run.metrics[measure] - found.metrics[measure]
    return f"within {budget_ms:g} ms: {name}, {measure} {change:+.4f}"
