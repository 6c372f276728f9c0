"""Formulas that turn the scores of several retrievers into one. Pure functions over arrays; one column a candidate.

Number of records that the retrievers matched: a by-product of fusion, or counted on demand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from retrieve_cli.contracts import Candidates, Matches
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
    """Places of the `count` highest scores in no order, and of all that may equal the last one after rounding."""
    if count >= len(scores):
        return np.arange(len(scores))
    last = np.partition(scores, len(scores) - count)[len(scores) - count]
    return np.flatnonzero(scores >= last - 1e-6)


class Finds(Protocol):
    """The part of a retriever's account of one query that is counted."""

    @property
    def candidates(self) -> Candidates: ...

    def matched(self) -> Rows: ...


class CountedMatches(Frozen, eq=False):
    """The accounts of one query that are counted together: of its retrievers, its texts, and the passes of a gate.

    A record (or chunk, if these are ranked) is matched if it shares a term with the query, by any retriever that
    compares terms, or is on the list of one that compares vectors: these are near to every query, so that only the
    nearest count, as many as the retriever is asked for. Filters hold, and invisible records do not count. Records that
    later stages drop or add (thresholds, quotas, edges) do not change the number.
    """

    accounts: tuple[Finds, ...]
    known: int | None = None
    """The number of matches, if it was seen on the way."""

    def matched(self) -> int:
        return _different([each.matched() for each in self.accounts]) if self.known is None else self.known

    def rows(self) -> Rows:
        return np.unique(np.concatenate([each.matched() for each in self.accounts]))

    def considered(self) -> int:
        return _different([each.candidates.rows for each in self.accounts])


def together(parts: Sequence[Matches | None]) -> Matches | None:
    """Return what several rankings of one query found as one; None if one of them does not tell."""
    found = [part for part in parts if isinstance(part, CountedMatches)]
    if len(found) < len(parts):
        return None
    return found[0] if len(found) == 1 else CountedMatches(tuple(each for part in found for each in part.accounts))


def _different(lists: Sequence[Rows]) -> int:
    return len(lists[0] if len(lists) == 1 else union(lists))


def union(lists: Sequence[Rows]) -> Rows:
    """The different rows of all lists in ascending order. (numpy.unique would import numpy.ma: a tenth of a query.)"""
    rows = np.sort(np.concatenate(lists))
    return rows[np.append(True, rows[1:] != rows[:-1])] if len(rows) else rows
