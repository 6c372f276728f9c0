"""The engine for Qdrant, over Qdrant's core behind a substitute for its REST interface."""

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from engines import qdrant_server
from engines.qdrant_server import Server, running, skip_without_packages, started
from engines.suite import EngineSuite
from engines.suite_base import told
from told_servers import Answer, Asked, free_port, serving

from retrieve_cli.config.index_settings import QdrantSettings
from retrieve_cli.contracts.engines import Batch, Label, Part
from retrieve_cli.engines.qdrant.engine import INDEXED_FROM, QdrantEngine
from retrieve_cli.errors import Unavailable

qdrant = qdrant_server.qdrant
OLD = "0123456789ab"
PARTS = [Part("meaning", "record", 3, 2)]
VECTORS = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
LABELS = [Label(f"c{row}", f"d{row}", f"title {row}", f"text {row}", "s", "t") for row in range(3)]


@pytest.fixture(autouse=True)
def _packages() -> None:
    skip_without_packages()


@pytest.fixture
def engine(qdrant: Server) -> Iterator[QdrantEngine]:
    """An engine over the server, without generations before and after."""
    engine = QdrantEngine(QdrantSettings(url=qdrant.url))
    yield engine
    clear(engine)


class TestQdrant(EngineSuite):
    """The promises of engines; a test that kills the server has one of its own."""

    @pytest.fixture
    def new_engine(self, qdrant: Server, request: pytest.FixtureRequest) -> Iterator[Callable[[], QdrantEngine]]:
        with ExitStack() as stack:
            server = qdrant
            if "dies" in request.node.name:
                server = stack.enter_context(running())
            self.process = server.process
            self.url = server.url
            yield lambda: QdrantEngine(QdrantSettings(url=server.url))
            if server is qdrant:
                clear(QdrantEngine(QdrantSettings(url=server.url)))

    def losses(self) -> dict[str, Callable[[], object]]:
        listed = told("GET", f"{self.url}/collections")["result"]["collections"]
        places = [f"{self.url}/collections/{quote(each['name'], safe='')}" for each in listed]
        every = {"filter": {"must": []}}
        return {
            **{f"DELETE {place}": partial(told, "DELETE", place) for place in places},
            **{
                f"no points in {place}": partial(told, "POST", f"{place}/points/delete?wait=true", every)
                for place in places
            },
        }

    def kill_server(self) -> None:
        self.process.kill()
        self.process.wait()

    def unreachable(self) -> QdrantEngine:
        return QdrantEngine(QdrantSettings(url=f"http://127.0.0.1:{free_port()}"))


def clear(engine: QdrantEngine) -> None:
    """Drop all generations, and close the connection."""
    for staged in engine.generations():
        engine.drop(staged.generation)
    engine.close()


def push(engine: QdrantEngine, generation: str = OLD) -> None:
    """Store a generation of three rows."""
    staging = engine.stage(generation, PARTS)
    staging.put("meaning", Batch(np.arange(3), LABELS, vectors=VECTORS))
    staging.finish()


def test_vectors_that_are_quantised_and_in_a_graph_are_found_and_scored_exactly(engine: QdrantEngine) -> None:
    random = np.random.default_rng(0)
    rows, dim = 4_000, 768  # more than the size from which Qdrant builds a graph
    centres = random.normal(size=(40, dim))
    vectors = centres[random.integers(0, 40, rows)] + 0.9 * random.normal(size=(rows, dim))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    assert vectors.nbytes > INDEXED_FROM * 1024
    staging = engine.stage(OLD, [Part("meaning", "chunk", rows, dim)])
    for start in range(0, rows, 500):
        some = np.arange(start, start + 500)
        staging.put("meaning", Batch(some, LABELS[:1] * 500, vectors=vectors[some]))
    staging.finish()
    info = engine._server.call("GET", f"/collections/chunks_vectors_{OLD}_meaning")
    assert info["indexed_vectors_count"] == rows
    part, shared = engine.open(OLD).collection("meaning"), 0
    for query in vectors[:100] + 0.01:
        found, scores = part.nearest(query, 10)
        assert scores == pytest.approx(vectors[found] @ query, abs=1e-5)
        shared += len(set(found.tolist()) & set(np.argsort(-(vectors @ query))[:10].tolist()))
    assert shared >= 990


