"""A retriever that waits for a server does so while the others compute; the answer is that of one after the other."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from models.remote.servers import Answer, Api, Asked, embedder, running
from program.asking import Configure
from samples import Program
from waiting import PATIENCE_S

from retrieve_cli.config.loading import load
from retrieve_cli.contracts import Request
from retrieve_cli.output.formats import answer_json
from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

QUESTION = "brain volumes and images"
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def server(configure: Configure) -> Iterator[Api]:
    """A server of embeddings, which is the configured encoder."""
    for api in running():
        api.respond = embedder(dim=32)
        configure("encoder", kind="remote", model="qwen", base_url=api.url, retries=0)
        yield api


@pytest.fixture
def ask(server: Api, catalog: Path, retrieve: Program) -> Ask:
    """Asks an index by an opening of its own."""
    assert retrieve("build", "--catalog", catalog).code == 0

    def run(*names: str) -> dict[str, Any]:
        (answer,) = Searcher(Opened.of(Store(Path("artifacts")), load(None))).answer(
            [Request(QUESTION, retrievers=names)]
        )
        return {**answer_json(answer), "timings_ms": None}

    return run


def at_work(server: Api, monkeypatch: pytest.MonkeyPatch, *, meet: bool) -> list[str]:
    """Who begins and ends from now on, in order; if they are to meet, each waits until the other has begun."""
    quick, search, events = server.respond, Bm25Index.search, list[str]()
    begun = {"server": threading.Event(), "words": threading.Event()}

    def work(name: str, other: str) -> None:
        events.append(f"{name} begin")
        begun[name].set()
        assert not meet or begun[other].wait(PATIENCE_S)
        events.append(f"{name} end")

    def respond(asked: Asked) -> Any:
        work("server", "words")
        return quick(asked)

    def words(self: Bm25Index, queries: Sequence[str], **how: Any) -> Any:
        work("words", "server")
        return search(self, queries, **how)

    server.respond = respond
    monkeypatch.setattr(Bm25Index, "search", words)
    return events


def test_the_server_and_the_words_are_at_work_at_the_same_time(
    ask: Ask, server: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(server.asked)
    events = at_work(server, monkeypatch, meet=True)
    assert ask()["strategies_used"] == ["bm25", "dense"]
    assert set(events[:2]) == {"server begin", "words begin"}
    assert len(server.asked) == before + 1


@pytest.mark.parametrize("failure", [Answer(status=503), Answer(drop=True)])
def test_if_the_server_fails_the_answer_is_that_of_words_with_the_reason(
    ask: Ask, server: Api, monkeypatch: pytest.MonkeyPatch, failure: Answer
) -> None:
    words = ask("bm25")
    server.respond = lambda _: failure
    at_work(server, monkeypatch, meet=True)
    found = ask()
    assert found["results"] == words["results"]
    assert found["strategies_used"] == ["bm25"]
    assert list(found["strategies_skipped"]) == ["dense"]
    assert "127.0.0.1" in found["strategies_skipped"]["dense"]
