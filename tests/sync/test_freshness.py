"""A hit says whether its source has changed or gone since the build."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog

from retrieve_cli.config.loading import load
from retrieve_cli.contracts import Request
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage import durable
from retrieve_cli.storage.store import Store


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


def test_a_hit_of_a_catalog_is_changed_if_its_own_line_is_and_deleted_if_its_id_is_gone(
    index: Path, catalog: Path, retrieve: Program
) -> None:
    assert set(freshness(retrieve).values()) == {"fresh"}
    write_catalog(catalog, [{**TOOLS[0], "description": "Zebras."}, *TOOLS[2:]])
    fresh = dict.fromkeys(("brain", "stitch", "align"), "fresh")
    assert freshness(retrieve) == {"lungs": "changed", "cells": "deleted", **fresh}
    catalog.unlink()
    assert set(freshness(retrieve).values()) == {"deleted"}


def test_records_without_an_id_of_their_own_are_found_again(tmp_path: Path, retrieve: Program) -> None:
    path = write_catalog(tmp_path / "c.jsonl", [{"name": "zebras one"}, {"name": "zebras two"}])
    assert retrieve("build", "--catalog", path).code == 0
    write_catalog(path, [{"name": "zebras two"}, {"name": "zebras three"}])
    assert sorted(freshness(retrieve).values()) == ["deleted", "fresh"]


def large(path: Path, edit: Callable[[list[bytes]], list[bytes]] = list) -> Path:
    """A catalog of 3,000 records, of which only the lines are read; those of numbers 0, 500, … are about zebras."""
    about = ["zebras" if number % 500 == 0 else "horses" for number in range(3000)]
    tools = [{"id": f"t{number}", "name": f"{word} {'x' * 250}"} for number, word in enumerate(about)]
    path.write_bytes(b"".join(edit([json.dumps(tool).encode() + b"\n" for tool in tools])))
    return path


@pytest.fixture
def large_index(tmp_path: Path, retrieve: Program) -> Path:
    """A large catalog, indexed for BM25 alone."""
    path = large(tmp_path / "large.jsonl")
    Path("config.yaml").write_text("dense: {enabled: false}\nstore: {keep: 1}")
    assert retrieve("build", "--catalog", path).code == 0
    return path


def edited(lines: list[bytes]) -> list[bytes]:
    """Other lines before the second hit; the third hit edited."""
    lines[1000] = lines[1000].replace(b"zebras", b"Zebras")
    return [*lines[:400], *(b'{"id": "new%d", "name": "donkeys"}\n' % number for number in range(2000)), *lines[400:]]


def test_a_hit_of_a_large_catalog_is_held_to_its_own_line(large_index: Path, retrieve: Program) -> None:
    os.utime(large_index, ns=(1, 1))
    assert set(freshness(retrieve).values()) == {"fresh"}
    assert len(freshness(retrieve)) == 6
    large(
        large_index, lambda lines: [line.replace(b"zebras", b"Zebras") if b"t500" in line else line for line in lines]
    )
    assert [name for name, state in freshness(retrieve).items() if state != "fresh"] == ["t500"]
    large(large_index, edited)
    assert [name for name, state in freshness(retrieve).items() if state != "fresh"] == ["t1000"]
    large_index.unlink()
    assert set(freshness(retrieve).values()) == {"deleted"}


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_of_a_large_table_only_the_edited_rows_are_marked(kind: str, tmp_path: Path, retrieve: Program) -> None:
    path = tmp_path / f"large.{kind}"
    rows = [[f"t{at}", f"{'zebras' if at % 400 == 0 else 'quaggas'} {'x' * 250}"] for at in range(2000)]

    def write() -> None:
        if kind == "csv":
            path.write_text("id,name\n" + "".join(f"{key},{name}\n" for key, name in rows))
        else:
            path.write_text(json.dumps([{"id": key, "name": name} for key, name in rows], indent=1))

    write()
    assert retrieve("build", path).code == 0
    rows[400][1] += " and more"
    del rows[1600]
    rows[1:3] = [["new", "a row among others"]]
    write()
    found = freshness(retrieve, "--mode", "bm25")
    assert found == {
        "t0": "fresh", "t400": "changed", "t800": "fresh", "t1200": "fresh", "t1600": "deleted"
    }  # fmt: skip


def test_an_open_searcher_sees_each_change_of_a_catalog(large_index: Path) -> None:
    opened = Opened.of(Store(Path("artifacts")), load(Path("config.yaml")))

    def states() -> set[str]:
        (answer,) = Searcher(opened).answer([Request("zebras")])
        return {result.freshness for result in answer.results}

    assert states() == {"fresh"}
    large(large_index, lambda lines: [line.replace(b"zebras", b"Zebras") for line in lines])
    assert states() == {"changed"}
    large(large_index)
    assert states() == {"fresh"}


def test_strict_fresh_answers_and_ends_with_10(index: Path, catalog: Path, retrieve: Program) -> None:
    assert retrieve("query", "lungs", "--strict-fresh").code == 0
    write_catalog(catalog, TOOLS[:4])
    done = retrieve("query", "lungs", "--strict-fresh", "--json")
    assert done.code == 10
    assert done.json["results"]
    assert retrieve("sync").code == 0
    assert retrieve("query", "lungs", "--strict-fresh").code == 0


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


# ------------------------------------------------------------------------------------- new files, and the policy


FOLDER_CHANGES: dict[str, Callable[[Path], object]] = {
    "a new file": lambda docs: (docs / "deep" / "new.md").write_text("zebras"),
    "a file that went, of which no hit tells": lambda docs: (docs / "deep" / "other.md").unlink(),
    "a new folder": lambda docs: (docs / "deep" / "more").mkdir(),
    "a new file in the top folder": lambda docs: (docs / "new.txt").write_text("zebras"),
}


@pytest.fixture
def settled_docs(docs: Path, retrieve: Program) -> Path:
    """The folder of documents as if it had been written long ago."""
    (docs / "deep" / "other.md").write_text("lions")
    for folder in (docs, docs / "deep"):
        os.utime(folder, ns=(1, 1))
    return docs


def policy(name: str) -> None:
    Path("config.yaml").write_text(f"{{freshness: {{policy: {name}}}}}")


@pytest.mark.parametrize("what", FOLDER_CHANGES)
def test_a_file_that_came_or_went_is_noticed_by_its_folder(settled_docs: Path, retrieve: Program, what: str) -> None:
    assert retrieve("sync").code == 0
    assert retrieve("query", "zebras", "--mode", "bm25").err == ""
    FOLDER_CHANGES[what](settled_docs)
    assert (
        retrieve("query", "zebras", "--mode", "bm25").err
        == "note: docs: 1 folder changed since the build: retrieve sync\n"
    )
    assert retrieve("sync").code == 0
    assert retrieve("query", "zebras", "--mode", "bm25").err == ""


@pytest.mark.parametrize("name", [".new.md.swp", "image.png", "4913"])
def test_a_file_that_no_sync_would_read_is_not_noticed(settled_docs: Path, retrieve: Program, name: str) -> None:
    assert retrieve("sync").code == 0
    (settled_docs / "deep" / name).write_bytes(b"\0")
    assert retrieve("query", "zebras").err == ""


def test_no_file_is_listed_where_no_folder_changed(
    settled_docs: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "SETTLED_NS", -(10**18))
    assert retrieve("sync").code == 0
    monkeypatch.setattr(os, "scandir", lambda *_: pytest.fail("a folder is listed"))
    assert retrieve("query", "zebras").err == ""


@pytest.mark.parametrize("what", ["a new file", "a new folder"])
def test_under_fail_nothing_is_answered_while_a_folder_has_changed(
    settled_docs: Path, retrieve: Program, what: str
) -> None:
    policy("fail")
    assert retrieve("sync").code == 0
    assert retrieve("query", "zebras").code == 0
    FOLDER_CHANGES[what](settled_docs)
    done = retrieve("query", "zebras", "--json")
    assert (done.code, done.out) == (10, "")
    error = json.loads(done.err)["error"]
    assert (error["code"], error["kind"]) == (10, "stale")
    assert "docs: 1 folder changed" in error["message"]
    assert "retrieve sync" in error["hint"]
    assert retrieve("sync").code == 0
    assert retrieve("query", "zebras").code == 0


def test_under_fail_a_document_that_was_edited_in_place_is_not_answered_from(docs: Path, retrieve: Program) -> None:
    policy("fail")
    (docs / "a.md").write_text("# a.md\nzebras elsewhere")
    done = retrieve("query", "zebras")
    assert (done.code, done.out) == (10, "")
    assert "1 of 3 hits" in done.err


@pytest.mark.parametrize("change", ["touch", "append", "remove"])
def test_under_fail_a_catalog_is_held_to_its_marks_until_the_next_sync(
    index: Path, catalog: Path, retrieve: Program, change: str
) -> None:
    policy("fail")
    assert retrieve("query", "scan").code == 0
    content = catalog.read_text()
    if change == "remove":
        catalog.unlink()
    else:
        catalog.write_text(content + ('{"id": "new", "name": "new"}\n' if change == "append" else ""))
    done = retrieve("query", "scan")
    assert (done.code, done.out) == (10, "")
    assert ("its file is gone" if change == "remove" else "its file changed") in done.err
    if change == "remove":
        catalog.write_text(content)
    assert retrieve("sync").code == 0
    assert retrieve("query", "scan").code == 0


def test_under_sync_a_query_syncs_first(settled_docs: Path, retrieve: Program) -> None:
    policy("sync")
    (settled_docs / "new.md").write_text("zebras")
    assert "new.md" in retrieve("query", "zebras", "--list").out.split()


@pytest.mark.parametrize("name", ["warn", "fail"])
def test_a_tenant_is_not_told_which_sources_have_changed(settled_docs: Path, retrieve: Program, name: str) -> None:
    (settled_docs / "b.md").write_text("---\ntenant: acme\n---\nzebras")
    assert retrieve("sync").code == 0
    policy(name)
    (settled_docs / "new.md").write_text("zebras")
    done = retrieve("query", "zebras", "--tenant", "acme")
    assert done.code == (10 if name == "fail" else 0)
    assert "docs" not in done.err
    assert ("folder" in retrieve("query", "zebras").err) is True
