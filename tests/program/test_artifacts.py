"""Artifacts that other programs read: `retrieve_cli.read_artifact`, and faiss.

contract.md, Artifacts: "bm25.pkl  splade.pkl   pickle protocol 5, arrays out of band and memory-mapped, read by an
unpickler that admits only NumPy arrays and plain containers".
"""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from samples import Program
from sync.state import live

import retrieve_cli
from retrieve_cli.errors import IndexCorrupt, UsageError
from retrieve_cli.storage.manifest import SCHEMA_VERSION


@pytest.fixture
def folder(index: Path) -> Path:
    """The folder of the current generation."""
    return index / "generations" / live(index)


def test_every_pickle_of_a_generation_is_read_as_plain_containers_and_arrays(folder: Path) -> None:
    paths = sorted(folder.glob("*.pkl"))
    assert {"bm25.pkl", "columns.pkl", "offsets.pkl"} <= {path.name for path in paths}
    for path in paths:
        value = retrieve_cli.read_artifact(str(path))
        assert {type(part) for part in value.values()} <= {dict, list, str, int, float, np.ndarray}, path.name


def test_other_files_are_rejected_with_what_reads_them(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        retrieve_cli.read_artifact(folder / "dense.faiss")
    assert "faiss.read_index" in (caught.value.hint or "")
    with pytest.raises(IndexCorrupt, match="No such file"):
        retrieve_cli.read_artifact(tmp_path / "none.pkl")
    (tmp_path / "own.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(IndexCorrupt, match="was rejected"):
        retrieve_cli.read_artifact(tmp_path / "own.pkl")


def test_an_index_of_another_version_ends_with_5_until_it_is_built_again(index: Path, retrieve: Program) -> None:
    path = index / "generations" / (index / "current").read_text().strip() / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": SCHEMA_VERSION - 1}))
    for words in (("query", "brain"), ("sync",), ("inspect", "status")):
        done = retrieve(*words)
        assert done.code == 5, done
        assert "was built by another version of retrieve" in done.err
        assert "hint: run retrieve build" in done.err
    assert retrieve("build", "--catalog", "tools.jsonl").code == 0
    assert retrieve("query", "brain").code == 0
