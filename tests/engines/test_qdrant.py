"""The promises of engines on Qdrant's core, behind a substitute for its server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from engines.qdrant_server import Server, qdrant, running
from engines.suite import EngineSuite
from told_servers import free_port

from retrieve_cli.config.index_settings import QdrantSettings
from retrieve_cli.engines.qdrant import QdrantEngine

__all__ = ["qdrant"]


def clear(engine: QdrantEngine) -> None:
    """Drop all collections."""
    for collection in engine.collections():
        engine.drop(collection)
    engine.close()


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
