"""The laws of merging the rankings of a query's texts: what may change, what may not, and what a hit tells of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.contracts import Evidence, Hit, Query, Ranking
from retrieve_cli.retrieval.stages.merge import merge

QUERY = Query("q", "7")


def ranking(text: str, records: Sequence[int], **options: Any) -> Ranking:
    """Records in this order, each by a chunk of its own that the text prefers where `chunk` says so."""
    chunk = options.pop("chunk", 0)
    hits = []
    for rank, record in enumerate(records, 1):
        evidence = (Evidence("dense", rank, 1.0, 1.0, 1.0),)
        hits.append(Hit(f"{record:02}#{chunk}", 10 * record + chunk, record, -float(rank), evidence))
    return Ranking(Query(text), tuple(hits), **options)


def merged(rankings: Sequence[Ranking], **options: Any) -> Ranking:
    options = {"unit": "record", "rrf_k": 60.0, "keep": 100, **options}
    return merge(QUERY, rankings, **options)


orders = st.lists(st.integers(0, 14), unique=True, max_size=12)
several = st.lists(orders, min_size=1, max_size=4)
named = several.map(lambda found: [ranking(f"text of {at}", order) for at, order in enumerate(found)])


@given(named, st.floats(1, 100))
def test_scores_are_the_sums_of_reciprocal_ranks_and_equal_ones_stand_by_best_rank_and_id(
    rankings: list[Ranking], rrf_k: float
) -> None:
    ranks: dict[str, list[int]] = {}
    for each in rankings:
        for rank, hit in enumerate(each.hits, 1):
            ranks.setdefault(hit.id, []).append(rank)
    result = merged(rankings, rrf_k=rrf_k).hits
    for hit in result:
        assert hit.score == pytest.approx(sum(1 / (rrf_k + rank) for rank in ranks[hit.id]))
    keys = [(-hit.score, min(ranks[hit.id]), hit.id) for hit in result]
    assert keys == sorted(keys)


def test_a_hit_says_which_texts_found_it_at_which_rank_and_that_adds_up() -> None:
    result = merged([ranking("a", [1, 2]), ranking("b", [2, 3]), ranking("c", [4])], rrf_k=1.0)
    hit = result.hits[0]
    assert (hit.record, hit.score) == (2, 1 / 3 + 1 / 2)
    assert hit.evidence == (
        Evidence("dense", 1, 1.0, 1.0, 1.0),
        Evidence("text 1", 2, -2.0, 1 / 3, 1.0),
        Evidence("text 2", 1, -1.0, 1 / 2, 1.0),
    )


def test_a_record_is_shown_by_the_chunk_of_the_text_that_ranked_it_best() -> None:
    texts = [ranking("a", [1, 2], chunk=0), ranking("b", [2, 1], chunk=3)]
    assert {hit.id for hit in merged(texts).hits} == {"01#0", "02#3"}
    assert {hit.id for hit in merged(texts, unit="chunk").hits} == {"01#0", "02#0", "01#3", "02#3"}
