"""The laws of fusion, whatever the formula: what may change without changing an answer, and what an answer tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from retrieval.stages.retrievers import ASKED, make_retriever, make_retrievers

from retrieve_cli.contracts import Query, Ranking
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Fusion
from retrieve_cli.retrieval.stages.retrieve import IndexRetrieval, Retrieval, Retrieve

FORMULAS = [("rrf", "zscore"), ("weighted", "zscore"), ("weighted", "zscore_candidates"), ("weighted", "minmax")]

formulas = st.sampled_from(FORMULAS)
weights = st.floats(0.05, 4)


@st.composite
def tables(draw: st.DrawFn, retrievers: int = 2, queries: int = 1) -> Any:
    """(retrievers, queries, rows) float32 scores, ties included."""
    rows = draw(st.integers(1, 12))
    quarters = hnp.arrays(np.int16, (retrievers, queries, rows), elements=st.integers(-40, 40))
    return draw(quarters).astype(np.float32) / 4


Formula = tuple[str, str]
Legs = list[IndexRetrieval[Any]]


def legs(count: int) -> st.SearchStrategy[Legs]:
    """Retrievers over tables, asked to one depth."""
    return st.builds(make_retrievers, tables(retrievers=count), depth=st.integers(1, 12))


def fuse(
    retrievers: Sequence[Retrieval], formula: Formula, weights: list[float] | None = None, keep: int = 1000
) -> Fuse:
    method, normalization = formula
    named = dict(zip((retriever.name for retriever in retrievers), weights or [1.0] * len(retrievers), strict=True))
    return Fuse(tuple(retrievers), fusion=Fusion(method, normalization, 60, named), keep=keep)  # type: ignore[arg-type]


def scores(ranking: Ranking) -> dict[int, float]:
    return {hit.row: hit.score for hit in ranking.hits}


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-9, abs=1e-9)


# ---------------------------------------------------------------------------------------------------- laws


@given(table=tables(), formula=formulas, data=st.data())
def test_the_order_of_the_rows_changes_nothing_where_scores_differ(
    table: Any, formula: Formula, data: st.DataObject
) -> None:
    rows = table.shape[2]
    table = table + np.arange(rows, dtype=np.float32) / 128  # quarters of a point apart or not at all: now all differ
    order = data.draw(st.permutations(range(rows)))

    (plain,) = fuse([make_retriever("a", table[0]), make_retriever("b", table[1])], formula)(ASKED)
    (moved,) = fuse([make_retriever("a", table[0][:, order]), make_retriever("b", table[1][:, order])], formula)(ASKED)

    assert {order[row]: score for row, score in scores(moved).items()} == close(scores(plain))


@given(retrievers=legs(2), normalization=st.sampled_from(["zscore", "zscore_candidates", "minmax"]))
def test_a_weight_of_zero_equals_the_retriever_removed_for_what_the_other_lists(
    retrievers: Legs, normalization: str
) -> None:
    kept, silent = retrievers

    (alone,) = fuse([kept], ("weighted", normalization), [0.7])(ASKED)
    (both,) = fuse([kept, silent], ("weighted", normalization), [0.7, 0.0])(ASKED)

    listed = scores(alone)
    assert {row: score for row, score in scores(both).items() if row in listed} == close(listed)


@given(retrievers=legs(2), formula=formulas, shares=st.tuples(weights, weights))
def test_the_evidence_adds_up_to_the_score(retrievers: Legs, formula: Formula, shares: tuple[float, ...]) -> None:
    (ranking,) = fuse(retrievers, formula, list(shares))(ASKED)

    for hit in ranking.hits:
        assert [each.source for each in hit.evidence] == ["retriever0", "retriever1"]
        assert hit.score == close(sum(each.weight * each.normalized for each in hit.evidence))


@given(table=tables(), formula=formulas, depth=st.integers(1, 12))
def test_every_raw_score_in_the_evidence_is_the_retrievers_own_and_every_rank_its_place(
    table: Any, formula: Formula, depth: int
) -> None:
    retrievers = make_retrievers(table, depth=depth)
    lists = [retriever.ask([Query("0")])[0].candidates.rows.tolist() for retriever in retrievers]

    (ranking,) = fuse(retrievers, formula)(ASKED)

    assert set(scores(ranking)) == {row for listed in lists for row in listed}
    for hit in ranking.hits:
        for why, part, listed in zip(hit.evidence, table, lists, strict=True):
            assert why.score == part[0, hit.row]
            assert why.rank == (listed.index(hit.row) + 1 if hit.row in listed else None)


@given(table=tables(retrievers=2, queries=4), formula=formulas, asked=st.lists(st.integers(0, 3), max_size=5))
def test_a_batch_answers_as_its_queries_do_one_by_one_and_in_their_order(
    table: Any, formula: Formula, asked: list[int]
) -> None:
    retrievers = make_retrievers(table, depth=5)
    rankings = [Ranking(Query(str(number), id=f"{at}")) for at, number in enumerate(asked)]

    for stage in (fuse(retrievers, formula), Retrieve(retrievers[0], keep=3)):
        assert stage(rankings) == [stage([ranking])[0] for ranking in rankings]
        assert [ranking.query for ranking in stage(rankings)] == [ranking.query for ranking in rankings]


# ------------------------------------------------------------------------------------------------ the edges


@given(table=tables())
def test_zscores_are_over_all_rows_however_few_are_listed(table: Any) -> None:
    shallow = fuse([make_retriever("a", table[0], depth=1)], ("weighted", "zscore"))
    row = table[0, 0].astype(np.float64)

    (ranking,) = shallow(ASKED)

    expected = (row.max() - row.mean()) / row.std() if np.ptp(row) > 0 else 0.0
    assert ranking.hits[0].score == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("formula", FORMULAS[1:], ids="-".join)
@given(value=st.floats(-100, 100, width=32), rows=st.integers(1, 40))
def test_a_retriever_whose_scores_are_all_equal_has_no_say_in_the_order(
    formula: Formula, value: float, rows: int
) -> None:
    level = make_retriever("level", np.full((1, rows), value))
    rising = make_retriever("rising", np.arange(rows)[None])

    (ranking,) = fuse([level, rising], formula)(ASKED)

    assert [hit.row for hit in ranking.hits] == list(range(rows))[::-1]
    assert len({hit.evidence[0].normalized for hit in ranking.hits}) == 1
