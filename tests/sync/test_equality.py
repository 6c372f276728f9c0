"""A changed recipe makes a sync a build; what did not change is not encoded again. tests/laws hold syncs to builds."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from samples import Program, write_catalog
from sync.state import contents, live

WORDS = "lung brain cell scan volume align stitch tile segment".split()


def equals_a_fresh_build(retrieve: Program, source: list[Any], artifacts: Path) -> None:
    """Holds the live generation to one that is built in another place, without cache or predecessor."""
    fresh = artifacts.parent / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    assert retrieve("build", *source, "--artifacts", fresh).code == 0
    assert (live(artifacts), contents(artifacts)) == (live(fresh), contents(fresh))


RECIPES: list[dict[str, Any]] = [
    {"bm25.unit": "chunk"},
    {"bm25.stemming": "none"},
    {"chunking.size": 24},
    {"encoder.dim": 64},
    {"dense.index": "hnsw"},
    {"catalog.fields": "{description: 3}"},
]


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_a_changed_recipe_and_changed_records_at_once(
    recipe: dict[str, Any], tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"id": f"t{n}", "name": f"tool {n}", "description": f"{WORDS[n]} and so on " * 12} for n in range(9)]
    path = write_catalog(tmp_path / "c.jsonl", records)
    artifacts = Path("artifacts").resolve()
    assert retrieve("build", "--catalog", path).code == 0
    for key, value in recipe.items():
        monkeypatch.setenv(f"RETRIEVE_{key.upper().replace('.', '__')}", str(value))
    write_catalog(path, [*records[2:5], {"id": "new", "name": "new"}, *records[5:]])
    plan = retrieve("sync", "--dry-run", "--json").json
    assert (plan["added"], plan["removed"], plan["kept"]) == (1, 2, 7) if "fields" not in str(recipe) else plan["added"]
    assert plan["recipe"]
    assert retrieve("sync").code == 0
    equals_a_fresh_build(retrieve, ["--catalog", path], artifacts)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
    assert retrieve("sync").code == 0
    equals_a_fresh_build(retrieve, ["--catalog", path], artifacts)


def test_only_what_changed_is_embedded(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"id": f"t{n}", "name": f"tool {n} {WORDS[n]}"} for n in range(9)]
    path = write_catalog(tmp_path / "c.jsonl", records)
    assert retrieve("build", "--catalog", path, "--json").json["embedded"] == 9
    write_catalog(path, [*records, {"id": "new", "name": "new words"}])
    assert retrieve("sync", "--json").json["embedded"] == 1
    write_catalog(path, records)
    assert retrieve("sync", "--json").json["embedded"] == 0
    monkeypatch.setenv("RETRIEVE_BM25__STEMMING", "none")
    assert retrieve("sync", "--json").json["embedded"] == 0
    monkeypatch.setenv("RETRIEVE_ENCODER__DIM", "64")
    assert retrieve("sync", "--json").json["embedded"] == 9


def test_a_record_whose_id_was_taken_for_a_while_comes_back(tmp_path: Path, retrieve: Program) -> None:
    """One line has two records; another source takes the id of the second, and gives it up again."""
    both = [{"@type": "SoftwareSourceCode", "@id": name, "identifier": name, "name": name} for name in ("a", "b")]
    write_catalog(tmp_path / "later.jsonl", [{"@context": "https://schema.org", "@graph": both}])
    first, taken = {"id": "z", "name": "z"}, {"id": "b", "name": "other"}
    write_catalog(tmp_path / "first.jsonl", [first])
    assert retrieve("build", "first.jsonl", "later.jsonl").code == 0
    write_catalog(tmp_path / "first.jsonl", [first, taken])
    assert retrieve("sync", "--verify").code == 8
    write_catalog(tmp_path / "first.jsonl", [first])
    assert retrieve("sync", "--verify").code == 0
    names = [record["id"] for record in retrieve("inspect", "records", "--json").json["records"]]
    assert sorted(names) == ["a", "b", "z"]
