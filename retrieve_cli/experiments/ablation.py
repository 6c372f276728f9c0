"""What each stage of the answer is worth: every active one switched off in turn, its gain against its milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieve_cli.config import Settings
from retrieve_cli.evaluation.differences import Difference
from retrieve_cli.experiments.evaluate import Evaluation

SIGNIFICANT = 0.05


def ablations(settings: Settings) -> dict[str, str]:
    """What is switched off, and the change of settings that does it (`section.key=value,...`)."""
    if settings.search.mode != "hybrid":
        return {}
    found = {"the dense leg": "search.mode=bm25", "the bm25 leg": "search.mode=dense"}
    fusion = settings.fusion
    if fusion.method == "weighted":
        found["scores (ranks instead)"] = "fusion.method=rrf"
        if fusion.dense_weight != fusion.bm25_weight:
            found["the weights (equal ones)"] = "fusion.dense_weight=0.5,fusion.bm25_weight=0.5"
        if fusion.normalization == "zscore":
            found["the spread over all rows"] = "fusion.normalization=zscore_candidates"
        if fusion.normalization != "minmax":
            found["z-scores (min-max instead)"] = "fusion.normalization=minmax"
    if settings.search.depth > 1:
        found["half of the depth"] = f"search.depth={settings.search.depth // 2}"
    return found


def recommendation(
    found: Evaluation, arms: Mapping[str, Evaluation], compared: Sequence[Difference], budget_ms: float
) -> str:
    """Which configuration to take so that 95 of 100 queries end within the budget, by the first measure.

    The one as configured, unless it is too slow, or another one is better beyond noise.
    """
    measure = next(iter(found.per_query))
    quick = {name: arm for name, arm in arms.items() if arm.latency_ms["p95"] <= budget_ms}
    better = [
        each
        for each in compared
        if each.measure == measure and each.arm in quick and each.interval.mean > 0 and each.p_holm <= SIGNIFICANT
    ]
    if better:
        best = max(better, key=lambda each: each.interval.mean)
        return f"within {budget_ms:g} ms: without {best.arm}, {measure} {best.interval.mean:+.4f}"
    if found.latency_ms["p95"] <= budget_ms:
        return f"within {budget_ms:g} ms: as configured; nothing is better beyond noise"
    if not quick:
        return f"within {budget_ms:g} ms: none of these configurations"
    name, arm = max(quick.items(), key=lambda each: each[1].metrics[measure])
    change = arm.metrics[measure] - found.metrics[measure]
    return f"within {budget_ms:g} ms: without {name}, {measure} {change:+.4f}"
