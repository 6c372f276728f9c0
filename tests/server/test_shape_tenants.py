"""In every shape, the records of another tenant than that of the credential do not exist."""

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from servers import built, state_of

from retrieve_cli.errors import RetrieveError
from retrieve_cli.server.http.shapes import external_knowledge, passages, rag_flow, vector_store
from retrieve_cli.server.http.shapes.shape import Read
from retrieve_cli.server.http.state import State

SECRET = "zebrafish"
RECORDS = [
    {"id": "ours", "name": "Ours", "description": "Segments cells of larvae.", "tenant": "lab"},
    {"id": "theirs", "name": "Theirs", "description": f"Segments cells of {SECRET} larvae.", "tenant": "other"},
]
SETTING = {"top_k": 9, "score_threshold": 0.01}
SHAPES: dict[str, tuple[Callable[..., Read], dict[str, Any]]] = {
    "passages": (passages.read, {"query": SECRET, "max_tokens": 500}),
    "design C": (rag_flow.read, {"query": SECRET, "similarityTopK": 9}),
    "OpenAI": (vector_store.read, {"query": [SECRET, "cells"], "ranking_options": {"score_threshold": 0.01}}),
    "Dify": (external_knowledge.read, {"knowledge_id": "default", "query": SECRET, "retrieval_setting": SETTING}),
}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[State]:
    artifacts = built(tmp_path_factory.mktemp("tenants"), RECORDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        made = state_of(artifacts)
    yield made
    made.close()


def body(state: State, shape: str, tenant: str | None) -> bytes:
    """The answer in a shape, or the message of its error."""
    read, payload = SHAPES[shape]
    request = read(payload, tenant, state.settings)
    (outcome,) = state.live.answer([request.asked])
    assert not isinstance(outcome, RetrieveError), outcome
    return orjson.dumps(request.render(outcome))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_record_of_another_tenant_is_in_no_answer(state: State, shape: str) -> None:
    everyone, own = body(state, shape, None), body(state, shape, "lab")
    assert b"theirs" in everyone, "or this test shows nothing"
    assert b"theirs" not in own
    assert f"of {SECRET}".encode() not in own
    assert b"ours" in own


def test_the_id_of_another_tenant_is_like_an_unknown_one(state: State) -> None:
    def answer(name: str) -> str:
        request = rag_flow.read({"query": "cells", "docIds": [name]}, "lab", state.settings)
        (outcome,) = state.live.answer([request.asked])
        assert not isinstance(outcome, RetrieveError)
        return str([request.render(outcome), outcome.notices]).replace(name, "NAME")

    assert answer("theirs") == answer("nobody")
