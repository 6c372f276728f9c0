"""Interleaved lists, votes, and the gold file made from them."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from samples import Program

from retrieve_cli.errors import RetrieveError
from retrieve_cli.evaluation.judgments import read_gold
from retrieve_cli.evaluation.votes import Preference, Vote, Votes, preference, team_draft

RANKINGS = st.lists(st.sampled_from("abcdefghij"), unique=True)


@given(RANKINGS, RANKINGS, st.integers(1, 12), st.text(max_size=5))
def test_a_list_has_each_result_once_and_as_many_of_either_ranking_as_both_have(
    first: list[str], second: list[str], most: int, seed: str
) -> None:
    picks = team_draft(first, second, most=most, seed=seed)
    assert len({pick.id for pick in picks}) == len(picks) == min(most, len({*first, *second}))
    for team, ranking in (("a", first), ("b", second)):
        own = [ranking.index(pick.id) for pick in picks if pick.team == team]
        assert own == sorted(own), "each picks its best one first"
    if first == second:
        assert [pick.id for pick in picks] == first[:most], "nothing is lost between equal rankings"
        teams = [pick.team for pick in picks]
        assert abs(teams.count("a") - teams.count("b")) <= 1


def test_either_ranking_is_first_equally_often_and_a_seed_repeats_its_list() -> None:
    lists = [team_draft("abc", "xyz", most=6, seed=str(seed)) for seed in range(400)]
    assert 150 < sum(picks[0].team == "a" for picks in lists) < 250
    assert team_draft("abc", "xyz", most=6, seed="7") == lists[7]


def test_the_sign_test_is_exact() -> None:
    assert preference([(2, 0)] * 6) == Preference(6, 0, 0, 2 / 64)
    assert preference([(1, 0)] * 4 + [(0, 3), (1, 1)]) == Preference(4, 1, 1, 12 / 32)
    assert preference([(1, 1)]) == Preference(0, 0, 1, None)


def test_votes_are_kept_and_the_last_one_counts(tmp_path: Path) -> None:
    votes = Votes(tmp_path, None)
    for grade in (1, 0, 1, None, 1):
        votes.add(Vote("lungs", "x", grade))
    votes.add(Vote("lungs", "y", 0))
    votes.add(Vote("cells", "z", 0))
    (topic,) = read_gold(votes.gold)
    assert (topic.text, topic.grades) == ("lungs", {"x": 1, "y": 0}), "a query without a relevant record waits"
    assert len((tmp_path / "judgments" / "votes.jsonl").read_text().splitlines()) == 7


def test_a_torn_last_line_costs_that_line_alone(tmp_path: Path) -> None:
    votes = Votes(tmp_path, None)
    votes.add(Vote("lungs", "x", 1))
    with (tmp_path / "judgments" / "votes.jsonl").open("a") as file:
        file.write('{"query": "lungs", "id": "y", "gra')
    votes.add(Vote("lungs", "z", 1))
    assert {name for _, name in votes.last()} == {"x", "z"}


def test_only_votes_on_interleaved_lists_of_the_two_count_for_a_preference(tmp_path: Path) -> None:
    votes = Votes(tmp_path, None)
    votes.add(Vote("q1", "x", 1, "me", "a", "one", "two"))
    votes.add(Vote("q2", "x", 1, "me", "b", "one", "three"))
    votes.add(Vote("q3", "x", 1, "me"))
    votes.add(Vote("q4", "x", 0, "me", "b", "one", "two"))
    assert votes.preference("one", "two") == Preference(1, 0, 1, 1.0)


def test_votes_of_tenants_are_apart_and_long_texts_are_rejected(tmp_path: Path) -> None:
    Votes(tmp_path, "acme").add(Vote("q", "x", 1))
    assert Votes(tmp_path, None).last() == Votes(tmp_path, "../acme").last() == {}
    with pytest.raises(RetrieveError, match="10,000 characters"):
        Votes(tmp_path, None).add(Vote("q" * 10_001, "x", 1))


def test_eval_reads_the_gold_file_of_votes(index: Path, retrieve: Program) -> None:
    votes = Votes(index, None)
    votes.add(Vote("segment lungs in chest CT", "lungs", 1))
    votes.add(Vote("segment lungs in chest CT", "cells", 0))
    done = retrieve("eval", "--gold", votes.gold, "--json")
    assert done.code == 0, done.err
    assert done.json["queries"] == 1
    assert json.loads(done.out)["metrics"]["nDCG@10"] == 1.0
