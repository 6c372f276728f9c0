"""What is read out of a model folder, and what is said about one that is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retrieve_cli.errors import Exit, Unavailable, UsageError
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder, dense_export
from retrieve_cli.models.runtimes.exports import ensure
from retrieve_cli.models.runtimes.model_folder import read_folder

BERT = {"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}


def make(path: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def listed(*steps: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{name}"}
        for place, (name, path) in enumerate(steps)
    ]


def sequence(length: int) -> dict[str, Any]:
    return {"sentence_bert_config.json": {"max_seq_length": length}}


USUAL = {
    "config.json": BERT,
    "model.safetensors": "",
    "modules.json": listed(("Transformer", ""), ("Pooling", "1_Pooling")),
}


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_lasttoken": True}, "lasttoken"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": ["max"]}, "max"),
        ({"pooling_mode": "lasttoken", "pooling_mode_mean_tokens": True}, "lasttoken"),
        ({}, "mean"),
        ({"pooling_mode_weightedmean_tokens": True}, "none"),
        ({"pooling_mode": ["mean", "max"]}, "none"),
        ({"pooling_mode": "mean", "include_prompt": False}, "none"),
    ],
)
def test_pooling_is_read_in_both_spellings(tmp_path: Path, config: dict[str, Any], pooling: str) -> None:
    assert read_folder(make(tmp_path, USUAL | {"1_Pooling/config.json": config})).pooling == pooling


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        (sequence(128) | {"tokenizer_config.json": {"model_max_length": 64}}, 128),
        ({"tokenizer_config.json": {"model_max_length": 64}}, 64),
        ({"tokenizer_config.json": {"model_max_length": 10**30}, "config.json": BERT}, 512),
        ({"config.json": BERT | {"max_position_embeddings": 300}}, 300),
        ({"config.json": BERT | {"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}}, 512),
        (sequence(900) | {"config.json": BERT | {"max_position_embeddings": 100}}, 100),
    ],
)
def test_limit_is_the_models_choice_and_never_beyond_its_positions(
    tmp_path: Path, files: dict[str, Any], limit: int
) -> None:
    assert read_folder(make(tmp_path, USUAL | files)).max_tokens == limit


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ({"query": "q: ", "passage": "p: "}, ("q: ", "p: ")),
        ({"query": "q: ", "document": "", "corpus": "c: "}, ("q: ", "c: ")),
        ({"classification": "x"}, ("", "")),
        ({"query": None}, ("", "")),
        (None, ("", "")),
    ],
)
def test_prompts_for_queries_and_documents_are_read(
    tmp_path: Path, prompts: dict[str, str] | None, expected: tuple[str, str]
) -> None:
    folder = read_folder(make(tmp_path, USUAL | {"config_sentence_transformers.json": {"prompts": prompts}}))
    assert folder.prompts[:2] == expected


def test_transformer_in_a_folder_of_its_own_is_found(tmp_path: Path) -> None:
    files = {
        "modules.json": listed(("Transformer", "0_Transformer"), ("Pooling", "1_Pooling")),
        "0_Transformer/config.json": BERT,
        "0_Transformer/model.safetensors": "",
    }
    folder = read_folder(make(tmp_path, files))
    assert folder.transformer == tmp_path / "0_Transformer"
    assert folder.weights == (tmp_path / "0_Transformer" / "model.safetensors",)


def test_weights_in_several_files_are_all_found(tmp_path: Path) -> None:
    weights = {"weight_map": {"a": "2.safetensors", "b": "1.safetensors", "c": "2.safetensors"}}
    files = {"config.json": BERT, "model.safetensors.index.json": weights}
    assert [path.name for path in read_folder(make(tmp_path, files)).weights] == ["1.safetensors", "2.safetensors"]


def test_dense_layer_decides_the_dimension_and_is_left_to_torch(tmp_path: Path) -> None:
    steps = listed(("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Normalize", "3_Normalize"))
    folder = read_folder(make(tmp_path, USUAL | {"modules.json": steps, "2_Dense/config.json": {"out_features": 5}}))
    assert (folder.dim, folder.normalize) == (5, True)
    with pytest.raises(Unavailable, match="Dense") as caught:
        OnnxEncoder(folder, cache_dir=tmp_path)
    assert caught.value.code == Exit.UNAVAILABLE


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({}, r"config\.json"),
        ({"config.json": BERT}, r"model\.safetensors"),
        ({"config.json": "{", "model.safetensors": ""}, r"config\.json"),
        ({"config.json": [], "model.safetensors": ""}, r"config\.json"),
        ({"config.json": {"model_type": "clip"}, "model.safetensors": ""}, "hidden_size"),
        ({"modules.json": [], "config.json": BERT, "model.safetensors": ""}, r"modules\.json"),
        ({"modules.json": [{"a": 1}], "config.json": BERT, "model.safetensors": ""}, r"modules\.json"),
        ({"modules.json": listed(("Transformer", "0_T")), "config.json": BERT}, r"0_T/config\.json"),
    ],
)
def test_what_is_no_model_folder_is_refused_by_the_file_that_is_wrong(
    tmp_path: Path, files: dict[str, Any], named: str
) -> None:
    with pytest.raises(UsageError, match=named) as caught:
        read_folder(make(tmp_path, files))
    assert caught.value.code == Exit.USAGE
    assert caught.value.hint


def test_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_folder(tmp_path / "nowhere")


def test_pickled_weights_are_not_opened(tmp_path: Path) -> None:
    files = {"config.json": BERT, "pytorch_model.bin": "", "tokenizer.json": "{}"}
    with pytest.raises(Unavailable, match="pickle"):
        ensure(dense_export(read_folder(make(tmp_path / "model", files)), tmp_path))
