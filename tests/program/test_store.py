"""Generations are published whole or not at all."""

import json
import os
from pathlib import Path

import pytest
from program.asking import refused
from samples import TOOLS, Program, write_catalog

from retrieve_cli.errors import Locked
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.store import Store


def live(index: Path) -> Path:
    return index / "generations" / (index / "current").read_text().strip()


def test_the_manifest_holds_the_digest_of_every_file_and_no_scratch_folder_is_left(index: Path) -> None:
    manifest = Manifest.read(live(index) / "manifest.json")
    assert {*manifest.files, "manifest.json"} == {path.name for path in live(index).iterdir()}
    assert manifest.files["dense.faiss"].rows == 5
    assert [path.name for path in (index / "generations").iterdir()] == [live(index).name]


def test_the_umask_decides_who_may_read_a_generation(index: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert live(index).stat().st_mode & 0o777 == 0o777 & ~umask


def test_a_writer_blocks_writers_and_no_readers(index: Path, retrieve: Program) -> None:
    with Store(index).writer():
        assert retrieve("query", "brain").code == 0
        with pytest.raises(Locked), Store(index).writer():
            pass


def test_a_damaged_generation_is_set_aside_when_the_same_is_built_again(
    index: Path, catalog: Path, retrieve: Program
) -> None:
    (live(index) / "bm25.pkl").write_bytes(b"damaged")
    assert retrieve("query", "brain").code == 5
    assert retrieve("build", "--catalog", catalog).code == 0
    assert retrieve("query", "brain").code == 0
    assert [path.name for path in (index / "generations").iterdir() if ".damaged-" in path.name]


def test_files_of_two_generations_do_not_mix(index: Path, catalog: Path, retrieve: Program) -> None:
    first = live(index)
    write_catalog(catalog, TOOLS[:3])
    retrieve("build", "--catalog", catalog)
    for name in ("chunks.jsonl", "records.jsonl", "offsets.pkl"):
        (live(index) / name).write_bytes((first / name).read_bytes())
    assert retrieve("query", "brain").code == 5


def test_no_index_is_its_own_code(retrieve: Program) -> None:
    error = json.loads(refused(retrieve, "query", "brain", "--json", code=4))["error"]
    assert (error["code"], error["kind"]) == (4, "index_missing")
    assert "retrieve build" in error["hint"]
