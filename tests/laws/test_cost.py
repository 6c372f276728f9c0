"""Law L4: a sync of one edited record writes as much as the edit, whatever the size of the index."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from laws.world import WORDS
from samples import Program, write_catalog

ROOM = 64_000
"""Bytes of the tables of a generation that adds one record."""


def states(artifacts: Path) -> dict[Path, tuple[int, int, int]]:
    """Return size, time and number of each file of an index."""
    files = [path for path in artifacts.rglob("*") if path.is_file()]
    return {path: (stat.st_size, stat.st_mtime_ns, stat.st_ino) for path in files if (stat := path.stat())}


def written(before: dict[Path, tuple[int, int, int]], artifacts: Path) -> int:
    """Return the bytes of files that are new or changed since."""
    return sum(state[0] for path, state in states(artifacts).items() if before.get(path) != state)


def edit_costs_the_edit(size: int, retrieve: Program, folder: Path) -> None:
    draw = random.Random(size)
    texts = [" ".join(draw.choices(WORDS, k=40)) for _ in range(size)]
    records = [{"id": f"t{row}", "name": f"tool {row}", "description": text} for row, text in enumerate(texts)]
    catalog, artifacts = write_catalog(folder / "tools.jsonl", records), folder / "artifacts"
    assert retrieve("build", "--catalog", catalog, "--artifacts", artifacts).code == 0
    for row in (size // 2, 0, size - 1):
        records[row]["description"] = f"edited {row} " + texts[row]
        write_catalog(catalog, records)
        before = states(artifacts)
        assert retrieve("sync", "--artifacts", artifacts).code == 0
        change = len(json.dumps(records[row]))
        assert written(before, artifacts) <= ROOM + 4 * change + size / 8


@pytest.mark.parametrize("size", [1_000])
def test_an_edit_of_a_small_index(
    size: int, retrieve: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__DIM", "16")
    edit_costs_the_edit(size, retrieve, tmp_path)


@pytest.mark.parametrize("size", [10_000, 100_000])
def test_an_edit_of_a_large_index(
    size: int, retrieve: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__DIM", "16")
    edit_costs_the_edit(size, retrieve, tmp_path)
