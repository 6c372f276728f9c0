"""The laws of reranking: it permutes and never invents, and what it did can be told from the hits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from retrieve_cli.contracts import Evidence, Hit, Query, Ranking
from retrieve_cli.retrieval.stages.rerank import RerankStage


class Table:
    """A reader whose scores are written down, by row."""

    name = "table"

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = scores
        self.asked: list[list[int]] = []

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        self.asked.append([hit.row for hit in hits])
        return np.array([self.scores[hit.row] for hit in hits], np.float32)


def ranking(scores: Sequence[float]) -> Ranking:
    why = (Evidence("bm25", 1, 1.0, 1.0, 1.0),)
    return Ranking.of(Query("q"), [Hit(f"{at:02}#0", at, at, score, why) for at, score in enumerate(scores)])


def stage(scorer: Table, **options: Any) -> RerankStage:
    options = {"depth": 10, "keep": 100, "interpolate": 0.5, **options}
    return RerankStage(scorer, scorer.name, **options)


Lists = tuple[list[float], list[float]]
"""What retrieval gave the hits, and what the reader gives them."""
randoms = st.randoms(use_true_random=False)
numbers = st.integers(-20, 20).map(lambda value: value / 4)
lists = st.integers(1, 20).flatmap(
    lambda size: st.tuples(*(st.lists(numbers, min_size=size, max_size=size) for _ in range(2)))
)


@given(lists, st.integers(1, 25), st.floats(0, 1))
def test_it_permutes_the_first_hits_and_never_invents_or_loses_one(
    scores: Lists, depth: int, interpolate: float
) -> None:
    before = ranking(scores[0])
    (after,) = stage(Table(scores[1]), depth=depth, interpolate=interpolate)([before])
    assert sorted(hit.id for hit in after.hits[:depth]) == sorted(hit.id for hit in before.hits[:depth])
    assert [hit.id for hit in after.hits[depth:]] == [hit.id for hit in before.hits[depth:]]
    values = [hit.score for hit in after.hits]
    assert values == sorted(values, reverse=True)


@given(lists, st.integers(1, 25))
def test_interpolate_zero_is_the_identity(scores: Lists, depth: int) -> None:
    before = ranking(scores[0])
    (after,) = stage(Table(scores[1]), depth=depth, interpolate=0.0)([before])
    assert [(hit.id, hit.score) for hit in after.hits] == [(hit.id, hit.score) for hit in before.hits]


@given(lists)
def test_interpolate_one_is_the_rerankers_order_and_equal_scores_stay_as_they_stood(scores: Lists) -> None:
    before = ranking(scores[0])
    (after,) = stage(Table(scores[1]), depth=100, interpolate=1.0)([before])
    wanted = sorted(before.hits, key=lambda hit: -scores[1][hit.row])
    assert [hit.id for hit in after.hits] == [hit.id for hit in wanted]


@given(lists, st.floats(0, 1))
def test_every_hit_that_was_read_says_how_it_moved(scores: Lists, interpolate: float) -> None:
    before = ranking(scores[0])
    (after,) = stage(Table(scores[1]), depth=5, interpolate=interpolate)([before])
    for hit in after.hits:
        place = next(at for at, each in enumerate(before.hits) if each.id == hit.id)
        if place >= 5:
            assert hit.reranked is None
            continue
        assert hit.reranked is not None
        assert (hit.reranked.scorer, hit.reranked.before) == ("table", place + 1)
        assert hit.reranked.retrieval_score == before.hits[place].score
        assert hit.reranked.score == scores[1][hit.row]
        assert hit.evidence == before.hits[place].evidence


@given(lists, st.integers(1, 25), st.integers(1, 25))
def test_where_only_judged_hits_are_passed_on_no_other_pads_them(scores: Lists, depth: int, keep: int) -> None:
    before, options = ranking(scores[0]), {"depth": depth, "keep": keep, "interpolate": 1.0}
    (after,) = stage(Table(scores[1]), judged_only=True, **options)([before])
    (padded,) = stage(Table(scores[1]), **options)([before])
    assert all(hit.reranked is not None for hit in after.hits)
    assert [hit.id for hit in after.hits] == [hit.id for hit in padded.hits if hit.reranked is not None]


def test_only_as_many_are_read_as_asked_for_and_handed_on() -> None:
    table = Table(range(20))
    (after,) = stage(table, depth=3, keep=2)([ranking(range(20))])
    assert table.asked == [[19, 18, 17]]
    assert len(after.hits) == 2


def test_below_the_least_score_nothing_is_handed_on_and_nothing_unread() -> None:
    (after,) = stage(Table([5, 1, 4, 3, 2]), depth=4, min_score=3.0)([ranking([5, 4, 3, 2, 1])])
    assert {hit.row for hit in after.hits} == {0, 2, 3}
