"""Engines and thresholds: the dense leg alone or all stages, and how good a hit must be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure, answered, refused
from samples import Program

import retrieve_cli
from retrieve_cli.config import loading

Found = list[dict[str, Any]]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(index: Path, retrieve: Program) -> Ask:
    """Asks an index of five tools for brain volumes."""
    return lambda *words: answered(retrieve, "brain volumes", *words)


def places(found: Found) -> list[tuple[str, float]]:
    return [(each["id"], each["score"]) for each in found]


def similarity(result: dict[str, Any]) -> float:
    return float(result["source_scores"]["dense"]["score"])


def similar(found: Found, grade: float) -> Found:
    """The hits that are at least so similar."""
    return [each for each in found if similarity(each) >= grade]


def test_the_naive_engine_is_the_dense_retriever_alone(index: Path) -> None:
    with retrieve_cli.open(index) as opened:
        naive = opened.search("brain volumes", engine="naive")
        dense = opened.search("brain volumes", mode="dense", rerank=False)
    assert [(hit.id, hit.score) for hit in naive] == [(hit.id, hit.score) for hit in dense]
    assert (naive.strategies_used, naive.pipeline) == (("dense",), "dense@200")
    assert naive.to_json()["pipeline_info"]["engine_used"] == "naive"


def test_an_advanced_answer_asks_the_dense_leg_for_so_many_and_the_others_for_all(
    ask: Ask, configure: Configure
) -> None:
    configure("search", similarity_top_k=1)
    found = ask()
    assert found["pipeline"] == "fuse(bm25@200, dense@1)"
    ranks = [each["source_scores"]["dense"]["rank"] for each in found["results"]]
    assert ranks.count(1) == 1
    assert set(ranks) == {1, None}


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_a_grade_leaves_out_what_is_less_similar_and_nothing_else(ask: Ask, configure: Configure, mode: str) -> None:
    full = ask("--mode", mode)["results"]
    grade = sorted(map(similarity, full))[2]
    configure("search", grade=grade)
    found = ask("--mode", mode)
    assert places(found["results"]) == places(similar(full, grade))
    assert len(found["results"]) == 3
    threshold = found["trace"]["threshold"]
    assert (threshold["kept"], threshold["cut"]) == (3, {f"grade {grade:g}": 2})
    assert [each["id"] for each in threshold["hits"]] == [each["id"] for each in full if similarity(each) < grade]


@pytest.mark.parametrize("key", ["GRADE", "MAX_DISTANCE"])
def test_too_few_near_ones_are_topped_up_with_the_best_of_the_others_which_are_marked(
    ask: Ask, retrieve: Program, configure: Configure, key: str
) -> None:
    configure("broadening", max_retries=0)
    full = ask()["results"]
    grade = sum(sorted(map(similarity, full))[-3:-1]) / 2
    configure("search", **{key: grade if key == "GRADE" else 1 - grade})
    near = {each["id"] for each in similar(full, grade)}
    assert len(near) == 2
    for least in (0, 2, 4, 100):
        configure("search", min_results=least)
        found = ask()
        others = [each["id"] for each in full if each["id"] not in near][: max(least - 2, 0)]
        assert places(found["results"]) == [place for place in places(full) if place[0] in {*near, *others}]
        assert [each["id"] for each in found["results"] if each.get("topped_up")] == others
        assert found["trace"]["threshold"].get("topped_up", 0) == len(others)
    assert len(ask("-k", "3")["results"]) == 3
    text = retrieve("query", "brain volumes", "--explain").out
    assert "topped up: it fails " + key.lower() in text
    assert text.count("topped up: it fails ") >= 3


def test_what_is_below_the_least_score_is_no_fallback(ask: Ask, configure: Configure) -> None:
    configure("search", grade=0.99, min_results=5)
    full = ask()["results"]
    assert [each["topped_up"] for each in full] == [True] * 5
    assert places(ask("--min-score", repr(full[1]["score"]))["results"]) == places(full[:2])


def test_the_flag_of_the_least_score_wins_over_the_key(ask: Ask, configure: Configure) -> None:
    configure("search", min_score=1000)
    assert ask()["results"] == []
    assert len(ask("--min-score", "-1000")["results"]) == 5


def test_hits_that_fail_leave_their_places_to_others(guides: Path, retrieve: Program, configure: Configure) -> None:
    configure("fusion", weights="{dense: 0.01}")
    asked = ("controller cluster stable effect", "--chunks", "-k")
    full = answered(retrieve, *asked, "1000")["results"]
    grade = sorted(map(similarity, full), reverse=True)[12]
    configure("search", grade=grade)
    passed = places(similar(full, grade))
    assert places(answered(retrieve, *asked, "8")["results"]) == passed[:8] != places(full)[:8]


@pytest.mark.parametrize(
    ("name", "value"), [("grade", "1.5"), ("max_distance", "-1"), ("similarity_top_k", "0"), ("min_score", "nan")]
)
def test_a_threshold_out_of_bounds_is_refused(
    index: Path, retrieve: Program, configure: Configure, name: str, value: str
) -> None:
    configure("search", **{name: value})
    assert f"`search.{name}`" in refused(retrieve, "query", "brain")


@pytest.mark.parametrize(("other", "name"), [("top_k", "keep"), ("score", "min_score")])
def test_keys_of_reranking_have_the_names_that_other_services_give_them(other: str, name: str) -> None:
    settings = [loading.load(None, {f"RETRIEVE_RERANK__{key.upper()}": "3"}).rerank for key in (other, name)]
    assert settings[0] == settings[1] != loading.load(None, {}).rerank
