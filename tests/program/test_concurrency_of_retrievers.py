"""A retriever that waits for a server does so while the others compute; the answer is that of one after the other."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from encoders.remote.servers import Answer, Api, Asked, embedder, running
from samples import Program

from retrieve_cli.config.loading import load
from retrieve_cli.contracts import Request
from retrieve_cli.output.formats import answer_json
from retrieve_cli.retrievers.bm25 import Bm25Index
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

pytestmark = pytest.mark.slow

WAIT = 0.6
"""Seconds that the server takes, and that BM25 takes."""
QUESTION = "brain volumes and images"
Ask = Callable[..., tuple[dict[str, Any], float]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A server of embeddings, which is the configured encoder."""
    for api in running():
        api.respond = embedder(dim=32)
        keys = {"KIND": "remote", "MODEL": "qwen", "BASE_URL": api.url, "RETRIES": "0"}
        for key, value in keys.items():
            monkeypatch.setenv(f"RETRIEVE_ENCODER__{key}", value)
        yield api


@pytest.fixture
def ask(server: Api, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks an index by a searcher of its own, with a slow server and a slow BM25: the answer, and how long it took."""
    assert retrieve("build", "--catalog", catalog).code == 0
    quick, search = server.respond, Bm25Index.search

    def respond(asked: Asked) -> Any:
        time.sleep(WAIT)
        return quick(asked)

    def slowly(self: Bm25Index, queries: Sequence[str], **how: Any) -> Any:
        time.sleep(WAIT)
        return search(self, queries, **how)

    server.respond = respond
    monkeypatch.setattr(Bm25Index, "search", slowly)

    def run(*names: str) -> tuple[dict[str, Any], float]:
        searcher = Searcher(Store(Path("artifacts")), load(None))
        begun = time.perf_counter()
        (answer,) = searcher.answer([Request(QUESTION, retrievers=names)])
        return {**answer_json(answer), "timings_ms": None}, time.perf_counter() - begun

    return run


def test_a_hybrid_query_takes_less_than_its_retrievers_one_after_the_other(ask: Ask, server: Api) -> None:
    _, words = ask("bm25")
    _, vectors = ask("dense")
    assert min(words, vectors) >= WAIT
    before = len(server.asked)
    found, both = ask()
    assert found["strategies_used"] == ["bm25", "dense"]
    assert len(server.asked) == before + 1
    assert both < words + vectors - WAIT / 2


def test_the_answer_is_that_of_one_after_the_other(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = ask()
    monkeypatch.setattr("retrieve_cli.search.encoding.QueryModels.waits", False)
    other, seconds = ask()
    assert other == found
    assert seconds >= 2 * WAIT


@pytest.mark.parametrize("failure", [Answer(status=503), Answer(drop=True)])
def test_if_the_server_fails_the_answer_is_that_of_words_with_the_reason(
    ask: Ask, server: Api, failure: Answer
) -> None:
    words, _ = ask("bm25")

    def fail(_: Asked) -> Answer:
        time.sleep(WAIT / 2)
        return failure

    server.respond = fail
    found, _ = ask()
    assert found["results"] == words["results"]
    assert found["strategies_used"] == ["bm25"]
    assert list(found["strategies_skipped"]) == ["dense"]
    assert "127.0.0.1" in found["strategies_skipped"]["dense"]
