"""The endpoints of the models: shapes of requests and answers, names of models, and passes that requests share."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from servers import client_of, sent, state_of
from splade_models import save_masked
from waiting import PATIENCE_S, until

from retrieve_cli.assemble import encoders
from retrieve_cli.config.loading import load, override
from retrieve_cli.contracts import TermWeights
from retrieve_cli.models.encoders.hashed import HashedEncoder
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.runtimes.locate import locate
from retrieve_cli.models.runtimes.model_folder import read_folder
from retrieve_cli.server.http.app import server_app
from retrieve_cli.server.http.callers import Callers
from retrieve_cli.server.http.metrics import Metrics
from retrieve_cli.server.http.model_parts import ModelParts, configured
from retrieve_cli.server.http.models import Models, models_app

TEXTS = ["segment lungs in CT", "Grüße 細胞", "brain " * 400, "a b c d", "registration of the brain"]


class Sparse:
    """A sparse encoder of two terms."""

    card: ClassVar = {"name": "toy-splade"}
    device = "cpu"

    def vocabulary(self) -> Sequence[str]:
        return ["", "", "lung", "brain"]

    def encode_queries(self, texts: Sequence[str]) -> list[TermWeights]:
        return self.encode_passages(texts)

    def encode_passages(self, texts: Sequence[str]) -> list[TermWeights]:
        return [TermWeights(np.array([2, 3, 9], np.int32), np.array([0.5, 1.5, 0.25], np.float32)) for _ in texts]


def parts_of(encoder: Any, **more: Any) -> ModelParts:
    return ModelParts(encoder, encoder.card.name, **more)


def app_of(parts: ModelParts) -> Any:
    return models_app(parts, metrics=Metrics())


def ask(app: Any, path: str, **payload: Any) -> httpx.Response:
    (answer,) = sent(app, ("POST", path, {"json": payload}))
    return answer


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> OnnxEncoder:
    place = locate("default")
    return OnnxEncoder(read_folder(place.path, name=place.name), cache_dir=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def hashed() -> Any:
    return app_of(parts_of(HashedEncoder(64), sparse=Sparse, query_prefix="ask: "))


# -------------------------------------------------------------------------------------------------- /embed


def test_inputs_give_vectors_alone_as_text_embeddings_inference_does(hashed: Any) -> None:
    one, several = ask(hashed, "/embed", inputs="lungs").json(), ask(hashed, "/embed", inputs=["lungs", "brain"]).json()
    assert np.array_equal(np.float32(several), HashedEncoder(64).encode_passages(["lungs", "brain"]))
    assert one == several[:1]
    flags = {"truncate": True, "normalize": True, "truncation_direction": "Right", "prompt_name": None}
    assert ask(hashed, "/embed", inputs="lungs", **flags).json() == one


def test_texts_give_an_object_with_every_form_that_is_asked_for(minilm: OnnxEncoder) -> None:
    app = app_of(parts_of(minilm, sparse=Sparse))
    answer = ask(app, "/embed", texts=TEXTS[:2], input_type="query", sparse=True, tokens=True).json()
    assert list(answer) == ["model", "dim", "embeddings", "sparse", "tokens", "usage"]
    assert (answer["model"], answer["dim"]) == ("sentence-transformers/all-MiniLM-L6-v2", 384)
    assert np.array_equal(np.float32(answer["embeddings"]), minilm.encode_queries(TEXTS[:2]))
    assert answer["sparse"]["features"][0] == {"brain": 1.5, "lung": 0.5, "#9": 0.25}
    tokens = minilm.encode_tokens(TEXTS[:2])
    assert [row["ids"] for row in answer["tokens"]] == [one.ids.tolist() for one in tokens]
    assert np.array_equal(np.float32(answer["tokens"][1]["vectors"]), tokens[1].vectors)
    assert answer["usage"]["truncated"] == 0
    plain = ask(app, "/embed", texts=TEXTS[:3]).json()
    assert list(plain) == ["model", "dim", "embeddings", "usage"]
    assert plain["usage"]["truncated"] == 1
    passages = ask(app, "/embed", inputs=TEXTS[:1], tokens=True).json()
    assert np.shape(passages)[2] == 384


def test_input_type_and_prompt_name_add_the_prefix_of_the_model(hashed: Any) -> None:
    expected = HashedEncoder(64, query_prefix="ask: ").encode_queries(["lungs"])
    for payload in ({"texts": ["lungs"], "input_type": "query"}, {"inputs": "lungs", "prompt_name": "query"}):
        answer = ask(hashed, "/embed", **payload).json()
        assert np.array_equal(np.float32(answer if isinstance(answer, list) else answer["embeddings"]), expected)


def test_term_weights_have_the_form_of_text_embeddings_inference(hashed: Any) -> None:
    expected = [{"index": 2, "value": 0.5}, {"index": 3, "value": 1.5}, {"index": 9, "value": 0.25}]
    assert ask(hashed, "/embed_sparse", inputs=["lungs", "brain"]).json() == [expected] * 2
    assert ask(hashed, "/embed", inputs="lungs", sparse=True).json() == [expected]


def test_the_configured_splade_model_gives_the_weights_that_an_index_is_built_with(tmp_path: Path) -> None:
    chosen = {"splade": {"model": str(save_masked(tmp_path / "splade"))}, "models": {"cache_dir": str(tmp_path)}}
    settings = override(load(None), {**chosen, "encoder": {"kind": "hashed"}}, where="test")
    encoder = encoders.sparse_encoder_to_build(settings)
    assert encoder is not None
    app = app_of(configured(settings))
    for kind, encode in (("query", encoder.encode_queries), ("passage", encoder.encode_passages)):
        (expected,) = encode(["the lung segment"])
        (found,) = ask(app, "/embed_sparse", inputs="the lung segment", prompt_name=kind).json()
        assert [row["index"] for row in found] == expected.terms.tolist()
        np.testing.assert_allclose([row["value"] for row in found], expected.weights, atol=1e-5)
        named = ask(app, "/embed", texts=["the lung segment"], input_type=kind, sparse=True).json()["sparse"]
        assert len(named["features"][0]) == len(found)
        assert list(named["features"][0].values()) == sorted(named["features"][0].values(), reverse=True)


@pytest.mark.parametrize(
    ("payload", "status", "said"),
    [
        ({}, 400, "`inputs` or `texts`"),
        ({"inputs": "a", "nromalize": True}, 400, "nromalize"),
        ({"inputs": "a", "normalize": False}, 400, "length 1"),
        ({"inputs": "a", "dimensions": 32}, 400, "64 dimensions"),
        ({"inputs": "a", "prompt_name": "query", "input_type": "query"}, 400, "one of them"),
        ({"inputs": "a", "model": "other/model"}, 404, "hashed-64"),
        ({"inputs": "a " * 600, "truncate": False}, 413, "600 tokens"),
        ({"inputs": "a", "tokens": True}, 424, "no token vectors"),
    ],
)
def test_an_embed_request_that_cannot_be_answered_says_why(
    hashed: Any, payload: dict[str, Any], status: int, said: str
) -> None:
    answer = ask(hashed, "/embed", **payload)
    assert (answer.status_code, said in answer.json()["error"]["message"]) == (status, True), answer.text


def test_without_a_sparse_encoder_the_answer_says_how_to_get_one() -> None:
    answer = ask(app_of(parts_of(HashedEncoder(8))), "/embed_sparse", inputs="a")
    assert (answer.status_code, answer.json()["error"]["hint"]) == (424, "set splade.model, then restart the server")


# -------------------------------------------------------------------------------------------- names, /info


@pytest.mark.parametrize(
    "name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", "ALL-minilm-l6-V2", "mine"]
)
def test_a_model_goes_by_its_full_name_its_short_name_and_the_configured_one(minilm: OnnxEncoder, name: str) -> None:
    app = app_of(parts_of(minilm, configured_name="mine"))
    for path, payload in (("/embed", {"inputs": "a"}), ("/v1/embeddings", {"input": "a"})):
        assert ask(app, path, model=name, **payload).status_code == 200
        assert ask(app, path, model=f"other/{name}", **payload).status_code == 404


def test_the_models_answer_beside_the_search_and_ask_for_the_key(artifacts: Path) -> None:
    state = state_of(artifacts, key="abcdefgh12345678")
    app = server_app(state)
    assert ask(app, "/embed", inputs="a").status_code == 401
    key = {"headers": {"Authorization": "Bearer abcdefgh12345678"}}
    posted = [("/embed", {"inputs": "a"}), ("/v1/embeddings", {"input": "a"}), ("/search", {"query": "lungs"})]
    posts = [("POST", path, {"json": payload, **key}) for path, payload in posted]
    answers = sent(app, *posts, ("GET", "/v1/models", key), ("GET", "/info", key))
    assert [answer.status_code for answer in answers] == [200] * 5
    state.close()


# ------------------------------------------------------------------------------------------- shared passes


class Recording(HashedEncoder):
    """Waits in its first pass until others are in the queue, and notes the texts of each pass."""

    def __init__(self, dim: int = 16) -> None:
        super().__init__(dim)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.passes: list[list[str]] = []

    def encode_passages(self, texts: Sequence[str]) -> Any:
        self.passes.append(list(texts))
        if not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(PATIENCE_S)
        if "bad" in texts:
            raise ZeroDivisionError
        return super().encode_passages(texts)


class Variant(Recording):
    shares_passes = False


def in_one_pass(encoder: Recording, texts: Sequence[Sequence[str]]) -> list[httpx.Response]:
    """Answers to requests that are all in the queue while the model is busy with another one."""
    models, app = Models(lambda: parts_of(encoder)), FastAPI()
    app.include_router(models.router(Callers()))

    def wait_for(count: int) -> None:
        until(lambda: models._queue.waiting == count and encoder.begun.is_set(), f"{count} requests in the queue")

    async def all_of_them() -> list[httpx.Response]:
        async with client_of(app) as client:
            sent = []
            for one in (["first"], *texts):
                sent.append(asyncio.ensure_future(client.post("/embed", json={"inputs": list(one)})))
                await asyncio.to_thread(wait_for, len(sent))
            first, *others = sent
            encoder.go_on.set()
            await first
            return list(await asyncio.gather(*others, return_exceptions=True))

    return asyncio.run(all_of_them())


def test_requests_that_wait_share_a_pass_and_each_gets_its_own_vectors() -> None:
    encoder = Recording()
    texts = [["one"], ["two", "three"], ["four"], ["long"] * 17, ["five"]]
    answers = in_one_pass(encoder, texts)
    assert encoder.passes == [["first"], ["one", "two", "three", "four"], ["long"] * 17, ["five"]]
    for own, answer in zip(texts, answers, strict=True):
        assert np.array_equal(np.float32(answer.json()), HashedEncoder(16).encode_passages(own))


def test_vectors_that_depend_on_the_batch_are_not_computed_with_those_of_others() -> None:
    encoder = Variant()
    in_one_pass(encoder, [["one"], ["two"]])
    assert encoder.passes == [["first"], ["one"], ["two"]]


def test_a_text_that_fails_fails_alone() -> None:
    good, bad, other = in_one_pass(Recording(), [["one"], ["bad"], ["two"]])
    assert isinstance(bad, ZeroDivisionError)  # raised through the transport; a server answers 500
    assert (good.status_code, other.status_code) == (200, 200)
