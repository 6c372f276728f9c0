"""Two rankings of the same queries: what entered, left and moved, and how far they agree."""

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.operations.diff import Agreement, Moves

rankings = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-10, 10), max_size=6)


@given(before=rankings, after=rankings)
def test_the_moves_lead_from_one_ranking_to_the_other(before: dict[str, float], after: dict[str, float]) -> None:
    moves = Moves.between(before, after)
    kept = [name for name in before if name not in moves.left]
    ranks = {name: rank for rank, name in enumerate(before, 1)}
    ranks |= {name: new for name, (_, new) in moves.moved.items()} | dict(moves.entered)
    assert sorted((*kept, *moves.entered), key=ranks.__getitem__) == list(after)
    assert {name: rank for rank, name in enumerate(before, 1) if name not in after} == moves.left
    assert all(list(before).index(name) + 1 == old != new for name, (old, new) in moves.moved.items())
    assert moves.identical == (list(before) == list(after))


@given(before=rankings, after=rankings)
def test_agreement_is_the_same_in_both_directions(before: dict[str, float], after: dict[str, float]) -> None:
    one, other = Moves.between(before, after), Moves.between(after, before)
    assert (one.overlap, one.apart, one.entered, one.left) == (other.overlap, other.apart, other.left, other.entered)
    assert 0.0 <= one.overlap <= 1.0
    assert (one.overlap == 1.0) == (before.keys() == after.keys())


def test_scores_are_compared_by_id_and_not_by_rank() -> None:
    moves = Moves.between({"a": 3.0, "b": 2.0, "c": 9.0}, {"b": 2.5, "a": 2.0})
    assert (moves.apart, moves.overlap, moves.moved) == (1.0, 2 / 3, {"a": (1, 2), "b": (2, 1)})


def test_two_empty_rankings_agree_unless_the_caller_says_otherwise() -> None:
    assert (Moves.between({}, {}).overlap, Moves.between({}, {}, empty=0.0).overlap) == (1.0, 0.0)


def test_a_summary_counts_queries_and_names_the_largest_difference_of_a_score() -> None:
    same, near, other = {"a": 1.0, "b": 0.5}, {"a": 1.0, "b": 0.25}, {"b": 1.0, "c": 0.5}
    found = Agreement.of(Moves.between(same, each) for each in (same, near, other, same))
    assert found == Agreement(queries=4, overlap=pytest.approx(3.5 / 4), identical=0.75, same_scores=0.5, apart=0.5)
    assert Agreement.of([]) == Agreement(queries=0, overlap=1.0, identical=0.0, same_scores=0.0, apart=0.0)
