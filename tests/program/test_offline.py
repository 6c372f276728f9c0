"""The default configuration works with the real model and without any network."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from program.asking import answered, refused
from samples import TOOLS, write_catalog

NO_NETWORK = """
import socket, sys
def refuse(*_, **__):
    raise AssertionError("the network was touched")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
from retrieve_cli.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RETRIEVE_ENCODER__KIND")
    monkeypatch.setenv("RETRIEVE_MODELS__CACHE_DIR", str(tmp_path / "models"))

    def run(*arguments: object) -> str:
        command = [sys.executable, "-c", NO_NETWORK, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_build_and_query_touch_no_network_and_answer_by_meaning(tmp_path: Path, offline) -> None:
    offline("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", TOOLS))
    answer = json.loads(offline("query", "outline the pulmonary organs in a tomography", "--json"))
    assert answer["strategies_used"] == ["bm25", "dense"]
    assert answer["results"][0]["doc_id"] == "lungs"


def test_a_model_that_is_gone_leaves_bm25_to_answer_and_says_so(tmp_path: Path, retrieve, monkeypatch) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    monkeypatch.setenv("RETRIEVE_MODELS__CACHE_DIR", str(tmp_path / "models"))
    retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", TOOLS))
    monkeypatch.setattr("retrieve_cli.models.runtimes.locate.PACKAGE", "no_such_package")
    answer = answered(retrieve, "skull")
    assert answer["strategies_used"] == ["bm25"]
    assert "not on this machine" in answer["strategies_skipped"]["dense"]
    assert "dense retriever is skipped" in retrieve("query", "skull").err
    assert retrieve("query", "skull", "--mode", "dense").code == 6


def test_a_required_gpu_that_is_absent_is_an_error(catalog: Path, retrieve, monkeypatch) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    monkeypatch.setenv("RETRIEVE_ENCODER__DEVICE", "cuda")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "encoder.device" in refused(retrieve, "build", "--catalog", catalog, code=6)
