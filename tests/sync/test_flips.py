"""No flipped bit changes an answer in silence, and what notices it is no part of the index."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from samples import Program, write_catalog
from sync.flips import answers, flip, flips
from sync.state import live

from retrieve_cli.storage import sums
from retrieve_cli.storage.manifest import BUILT_SHA1
from retrieve_cli.storage.mapped import BLOCK
from retrieve_cli.storage.store import Store

SEED = int(os.environ.get("TEST_SEED", "0"))
WORDS = "segment lungs CT cluster cells brain align volumes count image registration nuclei stain tissue track".split()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 400 tools, larger than a block, with edges and values to filter by."""
    from retrieve_cli.cli.main import main

    generator = np.random.default_rng(3)
    tools = [
        {
            "id": f"t{number}",
            "name": f"tool {number}",
            "description": " ".join(generator.choice(WORDS, 60)),
            "license": ["MIT", "GPL-3.0", "BSD-3-Clause"][number % 3],
            "requires_tool": [f"t{(number * 7 + 1) % 400}"],
        }
        for number in range(400)
    ]
    folder = tmp_path_factory.mktemp("flips")
    catalog = write_catalog(folder / "tools.jsonl", tools)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        assert main(["build", "--catalog", str(catalog), "--artifacts", str(folder / "artifacts"), "-q"]) == 0
    return folder / "artifacts"


@pytest.fixture
def artifacts(built: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(built, tmp_path / "artifacts"))


def folder_of(artifacts: Path) -> Path:
    return artifacts / "generations" / live(artifacts)


def test_no_flipped_bit_changes_an_answer_without_an_error_that_names_the_file(artifacts: Path) -> None:
    found = list(flips(artifacts, 80, SEED))

    assert [each for each in found if each.outcome == "changed"] == []
    assert all(each.file in each.said for each in found if each.outcome == "noticed")
    by_file = Counter(each.file for each in found if each.outcome == "noticed")
    assert by_file.keys() >= {"dense.faiss", "bm25.pkl", "offsets.pkl", "graph.pkl", "manifest.json"}
    assert not {"sums.pkl", "SHA1SUMS"} & by_file.keys(), "sums that are damaged are no damage of the index"


@pytest.mark.parametrize("name", ["dense.faiss", "chunks.jsonl", "bm25.pkl", "columns.pkl"])
def test_the_program_ends_with_code_5_names_the_file_and_the_way_back(
    artifacts: Path, retrieve: Program, name: str
) -> None:
    path = folder_of(artifacts) / name
    for at in range(100, path.stat().st_size, BLOCK):
        flip(path, 8 * at)

    done = retrieve("query", "segment lungs", "--filter", "license=MIT", "--expand", "--artifacts", artifacts)

    assert done.code == 5
    assert name in done.err
    assert "retrieve build" in done.err


def test_sums_that_are_damaged_or_of_other_files_change_nothing(artifacts: Path) -> None:
    before, path = answers(artifacts), folder_of(artifacts) / sums.FILE
    whole = path.read_bytes()
    for content in (b"", b"no pickle", whole[:-9], whole.replace(b"bm25", b"xyz1"), bytes(len(whole))):
        path.write_bytes(content)
        assert answers(artifacts) == before
    path.unlink()
    path.mkdir()
    assert answers(artifacts) == before


def test_a_sync_adds_sums_to_an_index_of_an_earlier_version_and_replaces_damaged_ones(
    artifacts: Path, retrieve: Program
) -> None:
    path, before = folder_of(artifacts) / sums.FILE, answers(artifacts)
    whole = path.read_bytes()
    path.unlink()
    manifest = json.loads((path.parent / "manifest.json").read_text())
    guard = manifest.pop(BUILT_SHA1)
    (path.parent / "manifest.json").write_text(json.dumps(manifest))
    assert answers(artifacts) == before
    assert "its block checksums are missing or damaged" in retrieve("doctor", "--artifacts", artifacts).out
    assert retrieve("sync", "--artifacts", artifacts).code == 0
    assert path.read_bytes() == whole
    assert json.loads((path.parent / "manifest.json").read_text())[BUILT_SHA1] == guard

    flip(path, 8 * whole.index((sums.read(path.parent) or {})["dense.faiss"].tobytes()))
    assert retrieve("sync", "--artifacts", artifacts).code == 0
    assert path.read_bytes() == whole


def test_a_searcher_that_stays_open_checks_what_it_reads_later(artifacts: Path) -> None:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Request
    from retrieve_cli.errors import IndexCorrupt
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.searcher import Searcher

    opened = Opened.of(Store(artifacts), Settings())
    path = folder_of(artifacts) / "dense.faiss"
    Searcher(opened, opened.options(mode="bm25")).answer([Request("lungs")])
    flip(path, 8 * (path.stat().st_size - 1))

    Searcher(opened, opened.options(mode="bm25")).answer([Request("lungs")])
    with pytest.raises(IndexCorrupt, match=r"dense\.faiss has SHA-1"):
        Searcher(opened, opened.options(mode="dense")).answer([Request("lungs")])
