"""Formulas that turn the scores of several retrievers into one. Pure functions over arrays; one column a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Floats = NDArray[np.float64]

Method = Literal["weighted", "rrf"]
Normalization = Literal["zscore", "zscore_candidates", "minmax"]


class Fusion(Frozen):
    """Fusion of several retrievers: the settings that decide the fused score of a candidate."""

    method: Method = "weighted"
    normalization: Normalization = "zscore"
    """Of the weighted sum: by mean and deviation over all rows, or over the retriever's list, or by the list's ends."""
    rrf_k: float = 60.0
    weights: Mapping[str, float] = {}
    """By retriever; one that is not named weighs 1."""

    def weight(self, retriever: str) -> float:
        """Reciprocal ranks are weighted only by being listed, as the paper has it."""
        return 1.0 if self.method == "rrf" else self.weights.get(retriever, 1.0)

    @property
    def over_all_rows(self) -> bool:
        """True if a candidate's score depends on the query and itself alone, and not on the other candidates."""
        return self.method == "weighted" and self.normalization == "zscore"

    def __str__(self) -> str:
        """The formula, for people and for the JSON answer."""
        return f"rrf(k={self.rrf_k:g})" if self.method == "rrf" else f"weighted({self.normalization})"


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
    """Return fused scores (m,) from contributions (retrievers, m) and weights (retrievers,).

    One by one, and not as a product of BLAS: there a candidate's last bit depends on its place among the others.
    """
    fused = np.zeros(contributions.shape[1])
    for weight, parts in zip(weights, contributions, strict=True):
        fused += weight * parts
    return fused


def highest(scores: Floats, count: int) -> Rows:
    """Places of the `count` highest scores in no order, and of all that are equal to the last of them."""
    if count >= len(scores):
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, len(scores) - count)[len(scores) - count])
