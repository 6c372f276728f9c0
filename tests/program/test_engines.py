"""Engines and thresholds: the dense leg alone or all stages, and how good a hit must be."""

from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure
from samples import Done, Program

from retrieve_cli.config import loading

Found = list[dict[str, Any]]


def results(done: Done) -> Found:
    assert done.code == 0, done
    return list(done.json["results"])


def places(found: Found) -> list[tuple[str, float]]:
    return [(each["id"], each["score"]) for each in found]


def similarity(result: dict[str, Any]) -> float:
    return float(result["source_scores"]["dense"]["score"])


def test_the_naive_engine_is_the_dense_leg_alone_whatever_the_mode(index: Path, retrieve: Program) -> None:
    naive = retrieve("query", "brain volumes", "--engine", "naive", "--json")
    dense = retrieve("query", "brain volumes", "--mode", "dense", "--no-rerank", "--json")
    assert places(results(naive)) == places(results(dense))
    assert naive.json["strategies_used"] == ["dense"]
    assert naive.json["pipeline"] == "dense@200"
    assert places(results(naive)) != places(results(retrieve("query", "brain volumes", "--json")))


def test_the_engine_is_configured_and_the_flag_wins(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("search", engine="naive")
    assert retrieve("query", "brain", "--json").json["strategies_used"] == ["dense"]
    assert retrieve("query", "brain", "--json", "--engine", "advanced").json["strategies_used"] == ["bm25", "dense"]


def test_an_engine_that_is_none_is_refused_with_the_nearest(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--engine", "naif")
    assert done.code == 2
    assert "`naive`" in done.err


def test_a_naive_answer_has_as_many_results_as_are_nearest(
    index: Path, retrieve: Program, configure: Configure
) -> None:
    configure("search", similarity_top_k=2)
    full = results(retrieve("query", "brain", "--mode", "dense", "--json", "-k", "5"))
    assert places(results(retrieve("query", "brain", "--engine", "naive", "--json"))) == places(full)[:2]
    assert len(results(retrieve("query", "brain", "--engine", "naive", "--json", "-k", "1"))) == 1


def test_an_advanced_answer_asks_the_dense_leg_for_so_many_and_the_others_for_all(
    index: Path, retrieve: Program, configure: Configure
) -> None:
    configure("search", similarity_top_k=1)
    done = retrieve("query", "brain volumes", "--json")
    assert done.json["pipeline"] == "fuse(bm25@200, dense@1)"
    ranks = [each["source_scores"]["dense"]["rank"] for each in results(done)]
    assert ranks.count(1) == 1
    assert set(ranks) == {1, None}


@pytest.mark.parametrize("engine", ["naive", "advanced"])
def test_a_grade_leaves_out_what_is_less_similar_and_nothing_else(
    index: Path, retrieve: Program, configure: Configure, engine: str
) -> None:
    full = results(retrieve("query", "brain volumes", "--engine", engine, "--json"))
    grade = sorted(map(similarity, full))[2]
    configure("search", grade=grade)
    done = retrieve("query", "brain volumes", "--engine", engine, "--json")
    assert places(results(done)) == [(each["id"], each["score"]) for each in full if similarity(each) >= grade]
    assert len(results(done)) == 3
    threshold = done.json["trace"]["threshold"]
    far = [each["id"] for each in full if similarity(each) < grade]
    assert (threshold["kept"], threshold["cut"]) == (3, {f"grade {grade:g}": 2})
    assert [each["id"] for each in threshold["hits"]] == far


def test_a_greatest_distance_is_one_less_a_grade(index: Path, retrieve: Program, configure: Configure) -> None:
    full = results(retrieve("query", "brain volumes", "--json"))
    between = sum(sorted(map(similarity, full))[1:3]) / 2
    configure("search", max_distance=1 - between)
    near = results(retrieve("query", "brain volumes", "--json"))
    assert places(near) == [(each["id"], each["score"]) for each in full if 1 - similarity(each) <= 1 - between]
    assert len(near) == 3


@pytest.mark.parametrize("key", ["GRADE", "MAX_DISTANCE"])
def test_too_few_near_ones_are_topped_up_with_the_best_of_the_others_which_are_marked(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("RETRIEVE_BROADENING__MAX_RETRIES", "0")
    asked = ["query", "brain volumes", "--json"]
    full = results(retrieve(*asked))
    grade = sum(sorted(map(similarity, full))[-3:-1]) / 2
    monkeypatch.setenv(f"RETRIEVE_SEARCH__{key}", repr(grade if key == "GRADE" else 1 - grade))
    near = {each["id"] for each in full if similarity(each) >= grade}
    assert len(near) == 2
    for least in (0, 2, 4, 100):
        monkeypatch.setenv("RETRIEVE_SEARCH__MIN_RESULTS", str(least))
        done = retrieve(*asked)
        found = results(done)
        others = [each["id"] for each in full if each["id"] not in near][: max(least - 2, 0)]
        assert [each["id"] for each in found] == [each["id"] for each in full if each["id"] in {*near, *others}]
        assert [each["id"] for each in found if each.get("topped_up")] == others
        assert done.json["trace"]["threshold"].get("topped_up", 0) == len(others)
    assert len(results(retrieve(*asked, "-k", "3"))) == 3
    text = retrieve("query", "brain volumes", "--explain").out
    assert "topped up: it fails " + key.lower() in text
    assert text.count("topped up: it fails ") >= 3


def test_what_is_below_the_least_score_is_no_fallback(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("search", grade=0.99, min_results=5)
    full = results(retrieve("query", "brain volumes", "--json"))
    assert [each["topped_up"] for each in full] == [True] * 5
    found = results(retrieve("query", "brain volumes", "--json", "--min-score", repr(full[1]["score"])))
    assert [each["id"] for each in found] == [each["id"] for each in full[:2]]


@pytest.mark.parametrize("mode", ["hybrid", "bm25", "dense"])
def test_a_least_score_leaves_out_what_has_less_and_nothing_else(index: Path, retrieve: Program, mode: str) -> None:
    asked = ["query", "brain volumes", "--mode", mode, "--json"]
    full = results(retrieve(*asked))
    least = full[1]["score"]
    assert places(results(retrieve(*asked, "--min-score", repr(least)))) == places(full)[:2]


def test_the_flag_of_the_least_score_wins_over_the_key(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("search", min_score=1000)
    assert results(retrieve("query", "brain", "--json")) == []
    assert len(results(retrieve("query", "brain", "--json", "--min-score", "-1000"))) == 5


def test_what_the_dense_leg_says_nothing_of_cannot_be_similar(
    index: Path, retrieve: Program, configure: Configure
) -> None:
    configure("search", grade=-1)
    done = retrieve("query", "brain", "--mode", "bm25", "--json")
    assert results(done) == []
    assert done.json["trace"]["threshold"]["cut"] == {"grade -1": 2}


def test_hits_that_fail_leave_their_places_to_others(guides: Path, retrieve: Program, configure: Configure) -> None:
    configure("fusion", dense_weight=0.01)
    asked = ["query", "controller cluster stable effect", "--json", "--chunks"]
    full = results(retrieve(*asked, "-k", "1000"))
    grade = sorted(map(similarity, full), reverse=True)[12]
    configure("search", grade=grade)
    passed = [place for each, place in zip(full, places(full), strict=True) if similarity(each) >= grade]
    assert places(results(retrieve(*asked, "-k", "8"))) == passed[:8] != places(full)[:8]


@pytest.mark.parametrize(
    ("name", "value"), [("grade", "1.5"), ("max_distance", "-1"), ("similarity_top_k", "0"), ("min_score", "nan")]
)
def test_a_threshold_out_of_bounds_is_refused(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"RETRIEVE_SEARCH__{name.upper()}", value)
    done = retrieve("query", "brain")
    assert (done.code, done.out) == (2, "")
    assert f"`search.{name}`" in done.err


@pytest.mark.parametrize(("other", "name"), [("top_k", "keep"), ("score", "min_score")])
def test_keys_of_reranking_have_the_names_that_other_services_give_them(other: str, name: str) -> None:
    settings = [loading.load(None, {f"RETRIEVE_RERANK__{key.upper()}": "3"}).rerank for key in (other, name)]
    assert settings[0] == settings[1] != loading.load(None, {}).rerank
