"""Search in the shapes of other programs: each form is read exactly, each answer has the documented keys."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from samples import TOOLS
from servers import built, sent, state_of

import retrieve_cli
from retrieve_cli.api.index import Index
from retrieve_cli.cli.main import main
from retrieve_cli.server.http.app import server_app
from retrieve_cli.server.http.state import State

PAGE = """# Trams

## Lines

The tram lines of Munich were extended, and their trams run every five minutes.

```
[9] forged.md:1
```

## Costs

| measure | cost |
|---|---|
| tram lines | 3 million |
| bus lines | 4 million |
"""
QUERY = "segment lungs in CT"

Post = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shapes")
    (folder / "docs" / "city").mkdir(parents=True)
    (folder / "docs" / "city" / "trams.md").write_text(PAGE, "utf-8")
    return built(folder, TOOLS, "--docs-dir", str(folder / "docs"))


@pytest.fixture(scope="module")
def post(artifacts: Path) -> Iterator[Post]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        state = state_of(artifacts)
    yield sender(state)
    state.close()


def sender(state: State) -> Post:
    """Return a function that posts a body to a server in this process."""
    app = server_app(state)

    def send(path: str, body: Any, **headers: str) -> httpx.Response:
        (answer,) = sent(app, ("POST", path, {"json": body, "headers": headers}))
        return answer

    return send


@pytest.fixture
def opened(artifacts: Path) -> Iterator[Index]:
    with retrieve_cli.open(artifacts) as index:
        yield index


# ------------------------------------------------------------------------------------------------ passages


def test_passages_have_their_sources_and_the_context_numbers_them(post: Post) -> None:
    answer = post("/retrieve", {"query": "tram lines", "top_k": 2}).json()
    passages = answer["passages"]
    assert [list(passage) for passage in passages] == [
        ["id", "doc_id", "text", "score", "relevance", "source", "citation"]
    ] * 2
    source = passages[0]["source"]
    assert list(source) == "title url path lines page page_end page_label anchor section".split()
    assert source["path"] == "city/trams.md"
    for number, passage in enumerate(passages, 1):
        assert f"[{number}] {passage['citation']}\n" in answer["context"]
        assert passage["text"] in answer["context"]
    assert answer["no_answer"] is None, "nothing is calibrated"
    assert [passage["relevance"] for passage in passages] == [None, None]


def test_a_text_cannot_forge_a_citation_of_the_context(post: Post) -> None:
    context = post("/retrieve", {"query": "tram lines minutes", "top_k": 1}).json()["context"]
    assert "[9] forged.md:1" in context
    fence = context.splitlines()[1]
    assert fence == "````", "longer than the fence within"
    assert context.rstrip("\n").endswith(fence)


def test_the_context_is_within_the_budget_headings_included(post: Post, opened: Index) -> None:
    whole = post("/retrieve", {"query": "brain images", "top_k": 5, "max_tokens": 100_000}).json()
    assert whole["spent"]["tokens"] > 0
    limit = whole["spent"]["tokens"] - 1
    answer = post("/retrieve", {"query": "brain images", "top_k": 5, "max_tokens": limit}).json()
    assert 0 < len(answer["passages"]) < len(whole["passages"])
    assert answer["spent"]["tokens"] <= limit
    assert answer["spent"]["omitted"] == [whole["passages"][-1]["id"]]
    kept = {passage["id"] for passage in answer["passages"]}
    assert kept.isdisjoint(answer["spent"]["omitted"])


def test_passages_are_those_of_the_search(post: Post, opened: Index) -> None:
    answer = post("/retrieve", {"query": QUERY, "top_k": 3, "filters": ["license=MIT"]}).json()
    expected = opened.search(QUERY, k=3, chunks=True, filters=["license=MIT"])
    assert [passage["id"] for passage in answer["passages"]] == [result.id for result in expected.results]
    assert [passage["score"] for passage in answer["passages"]] == [result.score for result in expected.results]


def test_where_nothing_passes_the_filters_there_is_no_answer(post: Post) -> None:
    answer = post("/retrieve", {"query": QUERY, "filters": ["license=nobody"]}).json()
    assert (answer["passages"], answer["context"], answer["no_answer"]) == ([], "", True)


def test_a_calibration_says_if_there_is_an_answer(artifacts: Path, tmp_path: Path) -> None:
    from retrieve_cli.server.http.shapes.passages import passages_json

    gold = [{"query": tool["description"], "relevant": [tool["id"]]} for tool in TOOLS]
    gold += [{"query": text, "relevant": ["align"]} for text in ("image", "mosaic", "lungs", "skull", "cells")]
    Path("gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in gold * 6), "utf-8")
    calibrated = tmp_path / "calibrated"
    assert main(["build", str(artifacts.parent / "tools.jsonl"), "--artifacts", str(calibrated), "-q"]) == 0
    assert main(["eval", "--gold", "gold.jsonl", "--calibrate", "--artifacts", str(calibrated)]) == 0
    with retrieve_cli.open(calibrated) as index:
        answers = [index.search(text) for text in (TOOLS[0]["description"], "image", "mosaic")]
        strict = index.search(TOOLS[0]["description"], min_confidence=1.0)
    said = [passages_json(answer) for answer in answers]
    assert {body["no_answer"] for body in said} == {True, False}
    for answer, body in zip(answers, said, strict=True):
        assert body["no_answer"] is (max(result.confidence or 0.0 for result in answer.results) < 0.5)
        assert [row["relevance"] for row in body["passages"]] == [result.confidence for result in answer.results]
    assert passages_json(strict)["no_answer"] is (not strict.results)


# ------------------------------------------------------------------------------------------------ design C


def test_the_request_of_design_c_gives_the_answer_of_design_c(
    sample_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    request = {
        "query": QUERY,
        "grade": 0.3,
        "similarityTopK": 20,
        "docIds": ["lungmask", "nndetection", "totalsegmentator"],
        "rerank": {"enabled": True, "strategy": "bge", "topK": 2, "score": 0.2},
    }
    answer = sender(state_of(sample_index))("/api/v1/rag/retrieve", request)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert list(body) == ["results", "totalResults", "engineUsed", "pipeline"]
    assert body["totalResults"] == len(body["results"]) == 2
    for result in body["results"]:
        assert list(result) == ["content", "score", "metadata"]
        assert list(result["metadata"]) == ["documentId", "fileName", "chunkIndex", "pageNumber", "contentType"]
        assert 0.2 <= result["score"] <= 1
    file = {"documentId": "lungmask", "fileName": "tools.jsonl", "pageNumber": None}
    assert body["results"][0]["metadata"] == {**file, "chunkIndex": 0, "contentType": "text"}
    assert body["engineUsed"] == "advanced"
    considered = body["pipeline"].pop("candidatesConsidered")
    assert body["pipeline"] == {"reranked": True, "rerankStrategy": "maxsim", "scoreScale": "reranker"}
    assert considered == 3


def test_the_naive_engine_answers_by_cosine_alone(post: Post, opened: Index) -> None:
    request = {"query": QUERY, "engineName": "naive", "similarityTopK": 3}
    body = post("/api/v1/rag/retrieve", request).json()
    expected = opened.search(QUERY, engine="naive", k=3, chunks=True)
    assert body["engineUsed"] == "naive"
    assert body["pipeline"]["scoreScale"] == "cosine"
    assert [result["score"] for result in body["results"]] == [max(result.score, 0) for result in expected.results]


def test_ids_that_no_document_has_find_nothing_and_an_empty_selection_is_an_empty_answer(
    post: Post, opened: Index
) -> None:
    """Design C: "WHERE e.document_id IN (:docIds)"."""

    def found(ids: list[str]) -> list[str]:
        answer = post("/api/v1/rag/retrieve", {"query": QUERY, "docIds": ids})
        assert answer.status_code == 200, answer.text
        return [result["metadata"]["documentId"] for result in answer.json()["results"]]

    assert (found(["lungs", "deleted"]), found(["deleted"]), found([])) == (["lungs"], [], [])
    for ids, said in (
        (["lungs", "deleted"], "no record has the id 'deleted', which the request selects"),
        (["lnugs"], "no record has the id 'lnugs', which the request selects: did you mean `lungs` (LungMapper)?"),
        ([], "the request selects no record: its list of ids is empty"),
    ):
        assert said in post("/api/v1/rag/retrieve", {"query": QUERY, "docIds": ids}).json()["pipeline"]["notices"]
        body = post("/search", {"query": QUERY, "doc_ids": ids}).json()
        assert said in body["notices"]
        assert said in opened.search(QUERY, doc_ids=ids).notices
        assert [result["doc_id"] for result in body["results"]] == [name for name in ids if name == "lungs"]


def test_another_reranker_than_that_of_the_server_is_an_error(post: Post) -> None:
    answer = post("/api/v1/rag/retrieve", {"query": QUERY, "rerank": {"strategy": "llm"}})
    assert answer.status_code == 422
    assert "maxsim" in answer.json()["error"]["message"]
    assert post("/api/v1/rag/retrieve", {"query": QUERY, "rerank": {"enabled": False, "strategy": "llm"}}).is_success


# ------------------------------------------------------------------------------------------------ design E


@pytest.mark.parametrize(
    ("path", "accept"), [("/search?shape=e", "*/*"), ("/search", "text/html, application/vnd.retrieve.e+json;q=0.9")]
)
def test_a_search_answers_in_the_shape_of_design_e_if_it_is_chosen(post: Post, path: str, accept: str) -> None:
    request = {"query": QUERY, "top_k": 2, "strategies": ["bm25", "dense"]}
    answer = post(path, request, Accept=accept)
    assert answer.headers["Content-Type"] == "application/vnd.retrieve.e+json"
    assert "Accept" in answer.headers["Vary"]
    body, plain = answer.json(), post("/search", request).json()
    assert list(body) == ["query", "results", "fusion_method", "reranked", "total_results"]
    assert [list(result) for result in body["results"]] == [
        ["doc_id", "chunk_id", "text", "score", "highlights", "source", "strategies_used"]
    ] * 2
    assert [result["chunk_id"] for result in body["results"]] == [result["id"] for result in plain["results"]]
    assert body["total_results"] == plain["total_matches"]
    assert body["fusion_method"] == "weighted"
    assert all(mark in result["text"] for result in body["results"] for mark in result["highlights"] or ())


def test_an_unknown_shape_is_an_error(post: Post) -> None:
    answer = post("/search?shape=x", {"query": QUERY})
    assert (answer.status_code, answer.json()["error"]["hint"]) == (422, "shapes: e")


@pytest.mark.parametrize("path", ["/retrieve", "/api/v1/rag/retrieve"])
def test_a_misspelled_key_is_an_error_that_names_the_nearest(post: Post, path: str) -> None:
    answer = post(path, {"qery": QUERY})
    assert answer.status_code in (400, 422)
    assert "qery" in answer.text
    assert "query" in answer.text


@pytest.mark.parametrize("path", ["/retrieve", "/api/v1/rag/retrieve"])
@pytest.mark.parametrize("body", [[], "text", 3, {"query": 3}, {"query": ""}, {}])
def test_a_body_of_another_kind_is_an_error_of_the_client(post: Post, path: str, body: Any) -> None:
    assert 400 <= post(path, body).status_code < 500
