"""A hit says whether its source has changed or gone since the build."""

import json
import os
import shutil
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog


@pytest.fixture
def docs(tmp_path: Path, retrieve: Program) -> Path:
    """A folder of three documents, indexed."""
    folder = tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.md", "b.md", "deep/c.md"):
        (folder / name).write_text(f"# {name}\nzebras in {name}")
    assert retrieve("build", "--docs-dir", folder).code == 0
    return folder


def freshness(retrieve: Program, *flags: object) -> dict[str, str]:
    hits = retrieve("query", "zebras", "--json", *flags).json["results"]
    return {hit["doc_id"]: hit["freshness"] for hit in hits}


def test_files_that_changed_or_went_are_told_from_those_that_did_not(docs: Path, retrieve: Program) -> None:
    assert set(freshness(retrieve).values()) == {"fresh"}
    (docs / "a.md").write_text("# a.md\nzebras elsewhere")
    (docs / "deep" / "c.md").unlink()
    assert freshness(retrieve) == {"a.md": "changed", "b.md": "fresh", "deep/c.md": "deleted"}
    assert set(freshness(retrieve, "--chunks").values()) == {"changed", "fresh", "deleted"}
    done = retrieve("query", "zebras")
    assert done.err.count("note:") == 1
    assert "2 of 3 hits (1 of them deleted) have changed since the build: retrieve sync" in done.err
    assert "changed since the build" in done.out
    assert retrieve("sync").code == 0
    assert freshness(retrieve) == {"a.md": "fresh", "b.md": "fresh"}
    assert retrieve("query", "zebras").err == ""


def test_a_file_that_was_only_touched_or_replaced_by_its_like_is_fresh(docs: Path, retrieve: Program) -> None:
    os.utime(docs / "a.md", ns=(1, 1))
    content = (docs / "b.md").read_bytes()
    (docs / "b.md").unlink()
    (docs / "b.md").write_bytes(content)
    assert set(freshness(retrieve).values()) == {"fresh"}


def test_a_change_of_the_same_size_and_time_is_seen(docs: Path, retrieve: Program) -> None:
    status = (docs / "a.md").stat()
    (docs / "a.md").write_text("# a.md\nzebras on a.md")
    os.utime(docs / "a.md", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (docs / "a.md").stat().st_size == status.st_size
    assert freshness(retrieve)["a.md"] == "changed"


def test_a_file_replaced_by_a_folder_and_a_folder_that_is_gone(docs: Path, retrieve: Program) -> None:
    (docs / "a.md").unlink()
    (docs / "a.md").mkdir()
    assert freshness(retrieve)["a.md"] == "changed"
    shutil.rmtree(docs)
    assert set(freshness(retrieve).values()) == {"deleted"}


def test_a_catalog_that_says_anything_else_makes_its_hits_changed_and_what_it_lost_deleted(
    index: Path, catalog: Path, retrieve: Program
) -> None:
    assert set(freshness(retrieve).values()) == {"fresh"}
    write_catalog(catalog, [{**TOOLS[0], "description": "Zebras."}, *TOOLS[2:]])
    states = freshness(retrieve)
    assert states == {
        "lungs": "changed",
        "cells": "deleted",
        "brain": "changed",
        "stitch": "changed",
        "align": "changed",
    }
    catalog.unlink()
    assert set(freshness(retrieve).values()) == {"deleted"}


def test_a_catalog_that_was_only_touched_is_fresh(index: Path, catalog: Path, retrieve: Program) -> None:
    os.utime(catalog, ns=(1, 1))
    assert set(freshness(retrieve).values()) == {"fresh"}
    content = catalog.read_bytes()
    catalog.unlink()
    catalog.write_bytes(content)
    assert set(freshness(retrieve).values()) == {"fresh"}


def test_records_without_an_id_of_their_own_are_found_again(tmp_path: Path, retrieve: Program) -> None:
    path = write_catalog(tmp_path / "c.jsonl", [{"name": "zebras one"}, {"name": "zebras two"}])
    assert retrieve("build", "--catalog", path).code == 0
    write_catalog(path, [{"name": "zebras two"}, {"name": "zebras three"}])
    assert sorted(freshness(retrieve).values()) == ["changed", "deleted"]


def test_strict_fresh_answers_and_ends_with_10(index: Path, catalog: Path, retrieve: Program) -> None:
    assert retrieve("query", "lungs", "--strict-fresh").code == 0
    write_catalog(catalog, TOOLS[:4])
    done = retrieve("query", "lungs", "--strict-fresh", "--json")
    assert done.code == 10
    assert done.json["results"]
    assert retrieve("sync").code == 0
    assert retrieve("query", "lungs", "--strict-fresh").code == 0


def test_a_batch_is_told_once(index: Path, catalog: Path, retrieve: Program, stdin) -> None:
    write_catalog(catalog, TOOLS[:4])
    stdin("lungs\nbrain\n")
    done = retrieve("query", "-", "-k", 2, "--format", "csv")
    assert done.err.count("note:") == 1
    assert "4 of 4 hits" in done.err


@pytest.mark.parametrize("kind", ["docs", "catalog"])
def test_a_source_that_became_a_pipe_is_not_waited_for(docs: Path, catalog: Path, retrieve: Program, kind: str) -> None:
    place = docs / "a.md"
    if kind == "catalog":
        place = catalog
        assert retrieve("build", "--catalog", catalog).code == 0
    place.unlink()
    os.mkfifo(place)
    states = retrieve("query", "zebras lungs", "--json").json["results"]
    assert {hit["freshness"] for hit in states} & {"changed", "deleted"}


@pytest.mark.slow
@pytest.mark.parametrize("stamp", [True, 5, 1.5, "x", [None], {}, None])
@pytest.mark.parametrize("origin", [{}, {"id_prefix": None}, {"id_prefix": 5}, {"path": "\0"}, {"path": 3}], ids=str)
def test_circumstances_that_make_no_sense_break_nothing(
    index: Path, catalog: Path, retrieve: Program, stamp: object, origin: dict[str, object]
) -> None:
    path = index / "generations" / (index / "current").read_text().strip() / "manifest.json"
    value = json.loads(path.read_text())
    value["built"]["sources"][0]["stamp"] = stamp
    value["built"]["sources"][0]["origin"].update(origin)
    path.write_text(json.dumps(value))
    write_catalog(catalog, TOOLS[1:])
    assert retrieve("query", "lungs").code == 0
    assert retrieve("sync").code in (0, 2)
    assert retrieve("query", "lungs").code == 0


def test_an_index_that_does_not_know_its_source_says_nothing_of_it(index: Path, retrieve: Program) -> None:
    path = index / "generations" / (index / "current").read_text().strip() / "manifest.json"
    value = json.loads(path.read_text())
    del value["built"]["sources"], value["built_sha1"]
    path.write_text(json.dumps(value))
    assert retrieve("query", "lungs").code == 0
    done = retrieve("sync")
    assert done.code == 2
    assert "does not say what it was built from" in done.err
