"""Boosts: what matches rises, or falls, by a factor on how far it stands above the floor of its list."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from samples import Program

from retrieve_cli.contracts import Hit, Query, Ranking
from retrieve_cli.retrieval.stages.boost import Boost, Boosted, day_of, floor_of

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


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026", date(2026, 1, 1)), ("2026-11", date(2026, 11, 1)), ("2026-11-27", date(2026, 11, 27)),
        ("2026-11-27T10:00:00Z", date(2026, 11, 27)), ("2026-02-30", None), ("20261127", None), ("v2026", None),
        ("12", None), ("2026-11-277", None), ("", None),
    ],
)  # fmt: skip
def test_days_are_read_from_iso_8601_and_nothing_else(text: str, day: date | None) -> None:
    assert day_of(text) == (None if day is None else day.toordinal())


def test_recent_records_rise_and_those_without_a_date_stay(catalog: Path, retrieve: Program) -> None:
    dates = ["2026-06-01", "2025-06-01", None, "2016-06-01"]
    lines = [{"id": f"r{n}", "name": "kettle", "description": "boils water", "updated": day}
             for n, day in enumerate(dates)]  # fmt: skip
    catalog.write_text("".join(json.dumps({**line, "description": f"boils water {'slowly ' * n}"}) + "\n"
                               for n, line in enumerate(lines)), "utf-8")  # fmt: skip
    assert retrieve("build", catalog).code == 0
    plain = retrieve("query", "kettle", "--mode", "bm25", "--no-rerank", "--json").json
    Path("config.yaml").write_text("recency: {field: updated, half_life: 365}\n", "utf-8")
    moved = retrieve("query", "kettle", "--mode", "bm25", "--no-rerank", "--json", "--explain").json
    before, after = ({hit["doc_id"]: hit["score"] for hit in found["results"]} for found in (plain, moved))
    floor = floor_of(list(before.values()))
    factors = {name: (after[name] - floor) / (before[name] - floor) for name in before}
    assert factors == pytest.approx({"r0": 2.0, "r1": 1.5, "r2": 1.0, "r3": 1 + 2 ** (-3652 / 365)}, rel=1e-6)
    assert moved["pipeline"].endswith("> recency(updated, 365 d)")
    with catalog.open("a") as file:
        file.write(json.dumps({"id": "typo", "name": "lid", "description": "closes a pot", "updated": "9026-06-01"}))
    assert retrieve("build", catalog).code == 0
    again = retrieve("query", "kettle", "--mode", "bm25", "--no-rerank", "--json").json["results"]
    weights = [hit["source_scores"]["recency"]["weight"] for hit in again if hit["doc_id"] in ("r0", "r1")]
    assert weights == pytest.approx([1.0, 0.5]), "one date in the future does not make all others old"
    assert "recent" in retrieve("query", "kettle", "--mode", "bm25", "--no-rerank").out
    Path("config.yaml").write_text("recency: {field: license}\n", "utf-8")
    assert "no record has a date in license" in retrieve("query", "kettle").err
