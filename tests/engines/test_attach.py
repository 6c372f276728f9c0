"""Attached generations: a folder with the manifest alone, whose files are read from an engine block by block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engines.injected import Servers, search_in
from samples import Program, fails, succeeds, write_catalog
from sync.state import records

from retrieve_cli.storage.mapped import BLOCK

SIZE = 60


@pytest.fixture(autouse=True)
def _files_are_in_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_ENGINES__STORE", "engine")
    monkeypatch.setenv("RETRIEVE_ENGINES__TOKENS", "payload")


@pytest.fixture
def built(servers: Servers, tmp_path: Path, retrieve: Program) -> str:
    """The id of an index that was built into the engines, in the folder `artifacts`."""
    done = succeeds(retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", records(1, SIZE)), "--json"))
    return str(done.json["generation"])


@pytest.fixture
def thin(built: str, retrieve: Program) -> Path:
    """A folder to which that index is attached."""
    done = retrieve("engines", "attach", "--artifacts", "thin")
    assert (done.code, done.out) == (0, f"attached {built}\n"), done.err
    return Path("thin")


def answer(retrieve: Program, artifacts: str, *words: str) -> Any:
    done = succeeds(retrieve("query", "record number 7", "--json", "--artifacts", artifacts, *words))
    return {key: value for key, value in done.json.items() if key not in ("timings_ms", "stale")}


def stored(folder: Path) -> int:
    """Bytes on the disk, holes not counted."""
    return sum(512 * path.stat().st_blocks for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("words", [(), ("-k", "3", "--explain"), ("--mode", "dense"), ("--mode", "bm25")])
def test_an_attached_index_answers_as_the_one_that_was_built(thin: Path, retrieve: Program, words: tuple[str]) -> None:
    assert answer(retrieve, "thin", *words) == answer(retrieve, "artifacts", *words)


def test_diversity_takes_the_vectors_from_the_engine(
    thin: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_DIVERSITY__MMR", "0.5")
    assert answer(retrieve, "thin") == answer(retrieve, "artifacts")


def test_a_folder_that_was_only_attached_holds_no_texts(thin: Path, built: str) -> None:
    folder = thin / "generations" / built
    assert (folder / "chunks.jsonl").stat().st_size > 0
    assert (folder / "chunks.jsonl").stat().st_blocks == 0
    assert stored(thin) < 2 << 20
    assert not (folder / "SHA1SUMS").exists(), "holes have other sums"


def test_a_block_is_fetched_once(thin: Path, built: str, servers: Servers, retrieve: Program) -> None:
    first = answer(retrieve, "thin")
    servers.execute("qdrant", "DELETE FROM blocks")
    assert answer(retrieve, "thin") == first


def test_a_block_that_differs_in_the_engine_is_rejected(
    thin: Path, built: str, servers: Servers, retrieve: Program
) -> None:
    zeroed = "UPDATE blocks SET data = zeroblob(length(data)) WHERE file = 'records.jsonl' AND number = 0"
    servers.execute("qdrant", zeroed)
    fails(retrieve("query", "record number 7", "--artifacts", "thin"), 5, "records.jsonl")
    assert retrieve("inspect", "verify", "--artifacts", "thin").code == 5


def test_every_file_of_the_engine_is_verified(thin: Path, built: str, retrieve: Program) -> None:
    done = succeeds(retrieve("inspect", "verify", "--artifacts", "thin", "--json"))
    states = done.json["files"]
    assert (states["chunks.jsonl"], states["dense.faiss"]) == ("sound", "elsewhere")
    assert "the rows of dense.faiss are in an engine" in retrieve("inspect", "verify", "--artifacts", "thin").out


def test_the_engine_that_has_the_files_is_needed(
    thin: Path, servers: Servers, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.stop("qdrant")
    assert retrieve("query", "record", "--artifacts", "thin").code == 6
    servers.start("qdrant")
    assert retrieve("query", "record", "--artifacts", "thin").code == 0
    search_in("milvus", monkeypatch)
    fails(retrieve("query", "record", "--artifacts", "thin"), 2, "qdrant")


def test_without_engines_nothing_can_be_attached(
    servers: Servers, built: str, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENGINES__STORE", "local")
    fails(retrieve("engines", "attach", "--artifacts", "other"), 2, "engines.store: engine")


def test_an_attached_index_is_not_sent(thin: Path, retrieve: Program) -> None:
    fails(retrieve("engines", "push", "--artifacts", "thin"), 2, "where the index is built")


def test_an_engine_without_a_published_generation_has_nothing_to_attach(servers: Servers, retrieve: Program) -> None:
    fails(retrieve("engines", "attach", "--artifacts", "other"), 2, "retrieve engines push")
    assert not list(Path("other").glob("generations/*"))


def test_an_account_that_is_damaged_is_rejected(built: str, servers: Servers, retrieve: Program) -> None:
    servers.execute("qdrant", "UPDATE blocks SET data = ? WHERE file = 'attach.json'", json.dumps([1]).encode())
    fails(retrieve("engines", "attach", "--artifacts", "other"), 5)
    assert not (Path("other") / "current").exists()


def test_a_large_file_travels_in_blocks(servers: Servers, tmp_path: Path, retrieve: Program) -> None:
    rows = [{"id": f"r{number}", "name": f"record {number}", "description": "words " * 200} for number in range(300)]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "all.jsonl", rows)).code == 0
    sizes = servers.execute("qdrant", "SELECT length(data) FROM blocks WHERE file = 'chunks.jsonl' ORDER BY number")
    assert len(sizes) > 2
    assert {size for (size,) in sizes[:-1]} == {BLOCK}
    assert retrieve("engines", "attach", "--artifacts", "thin").code == 0
    assert answer(retrieve, "thin") == answer(retrieve, "artifacts")
