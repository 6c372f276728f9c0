"""Selection of a text's weighted vocabulary entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import TermWeights

if TYPE_CHECKING:
    from retrieve_cli.contracts import Terms, Vectors


@dataclass(frozen=True, slots=True)
class Pruning:
    """Keeps the weights above 0 that are at least `min_weight`, and of these the `top_terms` heaviest."""

    min_weight: float = 0.0
    top_terms: int | None = None

    def dense(self, weights: Vectors) -> TermWeights:
        """Return what is kept of one weight for each entry of the vocabulary, (v,) float32."""
        terms = np.flatnonzero(weights > 0).astype(np.int32)
        return self.kept(terms, weights[terms])

    def kept(self, terms: Terms, weights: Vectors) -> TermWeights:
        """Return what is kept of terms in ascending order; of equal weights those of the lower ids."""
        heavy = (weights > 0) & (weights >= np.float32(self.min_weight))
        terms, weights = terms[heavy], weights[heavy]
        if self.top_terms is not None and len(terms) > self.top_terms:
            best = np.sort(np.lexsort((terms, -weights))[: self.top_terms])
            terms, weights = terms[best], weights[best]
        return TermWeights(terms, weights)
