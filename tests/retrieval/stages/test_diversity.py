"""The laws of caps and of maximal marginal relevance, the latter against its formula in plain loops."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from retrieve_cli.contracts import Evidence, Hit, Query, Ranking
from retrieve_cli.retrieval.stages.diversity import Limit, Mmr, per_group, per_source

GROUPS = np.array([0, 0, 1, 1, 2, -1, -1, -1], np.int32)

places = st.lists(st.integers(0, 7), max_size=20)
counts = st.integers(1, 4)

Case = tuple[Ranking, Any]


def ranking(records: list[int], **options: Any) -> Ranking:
    """Chunks of these records, in this order."""
    hits = [Hit(f"{at:02}", at, record, -float(at)) for at, record in enumerate(records)]
    return Ranking(Query("q"), tuple(hits), **options)


# ---------------------------------------------------------------------------------------------------- caps


@given(places, counts, counts, st.integers(1, 20))
def test_caps_hold_and_what_is_left_stands_as_it_stood(
    records: list[int], sources: int, groups: int, keep: int
) -> None:
    before = ranking(records)
    (after,) = Limit((per_source(sources), per_group(groups, GROUPS)), keep=keep)([before])
    left = [hit.record for hit in after.hits]
    assert all(count <= sources for count in Counter(left).values())
    assert all(count <= groups for group, count in Counter(GROUPS[left].tolist()).items() if group >= 0)
    kept = set(after.hits)
    assert after.hits == tuple(hit for hit in before.hits if hit in kept)
    assert len(after.hits) <= keep


@given(places, counts, st.integers(1, 20))
def test_a_hit_is_handed_on_or_cut_for_a_reason_or_comes_after_enough(
    records: list[int], sources: int, keep: int
) -> None:
    before = ranking(records)
    (after,) = Limit((per_source(sources),), keep=keep)([before])
    cut = [each["id"] for each in after.trace["diversity"]["cut"]]
    seen = sorted([*cut, *(hit.id for hit in after.hits)])
    assert seen == [hit.id for hit in before.hits[: len(seen)]]
    assert len(after.hits) == keep or len(seen) == len(before.hits)
    for name in cut:
        earlier = [hit.record for hit in after.hits if hit.id < name]
        assert earlier.count(records[int(name)]) == sources


# ---------------------------------------------------------------------------------------------------- mmr


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A ranking with ties, and unit vectors of its rows; products are exact, so that ties are ties."""
    size = draw(st.integers(1, 10))
    signs = draw(hnp.arrays(np.int8, (size, 4), elements=st.sampled_from([-1, 1])))
    scores = draw(st.lists(st.integers(-8, 8), min_size=size, max_size=size))
    why = (Evidence("dense", None, 1.0, 1.0, 1.0),)
    hits = [Hit(f"{row:02}", row, row, score / 4, why) for row, score in enumerate(scores)]
    return Ranking.of(Query("q"), hits), signs.astype(np.float32) / 2


def diversified(case: Case, trade_off: float, keep: int = 100) -> Ranking:
    before, vectors = case
    (after,) = Mmr(lambda rows: vectors[rows], trade_off=trade_off, keep=keep)([before])
    return after


def in_plain_loops(case: Case, trade_off: float, keep: int) -> list[int]:
    """The rows that Carbonell and Goldstein's formula chooses, one after the other."""
    before, vectors = case
    scores = [hit.score for hit in before.hits]
    low, high = min(scores), max(scores)
    left, chosen = list(before.hits), []
    while left and len(chosen) < keep:
        worths = []
        for hit in left:
            relevance = (hit.score - low) / (high - low) if high > low else 1.0
            alike = max([0.0, *(float(vectors[hit.row] @ vectors[row]) for row in chosen)])
            worths.append(trade_off * relevance - (1.0 - trade_off) * alike)
        chosen.append(left.pop(worths.index(max(worths))).row)
    return chosen


@given(cases(), st.floats(0.05, 1), st.integers(1, 12))
def test_it_chooses_what_the_formula_chooses(case: Case, trade_off: float, keep: int) -> None:
    assert [hit.row for hit in diversified(case, trade_off, keep).hits] == in_plain_loops(case, trade_off, keep)


@given(cases(), st.floats(0.01, 1))
def test_scores_never_contradict_the_order_and_never_exceed_what_they_were(case: Case, trade_off: float) -> None:
    after = diversified(case, trade_off)
    scores = [hit.score for hit in after.hits]
    assert scores == sorted(scores, reverse=True)
    assert after.hits[0] is not case[0].hits[0]
    assert (after.hits[0].id, after.hits[0].score) == (case[0].hits[0].id, case[0].hits[0].score)
    was = {hit.id: hit.score for hit in case[0].hits}
    assert {hit.id for hit in after.hits} == set(was)
    assert all(hit.score <= was[hit.id] for hit in after.hits)


@given(cases(), st.floats(0.05, 1))
def test_the_evidence_tells_rank_and_score_before_and_adds_up(case: Case, trade_off: float) -> None:
    places = {hit.id: (rank, hit) for rank, hit in enumerate(case[0].hits, 1)}
    for hit in diversified(case, trade_off).hits:
        rank, before = places[hit.id]
        *others, why = hit.evidence
        assert tuple(others) == before.evidence
        assert (why.source, why.rank, why.score) == ("mmr", rank, before.score)
        assert hit.score == pytest.approx(before.score + why.weight * why.normalized, abs=1e-9)
