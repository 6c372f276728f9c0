"""docs/artifacts.md describes every file of an index: the code on it reads them, and its figures are ours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from doc_pages import ROOT
from samples import TOOLS, Program, write_catalog

PAGE = (ROOT / "docs" / "artifacts.md").read_text("utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
Read = Callable[[], dict[str, Any]]


@pytest.fixture
def index(catalog: Path, retrieve: Program) -> Path:
    """An index of several segments with records that are gone."""
    others = [{"id": f"t{number}", "name": "Lung", "description": "lung " * number} for number in range(20)]
    records = [*TOOLS, *others]
    write_catalog(catalog, records)
    assert retrieve("build", "--catalog", catalog).code == 0
    for number in (1, 7):
        records[number] = {**records[number], "description": "A lung in MRI.", "license": "MIT"}
        write_catalog(catalog, records)
        assert retrieve("sync").code == 0
    write_catalog(catalog, [*records[:9], *records[10:]])
    assert retrieve("sync").code == 0
    return Path("artifacts").resolve()


@pytest.fixture
def page(index: Path) -> Read:
    """What the page's code defines, run beside an index."""

    def run() -> dict[str, Any]:
        assert "retrieve_cli" not in "".join(CODE)
        names: dict[str, Any] = {}
        exec("\n".join(CODE), names)
        return names

    return run


def described() -> dict[str, set[str]]:
    """Return the keys of each file by the table of the page."""
    keys: dict[str, set[str]] = {}
    names: list[str] = []
    for line in PAGE.splitlines():
        cells = [re.findall(r"`([a-z0-9_.]+)`", cell) for cell in line.split("|")[1:3]]
        if len(cells) == 2 and line.startswith("|"):
            names = cells[0] or names
            for name in names:
                keys.setdefault(name, set()).update(cells[1])
    return keys


def test_every_file_and_key_is_described(page: Read) -> None:
    all_keys_are_described(page())


def all_keys_are_described(names: dict[str, Any]) -> None:
    for folder in names["folders"]:
        files = {path.name for path in folder.iterdir()} - {"manifest.json", "dead.pkl"}
        assert files <= described().keys()
        for name in sorted(files):
            if name.endswith(".pkl"):
                assert names["read"](folder / name).keys() == described()[name], name
    assert len(names["folders"]) > 1
    assert names["dead"].keys() == {names["folders"][0].name}


def test_files_of_models_and_graphs_are_described(tmp_path: Path, retrieve: Program) -> None:
    from splade_models import save_masked

    model, edges = save_masked(tmp_path / "tiny"), tmp_path / "edges.jsonl"
    edges.write_text('{"source": "lungs", "target": "brain", "kind": "near"}\n')
    settings = {
        "encoder": {"kind": "onnx", "model": str(model)},
        "splade": {"model": str(model)},
        "models": {"cache_dir": str(tmp_path / "exports")},
        "facets": {"prompt": "extractive"},
        "graph": {"files": [str(edges)]},
    }
    Path("config.yaml").write_text(json.dumps(settings))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RETRIEVE_ENCODER__KIND")
        assert retrieve("build", "--catalog", write_catalog(tmp_path / "c.jsonl", TOOLS)).code == 0
    names: dict[str, Any] = {}
    exec(CODE[0], names)
    contents = {path.name: names["read"](path) for path in names["folder"].glob("*.pkl")}
    read = {name: content.keys() for name, content in contents.items()}
    assert read.keys() >= {"splade.pkl", "tokens.pkl", "graph.pkl", "facets.pkl"}
    assert {name: keys for name, keys in read.items() if keys != described()[name]} == {}
    (edges_line,) = (line for line in PAGE.splitlines() if "`outward`" in line)
    assert {*re.findall("`([a-z]+)`", edges_line)} == {"outward", "inward", *contents["graph.pkl"]["outward"]}


def test_the_scores_of_a_word_are_those_of_a_query(page: Read, retrieve: Program) -> None:
    names = page()
    scores = {}
    for (name, row), score in names["bm25"]("lung").items():
        folder = Path("artifacts/generations") / name
        scores[json.loads((folder / "records.jsonl").read_text().splitlines()[row])["id"]] = score
    found = retrieve("query", "lung", "--mode", "bm25", "-k", "50", "--json").json["results"]
    assert {hit["doc_id"] for hit in found} == scores.keys()
    assert len(scores) > 15
    for hit in found:
        assert hit["source_scores"]["bm25"]["score"] == pytest.approx(scores[hit["doc_id"]], abs=1e-6)


def test_a_product_of_vectors_is_the_score_of_a_query(page: Read, retrieve: Program) -> None:
    from retrieve_cli.models.encoders.hashed import HashedEncoder

    names = page()
    vector = HashedEncoder(512).encode_queries(["lung in MRI"])[0]
    found = retrieve("query", "lung in MRI", "--mode", "dense", "-k", "50", "--json").json["results"]
    scores = {hit["id"]: hit["source_scores"]["dense"]["score"] for hit in found}
    for folder in names["folders"]:
        live = np.repeat(names["alive"](folder), np.diff(names["read"](folder / "offsets.pkl")["starts"]))
        vectors = faiss.read_index(str(folder / "dense.faiss"))
        assert vectors.ntotal == len(live)
        for row in np.flatnonzero(live):
            chunk = json.loads((folder / "chunks.jsonl").read_text().splitlines()[row])["id"]
            assert vectors.reconstruct(int(row)) @ vector == pytest.approx(scores[chunk], abs=1e-6)


def test_the_rows_of_a_value_are_the_records_that_pass_a_filter(page: Read, retrieve: Program) -> None:
    names = page()
    found = set()
    for folder in names["folders"]:
        rows = (folder / "records.jsonl").read_text().splitlines()
        live = names["alive"](folder)
        found |= {json.loads(rows[row])["id"] for row in names["with_value"](folder, "license", "MIT") if live[row]}
    listed = retrieve("inspect", "records", "--filter", "license=MIT", "--json").json["records"]
    assert found == {record["id"] for record in listed} >= {"lungs", "cells"}
