"""What hits lead to comes in behind them, on their scale, within the filter."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from retrieve_cli.contracts import Evidence, Hit, Query, Ranking
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.stages.expand import Expand, LinkedRecord, Support
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout

RECORDS = 12
LAYOUT = ChunkLayout(np.arange(RECORDS + 1), lambda row: f"r{row}#0")


def ranking(scores: dict[int, float], allowed: np.ndarray | None = None) -> Ranking:
    hits = [Hit(f"r{record}#0", record, record, score) for record, score in scores.items()]
    return Ranking.of(Query("q", records=allowed), hits)


def expanded(before: Ranking, found: Sequence[LinkedRecord], seeds: int = 3) -> Ranking:
    (after,) = Expand(lambda *_: list(found), LAYOUT, seeds=seeds, floor=50, depth=2)([before])
    return after


scores = st.dictionaries(st.integers(0, RECORDS - 1), st.floats(-3, 3), min_size=1, max_size=8)
paths = st.lists(
    st.builds(LinkedRecord, st.integers(0, RECORDS - 1), st.floats(0, 0.9), st.just(lambda: "a —requires→ b (0.42)")),
    max_size=6,
    unique_by=lambda found: found.record,
)


@given(scores, paths)
def test_the_first_stays_first_and_nobody_falls(own: dict[int, float], found: list[LinkedRecord]) -> None:
    before = ranking(own)
    after = expanded(before, found)
    assert after.hits[0].id == before.hits[0].id
    now = {hit.record: hit.score for hit in after.hits}
    assert all(now[hit.record] >= hit.score for hit in before.hits)
    assert set(now) <= set(own) | {each.record for each in found}


@given(scores, paths, st.lists(st.booleans(), min_size=RECORDS, max_size=RECORDS))
def test_nothing_comes_in_that_the_filter_does_not_let_through(
    own: dict[int, float], found: list[LinkedRecord], flags: list[bool]
) -> None:
    allowed = np.array(flags)
    before = ranking({record: score for record, score in own.items() if allowed[record]}, allowed)
    assert all(allowed[hit.record] for hit in expanded(before, found).hits)


# ---------------------------------------------------------------------------------------- placed by their support

MANY = 80
WIDE = ChunkLayout(np.arange(MANY + 1), lambda row: f"r{row:02}#0")


def supported(record: int, score: float, **ranks: int | None) -> Hit:
    """A hit with its rank on the lists of retrievers, or in the evidence of other stages."""
    why = tuple(Evidence(name, rank, score, score, 1.0) for name, rank in ranks.items())
    return Hit(f"r{record:02}#0", record, record, score, why)


def apart(found: Sequence[LinkedRecord], *, rank: int = 5, related: int = 3) -> Expand:
    """A stage that lists linked records apart, unless a retriever has them among its first ones."""
    support = Support(("bm25", "dense"), rank)
    return Expand(lambda *_: list(found), WIDE, seeds=3, floor=50, depth=2, support=support, related=related)


def test_an_edge_raises_only_a_hit_that_a_retriever_has_among_its_first_ones() -> None:
    hits = [
        supported(0, 3.0, bm25=1),
        supported(1, 2.0, bm25=2),
        supported(2, 1.0, bm25=None, dense=5),
        supported(3, 0.9, bm25=6, dense=None),
        supported(4, 0.8, boost=1, graph=1),
    ]
    paths = [LinkedRecord(record, 0.9, partial("r0 —requires→ r{}".format, record)) for record in (2, 3, 4, 5)]
    (after,) = apart(paths)([Ranking.of(Query("q"), hits)])
    assert [hit.record for hit in after.hits] == [0, 2, 1, 3, 4]
    assert [hit.record for hit in after.hits if hit.path] == [2]
    assert after.trace["expansion"] == {"seeds": 3, "found": 4, "raised": 1}


@given(scores, paths, st.integers(1, 8))
def test_without_support_the_order_of_hits_is_that_without_edges(
    own: dict[int, float], drawn: list[LinkedRecord], related: int
) -> None:
    found = sorted(drawn, key=lambda each: -each.score)
    before = ranking(own)
    stage = apart(found, related=related)
    (after,) = stage([before])
    assert after.hits == before.hits
    linked = stage.linked(after)
    best = sorted((each.score for each in found if each.record not in own), reverse=True)[:related]
    assert [hit.evidence[-1].score for hit in linked] == best
    assert not {hit.record for hit in linked} & set(own)
    assert all(hit.score <= before.hits[0].score for hit in linked)


def test_linked_records_are_those_of_the_results_that_are_left_and_pass_the_filter() -> None:
    asked: list[Sequence[tuple[int, float]]] = []

    def walk(seeds: Sequence[tuple[int, float]], visible: Any) -> list[LinkedRecord]:
        asked.append(seeds)
        return [LinkedRecord(record, 0.5, str) for record in (1, 7, 8, 9)]

    support = Support(("bm25",), 5)
    stage = Expand(walk, WIDE, seeds=2, floor=50, depth=2, support=support, related=5)
    allowed = np.arange(MANY) != 8
    results = Ranking.of(Query("q", records=allowed), [supported(0, 3.0), supported(1, 2.0), supported(2, 1.0)])
    assert [hit.record for hit in stage.linked(results)] == [7, 9]
    assert [hit.record for hit in stage.linked(results.first(1))] == [1, 7, 9]
    assert [[row for row, _ in seeds] for seeds in asked] == [[0, 1], [0]]
    assert all(0 < share <= 1 for seeds in asked for _, share in seeds)
    assert stage.linked(results.first(0)) == ()
    assert replace(stage, related=0).linked(results) == ()
