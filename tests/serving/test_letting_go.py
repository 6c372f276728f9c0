"""An index is let go of with its last reference: its files are unmapped, and an old generation can be removed."""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from samples import ROOT, TOOLS
from servers import built, mapped, started
from waiting import until

import retrieve_cli
from retrieve_cli.api.requests import Choices
from retrieve_cli.errors import RetrieveError

WAYS: dict[str, Any] = {
    "k": 2, "mode": "dense", "retrievers": ["bm25"], "engine": "naive", "filters": ["license=MIT"],
    "boosts": ["license=MIT:1.2"], "doc_ids": ["brain"], "tenant": "acme", "files": [ROOT / "README.md"],
    "also": ["lungs"], "rerank": True, "expand": True, "route": True, "dependencies": True, "context": 1,
    "max_chunks": 2, "max_tokens": 50, "min_score": -9.0, "min_confidence": 0.1, "deadline_ms": 50, "chunks": True,
    "offset": 1, "facets": ["license"], "explain": True, "grade": 0.1, "similarity_top_k": 3, "rerank_keep": 2,
    "rerank_min_score": 0.0,
}  # fmt: skip
"""A value of each choice of a search."""
PUBLISHED = 50


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with token vectors, made by the default encoder: late interaction reranks it."""
    return built(tmp_path_factory.mktemp("own"), TOOLS, RETRIEVE_ENCODER__KIND="auto")


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Without the collector of cycles."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("way", ["", *WAYS])
@pytest.mark.usefixtures("uncollected")
def test_an_index_is_gone_with_its_last_reference_however_it_was_asked(
    artifacts: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert WAYS.keys() == Choices.__annotations__.keys()
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")

    def asked() -> list[Callable[[], object]]:
        index = retrieve_cli.open(artifacts)
        with suppress(RetrieveError):
            index.search("segment lungs in CT", **({way: WAYS[way]} if way else {})).to_json()
        assert mapped()
        return [ref(index), ref(index.searcher), ref(index.searcher.generation), ref(index.searcher.ranker)]

    assert [held() for held in asked()] == [None] * 4
    assert mapped() == set()


def test_a_server_keeps_two_generations_mapped_at_most_and_as_many_on_disk_as_configured(artifacts: Path) -> None:
    generations = artifacts / "generations"
    variables = {"RETRIEVE_ENCODER__KIND": "auto", "RETRIEVE_STORE__KEEP": "2"}
    with started(artifacts, cwd=artifacts.parent, **variables) as server:
        ended, most, faults = threading.Event(), 0, []

        def ask() -> None:
            while not ended.is_set():
                try:
                    server.search(query="segment lungs", limit=5)
                except Exception as error:  # noqa: BLE001  the main thread reports it
                    faults.append(error)

        clients = [threading.Thread(target=ask) for _ in range(2)]
        for client in clients:
            client.start()
        try:
            for number in range(PUBLISHED):
                document = {"id": f"n{number}", "text": f"Segments lungs, step {number}."}
                answer = server.post("/documents", document, Prefer="wait=60")
                assert answer.status == 200, answer.data
                most = max(most, len(mapped(server.process.pid)))
        finally:
            ended.set()
            for client in clients:
                client.join()
        assert faults == []
        assert most <= 2
        until(lambda: len(mapped(server.process.pid)) == 1, "the last answers of the generation before are given")
        # Two that are kept, and one that a reader held at the last publication.
        assert len(list(generations.iterdir())) <= 3
