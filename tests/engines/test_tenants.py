"""Tenants of attached indexes: samples are stored, answers are those of local files, and memory is bounded."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines.injected import Servers, search_in
from engines.test_attach import answer
from samples import Program, fails, succeeds, write_catalog

from retrieve_cli.contracts import Field
from retrieve_cli.retrieval.retrievers import impacts
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.impacts import Bm25Index, Bm25Writer, Formula
from retrieve_cli.storage import bitmap, mapped, pickles
from retrieve_cli.storage.bitmap import Bitmap
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.records import columns
from retrieve_cli.storage.records.columns import Columns
from retrieve_cli.storage.records.columns_writer import ColumnsWriter

SAMPLED = 8
FACTOR = 1.5
"""Growth of memory that is allowed if there are ten times as many rows."""


@pytest.fixture(autouse=True)
def _small_samples_and_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_ENGINES__STORE", "engine")
    for module in (bitmap, columns):
        monkeypatch.setattr(module, "POPULATION_ROWS", SAMPLED)


@pytest.fixture(params=[1, 40], ids=["one chunk", "several chunks"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Records of a tenant of 36, of one of 18, and of six of 3 records."""
    rows = [
        {
            "id": f"t{number}",
            "name": f"tool {number}",
            "description": f"Record {number} segments lungs word{number % 7}. " * (1 + number % 3 * request.param // 2),
            "tenant": ("a", "a", "b", f"c{number // 12}")[number % 4],
            "license": ("MIT", "GPL-3.0")[number % 2],
        }
        for number in range(72)
    ]
    return write_catalog(tmp_path / "tools.jsonl", rows)


def built(retrieve: Program, catalog: Path) -> Manifest:
    """Build the catalog into the engines, and attach it in the folder `thin`."""
    generation = succeeds(retrieve("build", "--catalog", str(catalog), "--json")).json["generation"]
    succeeds(retrieve("engines", "attach", "--artifacts", "thin"))
    return Manifest.read(Path("artifacts", "generations", generation, "manifest.json"))


ASKED: list[tuple[str, ...]] = [
    ("--tenant", "a"),
    ("--tenant", "c1", "--no-rerank"),
    ("--tenant", "b", "--filter", "license!=GPL-3.0", "--mode", "bm25"),
    ("--tenant", "a", "--mode", "dense", "--chunks"),
    ("--filter", "license=MIT"),
]


def test_an_attached_index_answers_tenants_as_local_files_do(
    servers: Servers, retrieve: Program, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (bitmap, impacts):
        monkeypatch.setattr(module, "PIECE", 1 << 10)
    files = built(retrieve, catalog).files
    assert files[columns.TENANTS_FILE].rows == 2
    found = [answer(retrieve, "thin", *words) for words in ASKED]
    assert all(each["results"] for each in found)
    monkeypatch.setenv("RETRIEVE_ENGINES__STORE", "local")
    search_in("local", monkeypatch)
    for words, each in zip(ASKED, found, strict=True):
        local = answer(retrieve, "artifacts", *words)
        assert [hit["id"] for hit in each["results"]] == [hit["id"] for hit in local["results"]]


def test_samples_that_are_stored_are_not_computed(
    servers: Servers, retrieve: Program, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(retrieve, catalog)
    found = answer(retrieve, "thin", "--tenant", "a")

    def computed(*_: Any) -> Any:
        raise AssertionError("a pass over the rows of a tenant")

    monkeypatch.setattr(bitmap, "sample_of", computed)
    assert answer(retrieve, "thin", "--tenant", "a") == found


def test_an_index_without_samples_answers_the_same(
    servers: Servers, retrieve: Program, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(retrieve, catalog)
    found = answer(retrieve, "thin", "--tenant", "a")
    monkeypatch.setattr(columns, "POPULATION_ROWS", 1 << 20)
    assert columns.TENANTS_FILE not in built(retrieve, catalog).files
    assert answer(retrieve, "thin", "--tenant", "a")["results"] == found["results"]


def test_samples_that_differ_in_the_engine_are_rejected(servers: Servers, retrieve: Program, catalog: Path) -> None:
    built(retrieve, catalog)
    zeroed = f"UPDATE blocks SET data = zeroblob(length(data)) WHERE file = '{columns.TENANTS_FILE}'"
    servers.execute("qdrant", zeroed)
    fails(retrieve("query", "lungs", "--tenant", "a", "--artifacts", "thin"), 5, columns.TENANTS_FILE)
    succeeds(retrieve("query", "lungs", "--artifacts", "thin"))


def peak(count: int, folder: Path) -> int:
    """Return the most memory that a tenant of 40 % of the rows takes: its records, a filter, and a search of words."""
    writer = Bm25Writer(analyzer=TextAnalyzer(), unit="chunk", formula=Formula())
    columns = ColumnsWriter()
    for number in range(count):
        writer.add([Field("text", f"lungs word{number % 7} word{number % 11}")])
        columns.add({"tenant": ["a" if number % 5 < 2 else "b"], "license": [("MIT", "GPL")[number % 2]]})
    writer.write(folder / "bm25.pkl")
    columns.write(folder / "columns.pkl")
    words, fields = Bm25Index(pickles.load(folder / "bm25.pkl")), Columns(pickles.load(folder / "columns.pkl"))
    words.release = fields.release = lambda: None
    tracemalloc.start()
    own = fields.having("tenant", "a")
    passing = own & fields.select("license", "=", ["MIT"])
    (found,) = words.within(own).search(["lungs word3"], depth=10, allowed=[passing])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(own, Bitmap)
    assert found.after == np.count_nonzero(passing) == count // 5
    return most


def test_a_tenant_of_ten_times_as_many_rows_takes_no_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((bitmap, "PIECE"), (impacts, "PIECE"), (mapped, "BLOCK")):
        monkeypatch.setattr(module, name, 2048)
    few, many = (peak(count, tmp_path) for count in (2_000, 20_000))
    assert many <= FACTOR * few
