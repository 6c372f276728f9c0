"""The SPLADE leg in the whole program: built, kept by a sync, fused, and left out with a reason where it cannot run."""

import shutil
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog
from splade_models import save_masked


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = save_masked(tmp_path / "models" / "tiny-splade")
    monkeypatch.setenv("RETRIEVE_SPLADE__MODEL", str(folder))
    monkeypatch.setenv("RETRIEVE_MODELS__CACHE_DIR", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def sparse(model: Path, tmp_path: Path, retrieve: Program) -> Path:
    """An index of five tools with a third leg."""
    done = retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", TOOLS))
    assert done.code == 0, done.err
    return Path("artifacts")


def test_its_scores_reach_the_answer(sparse: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    found = retrieve("query", "segment lungs in CT", "--json").json
    assert found["pipeline"] == "fuse(bm25@200, dense@200, splade@200)"
    assert found["strategies_used"] == ["bm25", "dense", "splade"]
    assert all("splade" in result["source_scores"] for result in found["results"])
    alone = retrieve("query", "segment lungs in CT", "--mode", "splade", "--json").json
    assert alone["pipeline"] == "splade@200"
    assert alone["results"]
    scores = [result["score"] for result in found["results"]]
    monkeypatch.setenv("RETRIEVE_FUSION__SPLADE_WEIGHT", "5")
    assert [each["score"] for each in retrieve("query", "segment lungs in CT", "--json").json["results"]] != scores


def test_a_weight_of_zero_is_the_leg_removed(
    sparse: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RETRIEVE_FUSION__SPLADE_WEIGHT", "0")
    with_it = retrieve("query", "segment lungs in CT", "--json").json["results"]
    monkeypatch.delenv("RETRIEVE_SPLADE__MODEL")
    assert retrieve("build", "--catalog", tmp_path / "tools.jsonl", "--artifacts", "two").code == 0
    without = retrieve("query", "segment lungs in CT", "--artifacts", "two", "--json").json["results"]
    assert [(each["id"], each["score"]) for each in with_it] == [
        (each["id"], pytest.approx(each["score"])) for each in without
    ]


def test_a_sync_gives_what_a_fresh_build_gives(sparse: Path, retrieve: Program, tmp_path: Path) -> None:
    more = [*TOOLS[1:], {"id": "new", "name": "Denoise", "description": "Removes noise from micrographs."}]
    write_catalog(tmp_path / "tools.jsonl", more)
    synced = retrieve("sync", "--json")
    assert synced.code == 0, synced.err
    built = retrieve("build", "--catalog", tmp_path / "tools.jsonl", "--artifacts", "fresh", "--json").json
    assert built["generation"] == synced.json["generation"]


def test_a_model_that_is_gone_is_left_out_with_a_reason_or_required(
    sparse: Path, model: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(model)
    done = retrieve("query", "lungs", "--json")
    assert done.code == 0
    assert set(done.json["strategies_skipped"]) == {"splade"}
    assert done.json["strategies_used"] == ["bm25", "dense"]
    assert "the splade retriever is skipped" in retrieve("query", "lungs").err
    assert retrieve("query", "lungs", "--mode", "splade").code == 6
    monkeypatch.setenv("RETRIEVE_SPLADE__POLICY", "required")
    assert retrieve("query", "lungs").code == 6


def test_a_build_without_the_model_says_so_and_goes_on_unless_it_is_required(
    catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_SPLADE__MODEL", "no/such-model")
    done = retrieve("build", "--catalog", catalog, "-v")
    assert done.code == 0
    assert "splade is skipped" in done.err
    assert retrieve("query", "lungs", "--mode", "splade").code == 6
    monkeypatch.setenv("RETRIEVE_SPLADE__POLICY", "required")
    assert retrieve("build", "--catalog", catalog).code == 6


def test_pruning_is_part_of_the_index(sparse: Path, retrieve: Program, monkeypatch, tmp_path: Path) -> None:
    before = (sparse / "current").read_text()
    monkeypatch.setenv("RETRIEVE_SPLADE__TOP_TERMS", "3")
    assert retrieve("build", "--catalog", tmp_path / "tools.jsonl").code == 0
    assert (sparse / "current").read_text() != before
