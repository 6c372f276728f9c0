"""The engine suite on two servers that speak OpenSearch's API."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pytest
from engines.contents import GENERATION
from engines.opensearch_server import Noida, Osmem, noida_process, osmem_process
from engines.suite import EngineSuite
from engines.suite_base import told
from hypothesis import example, given, strategies as st
from told_servers import Answer, Asked, free_port, serving

from retrieve_cli.config.index_settings import OpensearchSettings
from retrieve_cli.contracts.engines import Engine, Part
from retrieve_cli.engines.opensearch.documents import token
from retrieve_cli.engines.opensearch.engine import OpensearchEngine
from retrieve_cli.engines.opensearch.server import OpensearchServer
from retrieve_cli.errors import Unavailable, UsageError

__all__ = ["noida_process", "osmem_process"]


def emptied(url: str) -> Callable[[], OpensearchEngine]:
    """Return a function that makes engines on a server, which has no generations."""
    engine = OpensearchEngine(OpensearchSettings(url=url))
    for staged in engine.generations():
        engine.drop(staged.generation)
    engine.close()
    return lambda: OpensearchEngine(OpensearchSettings(url=url))


class OpensearchSuite(EngineSuite):
    share = 0.1
    precision = 0.01  # rank features have 9 significant bits
    server: Osmem | Noida

    def unreachable(self) -> OpensearchEngine:
        return OpensearchEngine(OpensearchSettings(url=f"http://127.0.0.1:{free_port()}"))

    def losses(self) -> dict[str, Callable[[], object]]:
        names = [each["index"] for each in told("GET", f"{self.server.url}/_cat/indices?format=json")]
        return {name: partial(told, "DELETE", f"{self.server.url}/{name}") for name in names}

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


class TestNoida(OpensearchSuite):
    @pytest.fixture
    def new_engine(self, noida_process: Noida) -> Callable[[], OpensearchEngine]:
        type(self).server = noida_process
        noida_process.start()
        return emptied(noida_process.url)


def put_one_row(url: str) -> None:
    server = OpensearchServer(OpensearchSettings(url=url), user=None, password=None)
    server.store("chunks-0123456789ab", [("0", b"{}"), ("1", b"{}")])


def bulk(*statuses: int) -> tuple[int, object]:
    """The answer to a bulk request."""
    error = {"error": {"type": "mapper_parsing_exception", "reason": "the disk is on fire"}}
    return 200, {"items": [{"index": {"status": each, **(error if each >= 400 else {})}} for each in statuses]}


@dataclass
class Recorded:
    """A server of prepared answers, and the requests that it got."""

    url: str
    asked: list[Asked]


@pytest.fixture
def recorded() -> Iterator[Callable[..., Recorded]]:
    """Starts servers that answer with status and JSON, one after the other; the last answer is repeated."""
    with ExitStack() as servers:

        def start(*answers: tuple[int, object]) -> Recorded:
            pytest.importorskip("opensearchpy", reason="pip install 'retrieve-cli[opensearch]'")
            left, asked = list(answers), list[Asked]()

            def answer(request: Asked) -> Answer:
                asked.append(request)
                status, value = left.pop(0) if len(left) > 1 else left[0]
                return Answer(json.dumps(value).encode(), status, {"content-type": "application/json"})

            return Recorded(servers.enter_context(serving(answer)), asked)

        yield start


def test_a_document_that_the_server_rejects_is_an_error(recorded: Callable[..., Recorded]) -> None:
    with pytest.raises(Unavailable, match=r"document 1 .*the disk is on fire"):
        put_one_row(recorded(bulk(201, 400)).url)


def test_documents_that_a_busy_server_rejects_are_sent_again_alone(recorded: Callable[..., Recorded]) -> None:
    server = recorded(bulk(201, 429), bulk(429), bulk(201))
    put_one_row(server.url)
    assert [request.body.count(b'"index"') for request in server.asked] == [2, 1, 1]
    assert b'"1"' in server.asked[2].body


def test_a_credential_is_sent_and_never_shown(recorded: Callable[..., Recorded]) -> None:
    server = recorded((401, {"error": "no"}))
    engine = OpensearchEngine(OpensearchSettings(url=server.url), user="ann", password="pä:ss\n1")
    with pytest.raises(Unavailable) as caught:
        engine.live()
    assert base64.b64decode(server.asked[0].headers["authorization"].removeprefix("Basic ")) == "ann:pä:ss\n1".encode()
    assert "ss\n1" not in f"{caught.value} {caught.value.hint} {engine!r} {vars(caught.value)}"


def test_an_address_with_a_password_is_an_error_that_does_not_repeat_it() -> None:
    with pytest.raises(UsageError) as caught:
        OpensearchEngine(OpensearchSettings(url="http://ann:s3cret@localhost:9200"))
    assert "s3cret" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_that_fails_is_unavailable(recorded: Callable[..., Recorded], status: int) -> None:
    engine = OpensearchEngine(OpensearchSettings(url=recorded((status, {"error": {"reason": "shards failed"}})).url))
    with pytest.raises(Unavailable, match="shards failed") as caught:
        engine.generations()
    assert caught.value.hint


def test_vectors_need_a_server_that_has_the_plugin(recorded: Callable[..., Recorded]) -> None:
    old = recorded((200, {"version": {"distribution": "opensearch", "number": "2.9.0"}}))
    with pytest.raises(Unavailable, match=r"opensearch 2\.9\.0"):
        OpensearchEngine(OpensearchSettings(url=old.url)).stage(GENERATION, [Part("dense", "chunk", 1, 4)])
    bare = recorded((200, {"version": {"distribution": "opensearch", "number": "2.19.0"}}), (200, []))
    with pytest.raises(Unavailable, match="no k-NN plugin") as caught:
        OpensearchEngine(OpensearchSettings(url=bare.url)).stage(GENERATION, [Part("dense", "chunk", 1, 4)])
    assert "opensearch-plugin install" in caught.value.hint


@example([("a", "b\x1fc"), ("a\x1fb", "c")])
@example([("", "x"), ("\x1f", "x")])
@example([("a", "x" * 40_000), ("a", "x" * 40_001)])
@example([("a", "\ud800"), ("a", "\ud801")])
@given(st.lists(st.tuples(st.text(), st.text()), min_size=2, max_size=2, unique=True))
def test_different_values_have_different_tokens(pairs: list[tuple[str, str]]) -> None:
    first, second = (token(*pair) for pair in pairs)
    assert first != second
    assert max(len(each.encode()) for each in (first, second)) <= 32_766
