"""A threshold is an answer: what it removes stays removed and is counted, and results are in the order of their scores.

The designs: C "results below the score threshold are removed", "No rerank? --> filter by grade"; D "max distance".
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from models.remote.servers import Api, Asked, chat, running
from program.asking import Configure
from samples import Program
from servers import sent, state_of

from retrieve_cli.config.loading import load, override
from retrieve_cli.config.starters import starter
from retrieve_cli.contracts import Request
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.server.http.app import server_app
from retrieve_cli.storage.store import Store

OFF_TOPIC = "holidays in Norway"
QUERIES = (OFF_TOPIC, "segment lungs in CT", "stitch tiles of a mosaic")
THRESHOLDS: dict[str, dict[str, dict[str, Any]]] = {
    "none": {},
    "grade": {"search": {"grade": 0.25}},
    "high grade": {"search": {"grade": 0.9}},
    "distance": {"search": {"max_distance": 0.7, "min_results": 0}},
    "score": {"search": {"min_score": 1.0}},
    "share": {"search": {"min_score": "60%"}},
    "reranker": {"rerank": {"min_score": 0.4}},
    "all": {"search": {"grade": 0.2, "max_distance": 0.9, "min_score": 0.0}, "rerank": {"min_score": 0.3}},
}
RERANKERS = ("none", "maxsim", "remote", "unreachable", "llm scores", "llm picks")


def judged(asked: Asked) -> Any:
    """Answers as a rerank endpoint and as a chat model: what it gives has nothing to do with the retrieval."""
    if asked.path.endswith("/rerank"):
        scores = [(len(text) * 7919 % 101) / 100 for text in asked.json["documents"]]
        return {"results": [{"index": at, "relevance_score": score} for at, score in enumerate(scores)]}
    task = asked.json["response_format"]["json_schema"]["schema"]["properties"]
    count = task["scores"]["minItems"] if "scores" in task else 0
    scored = [{"number": at + 1, "score": at * 37 % 101} for at in range(count)]
    return chat({"scores": scored} if count else {"picked": [3, 1, 2]})(asked)


@pytest.fixture(scope="module")
def judge() -> Iterator[Api]:
    for api in running():
        api.respond = judged
        yield api


def keys_of(reranker: str, url: str) -> dict[str, Any]:
    """The section of a reranker, offline but for the judge at an address."""
    remote = {"backend": "remote", "model": "judge", "base_url": url, "retries": 0, "policy": "optional"}
    return {
        "none": {"backend": "none"},
        "maxsim": {"backend": "maxsim"},
        "remote": remote,
        "unreachable": {**remote, "base_url": "http://127.0.0.1:9/v1"},
        "llm scores": {**remote, "backend": "llm", "prompt": "score"},
        "llm picks": {**remote, "backend": "llm", "prompt": "pick"},
    }[reranker]


@pytest.fixture(scope="module")
def opened(sample_index: Path) -> Opened:
    return Opened.of(Store(sample_index), load(None, {"RETRIEVE_ENCODER__KIND": "auto"}))


@pytest.mark.parametrize("reranker", RERANKERS)
@pytest.mark.parametrize("preset", ["imaging", "rag"])
def test_no_result_is_below_a_threshold_that_applies_to_it_and_results_are_in_the_order_of_their_scores(
    preset: str, reranker: str, opened: Opened, judge: Api
) -> None:
    written = yaml.safe_load(starter(preset))
    for section in ("encoder", "models", "splade", "graph"):
        written.pop(section, None)
    base = override(opened.settings, written, where="preset")
    here = {"gating": {"enabled": False}, "freshness": {"policy": "warn"}, "rerank": keys_of(reranker, judge.url)}
    base = override(base, here, where="test")
    for name, thresholds in THRESHOLDS.items():
        settings = override(base, thresholds, where="test")
        under = opened.under(settings)
        requests = [Request(text, id=text) for text in QUERIES]
        for answer in Searcher(under, under.options(unit="chunk")).answer(requests):
            hold(answer, settings, (preset, reranker, name, answer.query.text))


def hold(answer: Any, settings: Any, where: Any) -> None:
    """Hold an answer to its thresholds."""
    search, rerank = settings.search, settings.rerank
    scores = [result.score for result in answer.results]
    assert scores == sorted(scores, reverse=True), where
    assert not answer.attempts, where
    for result in answer.results:
        hit = result.hit
        if hit.topped_up:
            continue
        cosine = next((each.score for each in hit.evidence if each.source == "dense"), None)
        if isinstance(search.min_score, str):
            assert hit.score >= float(search.min_score.removesuffix("%")) / 100 * scores[0], where
        elif search.min_score is not None:
            assert hit.score >= search.min_score, where
        if search.max_distance is not None:
            assert cosine is not None, where
            assert cosine >= 1 - search.max_distance, where
        if search.grade is not None and hit.reranked is None:
            assert cosine is not None, where
            assert cosine >= search.grade, where
        if rerank.min_score is not None and answer.reranked:
            assert hit.reranked is not None, where
            assert hit.reranked.score >= rerank.min_score, where
        picks = answer.reranked and (rerank.backend, rerank.prompt) == ("llm", "pick")
        assert bool(hit.reranked and hit.reranked.picked) is picks, where
    if not answer.results:
        assert sum(answer.removed.values()) > 0, where
        assert all(any(name in notice for notice in answer.notices) for name in answer.removed), where


@pytest.mark.parametrize(
    ("threshold", "keys"),
    [
        ("search.grade 0.99", {"search": {"grade": 0.99}, "rerank": {"backend": "none"}}),
        ("search.max_distance 0.01", {"search": {"max_distance": 0.01}}),
        ("search.min_score 1e+06", {"search": {"min_score": 1e6}}),
        ("rerank.min_score 2", {"rerank": {"min_score": 2}}),
    ],
)
def test_a_threshold_that_leaves_nothing_is_said_once_and_nothing_is_searched_for_in_fewer_words(
    sample_index: Path, retrieve: Program, configure: Configure, judge: Api, threshold: str, keys: Any
) -> None:
    """Design C: "results below the score threshold are removed"; a question about Norway has no answer here."""
    configure("encoder", kind="auto")
    configure("rerank", **keys_of("remote", judge.url), depth=20)
    for section, values in keys.items():
        configure(section, **values)
    before = len(judge.asked)
    answer = retrieve("query", OFF_TOPIC, "--artifacts", sample_index, "--json").json
    assert len(judge.asked) - before == int(answer["reranked"])
    assert (answer["results"], answer.get("attempts"), list(answer["removed"])) == ([], None, [threshold])
    (notice,) = (notice for notice in answer["notices"] if "removed" in notice)
    assert notice.startswith(f"no result passes {threshold}, which removed {answer['removed'][threshold]} results")
    assert notice.endswith(f"`{threshold.partition(' ')[0]}: null` in config.yaml removes the threshold")


@pytest.fixture
def post(sample_index: Path, judge: Api, configure: Configure) -> Iterator[Any]:
    """Function that posts a request of design C to a server whose reranker is the judge."""
    configure("encoder", kind="auto")
    configure("rerank", **keys_of("remote", judge.url))
    state = state_of(sample_index)
    yield lambda body: sent(server_app(state), ("POST", "/api/v1/rag/retrieve", {"json": body}))[0].json()
    state.close()


@pytest.mark.parametrize("similar", [None, 5, 20, 80])
def test_a_score_of_design_c_is_that_of_the_reranker_and_decides_the_order(post: Any, similar: int | None) -> None:
    """Design C: "score": 0.5 of the request is compared with "score": 0.89 of a result."""
    body = {
        "query": "How are lungs segmented?",
        "grade": 0.7,
        "rerank": {"enabled": True, "strategy": "bge", "topK": 5, "score": 0.5},
    }
    found = post({**body, **({"similarityTopK": similar} if similar else {})})
    scores = [result["score"] for result in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) >= 0.5
    assert found["pipeline"]["scoreScale"] == "reranker"
    assert found["pipeline"]["removed"]["rerank.min_score 0.5"] > 0
    assert found["totalResults"] == len(scores)
    none = post({**body, "rerank": {"enabled": True, "topK": 5, "score": 2}})
    assert (none["results"], none["totalResults"]) == ([], 0)


def test_without_a_reranker_the_grade_of_design_c_decides(post: Any) -> None:
    """Design C: "No rerank? --> filter by grade"."""
    body = {"query": "segment lungs", "similarityTopK": 20, "rerank": {"enabled": False}}
    scores = [result["score"] for result in post(body)["results"]]
    assert scores == sorted(scores, reverse=True)
    grade = scores[3]
    kept = post({**body, "grade": grade})
    assert [result["score"] for result in kept["results"]] == scores[:4]
    assert list(kept["pipeline"]["removed"]) == [f"search.grade {grade:g}"]
    assert post({**body, "grade": 0.99})["results"] == []


def test_a_page_after_the_last_result_is_not_said_to_be_emptied_by_a_threshold(
    sample_index: Path, retrieve: Program, configure: Configure
) -> None:
    configure("encoder", kind="auto")
    configure("rerank", backend="none")
    configure("search", grade=0.4)
    words = ("query", "segment lungs in CT", "--artifacts", sample_index, "--json")
    first, beyond = retrieve(*words).json, retrieve(*words, "--offset", 100).json
    assert first["results"]
    assert beyond["results"] == []
    assert beyond["removed"] == first["removed"]
    assert not any("no result passes" in notice for notice in beyond.get("notices", []))
