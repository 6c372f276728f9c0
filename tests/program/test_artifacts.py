"""Artifacts that other programs read: `retrieve_cli.read_artifact`, faiss, and `sha1sum -c` in a generation.

contract.md, Artifacts: "bm25.pkl  splade.pkl   pickle protocol 5, arrays out of band and memory-mapped, read by an
unpickler that admits only NumPy arrays and plain containers".
"""

import json
import pickle
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from samples import Program, fails, succeeds
from sync.state import live

import retrieve_cli
from retrieve_cli.errors import IndexCorrupt, UsageError
from retrieve_cli.storage.manifest import LISTING, Manifest
from retrieve_cli.storage.store import Store


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


@pytest.fixture
def folder(index: Path) -> Path:
    """The folder of the current generation."""
    return index / "generations" / live(index)


def test_every_pickle_of_a_generation_is_read_as_plain_containers_and_arrays(folder: Path) -> None:
    paths = sorted(folder.glob("*.pkl"))
    assert {"bm25.pkl", "columns.pkl", "offsets.pkl"} <= {path.name for path in paths}
    for path in paths:
        value = retrieve_cli.read_artifact(str(path))
        assert {type(part) for part in value.values()} <= {dict, list, str, int, np.ndarray}, path.name


def test_other_files_are_rejected_with_what_reads_them(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        retrieve_cli.read_artifact(folder / "dense.faiss")
    assert "faiss.read_index" in (caught.value.hint or "")
    with pytest.raises(IndexCorrupt, match="No such file"):
        retrieve_cli.read_artifact(tmp_path / "none.pkl")
    (tmp_path / "own.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(IndexCorrupt, match="was rejected"):
        retrieve_cli.read_artifact(tmp_path / "own.pkl")


def test_sha1sum_checks_a_generation(folder: Path) -> None:
    """The card: "`sha1sum -c` works on a file in the generation"."""
    if not shutil.which("sha1sum"):
        pytest.skip("sha1sum is not installed")
    words = ["sha1sum", "-c", "--strict", LISTING]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    names = sorted(Manifest.read(folder / "manifest.json").files)
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"{name}: OK" for name in names])
    flip(folder / "chunks.jsonl", 8)
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, "chunks.jsonl: FAILED" in done.stdout) == (1, True)


@pytest.mark.parametrize("damage", ["flipped", "cut", "folder"])
def test_damage_of_the_listing_is_found_and_a_sync_repairs_it(folder: Path, retrieve: Program, damage: str) -> None:
    path, before = folder / LISTING, (folder / LISTING).read_bytes()
    if damage == "flipped":
        flip(path, 77)
    elif damage == "cut":
        path.write_bytes(before[:-1])
    else:
        path.unlink()
        path.mkdir()
    done = fails(retrieve("inspect", "verify", "--json"), 5)
    assert json.loads(done.out)["files"][LISTING] != "sound"
    if damage == "folder":
        path.rmdir()
    succeeds(retrieve("sync"))
    assert path.read_bytes() == before
    assert succeeds(retrieve("inspect", "verify", "--json")).json["files"][LISTING] == "sound"


def test_a_restored_snapshot_has_a_listing(folder: Path, retrieve: Program) -> None:
    succeeds(retrieve("snapshot", "create", "index.tar.zst"))
    succeeds(retrieve("snapshot", "restore", "index.tar.zst", "--artifacts", "restored"))
    restored = Path("restored/generations") / folder.name / LISTING
    assert restored.read_bytes() == (folder / LISTING).read_bytes()
    assert Store(Path("restored")).has_listing(Manifest.read(folder / "manifest.json"))


def test_an_index_of_another_version_ends_with_5_until_it_is_built_again(index: Path, retrieve: Program) -> None:
    path = index / "generations" / (index / "current").read_text().strip() / "manifest.json"
    path.write_text(path.read_text().replace('"schema_version": 3', '"schema_version": 2'))
    for words in (("query", "brain"), ("sync",), ("inspect", "status")):
        done = retrieve(*words)
        assert done.code == 5, done
        assert "was built by another version of retrieve" in done.err
        assert "hint: run retrieve build" in done.err
    assert retrieve("build", "--catalog", "tools.jsonl").code == 0
    assert retrieve("query", "brain").code == 0
