"""The laws of fusion, whatever the formula: what may change without changing an answer, and what an answer tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from retrieve_cli.contracts import Field, Query, Ranking
from retrieve_cli.retrievers.analyzer import Analyzer
from retrieve_cli.retrievers.bm25 import Bm25Index, Bm25Writer, Formula
from retrieve_cli.stages.fuse import Fuse
from retrieve_cli.stages.fusion import Fusion, highest, minmax, reciprocal_rank, weighted_sum, zscore
from retrieve_cli.stages.pool import Pool, gather
from retrieve_cli.stages.retrieve import Layout, Leg, Retrieve
from retrieve_cli.storage import pickles

MakeLeg = Callable[..., Leg]
MakeLayout = Callable[..., Layout]

FORMULAS = [("rrf", "zscore"), ("weighted", "zscore"), ("weighted", "zscore_candidates"), ("weighted", "minmax")]
ANY = [Ranking(Query("0"))]

formulas = st.sampled_from(FORMULAS)
weights = st.floats(0.05, 4)


@st.composite
def tables(draw: st.DrawFn, legs: int = 2, queries: int = 1) -> Any:
    """(legs, queries, rows) float32 scores, ties included."""
    rows = draw(st.integers(1, 12))
    quarters = hnp.arrays(np.int16, (legs, queries, rows), elements=st.integers(-40, 40))
    return draw(quarters).astype(np.float32) / 4


def fuse(legs: list[Leg], formula: tuple[str, str], weights: list[float] | None = None, keep: int = 1000) -> Fuse:
    method, normalization = formula
    named = dict(zip((leg.name for leg in legs), weights or [1.0] * len(legs), strict=True))
    return Fuse(legs, fusion=Fusion(method, normalization, 60, named), keep=keep)  # type: ignore[arg-type]


def scores(ranking: Ranking) -> dict[int, float]:
    return {hit.row: hit.score for hit in ranking.hits}


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-9, abs=1e-9)


def bm25_leg(path: Path, texts: list[str], **options: Any) -> Leg:
    """A leg of words: only rows with a term of the query are listed."""
    writer = Bm25Writer(analyzer=Analyzer(), unit="chunk", formula=Formula())
    for text in texts:
        writer.add([Field("text", text)])
    writer.write(path / "bm25.pkl")
    layout = Layout(np.arange(len(texts) + 1), lambda row: f"{row:02}#0")
    return Leg("bm25", Bm25Index(pickles.load(path / "bm25.pkl")), list, layout, "chunk", options.get("depth", 1000))


# ---------------------------------------------------------------------------------------------------- laws


@given(table=tables(legs=3), formula=formulas, shares=st.tuples(weights, weights, weights), depth=st.integers(1, 12))
def test_the_order_of_the_legs_changes_nothing(
    make_leg: MakeLeg, table: Any, formula: tuple[str, str], shares: tuple[float, ...], depth: int
) -> None:
    legs = [make_leg(f"leg{at}", part, depth=depth) for at, part in enumerate(table)]

    (forward,) = fuse(legs, formula, list(shares))(ANY)
    (backward,) = fuse(legs[::-1], formula, list(shares)[::-1])(ANY)

    assert scores(forward) == close(scores(backward))


@given(table=tables(), formula=formulas, data=st.data())
def test_the_order_of_the_rows_changes_nothing_where_scores_differ(
    make_leg: MakeLeg, table: Any, formula: tuple[str, str], data: st.DataObject
) -> None:
    rows = table.shape[2]
    table = table + np.arange(rows, dtype=np.float32) / 128  # quarters of a point apart or not at all: now all differ
    order = data.draw(st.permutations(range(rows)))

    (plain,) = fuse([make_leg("a", table[0]), make_leg("b", table[1])], formula)(ANY)
    (moved,) = fuse([make_leg("a", table[0][:, order]), make_leg("b", table[1][:, order])], formula)(ANY)

    assert {order[row]: score for row, score in scores(moved).items()} == close(scores(plain))


@given(
    table=tables(), normalization=st.sampled_from(["zscore", "zscore_candidates", "minmax"]), depth=st.integers(1, 12)
)
def test_a_weight_of_zero_equals_the_leg_removed_for_what_the_other_lists(
    make_leg: MakeLeg, table: Any, normalization: str, depth: int
) -> None:
    kept, silent = (make_leg(f"leg{at}", part, depth=depth) for at, part in enumerate(table))

    (alone,) = fuse([kept], ("weighted", normalization), [0.7])(ANY)
    (both,) = fuse([kept, silent], ("weighted", normalization), [0.7, 0.0])(ANY)

    listed = scores(alone)
    assert {row: score for row, score in scores(both).items() if row in listed} == close(listed)


@given(table=tables(), formula=formulas, shares=st.tuples(weights, weights), depth=st.integers(1, 12))
def test_the_evidence_adds_up_to_the_score(
    make_leg: MakeLeg, table: Any, formula: tuple[str, str], shares: tuple[float, float], depth: int
) -> None:
    legs = [make_leg(f"leg{at}", part, depth=depth) for at, part in enumerate(table)]

    (ranking,) = fuse(legs, formula, list(shares))(ANY)

    for hit in ranking.hits:
        assert [each.leg for each in hit.evidence] == ["leg0", "leg1"]
        assert hit.score == close(sum(each.weight * each.normalized for each in hit.evidence))


@given(table=tables(), formula=formulas, depth=st.integers(1, 12))
def test_every_raw_score_in_the_evidence_is_the_legs_own_and_every_rank_its_place(
    make_leg: MakeLeg, table: Any, formula: tuple[str, str], depth: int
) -> None:
    legs = [make_leg(f"leg{at}", part, depth=depth) for at, part in enumerate(table)]
    lists = [leg.find(leg.prepare(["0"]))[0].rows.tolist() for leg in legs]

    (ranking,) = fuse(legs, formula)(ANY)

    assert set(scores(ranking)) == {row for listed in lists for row in listed}
    for hit in ranking.hits:
        for why, part, listed in zip(hit.evidence, table, lists, strict=True):
            assert why.score == part[0, hit.row]
            assert why.rank == (listed.index(hit.row) + 1 if hit.row in listed else None)


@given(table=tables(legs=2, queries=4), formula=formulas, asked=st.lists(st.integers(0, 3), max_size=5))
def test_a_batch_answers_as_its_queries_do_one_by_one_and_in_their_order(
    make_leg: MakeLeg, table: Any, formula: tuple[str, str], asked: list[int]
) -> None:
    legs = [make_leg(f"leg{at}", part, depth=5) for at, part in enumerate(table)]
    rankings = [Ranking(Query(str(number), id=f"{at}")) for at, number in enumerate(asked)]

    for stage in (fuse(legs, formula), Retrieve(legs[0], keep=3)):
        assert stage(rankings) == [stage([ranking])[0] for ranking in rankings]
        assert [ranking.query for ranking in stage(rankings)] == [ranking.query for ranking in rankings]


# ------------------------------------------------------------------------------------------------ the edges


@given(table=tables())
def test_zscores_are_over_all_rows_however_few_are_listed(make_leg: MakeLeg, table: Any) -> None:
    shallow = fuse([make_leg("a", table[0], depth=1)], ("weighted", "zscore"))
    row = table[0, 0].astype(np.float64)

    (ranking,) = shallow(ANY)

    expected = (row.max() - row.mean()) / row.std() if np.ptp(row) > 0 else 0.0
    assert ranking.hits[0].score == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("formula", FORMULAS[1:], ids="-".join)
def test_a_leg_without_any_match_leaves_the_order_to_the_other(
    make_leg: MakeLeg, formula: tuple[str, str], tmp_path: Path
) -> None:
    words = bm25_leg(tmp_path, ["lung", "liver", "spleen"])
    other = make_leg("dense", [[0.1, 0.9, 0.5]])
    axis = other.prepare(["0"])
    dense = Leg("dense", other.index, lambda texts: axis * len(texts), words.layout, "chunk", 1000)

    (ranking,) = fuse([words, dense], formula)([Ranking(Query("kidney"))])

    assert [hit.row for hit in ranking.hits] == [1, 2, 0]
    assert all(hit.evidence[0].rank is None and hit.evidence[0].normalized == 0 for hit in ranking.hits)


@pytest.mark.parametrize("formula", FORMULAS, ids="-".join)
def test_legs_that_all_find_nothing_give_an_empty_ranking(formula: tuple[str, str], tmp_path: Path) -> None:
    words = bm25_leg(tmp_path, ["lung", "liver"])

    assert fuse([words, words], formula)([Ranking(Query("kidney"))]) == [Ranking(Query("kidney"))]


@pytest.mark.parametrize("formula", FORMULAS[1:], ids="-".join)
@given(value=st.floats(-100, 100, width=32), rows=st.integers(1, 40))
def test_a_leg_whose_scores_are_all_equal_has_no_say_in_the_order(
    make_leg: MakeLeg, formula: tuple[str, str], value: float, rows: int
) -> None:
    level = make_leg("level", np.full((1, rows), value))
    rising = make_leg("rising", np.arange(rows)[None])

    (ranking,) = fuse([level, rising], formula)(ANY)

    assert [hit.row for hit in ranking.hits] == list(range(rows))[::-1]
    assert len({hit.evidence[0].normalized for hit in ranking.hits}) == 1


def test_a_leg_that_lists_one_row_says_more_for_it_than_for_those_it_does_not_list(
    make_leg: MakeLeg, tmp_path: Path
) -> None:
    words = bm25_leg(tmp_path, ["lung", "liver", "spleen"])
    axis = np.ones(1, np.float32)
    level = make_leg("dense", [[0.5, 0.5, 0.5]])
    dense = Leg("dense", level.index, lambda texts: [axis] * len(texts), words.layout, "chunk", 1000)

    (ranking,) = fuse([words, dense], ("weighted", "minmax"))([Ranking(Query("liver"))])

    assert ranking.hits[0].row == 1
    assert ranking.hits[0].score > ranking.hits[1].score


@given(ranks=hnp.arrays(np.int64, st.integers(0, 20), elements=st.integers(0, 1000)), k=st.floats(0.5, 100))
def test_a_reciprocal_rank_is_zero_for_the_unlisted_and_falls_with_the_rank(ranks: Any, k: float) -> None:
    for rank, share in zip(ranks, reciprocal_rank(ranks, k=k), strict=True):
        assert share == (1 / (k + rank) if rank else 0)


def test_the_formulas_do_what_their_names_say() -> None:
    values = np.array([1.0, 2.0, 4.0])

    assert minmax(values, low=1, high=3).tolist() == [0, 0.5, 1.5]
    assert zscore(values, mean=2, deviation=0.5).tolist() == [-2, 0, 4]
    assert zscore(values, mean=2, deviation=0).tolist() == [0, 0, 0]
    assert weighted_sum(np.array([values, values]), np.array([1.0, -0.5])).tolist() == [0.5, 1, 2]


def test_a_stage_prints_as_the_expression_that_made_it(make_leg: MakeLeg) -> None:
    stage = fuse([make_leg("bm25", [[1]], depth=200), make_leg("dense", [[1]], depth=50)], FORMULAS[0])

    assert str(stage) == "fuse(bm25@200, dense@50)"
    assert str(Fusion("rrf")) == "rrf(k=60)"
    assert str(Fusion(*FORMULAS[3])) == "weighted(minmax)"  # type: ignore[arg-type]


@given(table=tables(), formula=formulas, keep=st.integers(1, 12), depth=st.integers(1, 12))
def test_what_is_handed_on_is_the_beginning_of_the_whole_ranking(
    make_leg: MakeLeg, table: Any, formula: tuple[str, str], keep: int, depth: int
) -> None:
    legs = [make_leg(f"leg{at}", part, depth=depth) for at, part in enumerate(table)]

    (whole,) = fuse(legs, formula)(ANY)
    (beginning,) = fuse(legs, formula, keep=keep)(ANY)

    assert beginning == whole.first(keep)
    assert Retrieve(legs[0], keep=keep)(ANY)[0] == Retrieve(legs[0], keep=1000)(ANY)[0].first(keep)


@given(table=tables(), formula=formulas, depth=st.integers(1, 12))
def test_a_pool_that_is_cut_is_the_pool_of_legs_that_were_asked_for_less(
    make_leg: MakeLeg, table: Any, formula: tuple[str, str], depth: int
) -> None:
    def pool(depth: int) -> Pool:
        legs = [make_leg(f"leg{at}", part, depth=depth) for at, part in enumerate(table)]
        asked = [leg.prepare(["0"])[0] for leg in legs]
        return gather(legs, asked, [leg.find([query])[0] for leg, query in zip(legs, asked, strict=True)])

    fusion = Fusion(*formula)  # type: ignore[arg-type]
    cut, asked = pool(100).cut(depth), pool(depth)

    assert cut.rows.tolist() == asked.rows.tolist()
    assert cut.ranks.tolist() == asked.ranks.tolist()
    assert cut.contributions(fusion).tolist() == asked.contributions(fusion).tolist()


@given(hnp.arrays(np.float64, st.integers(0, 12), elements=st.integers(-3, 3)), st.integers(1, 14))
def test_the_highest_are_so_many_and_their_equals(values: Any, count: int) -> None:
    least = sorted(values, reverse=True)[:count]
    assert sorted(values[highest(values, count)], reverse=True) == sorted(
        (value for value in values if not least or value >= least[-1]), reverse=True
    )
