"""bfloat16 on a CPU, by torch and OpenVINO: near float32, and the same bits in any company."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from retrieve_cli.contracts import Encoder
from retrieve_cli.encoders.devices import why_no_bfloat16
from retrieve_cli.encoders.model_folder import ModelFolder
from retrieve_cli.encoders.onnx_encoder import OnnxEncoder, Runtime
from retrieve_cli.encoders.torch_encoder import TorchEncoder
from retrieve_cli.errors import Exit, Unavailable

Precision = Literal["float32", "bfloat16"]

NO_OPENVINO = not importlib.util.find_spec("openvino")
needs_openvino = pytest.mark.skipif(NO_OPENVINO, reason="openvino is not installed: pip install -e '.[openvino]'")
needs_bfloat16 = pytest.mark.skipif(bool(why_no_bfloat16()), reason=why_no_bfloat16())
KINDS = ["sentence-transformers", "torch", pytest.param("openvino", marks=[needs_openvino, needs_bfloat16])]


def in_bfloat16(kind: str, folder: ModelFolder, cache_dir: Path, threads: int | None = None) -> Encoder:
    if kind == "sentence-transformers":
        return TorchEncoder(folder, cache_dir=cache_dir, device="cpu", precision="bfloat16")
    runtime: Runtime = "torch" if kind == "torch" else "openvino"
    return OnnxEncoder(folder, cache_dir=cache_dir, threads=threads, runtime=runtime, precision="bfloat16")


def cosines(left: Any, right: Any) -> Any:
    return (left * right).sum(axis=1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_near_those_of_float32_and_not_the_same(
    default_model: ModelFolder, cache_dir: Path, texts: list[str], kind: str
) -> None:
    expected = OnnxEncoder(default_model, cache_dir=cache_dir).encode_passages(texts)
    vectors = in_bfloat16(kind, default_model, cache_dir).encode_passages(texts)
    assert vectors.dtype == np.float32
    assert 0.9999 < cosines(vectors, expected).min() < 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_other_settings_is_near_too(
    tiny_bert: ModelFolder, cache_dir: Path, texts: list[str], kind: str
) -> None:
    expected = OnnxEncoder(tiny_bert, cache_dir=cache_dir).encode_passages(texts)
    vectors = in_bfloat16(kind, tiny_bert, cache_dir).encode_passages(texts)
    assert 0.999 < cosines(vectors, expected).min() < 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_card_differs_from_that_of_float32_in_the_precision_alone(
    tiny_bert: ModelFolder, cache_dir: Path, kind: str
) -> None:
    from dataclasses import replace

    card = in_bfloat16(kind, tiny_bert, cache_dir).card
    assert card.precision == "bfloat16"
    assert replace(card, precision="float32") == OnnxEncoder(tiny_bert, cache_dir=cache_dir).card


@pytest.mark.bits
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_vector_of_a_passage_is_the_same_to_the_bit_in_any_company(
    default_model: ModelFolder, cache_dir: Path, kind: str, threads: int
) -> None:
    random = np.random.default_rng(threads)
    words = ["lung", "segmentation", "of", "CT", "nnU-Net", "registration", "tool"]
    texts = [" ".join(random.choice(words, size)) for size in [*range(1, 40, 4), *(7,) * 6, *(60,) * 3, 150]]
    encoder = in_bfloat16(kind, default_model, cache_dir, threads)
    alone = np.concatenate([encoder.encode_passages([text]) for text in texts])
    order = random.permutation(len(texts))
    assert np.array_equal(encoder.encode_passages([texts[place] for place in order]), alone[order])


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_taken_beside_the_same_vectors(tiny_bert: ModelFolder, cache_dir: Path, kind: str) -> None:
    texts = ["segment the lungs", "a", "", "word word word"]
    encoder, taken = in_bfloat16(kind, tiny_bert, cache_dir), {}
    vectors = encoder.encode_passages_into(texts, taken.__setitem__)  # type: ignore[attr-defined]
    assert np.array_equal(vectors, encoder.encode_passages(texts))
    expected: dict[int, Any] = {}
    OnnxEncoder(tiny_bert, cache_dir=cache_dir).encode_passages_into(texts, expected.__setitem__)
    for place, tokens in taken.items():
        assert np.array_equal(tokens.ids, expected[place].ids)
        assert cosines(tokens.vectors, expected[place].vectors).min() > 0.99


@needs_openvino
def test_openvino_in_float32_is_the_onnx_encoder_but_for_rounding(
    default_model: ModelFolder, cache_dir: Path, texts: list[str]
) -> None:
    onnx = OnnxEncoder(default_model, cache_dir=cache_dir)
    other = OnnxEncoder(default_model, cache_dir=cache_dir, runtime="openvino")
    assert other.card == onnx.card
    assert np.allclose(other.encode_passages(texts), onnx.encode_passages(texts), atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
@pytest.mark.parametrize("kind", KINDS[1:])
def test_other_activations_are_near_too(
    make_tiny: Callable[..., ModelFolder], cache_dir: Path, texts: list[str], kind: str, activation: str
) -> None:
    folder = make_tiny(hidden_act=activation)
    expected = OnnxEncoder(folder, cache_dir=cache_dir).encode_passages(texts)
    assert cosines(in_bfloat16(kind, folder, cache_dir).encode_passages(texts), expected).min() > 0.999


@pytest.mark.parametrize("kind", KINDS[1:])
def test_positions_that_start_after_the_padding_are_taken(
    tiny_roberta: ModelFolder, cache_dir: Path, texts: list[str], kind: str
) -> None:
    expected = OnnxEncoder(tiny_roberta, cache_dir=cache_dir).encode_passages(texts)
    assert cosines(in_bfloat16(kind, tiny_roberta, cache_dir).encode_passages(texts), expected).min() > 0.999


def test_torch_has_as_many_threads_after_a_batch_as_before(tiny_bert: ModelFolder, cache_dir: Path) -> None:
    import torch

    usual = torch.get_num_threads()
    for threads in (1, 2):
        encoder = in_bfloat16("torch", tiny_bert, cache_dir, threads)
        encoder.encode_passages(["word " * size for size in range(1, 12)])
        assert torch.get_num_threads() == usual


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_short_query_is_encoded_in_float32_whatever_runs_the_passages(
    default_model: ModelFolder, cache_dir: Path, kind: str
) -> None:
    encoder = in_bfloat16(kind, default_model, cache_dir)
    expected = OnnxEncoder(default_model, cache_dir=cache_dir).encode_queries(["segment lungs in CT"])
    assert np.array_equal(encoder.encode_queries(["segment lungs in CT"]), expected)


@needs_openvino
def test_openvino_reports_its_import_to_nobody(run_python: Callable[..., str], tiny_bert: ModelFolder) -> None:
    program = """
