"""The sample queries with files: what files say of themselves is worth something, and costs other queries nothing."""

import json
from pathlib import Path

import pytest
from samples import ROOT, Program

GOLD = ROOT / "catalogs" / "gold.jsonl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gold")


@pytest.fixture
def sample(sample_index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index of the sample catalog by the default encoder."""
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    return sample_index


def part(folder: Path, *, files: bool) -> Path:
    """The gold queries with files, or those without, beside the files."""
    topics = [json.loads(line) for line in GOLD.read_text("utf-8").splitlines()]
    found = [topic for topic in topics if bool(topic.get("files")) == files]
    for topic in found:
        topic |= {"files": [str(GOLD.parent / name) for name in topic.get("files", [])]}
    path = folder / f"{'with' if files else 'without'}.jsonl"
    path.write_text("".join(json.dumps(topic) + "\n" for topic in found), "utf-8")
    return path


def test_format_tokens_beat_none_beyond_noise(sample: Path, folder: Path, retrieve: Program) -> None:
    gold = part(folder, files=True)
    without = ("--with", "search.file_tokens=false")
    found = retrieve("eval", "--gold", gold, "--artifacts", sample, "--metrics", "nDCG@10", *without, "--json")
    assert found.code == 0, found.err
    compared = found.json["runs"][0]["differences"]["nDCG@10"]
    assert compared["difference"] < -0.15  # without them
    assert compared["p"] < 0.01


def test_queries_without_files_find_what_they_found(sample: Path, folder: Path, retrieve: Program) -> None:
    gold = part(folder, files=False)
    runs = []
    for with_tokens in ("true", "false"):
        run = folder / f"{with_tokens}.run"
        config = folder / f"{with_tokens}.yaml"
        config.write_text(f"search: {{file_tokens: {with_tokens}}}\n")
        done = retrieve("eval", "--gold", gold, "--artifacts", sample, "--config", config, "--run-out", run, "--json")
        assert done.code == 0, done.err
        runs.append(run.read_text("utf-8"))
    assert runs[0] == runs[1]
