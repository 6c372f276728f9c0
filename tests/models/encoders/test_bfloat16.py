"""bfloat16 on a CPU, by torch and OpenVINO: near float32, and the same bits in any company."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable

import numpy as np
import pytest
from models.encoders.vectors import TEXTS, cosines

from retrieve_cli.contracts import Encoder
from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import replace
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.encoders.torch_encoder import TorchEncoder
from retrieve_cli.models.runtimes.devices import why_no_bfloat16
from retrieve_cli.models.runtimes.model_folder import ModelFolder

Make = Callable[..., Encoder]
MakeOnnx = Callable[..., OnnxEncoder]

NO_OPENVINO = not importlib.util.find_spec("openvino")
needs_openvino = pytest.mark.skipif(NO_OPENVINO, reason="openvino is not installed: pip install -e '.[openvino]'")
needs_bfloat16 = pytest.mark.skipif(bool(why_no_bfloat16()), reason=why_no_bfloat16())
KINDS = ["sentence-transformers", "torch", pytest.param("openvino", marks=[needs_openvino, needs_bfloat16])]


@pytest.fixture
def in_bfloat16(onnx: MakeOnnx, torch_on_cpu: Callable[..., TorchEncoder]) -> Callable[..., Encoder]:
    """Makes encoders by kind, of a model."""

    def make(kind: str, folder: ModelFolder, threads: int | None = None) -> Encoder:
        if kind == "sentence-transformers":
            return torch_on_cpu(folder, precision="bfloat16")
        return onnx(folder, threads=threads, runtime=kind, precision="bfloat16")

    return make


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("model", "least"), [("default_model", 0.9999), ("tiny_bert", 0.999), ("tiny_roberta", 0.999)], ids=str
)
def test_vectors_are_near_those_of_float32_and_not_the_same(
    request: pytest.FixtureRequest, onnx: MakeOnnx, in_bfloat16: Make, kind: str, model: str, least: float
) -> None:
    folder = request.getfixturevalue(model)
    vectors = in_bfloat16(kind, folder).encode_passages(TEXTS)
    assert vectors.dtype == np.float32
    assert least < cosines(vectors, onnx(folder).encode_passages(TEXTS)).min() < 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_card_differs_from_that_of_float32_in_the_precision_alone(
    tiny_bert: ModelFolder, onnx: MakeOnnx, in_bfloat16: Make, kind: str
) -> None:
    card = in_bfloat16(kind, tiny_bert).card
    assert card.precision == "bfloat16"
    assert replace(card, precision="float32") == onnx(tiny_bert).card


@needs_openvino
def test_openvino_in_float32_is_the_onnx_encoder_but_for_rounding(default_model: ModelFolder, onnx: MakeOnnx) -> None:
    encoder, other = onnx(default_model), onnx(default_model, runtime="openvino")
    assert other.card == encoder.card
    assert np.allclose(other.encode_passages(TEXTS), encoder.encode_passages(TEXTS), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_short_query_is_encoded_in_float32_whatever_runs_the_passages(
    default_model: ModelFolder, onnx: MakeOnnx, in_bfloat16: Make, kind: str
) -> None:
    encoder = in_bfloat16(kind, default_model)
    expected = onnx(default_model).encode_queries(["segment lungs in CT"])
    assert np.array_equal(encoder.encode_queries(["segment lungs in CT"]), expected)


@needs_openvino
def test_openvino_reports_its_import_to_nobody(run_python: Callable[..., str], tiny_bert: ModelFolder) -> None:
    program = """
import json, socket, sys
def refuse(*arguments, **settings):
    raise AssertionError("a socket was opened")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
from pathlib import Path
from retrieve_cli.models.runtimes.model_folder import read_folder
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
encoder = OnnxEncoder(read_folder(Path(sys.argv[1])), cache_dir=Path(sys.argv[2]), runtime="openvino")
encoder.encode_passages(["segment lungs"])
print(json.dumps([name for name in sys.modules if "telemetry" in name or name.startswith("openvino.tools")]))
"""
    assert json.loads(run_python(program, tiny_bert.path, tiny_bert.path.parent / "cache")) == []


def test_openvino_that_is_not_installed_is_named_with_its_install_line(
    tiny_bert: ModelFolder, onnx: MakeOnnx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openvino", None)
    with pytest.raises(Unavailable, match="openvino") as caught:
        onnx(tiny_bert, runtime="openvino").encode_passages(["ct"])
    assert caught.value.hint == "pip install 'retrieve-cli[openvino]'"
