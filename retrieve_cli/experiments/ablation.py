"""What each stage of the answer is worth: every active one switched off in turn, its gain against its milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from retrieve_cli.assemble import variants
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.differences import Difference
from retrieve_cli.experiments.arms import Answers, with_settings
from retrieve_cli.experiments.evaluate import Evaluation
from retrieve_cli.storage.generation import GRAPH, SPLADE, TOKENS, Generation


def ablations(base: Answers) -> list[Answers]:
    """The same index with each stage that takes part switched off in turn, each named after what it does without.

    Raises:
        UsageError: there is none that could be.
    """
    settings = base.settings
    reranked = settings.rerank.backend != "none" and (
        settings.rerank.backend != "auto" or TOKENS in base.searcher.generation.manifest.files
    )
    files = base.searcher.generation.manifest.files
    asked = settings.expansion.enabled
    expands = GRAPH in files and (settings.search.mode == "hybrid" if asked is None else asked)
    changes = _changes(settings, reranked=reranked, splade=SPLADE in files, expands=expands)
    found = [with_settings(name, change, base) for name, change in changes.items()]
    if settings.search.mode != "dense" and _weighs_fields(base.searcher.generation):
        unweighted = variants.without_field_weights(base.searcher.generation)
        found.append(base.under("without field weights", settings, unweighted))
    if not found:
        raise UsageError(f"nothing of --mode {settings.search.mode} can be switched off", hint="leave --mode out")
    return found


def _changes(settings: Settings, *, reranked: bool, splade: bool, expands: bool) -> dict[str, str]:
    """Names, and the change of settings (`section.key=value,...`) that switches a stage off."""
    found = _further(settings, expands=expands)
    if settings.search.mode != "hybrid":
        return found
    if reranked:
        found["without the reranker"] = "rerank.backend=none"
    if splade:
        found["without the splade leg"] = "fusion.splade_weight=0"
    found |= {"without the dense leg": "search.mode=bm25", "without the bm25 leg": "search.mode=dense"}
    fusion = settings.fusion
    if fusion.method == "weighted":
        found["ranks instead of scores"] = "fusion.method=rrf"
        if fusion.dense_weight != fusion.bm25_weight:
            found["equal weights"] = "fusion.dense_weight=0.5,fusion.bm25_weight=0.5"
        if fusion.normalization == "zscore":
            found["z-scores over candidates"] = "fusion.normalization=zscore_candidates"
        if fusion.normalization != "minmax":
            found["min-max instead of z-scores"] = "fusion.normalization=minmax"
    if settings.search.depth > 1:
        found["half of the depth"] = f"search.depth={settings.search.depth // 2}"
    return found


def _further(settings: Settings, *, expands: bool) -> dict[str, str]:
    """The same of stages that are off until they are configured, or until there are edges."""
    search, diversity = settings.search, settings.diversity
    stages = {
        "without expansion": (expands, "expansion.enabled=false"),
        "without the gate": (settings.gating.enabled, "gating.enabled=false"),
        "without relevance against novelty": (diversity.mmr is not None, "diversity.mmr=null"),
        "without a cap per group": (diversity.per_group is not None, "diversity.per_group=null"),
        "without a least score": (search.min_score is not None, "search.min_score=null"),
        "without a least similarity": (
            (search.grade, search.max_distance) != (None, None),
            "search.grade=null,search.max_distance=null",
        ),
    }
    return {name: change for name, (active, change) in stages.items() if active}


def _weighs_fields(generation: Generation) -> bool:
    """Whether BM25 counts the words of one field more than those of another."""
    recipe = generation.manifest.recipe
    cards = recipe["sources"].values()
    weights = {weight for card in cards for _, weight in card.get("weights", ()) if weight > 0}
    weights |= {card["name_weight"] for card in cards if "name_weight" in card}
    return recipe["bm25"]["backend"] == "impacts" and bool(weights - {1.0})


def recommendation(
    found: Evaluation, arms: Mapping[str, Evaluation], compared: Sequence[Difference], budget_ms: float
) -> str:
    """Which configuration to take so that 95 of 100 queries end within the budget, by the first measure.

    The one as configured, unless it is too slow, or another one is better beyond noise.
    """
    if not (isfinite(budget_ms) and budget_ms > 0):
        raise UsageError(f"--latency-budget-ms is {budget_ms:g}", hint="it is a time above 0, in milliseconds: 50")
    measure = next(iter(found.per_query))
    quick = {name: arm for name, arm in arms.items() if arm.latency_ms["p95"] <= budget_ms}
    better = [
        each
        for each in compared
        if each.measure == measure and each.arm in quick and each.interval.mean > 0 and each.significant
    ]
    if better:
        best = max(better, key=lambda each: each.interval.mean)
        return f"within {budget_ms:g} ms: {best.arm}, {measure} {best.interval.mean:+.4f}"
    if found.latency_ms["p95"] <= budget_ms:
        return f"within {budget_ms:g} ms: as configured; nothing is better beyond noise"
    if not quick:
        return f"within {budget_ms:g} ms: none of these configurations"
    name, arm = max(quick.items(), key=lambda each: each[1].metrics[measure])
    change = arm.metrics[measure] - found.metrics[measure]
    return f"within {budget_ms:g} ms: {name}, {measure} {change:+.4f}"
