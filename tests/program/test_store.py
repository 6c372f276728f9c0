"""Generations are published whole or not at all."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from program.asking import Configure, refused
from samples import TOOLS, Program, write_catalog
from waiting import pause

from retrieve_cli.errors import Locked
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.store import Store


def live(index: Path) -> Path:
    return index / "generations" / (index / "current").read_text().strip()


def test_the_manifest_holds_the_digest_of_every_file_and_no_scratch_folder_is_left(index: Path) -> None:
    manifest = Manifest.read(live(index) / "manifest.json")
    own = {"manifest.json", "SHA1SUMS"}
    assert set(manifest.files) == {path.name for path in live(index).iterdir()} - own
    assert manifest.files["dense.faiss"].rows == 5
    assert [path.name for path in (index / "generations").iterdir()] == [live(index).name]


def test_the_umask_decides_who_may_read_a_generation(index: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert live(index).stat().st_mode & 0o777 == 0o777 & ~umask


def test_a_reader_keeps_its_generation_while_another_is_published(
    index: Path, catalog: Path, retrieve: Program
) -> None:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Request
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.searcher import Searcher

    opened = Opened.of(Store(index), Settings())
    write_catalog(catalog, TOOLS[:2])
    assert retrieve("build", "--catalog", catalog).code == 0
    [answer] = Searcher(opened, opened.options(k=5, mode="bm25")).answer([Request("brain")])
    assert {result.record["id"] for result in answer.results} == {"brain", "align"}


def test_a_second_writer_is_turned_away_and_told_who_writes(
    index: Path, catalog: Path, retrieve: Program, configure: Configure
) -> None:
    configure("sync", wait=0)
    with Store(index).writer():
        done = retrieve("build", "--catalog", catalog)
    assert done.code == 7
    assert str(os.getpid()) in done.err
    assert retrieve("build", "--catalog", catalog).code == 0


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


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_a_dense_index_cut_short_is_refused_before_it_is_opened(
    catalog: Path, retrieve: Program, configure: Configure, kind: str
) -> None:
    configure("dense", index=kind)
    retrieve("build", "--catalog", catalog)
    path = live(Path("artifacts")) / "dense.faiss"
    path.write_bytes(path.read_bytes()[:-100])
    assert "dense.faiss" in refused(retrieve, "query", "brain", code=5)


def test_files_of_two_generations_do_not_mix(index: Path, catalog: Path, retrieve: Program) -> None:
    first = live(index)
    write_catalog(catalog, TOOLS[:3])
    retrieve("build", "--catalog", catalog)
    for name in ("chunks.jsonl", "records.jsonl", "offsets.pkl"):
        (live(index) / name).write_bytes((first / name).read_bytes())
    assert retrieve("query", "brain").code == 5


def test_a_lost_current_is_named_with_the_way_back(index: Path, retrieve: Program) -> None:
    generation = live(index).name
    (index / "current").unlink()
    assert generation in refused(retrieve, "query", "brain", code=5)


def test_no_index_is_its_own_code(retrieve: Program) -> None:
    error = json.loads(refused(retrieve, "query", "brain", "--json", code=4))["error"]
    assert (error["code"], error["kind"]) == (4, "index_missing")
    assert "retrieve build" in error["hint"]


def test_a_build_killed_at_any_moment_leaves_the_live_index(tmp_path: Path, index: Path, retrieve: Program) -> None:
    before = retrieve("query", "brain", "--json").json
    many = write_catalog(tmp_path / "many.jsonl", [{"id": str(n), "name": f"tool {n} " * 40} for n in range(3000)])
    command = [sys.executable, "-m", "retrieve_cli", "build", "--catalog", str(many), "-q"]
    for delay in (0.2, 0.5, 0.8, 1.1):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        pause(delay, why="a build is killed at some moment of its work")
        process.send_signal(signal.SIGKILL)
        process.wait()
        after = retrieve("query", "brain", "--json").json
        assert after["generation"] != before["generation"] or after["results"] == before["results"]
        assert retrieve("inspect", "verify").code == 0
    assert retrieve("build", "--catalog", many).code == 0
    assert not list((index / "generations").glob(".scratch-*"))
