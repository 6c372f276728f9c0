"""The promises of `contracts/engines.py` as tests, for any engine.

A subclass has a fixture `new_engine`, which returns a function that makes an Engine over the same namespace of a
running server, empty at the beginning of a test. The attributes in `suite_base.py` say what the engine cannot do. Rows
are the same in a part with vectors and in one with term weights, and are compared with local indexes of them.
"""

from __future__ import annotations

from threading import Event, Thread

import pytest
from engines.contents import GENERATION, TERMS, VECTORS, Content
from engines.suite_base import vector, words
from engines.suite_contents import ContentSuite
from engines.suite_generations import GenerationSuite
from waiting import PATIENCE_S

from retrieve_cli.contracts.engines import Engine
from retrieve_cli.errors import RetrieveError, Unavailable


class EngineSuite(GenerationSuite, ContentSuite):
    """Promises of an engine, to be subclassed."""

    def test_a_server_that_nobody_started_is_unavailable_with_a_hint(self, made: Content) -> None:
        if self.unreachable is None:
            pytest.skip("the subclass has no method `unreachable`")
        engine: Engine = self.unreachable()
        for call in (
            engine.live,
            engine.generations,
            lambda: engine.open(GENERATION),
            lambda: engine.stage(GENERATION, self.parts(made)),
            lambda: engine.publish(GENERATION),
            lambda: engine.drop(GENERATION),
        ):
            with pytest.raises(Unavailable) as caught:
                call()
            assert caught.value.hint
        assert list(engine.problems())
        engine.close()

    def test_a_server_that_dies_in_the_middle_of_a_query_is_unavailable(self, engine: Engine, made: Content) -> None:
        if self.kill_server is None:
            pytest.skip("the subclass has no method `kill_server`")
        opened = self.opened(engine, made)
        started, errors = Event(), list[BaseException]()

        def query_until_it_fails() -> None:
            try:
                while True:
                    if self.has_vectors:
                        opened.collection(VECTORS).nearest(vector(1), 10)
                    if self.has_terms:
                        opened.collection(TERMS).nearest(words(1), 10)
                    started.set()
            except BaseException as error:  # noqa: BLE001  the test looks at what it is
                errors.append(error)
                started.set()

        threads = [Thread(target=query_until_it_fails) for _ in range(3)]
        for thread in threads:
            thread.start()
        started.wait(PATIENCE_S)
        self.kill_server()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert [type(error) for error in errors] == [Unavailable] * 3, errors
        assert all(isinstance(error, RetrieveError) and error.hint for error in errors)
        with pytest.raises(Unavailable):
            engine.live()