def test_collections_of_others_are_neither_listed_nor_dropped(engine: QdrantEngine, qdrant: Server) -> None:
    other = QdrantEngine(QdrantSettings(url=qdrant.url, collection="chunks_vectors_2"))
    push(other)
    assert engine.generations() == []
    engine.drop(OLD)
    assert [each.complete for each in other.generations()] == [True]
    other.drop(OLD)


def test_the_password_in_an_address_is_not_shown() -> None:
    engine = QdrantEngine(QdrantSettings(url="http://user:secret@127.0.0.1:9", timeout_s=2.0))
    with pytest.raises(Unavailable, match=r"cannot reach Qdrant at http://127\.0\.0\.1:9: ") as caught:
        engine.live()
    assert "secret" not in str(caught.value) + caught.value.hint


def test_a_missing_package_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(Unavailable, match="the package qdrant-client is not installed") as caught:
        QdrantEngine(QdrantSettings()).live()
    assert caught.value.hint == "pip install 'retrieve-cli[qdrant]'"


def test_a_server_that_is_silent_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = QdrantEngine(QdrantSettings(url=f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2))
        with pytest.raises(Unavailable, match=r"does not answer within 0\.2 s"):
            engine.live()


NO_ALIASES = Answer(b'{"result": {"aliases": []}, "status": "ok", "time": 0}')


def answered(*answers: Answer, ask: Callable[[QdrantEngine], object] = QdrantEngine.live) -> object:
    """Return what an engine makes of some answers, one for each request."""
    asked: list[Asked] = []

    def answer(request: Asked) -> Answer:
        asked.append(request)
        return answers[len(asked) - 1]

    with serving(answer) as url:
        engine = QdrantEngine(QdrantSettings(url=url), api_key="k3y")
        try:
            return ask(engine)
        finally:
            engine.close()
            assert len(asked) == len(answers)


def test_a_request_whose_connection_is_dropped_is_sent_once_more() -> None:
    assert answered(Answer(drop=True), NO_ALIASES) is None
    with pytest.raises(Unavailable, match="cannot reach Qdrant"):
        answered(Answer(drop=True), Answer(drop=True))


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (401, b"Invalid API key or JWT", "rejects the credential: Invalid API key"),
        (403, b'{"status": {"error": "Forbidden: k3y"}}', r"rejects the credential: Forbidden: \*\*\*"),
        (400, b'{"status": {"error": "Limit exceeded 5 > 1"}}', "answers 400 .* Limit exceeded 5 > 1"),
        (413, b"", "answers 413 .* no reason given"),
        (502, b"<html>", "answers 502 .*<html>"),
        (200, b"<html>", "something else than JSON"),
    ],
)
def test_a_failed_request_is_an_error_in_the_servers_words(status: int, content: bytes, message: str) -> None:
    with pytest.raises(Unavailable, match=message) as caught:
        answered(Answer(content, status))
    assert caught.value.hint
    assert "k3y" not in caught.value.message


def test_a_limited_rate_is_named() -> None:
    limited = Answer(b'{"status": {"error": "Rate limit"}}', 429, {"Retry-After": "1"})
    with pytest.raises(Unavailable, match="limits the rate of requests: Rate limit"):
        answered(limited)


def problems(version: bytes, collections: bytes = b"[]") -> object:
    root = Answer(b'{"title": "qdrant", "version": "' + version + b'"}')
    listed = Answer(b'{"result": {"collections": ' + collections + b"}}")
    return answered(root, listed, ask=QdrantEngine.problems)


def test_problems_are_an_old_version_and_a_name_that_is_taken() -> None:
    assert problems(b"1.10.1") == []
    assert problems(b"1.9.7") == [("Qdrant 1.9.7 has no endpoint points/query", "install Qdrant 1.10 or later")]
    ((text, _),) = list(problems(b"1.19.0", b'[{"name": "chunks_vectors"}]'))  # type: ignore[call-overload]
    assert text == "there is a collection chunks_vectors, so that no alias can have this name"


def test_a_key_is_sent(tmp_path: Path, qdrant: Server) -> None:
    with started(tmp_path, "k3y") as server:
        assert QdrantEngine(QdrantSettings(url=server.url), api_key="k3y").live() is None
        for wrong in ({}, {"api_key": "other"}):
            with pytest.raises(Unavailable, match="rejects the credential"):
                QdrantEngine(QdrantSettings(url=server.url), **wrong).live()
