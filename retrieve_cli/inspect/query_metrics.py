"""Metrics of the query log: numbers only, without texts, tenants or ids."""

from __future__ import annotations

from typing import Literal

from retrieve_cli.inspect.query_log import SHARES, QueryLog, Tally
from retrieve_cli.output.prometheus import Metric, Sample

_COUNTS = {
    "retrieve_queries_total": ("queries", "Queries in the log."),
    "retrieve_queries_empty_total": ("empty", "Queries without results."),
    "retrieve_queries_relaxed_total": ("relaxed", "Queries that were retried with fewer terms."),
    "retrieve_queries_reranked_total": ("reranked", "Queries whose candidates were reranked."),
    "retrieve_queries_few_candidates_total": ("few", "Queries with fewer candidates than log.min_candidates."),
}
_MEANS = {
    "retrieve_query_top_score": ("top_score", "Mean of the best score of a query."),
    "retrieve_query_avg_score": ("avg_score", "Mean over queries of the mean score of their results."),
    "retrieve_query_mean_similarity": ("mean_similarity", "Mean over queries of their results' mean similarity."),
    "retrieve_query_top_score_change": ("top_score_change", "Mean change of the best score by reranking."),
}


def query_metrics(log: QueryLog) -> list[Metric]:
    """Return the metrics of a log."""
    tally = log.all
    counts = [_single(name, "counter", text, getattr(tally, key)) for name, (key, text) in _COUNTS.items()]
    means = [_single(name, "gauge", text, tally.scores[key].value) for name, (key, text) in _MEANS.items()]
    damaged = _single("retrieve_query_log_damaged_lines", "gauge", "Damaged lines of the log.", log.damages)
    return [*counts, _durations(tally), *means, damaged]


def _single(name: str, kind: Literal["counter", "gauge"], text: str, value: float | None) -> Metric:
    return Metric(name, kind, text, [] if value is None else [Sample(value)])


def _durations(tally: Tally) -> Metric:
    found = {share: tally.latency(share) for share in SHARES}
    quantiles = [Sample(each / 1000, {"quantile": f"{share:g}"}) for share, each in found.items() if each is not None]
    totals = [Sample(tally.total_ms / 1000, suffix="_sum"), Sample(tally.queries, suffix="_count")]
    return Metric("retrieve_query_duration_seconds", "summary", "Time to answer a query.", [*quantiles, *totals])
