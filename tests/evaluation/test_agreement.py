"""Two rankings of the same query: what entered, left and moved."""

from hypothesis import given, strategies as st

from retrieve_cli.operations.diff import Moves

rankings = st.lists(st.sampled_from("abcdefgh"), max_size=6, unique=True)


@given(before=rankings, after=rankings)
def test_the_moves_lead_from_one_ranking_to_the_other(before: list[str], after: list[str]) -> None:
    moves = Moves.between(before, after)
    kept = [name for name in before if name not in moves.left]
    ranks = {name: rank for rank, name in enumerate(before, 1)}
    ranks |= {name: new for name, (_, new) in moves.moved.items()} | dict(moves.entered)
    assert sorted((*kept, *moves.entered), key=ranks.__getitem__) == after
    assert {name: rank for rank, name in enumerate(before, 1) if name not in after} == moves.left
    assert all(before.index(name) + 1 == old != new for name, (old, new) in moves.moved.items())
    assert moves.identical == (before == after)


@given(before=rankings, after=rankings)
def test_agreement_is_the_same_in_both_directions(before: list[str], after: list[str]) -> None:
    one, other = Moves.between(before, after), Moves.between(after, before)
    assert (one.overlap, one.entered, one.left) == (other.overlap, other.left, other.entered)
    assert 0.0 <= one.overlap <= 1.0
    assert (one.overlap == 1.0) == (set(before) == set(after) != set())
