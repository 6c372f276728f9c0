"""Scores from 0 to 1, for programs that expect them: of a scale that is known, and named; none is invented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from retrieve_cli.search.answer import Answer, Result

UnitScale = Literal["calibrated", "reranker", "cosine"]
"""`calibrated`: the probability that a result is relevant; `reranker`: the score of a reranker that ends in a sigmoid;
`cosine`: the cosine similarity of the query and the chunk, 0 if it is negative."""

_ROUNDING = 1e-3
"""Error of the cosine of two vectors of float32, or of quantised ones; more is an inner product of other vectors."""


class UnitScores(NamedTuple):
    """Scores of the results of one answer, all on one scale: from 0 to 1, or that of a reranker."""

    scale: UnitScale | None
    """None if there is no such scale: BM25 alone answered, or nothing was found."""
    values: tuple[float | None, ...]
    """By result, its score from 0 to 1; None if it has none on this scale, such as a hit below the reranked ones."""


def unit_scores(answer: Answer) -> UnitScores:
    """Return the scores of the results from 0 to 1.

    They are the calibrated confidence, else the score of a reranker that has this scale by itself, else the cosine
    similarity. Results keep their order, which is that of the ranking: a fused score orders better than a cosine.
    """
    results = answer.results
    if answer.confidence is not None:
        return UnitScores("calibrated", tuple(result.confidence for result in results))
    relevance = tuple(result.relevance for result in results)
    if any(value is not None for value in relevance):
        return UnitScores("reranker", relevance)
    cosines = _cosines(results, answer.similar)
    return UnitScores("cosine" if any(value is not None for value in cosines) else None, cosines)


def deciding_scores(answer: Answer) -> UnitScores:
    """Return the scores that decided: those of the reranker, on its own scale; without one, scores from 0 to 1."""
    if not answer.reranked:
        return unit_scores(answer)
    own = (result.hit.reranked for result in answer.results)
    return UnitScores("reranker", tuple(None if moved is None else moved.score for moved in own))


def _cosines(results: Sequence[Result], similar: Sequence[str]) -> tuple[float | None, ...]:
    """The cosine similarity of each result, within 0 and 1; none at all if a similarity is not a cosine."""
    values = [
        next((evidence.score for evidence in result.hit.evidence if evidence.source in similar), None)
        for result in results
    ]
    if any(value is not None and abs(value) > 1 + _ROUNDING for value in values):
        return (None,) * len(values)
    return tuple(None if value is None else min(max(value, 0.0), 1.0) for value in values)
