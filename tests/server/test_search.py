"""The search door: its answer is that of the command line, to the byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from samples import Program
from servers import Server


def without_timings(text: str) -> Any:
    value = json.loads(text)
    del value["timings_ms"]
    return value


def test_a_plain_query_gives_what_the_command_line_prints(server: Server, artifacts: Path, retrieve: Program) -> None:
    printed = retrieve("query", "segment lungs in CT", "--json", "--artifacts", artifacts).out
    assert server.search(query="segment lungs in CT") == without_timings(printed)


def test_a_link_is_a_search(server: Server) -> None:
    link = server.get("/search?q=brain&limit=2&mode=bm25&rerank=false&filters=license%3DMIT")
    assert link.json() == server.search(query="brain", limit=2, mode="bm25", rerank=False, filters=["license=MIT"])


def test_an_example_is_a_query_of_its_own(server: Server) -> None:
    found = server.search(query="", like=["lungs"])
    assert found == server.search(like=["lungs"]) == server.get("/search?like=lungs&q=").json()
    assert server.get("/search?like=lungs").json() == found
    assert "lungs" not in [result["doc_id"] for result in found["results"]]


@pytest.mark.parametrize("form", ["text", "jsonl", "csv", "md", "trec"])
def test_a_link_gives_each_format_that_the_command_line_has(
    server: Server, artifacts: Path, retrieve: Program, form: str
) -> None:
    printed = retrieve("query", "brain", "-k", "2", "--format", form, "--artifacts", artifacts).out
    assert server.get(f"/search?q=brain&k=2&format={form}").data.decode() == printed
    assert server.post(f"/search?format={form}", {"query": "brain", "limit": 2}).data.decode() == printed


def test_a_client_that_has_the_answer_is_told_so(server: Server) -> None:
    tag = server.post("/search", {"query": "brain"}).headers["ETag"]
    again = server.post("/search", {"query": "brain"}, **{"If-None-Match": tag})
    assert (again.status, again.data) == (304, b"")
    assert server.post("/search", {"query": "lungs"}, **{"If-None-Match": tag}).status == 200


def test_times_are_in_a_header_and_not_in_the_answer(server: Server) -> None:
    answer = server.post("/search", {"query": "brain"})
    assert "timings_ms" not in answer.json()
    assert "total;dur=" in answer.headers["Server-Timing"]


def test_a_batch_answers_each_request_or_says_why_not(server: Server) -> None:
    items = [{"query": "brain"}, {"qery": "brain"}, {"query": "cells", "id": "b"}, {"query": ""}]
    answers = server.post("/search/batch", {"requests": items}).json()["answers"]
    assert answers[0] == server.search(query="brain")
    assert "did you mean `query`" in answers[1]["error"]["hint"]
    assert answers[2] == server.search(query="cells", id="b")
    assert answers[3]["error"]["kind"] == "usage"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "not JSON"),
        (b"[]", 400, "not a JSON object"),
        ({"qery": "x"}, 422, "unknown key 'qery'"),
        ({"limit": 3}, 422, "has no query"),
        ({"query": "x", "filters": ["colour=red"]}, 422, "colour"),
        ({"query": "x", "mode": "bm52"}, 422, "bm52"),
        ({"query": "x", "generation": "0123456789ab"}, 422, "0123456789ab"),
    ],
)
def test_a_request_that_cannot_be_answered_is_told_why(server: Server, body: Any, status: int, said: str) -> None:
    answer = server.post("/search", body)
    error = answer.json()["error"]
    assert (answer.status, error["retryable"]) == (status, False)
    assert said in error["message"]


def test_an_older_generation_answers_while_it_is_kept(server: Server) -> None:
    generation = server.search(query="brain")["generation"]
    assert server.search(query="brain", generation=generation) == server.search(query="brain")


def test_readiness_names_the_generation_and_its_age(server: Server) -> None:
    report = server.get("/readyz").json()
    assert report["ready"] is True
    assert report["generation"] == server.search(query="brain")["generation"]
    assert report["age_s"] >= 0
    assert {"index", "model", "sources"} <= set(report["checks"])
