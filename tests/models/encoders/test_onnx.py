"""The onnx encoder against sentence-transformers, against itself in other company, and on other models."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.encoders.vectors import TEXTS, cosines

from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import replace
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.runtimes.model_folder import ModelFolder, read_folder
from retrieve_cli.models.runtimes.packages import require

MakeOnnx = Callable[..., OnnxEncoder]
MakeTiny = Callable[..., ModelFolder]
Load = Callable[[Path], Any]


@pytest.fixture(scope="module")
def encoder(default_model: ModelFolder, onnx: MakeOnnx) -> OnnxEncoder:
    return onnx(default_model)


def test_queries_and_passages_meet_in_one_space(encoder: OnnxEncoder) -> None:
    assert cosines(encoder.encode_queries(TEXTS), encoder.encode_passages(TEXTS)).min() >= 0.99999


def test_onnxruntime_is_told_not_to_report_before_it_is_loaded(
    default_model: ModelFolder, onnx: MakeOnnx, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its wheels contact mobile.events.data.microsoft.com otherwise, as a proxy beside them shows."""
    told: list[str] = []

    def required(package: str) -> Any:
        told.append(os.environ.get("ORT_DISABLE_TELEMETRY", ""))
        return require(package)

    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    monkeypatch.setattr("retrieve_cli.models.runtimes.onnx_runner.require", required)
    onnx(default_model).encode_passages(["a passage"])
    assert told == ["1"]


def test_no_text_and_lone_surrogates_are_taken(encoder: OnnxEncoder) -> None:
    assert encoder.encode_passages([]).shape == encoder.encode_queries([]).shape == (0, 384)
    assert np.isfinite(encoder.encode_passages(["a\ud800b"])).all()
    assert np.isfinite(encoder.encode_queries(["a\ud800b"])).all()


def without_memory(encoder: OnnxEncoder) -> OnnxEncoder:
    """The encoder as one that has encoded no query yet."""
    encoder._recent = {}
    return encoder


def test_a_query_that_comes_again_is_not_encoded_again(encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["segment lungs", "brain"]
    first = without_memory(encoder).encode_queries(texts)
    monkeypatch.setattr("retrieve_cli.models.encoders.onnx_encoder.hidden_states", None)
    assert np.array_equal(encoder.encode_queries([texts[1], texts[0]]), first[::-1])
    with pytest.raises(TypeError):
        encoder.encode_queries(["another one"])


def assert_agrees(encoder: OnnxEncoder, model: Any) -> None:
    """Passages and queries have the vectors that sentence-transformers gives them."""
    for found, expected in (
        (encoder.encode_passages(TEXTS), model.encode_document(TEXTS)),
        (encoder.encode_queries(TEXTS), model.encode_query(TEXTS)),
    ):
        assert cosines(found, expected).min() >= 0.99999
        assert np.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("name", ["default_model", "tiny_bert", "tiny_roberta"])
def test_a_model_encodes_as_sentence_transformers_does(
    request: pytest.FixtureRequest, onnx: MakeOnnx, sentence_transformer: Load, name: str
) -> None:
    folder = request.getfixturevalue(name)
    assert_agrees(onnx(folder), sentence_transformer(folder.path))


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
def test_every_pooling_is_the_models_own(
    make_tiny: MakeTiny, onnx: MakeOnnx, sentence_transformer: Load, pooling: str
) -> None:
    encoder = onnx(folder := make_tiny(pooling))
    assert encoder.card.pooling == pooling
    assert_agrees(encoder, sentence_transformer(folder.path))


def test_prompts_of_the_model_are_its_prefixes_unless_the_user_sets_others(
    tiny_bert: ModelFolder, onnx: MakeOnnx
) -> None:
    encoder = onnx(tiny_bert)
    plain = onnx(replace(tiny_bert, query_prefix="", passage_prefix=""))
    assert (encoder.card.query_prefix, encoder.card.passage_prefix) == ("find: ", "a document: ")
    assert np.array_equal(encoder.encode_queries(["ct"]), plain.encode_queries(["find: ct"]))
    assert np.array_equal(encoder.encode_passages(["ct"]), plain.encode_passages(["a document: ct"]))
    own = onnx(replace(tiny_bert, query_prefix="q ", passage_prefix=""))
    assert (own.card.query_prefix, own.card.passage_prefix) == ("q ", "")
    assert not np.array_equal(own.encode_queries(["ct"]), own.encode_passages(["ct"]))


def test_texts_that_lose_their_end_are_counted(default_model: ModelFolder, onnx: MakeOnnx) -> None:
    encoder = onnx(default_model)
    encoder.encode_passages(["word " * 254, "short"])
    assert encoder.truncated == 0
    encoder.encode_passages(["word " * 255, "short", "word " * 1000])
    assert encoder.truncated == 2
    encoder.encode_queries(["word " * 255])
    assert encoder.truncated == 3


def test_card_says_what_decides_a_vector(encoder: OnnxEncoder) -> None:
    card = encoder.card
    assert (card.family, card.name) == ("transformer", "sentence-transformers/all-MiniLM-L6-v2")
    assert (card.dim, card.max_tokens, card.pooling, card.normalize) == (384, 256, "mean", True)
    assert len(card.revision) == 40


def test_model_of_another_family_is_refused_with_the_way_out(make_tiny: MakeTiny, onnx: MakeOnnx) -> None:
    folder = make_tiny()
    config = folder.transformer / "config.json"
    config.write_text(config.read_text().replace('"model_type": "bert"', '"model_type": "mpnet"'))
    with pytest.raises(Unavailable, match="mpnet") as caught:
        onnx(read_folder(folder.path))
    assert "encoder.kind: torch" in caught.value.hint
