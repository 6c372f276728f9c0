"""The torch encoder: sentence-transformers' own vectors, prefixes once, and batches that shrink to fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from models.encoders.vectors import TEXTS, cosines

from retrieve_cli.errors import Exit, Unavailable
from retrieve_cli.frozen import replace
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.encoders.torch_encoder import TorchEncoder
from retrieve_cli.models.runtimes.devices import why_no_gpu
from retrieve_cli.models.runtimes.model_folder import ModelFolder, read_folder
from retrieve_cli.models.runtimes.torch_runner import halving

Load = Callable[[Path], Any]
MakeOnnx = Callable[..., OnnxEncoder]
MakeTorch = Callable[..., TorchEncoder]


@pytest.fixture(scope="module")
def encoder(tiny_bert: ModelFolder, torch_on_cpu: MakeTorch) -> TorchEncoder:
    return torch_on_cpu(tiny_bert, batch_size=3)


def test_vectors_are_sentence_transformers_own_with_each_prompt_once(
    encoder: TorchEncoder, tiny_bert: ModelFolder, sentence_transformer: Load
) -> None:
    model = sentence_transformer(tiny_bert.path)
    assert np.allclose(encoder.encode_queries(TEXTS), model.encode_query(TEXTS), atol=1e-4)
    assert np.allclose(encoder.encode_passages(TEXTS), model.encode_document(TEXTS), atol=1e-4)


def test_default_prompt_of_the_model_is_not_put_before_an_explicit_prefix(
    tiny_bert: ModelFolder, torch_on_cpu: MakeTorch, onnx: MakeOnnx, tmp_path: Path
) -> None:
    shutil.copytree(tiny_bert.path, tmp_path / "copy")
    settings = tmp_path / "copy" / "config_sentence_transformers.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"default_prompt_name": "query"}))
    folder = read_folder(tmp_path / "copy")
    folder = replace(folder, query_prefix="", passage_prefix="d ")
    bare = torch_on_cpu(folder)
    other = onnx(folder)
    assert np.allclose(bare.encode_queries(["ct"]), other.encode_queries(["ct"]), atol=1e-4)
    assert np.allclose(bare.encode_passages(["ct"]), other.encode_passages(["ct"]), atol=1e-4)


def test_card_is_the_onnx_encoders_card(encoder: TorchEncoder, tiny_bert: ModelFolder, onnx: MakeOnnx) -> None:
    assert encoder.card == onnx(tiny_bert).card


def test_precision_stands_in_the_card_and_moves_the_vectors_little(
    tiny_bert: ModelFolder, torch_on_cpu: MakeTorch, encoder: TorchEncoder
) -> None:
    half = torch_on_cpu(tiny_bert, precision="bfloat16")
    assert half.card.precision == "bfloat16"
    expected, found = encoder.encode_passages(TEXTS), half.encode_passages(TEXTS)
    assert found.dtype == np.float32
    assert 0.98 < cosines(expected, found).min() < 1


def test_folder_without_a_tokenizer_file_uses_the_older_vocabulary(
    default_model: ModelFolder, torch_on_cpu: MakeTorch, tmp_path: Path
) -> None:
    for file in default_model.path.rglob("*.*"):
        if file.is_file() and file.name != "tokenizer.json":
            copy = tmp_path / file.relative_to(default_model.path)
            copy.parent.mkdir(exist_ok=True)
            copy.symlink_to(file)
    encoder = torch_on_cpu(read_folder(tmp_path))
    whole = torch_on_cpu(default_model)
    assert encoder.tokenizer.spans("Lung segmentation") == whole.tokenizer.spans("Lung segmentation")


@pytest.mark.skipif(not why_no_gpu(), reason="a GPU is there")
def test_required_gpu_that_is_not_there_is_unavailable(tiny_bert: ModelFolder, torch_on_cpu: MakeTorch) -> None:
    with pytest.raises(Unavailable, match="GPU") as caught:
        torch_on_cpu(tiny_bert, device="cuda").encode_passages(["ct"])
    assert caught.value.code == Exit.UNAVAILABLE


@given(count=st.integers(0, 200), size=st.integers(1, 64), room=st.integers(1, 64))
def test_batches_shrink_until_they_fit_and_cover_every_text_once(
    out_of_memory: Any, count: int, size: int, room: int
) -> None:
    covered: list[int] = []
    released: list[int] = []

    def run(start: int, end: int) -> None:
        if end - start > room:
            raise out_of_memory("CUDA out of memory")
        covered.extend(range(start, end))

    halving(count, run, size=size, exhausted=out_of_memory, release=lambda: released.append(1))
    assert covered == list(range(count))
    assert bool(released) == (min(count, size) > room)


def test_vectors_survive_a_device_that_runs_out_of_memory(
    encoder: TorchEncoder, tiny_bert: ModelFolder, torch_on_cpu: MakeTorch, fill_above: Any
) -> None:
    small = torch_on_cpu(tiny_bert, batch_size=8)
    fill_above(small._runner.model, "encode", 2)
    assert np.allclose(small.encode_passages(TEXTS), encoder.encode_passages(TEXTS), atol=1e-4)


class Interrupted(Exception):
    """In the middle of a call."""


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("with_tokens", [False, True])
def test_texts_left_by_an_interruption_get_the_vectors_that_they_would_have_had(
    tiny_bert: ModelFolder, torch_on_cpu: MakeTorch, precision: Any, with_tokens: bool
) -> None:
    encoder = torch_on_cpu(tiny_bert, batch_size=3, precision=precision)
    whole = encoder.encode_passages(TEXTS)
    done: dict[int, Any] = {}
    tokens: dict[int, Any] = {}

    def keep(places: Any, vectors: Any) -> None:
        if len(done) >= 3:
            raise Interrupted
        done.update(zip(places, vectors, strict=True))
        assert not with_tokens or tokens.keys() >= done.keys()

    with pytest.raises(Interrupted):
        encoder.encode_passages_gradually(TEXTS, keep, tokens.__setitem__ if with_tokens else None)
    left = [place for place in range(len(TEXTS)) if place not in done]
    assert 0 < len(left) < len(TEXTS)
    rest = encoder.encode_passages([TEXTS[place] for place in left])
    assert all(np.array_equal(done[place], whole[place]) for place in done)
    assert np.array_equal(rest, whole[left])
