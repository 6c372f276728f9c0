"""What is optional is skipped and said, what is required is an error: encoders and devices, at build and query time."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from cross_models import make_bert
from program.asking import Configure, answered, refused
from samples import Program
from splade_models import save_masked


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def real(catalog: Path, retrieve: Program, configure: Configure) -> None:
    """An index of five tools by the default model."""
    configure("encoder", kind="auto")
    assert retrieve("build", "--catalog", catalog).code == 0


def strategies(retrieve: Program, *words: object) -> list[str]:
    """The retrievers that answer."""
    return list(answered(retrieve, "lungs", *words)["strategies_used"])


def test_a_required_encoder_that_is_gone_ends_a_hybrid_query_and_no_query_by_words(
    real: None, retrieve: Program, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieve_cli.models.runtimes.locate.PACKAGE", "no_such_package")
    monkeypatch.setenv("HF_HOME", str(Path("nothing").absolute()))
    assert strategies(retrieve) == ["bm25"]
    configure("encoder", policy="required")
    assert "not on this machine" in refused(retrieve, "query", "lungs", code=6)
    assert strategies(retrieve, "--mode", "bm25") == strategies(retrieve, "--retrievers", "bm25") == ["bm25"]


@pytest.mark.usefixtures("real")
def test_a_gpu_that_was_asked_for_and_is_not_there_ends_a_hybrid_query(retrieve: Program, configure: Configure) -> None:
    configure("encoder", device="cuda")
    assert "`encoder.device: auto`" in refused(retrieve, "query", "lungs", code=6)
    assert strategies(retrieve, "--mode", "bm25") == ["bm25"]


def test_an_index_without_vectors_answers_no_hybrid_query_that_requires_them(
    catalog: Path, retrieve: Program, configure: Configure
) -> None:
    configure("dense", enabled="false")
    assert retrieve("build", "--catalog", catalog).code == 0
    configure("encoder", policy="required")
    assert strategies(retrieve) == ["bm25"]  # the same configuration says that there are no vectors
    configure("dense", enabled="true")
    assert "--mode bm25" in refused(retrieve, "query", "lungs", code=6)
    assert strategies(retrieve, "--mode", "bm25") == ["bm25"]


@pytest.mark.parametrize(
    ("section", "save", "keys", "skipped"),
    [
        ("splade", save_masked, {}, "the splade retriever"),
        ("rerank", lambda path: make_bert(path).path, {"backend": "cross_encoder", "max_tokens": 32}, "cross_encoder"),
    ],
    ids=["splade", "rerank"],
)
def test_hints_name_the_key_of_the_part_that_wants_a_gpu(
    catalog: Path, retrieve: Program, configure: Configure, section: str, save: Any, keys: dict[str, Any], skipped: str
) -> None:
    configure(section, model=save(catalog.parent / "tiny"), **keys)
    assert retrieve("build", "--catalog", catalog).code == 0
    configure(section, device="cuda")
    said = retrieve("query", "lungs").err
    assert f"{skipped} is skipped" in said
    assert f"`{section}.device: auto`" in said
    assert "encoder.device" not in said


def test_a_cross_encoder_with_fewer_positions_than_the_default_reranks(
    catalog: Path, retrieve: Program, configure: Configure
) -> None:
    assert retrieve("build", "--catalog", catalog).code == 0
    configure("rerank", model=make_bert(catalog.parent / "tiny").path, backend="cross_encoder", device="cpu")
    found = retrieve("query", "lungs", "--json").json
    assert (found["reranked"], found["strategies_skipped"]) == (True, {})


def test_splade_that_cannot_run_is_added_by_the_next_sync_that_can(
    catalog: Path, retrieve: Program, configure: Configure
) -> None:
    model = save_masked(catalog.parent / "tiny-splade")
    configure("splade", model=model, device="cuda")
    done = retrieve("build", "--catalog", catalog)
    assert (done.code, "splade is skipped" in done.err, "`splade.device: auto`" in done.err) == (0, True, True)
    assert strategies(retrieve) == ["bm25", "dense"]
    configure("splade", device="auto")
    assert retrieve("sync").code == 0
    assert strategies(retrieve) == ["bm25", "dense", "splade"]
    shutil.rmtree(model)
    lost = retrieve("sync")
    assert (lost.code, "splade is skipped" in lost.err) == (0, True)
    assert "splade is skipped" in retrieve("sync", "--json").json["skipped"][0]
