"""What is optional is skipped and said, what is required is an error: encoders and devices, at build and query time."""

import shutil
from pathlib import Path

import pytest
from cross_models import make_bert
from samples import TOOLS, Program, write_catalog
from splade_models import save_masked

from retrieve_cli.assemble.encoders import encoder_to_build, encoder_to_query
from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import ModelCard


@pytest.fixture
def real(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of five tools by the default model, on a machine without a GPU."""
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", TOOLS)).code == 0
    return Path("artifacts")


def without_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("retrieve_cli.encoders.locate._PACKAGE", "no_such_package")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "nothing"))


def test_a_required_encoder_that_is_gone_ends_a_hybrid_query_and_no_query_by_words(
    real: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_model(monkeypatch, tmp_path)
    assert retrieve("query", "lungs").code == 0
    monkeypatch.setenv("RETRIEVE_ENCODER__POLICY", "required")
    done = retrieve("query", "lungs")
    assert (done.code, done.out, "not on this machine" in done.err) == (6, "", True)
    assert retrieve("query", "lungs", "--mode", "bm25").code == 0
    assert retrieve("query", "lungs", "--retrievers", "bm25").code == 0


def test_a_gpu_that_was_asked_for_and_is_not_there_ends_a_hybrid_query(
    real: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__DEVICE", "cuda")
    done = retrieve("query", "lungs")
    assert (done.code, done.out, "`encoder.device: auto`" in done.err) == (6, "", True)
    assert retrieve("query", "lungs", "--mode", "bm25").code == 0


def test_a_deadline_does_not_drop_a_required_encoder(
    real: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurried = ("query", "lungs", "--deadline-ms", "1", "--json")
    assert "dense" in retrieve(*hurried).json["strategies_skipped"]
    monkeypatch.setenv("RETRIEVE_ENCODER__POLICY", "required")
    assert "dense" in retrieve(*hurried).json["strategies_used"]


def test_an_index_without_vectors_answers_no_hybrid_query_that_requires_them(
    catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_DENSE__ENABLED", "false")
    assert retrieve("build", "--catalog", catalog).code == 0
    monkeypatch.setenv("RETRIEVE_ENCODER__POLICY", "required")
    assert retrieve("query", "lungs").code == 0  # the same configuration says that there are none
    monkeypatch.delenv("RETRIEVE_DENSE__ENABLED")
    done = retrieve("query", "lungs")
    assert (done.code, "--mode bm25" in done.err) == (6, True)
    assert retrieve("query", "lungs", "--mode", "bm25").code == 0


def test_hints_name_the_key_of_the_part_that_wants_a_gpu(
    index: Path, tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("RETRIEVE_SPLADE__MODEL", str(save_masked(tmp_path / "tiny-splade")))
    assert retrieve("build", "--catalog", tmp_path / "tools.jsonl").code == 0
    monkeypatch.setenv("RETRIEVE_SPLADE__DEVICE", "cuda")
    said = retrieve("query", "lungs").err
    assert "the splade retriever is skipped" in said
    assert "`splade.device: auto`" in said
    assert "encoder.device" not in said


def test_splade_that_cannot_run_is_added_by_the_next_sync_that_can(
    tmp_path: Path, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    model = save_masked(tmp_path / "tiny-splade")
    monkeypatch.setenv("RETRIEVE_SPLADE__MODEL", str(model))
    monkeypatch.setenv("RETRIEVE_SPLADE__DEVICE", "cuda")
    done = retrieve("build", "--catalog", catalog)
    assert (done.code, "splade is skipped" in done.err, "`splade.device: auto`" in done.err) == (0, True, True)
    assert retrieve("query", "lungs", "--json").json["strategies_used"] == ["bm25", "dense"]
    monkeypatch.delenv("RETRIEVE_SPLADE__DEVICE")
    assert retrieve("sync").code == 0
    assert retrieve("query", "lungs", "--json").json["strategies_used"] == ["bm25", "dense", "splade"]
    shutil.rmtree(model)
    lost = retrieve("sync")
    assert (lost.code, "splade is skipped" in lost.err) == (0, True)
    assert "splade is skipped" in retrieve("sync", "--json").json["skipped"][0]


@pytest.mark.parametrize(
    ("configured", "build", "query"),
    [
        ({}, 60, 20),
        ({"timeout_s": 7, "build_timeout_s": 9}, 9, 7),
        ({"timeout_s": 7}, 60, 7),
        ({"timeout_s": 300}, 300, 300),  # what was set for builds before there was a key for them
    ],
)
def test_a_query_has_less_time_than_a_build_has_for_each_of_its_requests(
    monkeypatch: pytest.MonkeyPatch, configured: dict[str, float], build: float, query: float
) -> None:
    remote = {"kind": "remote", "base_url": "http://127.0.0.1:9/v1", **configured}
    settings = override(Settings(), {"encoder": remote}, where="here")
    seen = []
    monkeypatch.setattr("retrieve_cli.assemble.servers.client", lambda chosen, _: seen.append(chosen.timeout_s))
    encoder_to_build(settings)
    encoder_to_query(settings, ModelCard("remote", "m", "r", dim=8, max_tokens=512))
    assert seen == [build, query]


def test_a_reranker_that_wants_a_gpu_names_its_own_key(
    index: Path, tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    model = make_bert(tmp_path / "tiny-cross").path
    for key, value in {"BACKEND": "cross_encoder", "MODEL": model, "DEVICE": "cuda", "MAX_TOKENS": 32}.items():
        monkeypatch.setenv(f"RETRIEVE_RERANK__{key}", str(value))
    said = retrieve("query", "lungs").err
    assert "cross_encoder is skipped" in said
    assert "`rerank.device: auto`" in said
