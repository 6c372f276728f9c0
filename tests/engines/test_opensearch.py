"""The engine suite on two servers that speak OpenSearch's API."""

from collections.abc import Callable

import pytest
from engines.opensearch_server import Noida, Osmem, free_port, noida_process, osmem_process
from engines.suite import EngineSuite

from retrieve_cli.config.engine_settings import OpensearchSettings
from retrieve_cli.contracts.engines import Engine
from retrieve_cli.engines.opensearch.engine import OpensearchEngine

__all__ = ["noida_process", "osmem_process"]


def emptied(url: str) -> Callable[[], OpensearchEngine]:
    """Return a function that makes engines on a server, which has no generations."""
    engine = OpensearchEngine(OpensearchSettings(url=url))
    for staged in engine.generations():
        engine.drop(staged.generation)
    engine.close()
    return lambda: OpensearchEngine(OpensearchSettings(url=url))


class OpensearchSuite(EngineSuite):
    terms_exact = False
    share = 0.1
    server: Osmem | Noida

    def unreachable(self) -> OpensearchEngine:
        return OpensearchEngine(OpensearchSettings(url=f"http://127.0.0.1:{free_port()}"))

    def kill_server(self) -> None:
        self.server.kill()


class TestOsmem(OpensearchSuite):
    has_vectors = False

    @pytest.fixture
    def new_engine(self, osmem_process: Osmem) -> Callable[[], OpensearchEngine]:
        type(self).server = osmem_process
        osmem_process.start()
        return emptied(osmem_process.url)

    def test_a_server_that_answers_has_no_generations_and_no_problems(self, engine: Engine) -> None:
        """The server has no k-NN plugin, and the engine says so."""
        assert (list(engine.generations()), engine.live()) == ([], None)
        ((problem, fix),) = engine.problems()
        assert "k-NN plugin" in problem
        assert "opensearch-plugin install" in fix

    def test_twenty_thousand_rows_are_found_as_declared(self, engine: Engine) -> None:
        pytest.skip("osmem-server takes a second per query of so many rows; tests/engines/test_lucene.py has them")


class TestNoida(OpensearchSuite):
    @pytest.fixture
    def new_engine(self, noida_process: Noida) -> Callable[[], OpensearchEngine]:
        type(self).server = noida_process
        noida_process.start()
        return emptied(noida_process.url)

    def test_twenty_thousand_rows_are_found_as_declared(self, engine: Engine) -> None:
        """Only of vectors: the server takes two seconds per query of term weights of so many rows."""
        self.has_terms = False  # type: ignore[misc]  of this test
        super().test_twenty_thousand_rows_are_found_as_declared(engine)
