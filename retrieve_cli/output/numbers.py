"""Numbers of an answer, for log lines, the log of queries and its summaries."""

from __future__ import annotations

from retrieve_cli.contracts import Json
from retrieve_cli.search.answer import Answer

_DIGITS = 6


def numbers(answer: Answer, *, min_candidates: int) -> dict[str, Json]:
    """Return figures on the way to an answer; `warning` is set if it has too few candidates."""
    scores = [result.hit.score for result in answer.results]
    evidence = [one for result in answer.results for one in result.hit.evidence]
    similar = [one.score for one in evidence if one.source in answer.similar]
    moved = sum(
        result.hit.reranked is not None and result.hit.reranked.before != rank for rank, result in answer.ranked
    )
    return {
        "candidates": dict(answer.stages),
        "results": len(scores),
        "top_score": _rounded(scores[0]) if scores else None,
        "avg_score": _mean(scores),
        "mean_similarity": _mean(similar),
        "reranked": answer.reranked,
        "moved_by_reranker": moved if answer.reranked else None,
        "top_score_change": _rounded(answer.course.top_score_change),
        "retries": max(len(answer.attempts) - 1, 0),
        "skipped": sorted(answer.strategies_skipped),
        "warning": _warning(answer, min_candidates),
    }


def _warning(answer: Answer, min_candidates: int) -> str | None:
    """A sentence if there are few candidates although more were requested."""
    least = min(min_candidates, answer.k)
    if answer.before_budget >= least:
        return None
    limit = "log.min_candidates" if least == min_candidates else "asked for by -k"
    return f"{answer.before_budget} candidates, fewer than {least} ({limit})"


def _mean(values: list[float]) -> float | None:
    return _rounded(sum(values) / len(values)) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
