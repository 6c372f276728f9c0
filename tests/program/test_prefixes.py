"""Texts in front of queries and passages, in the whole program: chosen by the model, shown, and kept by the index."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from models.remote.servers import Api, embedder, running
from program.asking import Configure
from samples import Program

QWEN = "Qwen/Qwen3-Embedding-8B"
INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
Ask = Callable[[], str]


@pytest.fixture
def server(configure: Configure) -> Iterator[Api]:
    """A server of Qwen3 embeddings that is configured."""
    for api in running():
        api.respond = embedder(QWEN)
        configure("encoder", kind="remote", model=QWEN, base_url=api.url, retries=0)
        yield api


@pytest.fixture
def ask(server: Api, retrieve: Program) -> Ask:
    """Asks the index for lungs; the text that the server is sent."""

    def run() -> str:
        assert retrieve("query", "lungs", "--mode", "dense").code == 0
        return texts(server)[-1]

    return run


def texts(api: Api) -> list[str]:
    return [text for asked in api.asked for text in asked.json["input"]]


def prefixes(retrieve: Program) -> dict[str, dict[str, str | None]]:
    shown: dict[str, dict[str, str | None]] = retrieve("inspect", "status", "--json").json["prefixes"]
    return shown


def test_a_server_of_a_known_model_is_asked_with_its_instruction_and_status_says_so(
    server: Api, index: Path, ask: Ask, retrieve: Program
) -> None:
    assert not any(text.startswith("Instruct") for text in texts(server))
    assert ask() == f"{INSTRUCTION}lungs"
    family = "the model family Qwen3-Embedding"
    assert prefixes(retrieve) == {
        "query": {"text": INSTRUCTION, "from": family},
        "passage": {"text": "", "from": family},
    }


def test_an_empty_prefix_switches_it_off_and_an_index_keeps_to_it_until_a_sync(
    server: Api, catalog: Path, ask: Ask, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__QUERY_PREFIX", '""')
    assert retrieve("build", "--catalog", catalog).code == 0
    assert ask() == "lungs"
    assert prefixes(retrieve)["query"] == {"text": "", "from": "encoder.query_prefix"}
    monkeypatch.delenv("RETRIEVE_ENCODER__QUERY_PREFIX")
    assert ask() == "lungs"
    before = len(texts(server))
    synced = retrieve("sync", "--json").json
    assert (synced["status"], synced["embedded"]) == ("published", 0)
    assert ask() == f"{INSTRUCTION}lungs"
    assert not set(texts(server)[before:]) & set(texts(server)[:before]) - {"lungs", "dimension"}


def test_the_prefixes_of_the_imaging_agent_are_a_matter_of_two_keys(
    server: Api, catalog: Path, ask: Ask, retrieve: Program, configure: Configure
) -> None:
    query, passage = "Represent the query for retrieving relevant software: ", "Represent the software for retrieval: "
    configure("encoder", query_prefix=json.dumps(query), passage_prefix=json.dumps(passage))
    assert retrieve("build", "--catalog", catalog).code == 0
    assert sum(text.startswith(passage) for text in texts(server)) == 5
    assert ask() == f"{query}lungs"
