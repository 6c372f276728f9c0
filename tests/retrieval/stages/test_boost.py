"""Boosts: what matches rises, or falls, by a factor on how far it stands above the floor of its list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from retrieve_cli.contracts import Hit, Query, Ranking
from retrieve_cli.retrieval.stages.boost import Boost, Boosted, floor_of

scores = st.lists(st.integers(-50, 50).map(lambda number: number / 8), min_size=1, max_size=12)
factors = st.sampled_from([0.25, 0.5, 0.9, 1.1, 1.5, 2.0, 10.0])


def ranked(values: list[float]) -> Ranking:
    return Ranking.of(Query("0"), [Hit(f"{row:02}#0", row, row, value) for row, value in enumerate(values)])


@given(values=scores, factor=factors, data=st.data())
def test_a_factor_above_one_always_raises_and_one_below_always_lowers(
    values: list[float], factor: float, data: st.DataObject
) -> None:
    mask = data.draw(hnp.arrays(np.bool_, len(values)))
    ranking = ranked(values)
    stage = Boost((Boosted("x:1", factor, mask),))
    (moved,) = stage([ranking])
    before = {hit.id: (rank, hit) for rank, hit in enumerate(ranking.hits)}
    floor = floor_of(values)
    for rank, hit in enumerate(moved.hits):
        was, old = before[hit.id]
        if not mask[hit.record]:
            assert hit is old
            continue
        assert (hit.score > old.score) is (factor > 1)
        assert hit.score > floor
        (why,) = hit.evidence
        assert (why.source, why.rank, why.score) == ("boost", was + 1, old.score)
        assert hit.score == pytest.approx(old.score + why.weight * why.normalized)
        others = sum(not mask[each.record] for each in moved.hits[:rank])
        assert others <= sum(not mask[each.record] for each in ranking.hits[:was]) or factor < 1


def test_factors_of_several_boosts_are_multiplied_and_those_of_chunks_hold_for_the_chunk_shown() -> None:
    ranking = Ranking.of(Query("0"), [Hit("0#1", 1, 0, 3.0), Hit("1#0", 2, 1, 1.0)])
    records, chunks = np.array([True, True]), np.array([True, False, True])
    stage = Boost((Boosted("a=b:2", 2.0, records), Boosted("section=c:1.5", 1.5, records, chunks)))
    (moved,) = stage([ranking])
    assert floor_of([3.0, 1.0]) == 0.0
    assert {hit.id: hit.score for hit in moved.hits} == {"0#1": 6.0, "1#0": 3.0}
    assert str(stage) == "boost(a=b:2, section=c:1.5)"
    assert moved.trace["boost"] == {"floor": 0.0, "boosted": 2}


def test_no_hits_are_no_trouble_and_equal_ones_are_told_apart() -> None:
    stage = Boost((Boosted("a=b:2", 2.0, np.array([False, True])),))
    assert stage([ranked([])])[0].hits == ()
    assert [hit.record for hit in stage([ranked([0.0, 0.0])])[0].hits] == [1, 0]
