"""Formulas that turn several legs' scores into one. Pure functions over arrays; one column a candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Method = Literal["weighted", "rrf"]
Normalization = Literal["zscore", "zscore_candidates", "minmax"]


def reciprocal_rank(ranks: NDArray[np.int64], *, k: float) -> Floats:
    """1 / (k + rank) with ranks from 1, and 0 for rank 0, "not listed" (Cormack, Clarke, Büttcher 2009)."""
    return np.where(ranks > 0, 1.0 / (k + np.maximum(ranks, 1)), 0.0)


def zscore(scores: Floats, *, mean: float, deviation: float) -> Floats:
    """Distance from the mean in standard deviations; 0 for all where nothing deviates."""
    return (scores - mean) / deviation if deviation > 0 else np.zeros_like(scores)


def minmax(scores: Floats, *, low: float, high: float) -> Floats:
    """Linear, 0 at `low` and 1 at `high`, negative below; where the two are equal, 1 from there on."""
    return (scores - low) / (high - low) if high > low else (scores >= low).astype(np.float64)


def weighted_sum(contributions: Floats, weights: Floats) -> Floats:
    """(legs, m) contributions and (legs,) weights to (m,) fused scores."""
    return weights @ contributions
