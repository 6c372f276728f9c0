"""The promises of engines on servers that speak OpenSearch's API."""

from collections.abc import Callable

import pytest
from engines.opensearch_server import Noida, Osmem, noida_process, osmem_process
from engines.suite import EngineSuite
from told_servers import free_port

from retrieve_cli.config.index_settings import OpensearchSettings
from retrieve_cli.engines.opensearch import OpensearchEngine

__all__ = ["noida_process", "osmem_process"]


class TestNoida(EngineSuite):
    """The promises of engines; the server is behind a translation."""

    server: Noida | Osmem

    @pytest.fixture
    def new_engine(self, noida_process: Noida) -> Callable[[], OpensearchEngine]:
        type(self).server = noida_process
        noida_process.start()
        engine = OpensearchEngine(OpensearchSettings(url=noida_process.url))
        for collection in engine.collections():
            engine.drop(collection)
        engine.close()
        return lambda: OpensearchEngine(OpensearchSettings(url=noida_process.url))

    def kill_server(self) -> None:
        self.server.kill()

    def unreachable(self) -> OpensearchEngine:
        return OpensearchEngine(OpensearchSettings(url=f"http://127.0.0.1:{free_port()}"))
