"""Attached generations: a folder with the manifest alone, whose files are read from an engine block by block."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines.injected import Servers, search_in
from engines.sqlite_engine import SqliteGeneration
from samples import Program, fails, succeeds, write_catalog
from sync.state import records

from retrieve_cli.contracts.engines import BLOCKS
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.mapped import BLOCK, block_sums
from retrieve_cli.storage.remote_file import RemoteFile

SIZE = 60
ROUND_TRIPS = 20
"""Requests for blocks of the first query, at most."""


@pytest.fixture(autouse=True)
def _files_are_in_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_ENGINES__STORE", "engine")


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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """File and number of blocks of each request from now on."""
    found: list[tuple[str, int]] = []
    blocks = SqliteGeneration.blocks

    def noted(self: SqliteGeneration, file: str, numbers: Any) -> list[bytes]:
        found.append((file, len(numbers)))
        return blocks(self, file, numbers)

    monkeypatch.setattr(SqliteGeneration, "blocks", noted)
    return found


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


def test_a_query_asks_for_many_blocks_at_once(
    servers: Servers, tmp_path: Path, retrieve: Program, asked: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results are in almost as many blocks."""
    rows = [{"id": f"r{number}", "name": f"record {number}", "description": "words " * 2000} for number in range(200)]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "all.jsonl", rows)).code == 0
    assert retrieve("engines", "attach", "--artifacts", "thin").code == 0
    del asked[:]
    assert len(answer(retrieve, "thin", "-k", "40")["results"]) == 40
    assert len(asked) <= ROUND_TRIPS
    by_file = {file: [count for name, count in asked if name == file] for file, _ in asked}
    assert max(by_file["records.jsonl"]) > 10
    assert len(by_file["records.jsonl"]) == len(by_file["chunks.jsonl"]) == 1


def test_a_file_is_read_in_pieces_of_bounded_size(tmp_path: Path) -> None:
    data = np.random.default_rng(2).integers(0, 256, 3 * BLOCKS * BLOCK + 5, np.uint8)
    path = tmp_path / "file"
    path.write_bytes(bytes(len(data)))
    asked: list[int] = []

    def blocks(numbers: Sequence[int]) -> list[bytes]:
        asked.append(len(numbers))
        return [data[number * BLOCK : (number + 1) * BLOCK].tobytes() for number in numbers]

    file = RemoteFile(path, block_sums(data), blocks)
    file.check_spans([(0, 10), (5 * BLOCK, 7 * BLOCK), (6 * BLOCK, 6 * BLOCK + 1), (len(data), len(data))])
    assert asked == [3]
    file.check()
    assert (sum(asked), max(asked), len(asked)) == (3 * BLOCKS + 1, BLOCKS, 4)
    assert (file.data == data).all()


def test_a_block_that_is_not_the_one_that_was_sent_is_not_kept(tmp_path: Path) -> None:
    data = np.random.default_rng(2).integers(0, 256, 3 * BLOCK, np.uint8)
    (tmp_path / "file").write_bytes(bytes(len(data)))
    file = RemoteFile(tmp_path / "file", block_sums(data), lambda numbers: [bytes(BLOCK - 1) + b"x" for _ in numbers])
    with pytest.raises(IndexCorrupt, match="not the file that was sent"):
        file.check(BLOCK, BLOCK + 1)
    assert not (tmp_path / "file").read_bytes().strip(b"\0")


def test_token_vectors_travel_if_the_configured_reranker_reads_them(
    servers: Servers, tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "onnx")
    source = write_catalog(tmp_path / "tools.jsonl", records(1, SIZE))
    assert retrieve("build", "--catalog", source).code == 0
    assert retrieve("engines", "attach", "--artifacts", "thin").code == 0
    assert answer(retrieve, "thin")["reranked"]
    assert answer(retrieve, "thin") == answer(retrieve, "artifacts")
    with monkeypatch.context() as patch:
        patch.setenv("RETRIEVE_RERANK__BACKEND", "none")
        assert retrieve("engines", "push").code == 0
        assert retrieve("engines", "attach", "--artifacts", "plain").code == 0
        assert answer(retrieve, "plain") == answer(retrieve, "artifacts")
    missing = ("rerank.backend: none", "engines.tokens: payload where the index is built")
    skipped = answer(retrieve, "plain")["strategies_skipped"]["maxsim"]
    assert all(said in skipped for said in ("tokens.pkl is not in qdrant", *missing))
    fails(retrieve("query", "record", "--rerank", "--artifacts", "plain"), 6, "tokens.pkl is not in qdrant", *missing)
    fails(retrieve("engines", "attach", "--artifacts", "other"), 2, "sent without tokens.pkl", *missing)
    assert not (Path("other") / "current").exists()
    with monkeypatch.context() as patch:
        patch.setenv("RETRIEVE_RERANK__BACKEND", "none")
        patch.setenv("RETRIEVE_ENGINES__TOKENS", "payload")
        assert retrieve("engines", "push").code == 0
    assert retrieve("engines", "attach", "--artifacts", "other").code == 0
    assert answer(retrieve, "other") == answer(retrieve, "artifacts")


@pytest.mark.parametrize(
    ("places", "fix"),
    [
        ({"LEXICAL": "milvus"}, "engines.lexical: pgvector"),
        ({"DENSE": "local"}, "engines.dense, engines.lexical and engines.sparse as there"),
        ({"DENSE": "pgvector"}, "engines.dense, engines.lexical and engines.sparse as there"),
    ],
)
def test_an_index_that_these_settings_could_not_search_is_not_attached(
    built: str, retrieve: Program, monkeypatch: pytest.MonkeyPatch, places: dict[str, str], fix: str
) -> None:
    for role, place in places.items():
        monkeypatch.setenv(f"RETRIEVE_ENGINES__{role}", place)
    fails(retrieve("engines", "attach", "--artifacts", "other"), 2, built, fix)
    assert not (Path("other") / "current").exists()


def test_an_index_whose_texts_were_not_sent_is_not_attached(
    servers: Servers, tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_catalog(tmp_path / "tools.jsonl", records(1, SIZE))
    with monkeypatch.context() as patch:
        patch.setenv("RETRIEVE_ENGINES__STORE", "local")
        assert retrieve("build", "--catalog", source).code == 0
    fails(retrieve("engines", "attach", "--artifacts", "other"), 2, "does not keep the files", "engines.store: engine")
    with monkeypatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "onnx")
        patch.setenv("RETRIEVE_ENGINES__STORE", "local")
        patch.setenv("RETRIEVE_ENGINES__TOKENS", "payload")
        assert retrieve("build", "--catalog", source).code == 0
    fails(retrieve("engines", "attach", "--artifacts", "other"), 2, "sent without bm25.pkl", "engines.store: engine")


def test_a_file_that_is_rows_of_an_engine_cannot_be_read_from_it(
    servers: Servers, tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_in("qdrant", monkeypatch)
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", records(1, SIZE))).code == 0
    monkeypatch.setenv("RETRIEVE_ENGINES__DENSE", "local")
    fails(retrieve("engines", "attach", "--artifacts", "other"), 2, "set engines.dense: qdrant")


def test_words_are_searched_in_the_file_that_travelled_if_they_are_local(
    thin: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = answer(retrieve, "artifacts", "--mode", "bm25")
    monkeypatch.setenv("RETRIEVE_ENGINES__LEXICAL", "local")
    found = answer(retrieve, "thin", "--mode", "bm25")
    assert [hit["id"] for hit in found["results"]] == [hit["id"] for hit in wanted["results"]]
