"""Texts in front of queries and passages, in the whole program: chosen by the model, shown, and kept by the index."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from encoders.remote.servers import Api, embedder, running
from samples import Program

QWEN = "Qwen/Qwen3-Embedding-8B"
INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A server of Qwen3 embeddings that is configured."""
    for api in running():
        api.respond = embedder(QWEN)
        for key, value in {"KIND": "remote", "MODEL": QWEN, "BASE_URL": api.url, "RETRIES": "0"}.items():
            monkeypatch.setenv(f"RETRIEVE_ENCODER__{key}", value)
        yield api


def texts(api: Api) -> list[str]:
    return [text for asked in api.asked for text in asked.json["input"]]


def prefixes(retrieve: Program) -> dict[str, dict[str, str | None]]:
    shown: dict[str, dict[str, str | None]] = retrieve("inspect", "status", "--json").json["prefixes"]
    return shown


def test_a_server_of_a_known_model_is_asked_with_its_instruction_and_status_says_so(
    server: Api, catalog: Path, retrieve: Program
) -> None:
    assert retrieve("build", "--catalog", catalog).code == 0
    assert not any(text.startswith("Instruct") for text in texts(server))
    assert retrieve("query", "lungs", "--mode", "dense").code == 0
    assert texts(server)[-1] == f"{INSTRUCTION}lungs"
    family = "the model family Qwen3-Embedding"
    assert prefixes(retrieve) == {
        "query": {"text": INSTRUCTION, "from": family},
        "passage": {"text": "", "from": family},
    }


def test_an_empty_prefix_switches_it_off_and_is_named_as_its_source(
    server: Api, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__QUERY_PREFIX", '""')
    assert retrieve("build", "--catalog", catalog).code == 0
    assert retrieve("query", "lungs", "--mode", "dense").code == 0
    assert texts(server)[-1] == "lungs"
    assert prefixes(retrieve)["query"] == {"text": "", "from": "encoder.query_prefix"}


def test_an_index_is_asked_with_the_prefix_that_it_was_built_with(
    server: Api, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__QUERY_PREFIX", '""')
    assert retrieve("build", "--catalog", catalog).code == 0
    monkeypatch.delenv("RETRIEVE_ENCODER__QUERY_PREFIX")
    assert retrieve("query", "lungs", "--mode", "dense").code == 0
    assert texts(server)[-1] == "lungs"
    before = len(texts(server))
    synced = retrieve("sync", "--json").json
    assert (synced["status"], synced["embedded"]) == ("published", 0)
    assert retrieve("query", "lungs", "--mode", "dense").code == 0
    assert texts(server)[-1] == f"{INSTRUCTION}lungs"
    assert not set(texts(server)[before:]) & set(texts(server)[:before]) - {"lungs", "dimension"}


def test_the_prefixes_of_the_imaging_agent_are_a_matter_of_two_keys(
    server: Api, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, passage = "Represent the query for retrieving relevant software: ", "Represent the software for retrieval: "
    monkeypatch.setenv("RETRIEVE_ENCODER__QUERY_PREFIX", json.dumps(query))
    monkeypatch.setenv("RETRIEVE_ENCODER__PASSAGE_PREFIX", json.dumps(passage))
    assert retrieve("build", "--catalog", catalog).code == 0
    assert sum(text.startswith(passage) for text in texts(server)) == 5
    assert retrieve("query", "lungs", "--mode", "dense").code == 0
    assert texts(server)[-1] == f"{query}lungs"


def test_a_model_without_prefixes_has_none_and_nobody_says_so(index: Path, retrieve: Program) -> None:
    assert prefixes(retrieve) == {"query": {"text": "", "from": None}, "passage": {"text": "", "from": None}}
    assert "prefixes" in retrieve("inspect", "status", "-v").out
