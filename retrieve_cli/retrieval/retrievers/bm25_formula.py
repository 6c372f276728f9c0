"""Formulas of BM25: the weight of a term by the rows that have it, and its saturation in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Variant = Literal["lucene", "robertson", "atire", "okapi"]


class Formula(Frozen):
    """BM25 variant and parameters."""

    variant: Variant = "lucene"
    k1: float = 1.2
    b: float = 0.75


def idf(variant: Variant, documents: int, frequencies: Floats) -> Floats:
    """Return the inverse document frequency of terms that occur in `frequencies` of `documents` rows, (v,) float64.

    lucene: ln(1 + (N - n + 0.5) / (n + 0.5)); robertson: the same without the 1, floored at 0; atire: ln(N / n);
    okapi: robertson without the floor: `floored` replaces its negatives.
    """
    odds = (documents - frequencies + 0.5) / (frequencies + 0.5)
    if variant == "lucene":
        return np.log1p(odds)
    if variant == "atire":
        return np.log(documents / frequencies)
    weights: Floats = np.log(odds)
    return np.maximum(weights, 0.0) if variant == "robertson" else weights


def floored(weights: Floats, mean: float) -> Floats:
    """Return the weights of okapi with a quarter of the mean of all terms in place of negatives, as in rank_bm25."""
    return np.where(weights < 0, 0.25 * mean, weights)


def saturation(formula: Formula, tf: Floats, lengths: Floats, *, mean_length: float) -> Floats:
    """Return the saturated weight of a term frequency: tf / (tf + k1 (1 - b + b length / mean)).

    atire and okapi multiply it by k1 + 1; lucene and robertson omit that constant.
    """
    share = tf / (tf + formula.k1 * (1.0 - formula.b + formula.b * lengths / mean_length))
    return share * (formula.k1 + 1.0) if formula.variant in ("atire", "okapi") else share