import json, socket, sys
def refuse(*arguments, **settings):
    raise AssertionError("a socket was opened")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
from pathlib import Path
from retrieve_cli.encoders.model_folder import read_folder
from retrieve_cli.encoders.onnx_encoder import OnnxEncoder
encoder = OnnxEncoder(read_folder(Path(sys.argv[1])), cache_dir=Path(sys.argv[2]), runtime="openvino")
encoder.encode_passages(["segment lungs"])
print(json.dumps([name for name in sys.modules if "telemetry" in name or name.startswith("openvino.tools")]))
"""
    assert json.loads(run_python(program, tiny_bert.path, tiny_bert.path.parent / "cache")) == []


@needs_openvino
def test_a_graph_that_openvino_cannot_read_is_unavailable(tmp_path: Path) -> None:
    from retrieve_cli.encoders.openvino_graph import in_openvino

    (tmp_path / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(Unavailable, match=r"model\.onnx") as caught:
        in_openvino(tmp_path / "model.onnx", 1, precision="float32")
    assert caught.value.code == Exit.UNAVAILABLE


def test_openvino_that_is_not_installed_is_named_with_its_install_line(
    tiny_bert: ModelFolder, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openvino", None)
    with pytest.raises(Unavailable, match="openvino") as caught:
        OnnxEncoder(tiny_bert, cache_dir=cache_dir, runtime="openvino").encode_passages(["ct"])
    assert caught.value.hint == "pip install 'retrieve-cli[openvino]'"
