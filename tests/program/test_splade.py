"""The SPLADE leg in the whole program: built, kept by a sync, fused, and left out with a reason where it cannot run."""

import shutil
from pathlib import Path

import pytest
from program.asking import Configure, answered, indexed
from samples import TOOLS, Program
from splade_models import save_masked

import retrieve_cli


@pytest.fixture
def model(tmp_path: Path, configure: Configure) -> Path:
    folder = save_masked(tmp_path / "models" / "tiny-splade")
    configure("splade", model=folder)
    configure("models", cache_dir=tmp_path / "cache")
    return folder


@pytest.fixture
def sparse(model: Path, retrieve: Program) -> Path:
    """The catalog of an index of five tools with a third leg."""
    return indexed(retrieve, TOOLS)


def test_its_scores_reach_the_answer(sparse: Path, retrieve: Program, configure: Configure) -> None:
    found = answered(retrieve, "segment lungs in CT")
    assert found["pipeline"] == "fuse(bm25@200, dense@200, splade@200)"
    assert found["strategies_used"] == ["bm25", "dense", "splade"]
    assert all("splade" in result["source_scores"] for result in found["results"])
    stored = retrieve_cli.read_artifact(f"artifacts/generations/{found['generation']}/splade.pkl")
    assert (stored["unit"], stored["length"], len(stored["rows"])) == ("chunk", 5, len(stored["impacts"]))
    alone = retrieve("query", "segment lungs in CT", "--mode", "splade", "--json").json
    assert alone["pipeline"] == "splade@200"
    assert alone["results"]
    scores = [result["score"] for result in found["results"]]
    configure("fusion", weights="{splade: 5}")
    assert [each["score"] for each in retrieve("query", "segment lungs in CT", "--json").json["results"]] != scores


def test_a_model_that_is_gone_is_left_out_with_a_reason_or_required(
    sparse: Path, model: Path, retrieve: Program, configure: Configure
) -> None:
    shutil.rmtree(model)
    done = retrieve("query", "lungs", "--json")
    assert done.code == 0
    assert set(done.json["strategies_skipped"]) == {"splade"}
    assert done.json["strategies_used"] == ["bm25", "dense"]
    assert "the splade retriever is skipped" in retrieve("query", "lungs").err
    assert retrieve("query", "lungs", "--mode", "splade").code == 6
    configure("splade", policy="required")
    assert retrieve("query", "lungs").code == 6


def test_a_build_without_the_model_says_so_and_goes_on_unless_it_is_required(
    catalog: Path, retrieve: Program, configure: Configure
) -> None:
    configure("splade", model="no/such-model")
    done = retrieve("build", "--catalog", catalog, "-v")
    assert done.code == 0
    assert "splade is skipped" in done.err
    assert retrieve("query", "lungs", "--mode", "splade").code == 6
    configure("splade", policy="required")
    assert retrieve("build", "--catalog", catalog).code == 6
