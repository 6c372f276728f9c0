"""What hits lead to comes in behind them, on their scale, within the filter."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from retrieve_cli.contracts import Hit, Query, Ranking
from retrieve_cli.stages.expand import Expand, Found
from retrieve_cli.stages.retrieve import Layout

RECORDS = 12
LAYOUT = Layout(np.arange(RECORDS + 1), lambda row: f"r{row}#0")


def ranking(scores: dict[int, float], allowed: np.ndarray | None = None) -> Ranking:
    hits = [Hit(f"r{record}#0", record, record, score) for record, score in scores.items()]
    return Ranking.of(Query("q", records=allowed), hits)


def expanded(before: Ranking, found: Sequence[Found], seeds: int = 3) -> Ranking:
    (after,) = Expand(lambda *_: list(found), LAYOUT, seeds=seeds, floor=50, depth=2)([before])
    return after


scores = st.dictionaries(st.integers(0, RECORDS - 1), st.floats(-3, 3), min_size=1, max_size=8)
paths = st.lists(
    st.builds(Found, st.integers(0, RECORDS - 1), st.floats(0, 0.9), st.just("a —requires→ b (0.42)")),
    max_size=6,
    unique_by=lambda found: found.record,
)


@given(scores, paths)
def test_the_first_stays_first_and_nobody_falls(own: dict[int, float], found: list[Found]) -> None:
    before = ranking(own)
    after = expanded(before, found)
    assert after.hits[0].id == before.hits[0].id
    now = {hit.record: hit.score for hit in after.hits}
    assert all(now[hit.record] >= hit.score for hit in before.hits)
    assert set(now) <= set(own) | {each.record for each in found}


@given(scores, paths, st.lists(st.booleans(), min_size=RECORDS, max_size=RECORDS))
def test_nothing_comes_in_that_the_filter_does_not_let_through(
    own: dict[int, float], found: list[Found], flags: list[bool]
) -> None:
    allowed = np.array(flags)
    before = ranking({record: score for record, score in own.items() if allowed[record]}, allowed)
    assert all(allowed[hit.record] for hit in expanded(before, found).hits)


def test_a_score_of_a_path_lies_between_the_floor_and_the_top_and_its_hit_says_why() -> None:
    before = ranking({0: 3.0, 1: 2.0, 2: 1.0})
    after = expanded(before, [Found(5, 0.7, "r0 —requires→ r5 (0.70)"), Found(2, 0.9, "r0 —requires→ r2 (0.90)")])
    assert [(hit.record, round(hit.score, 6)) for hit in after.hits] == [(0, 3.0), (2, 2.8), (5, 2.4), (1, 2.0)]
    new = after.hits[2]
    assert (new.path, new.evidence[-1].source, new.evidence[-1].score) == ("r0 —requires→ r5 (0.70)", "graph", 0.7)
    assert after.trace["expansion"] == {"seeds": 3, "found": 2, "raised": 2}


def test_a_walk_starts_from_the_first_hits_with_their_share_of_the_range() -> None:
    asked: list[Sequence[tuple[int, float]]] = []

    def walk(seeds: Sequence[tuple[int, float]], visible: Any) -> list[Found]:
        assert visible is None
        asked.append(seeds)
        return []

    before = ranking({4: 3.0, 1: 2.0, 2: 1.0})
    assert Expand(walk, LAYOUT, seeds=2, floor=50, depth=2)([before])[0].hits == before.hits
    assert asked == [[(4, 1.0), (1, 0.5)]]


def test_where_all_hits_are_worth_the_same_what_they_are_worth_is_the_range() -> None:
    after = expanded(ranking({0: 2.0, 1: 2.0}), [Found(5, 0.5, "")])
    assert [(hit.record, hit.score) for hit in after.hits] == [(0, 2.0), (1, 2.0), (5, 1.0)]
    after = expanded(ranking({0: 0.0}), [Found(5, 0.5, "")])
    assert [(hit.record, hit.score) for hit in after.hits] == [(0, 0.0), (5, -0.5)]
    assert expanded(ranking({}), [Found(5, 0.5, "")]).hits == ()
