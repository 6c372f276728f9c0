"""The promises of engines on Qdrant's core, behind a substitute for its server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from engines.qdrant_server import Server, qdrant, running, started
from engines.rows import NAMES, queries, row
from engines.suite import EngineSuite, markers
from told_servers import free_port

from retrieve_cli.config.index_settings import QdrantSettings
from retrieve_cli.contracts.engines import Range, Schema
from retrieve_cli.engines.qdrant import QdrantEngine
from retrieve_cli.errors import Unavailable, UsageError

__all__ = ["qdrant"]
NAME = NAMES[0]
SCHEMA = Schema({"dense": 64}, {"bm25": True, "splade": False})


def clear(engine: QdrantEngine) -> None:
    """Drop all collections."""
    for collection in NAMES:
        engine.drop(collection)


class TestQdrant(EngineSuite):
    """The promises of engines; a test that kills the server has one of its own."""

    @pytest.fixture
    def new_engine(self, qdrant: Server, request: pytest.FixtureRequest) -> Iterator[Callable[[], QdrantEngine]]:
        with ExitStack() as stack:
            server = stack.enter_context(running()) if "dies" in request.node.name else qdrant
            self.process = server.process
            yield lambda: QdrantEngine(QdrantSettings(url=server.url))
            if server is qdrant:
                clear(QdrantEngine(QdrantSettings(url=server.url)))

    def kill_server(self) -> None:
        self.process.kill()
        self.process.wait()

    def unreachable(self) -> QdrantEngine:
        return QdrantEngine(QdrantSettings(url=f"http://127.0.0.1:{free_port()}"))


@pytest.fixture
def engine(qdrant: Server) -> Iterator[QdrantEngine]:
    engine = QdrantEngine(QdrantSettings(url=qdrant.url))
    yield engine
    clear(engine)


def test_vectors_in_a_quantised_graph_are_rescored(engine: QdrantEngine, qdrant: Server) -> None:
    rows = [row(number, SCHEMA) for number in range(1_500)]  # 384 kB: the substitute builds a graph from 200 kB
    engine.create(NAME, SCHEMA)
    for start in range(0, len(rows), 250):
        engine.upsert(NAME, rows[start : start + 250])
    reader = QdrantEngine(QdrantSettings(url=qdrant.url))
    indexed = reader._ask(NAME, "get_collection").indexed_vectors_count
    assert indexed > len(rows)
    vectors = np.array([one.vectors["dense"] for one in rows])
    shared = 0
    for query in vectors[:50] + np.float32(0.05):
        (hits,) = reader.search(NAME, [("dense", query)], None, 10).hits
        exact = vectors @ query
        numbers = [int(hit.id[7:-2]) * 2 + int(hit.id[-1]) for hit in hits]
        assert [hit.score for hit in hits] == pytest.approx(exact[numbers].tolist(), abs=1e-5)
        shared += len(set(numbers) & set(np.argsort(-exact)[:10].tolist()))
    assert shared >= 490


def test_a_search_is_one_request(engine: QdrantEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.create(NAME, SCHEMA)
    engine.upsert(NAME, [row(1, SCHEMA)])
    asked, ask = list[str](), QdrantEngine._ask

    def counted(self: QdrantEngine, collection: str | None, method: str, **options: object) -> object:
        asked.append(method)
        return ask(self, collection, method, **options)

    monkeypatch.setattr(QdrantEngine, "_ask", counted)
    engine.search(NAME, queries(SCHEMA), Range("numbers", "year", 1900), 10)
    assert asked == ["query_batch_points"]


def test_a_number_that_another_process_added_is_found(engine: QdrantEngine, qdrant: Server) -> None:
    writer = QdrantEngine(QdrantSettings(url=qdrant.url))
    engine.create(NAME, SCHEMA)
    assert engine.count(NAME, Range("numbers", "year", 1900)) == 0
    writer.upsert(NAME, [row(1, SCHEMA)])
    assert engine.count(NAME, Range("numbers", "year", 1900)) == 1


def test_collections_of_others_are_neither_listed_nor_dropped(engine: QdrantEngine, qdrant: Server) -> None:
    other = QdrantEngine(QdrantSettings(url=qdrant.url, collection="chunks_vectors_2"))
    other.create(NAME, SCHEMA)
    assert markers(engine) == {}
    engine.drop(NAME)
    assert markers(other) == {NAME: ""}
    clear(other)


def test_a_collection_with_the_name_of_the_alias_is_a_problem(engine: QdrantEngine, qdrant: Server) -> None:
    other = QdrantEngine(QdrantSettings(url=qdrant.url, collection=f"chunks_vectors_{NAME}"))
    engine.create(NAME, SCHEMA)
    ((problem, fix),) = other.problems()
    assert "has a collection chunks_vectors_" in problem
    assert "qdrant.collection" in fix
    with pytest.raises(Unavailable, match="no alias can have this name"):
        other.create(NAME, SCHEMA)


def test_a_key_is_sent(tmp_path: Path, qdrant: Server) -> None:
    with started(tmp_path, "k3y") as server:
        assert QdrantEngine(QdrantSettings(url=server.url), api_key="k3y").published() is None
        for key in (None, "other"):
            with pytest.raises(Unavailable, match="401") as caught:
                QdrantEngine(QdrantSettings(url=server.url), api_key=key).published()
            assert "qdrant.api_key_env" in caught.value.hint


def test_a_name_that_no_collection_can_have_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"qdrant\.collection"):
        QdrantEngine(QdrantSettings(collection="a/b"))
