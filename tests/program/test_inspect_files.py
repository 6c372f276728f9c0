"""`retrieve inspect files`: which chunks belong to which file, without a look at the sources."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog

from retrieve_cli.sources.formats.formats import card

TEXTS = {
    "munich/munich.md": "# Munich\n" + "Trams run in the town all day. " * 200,
    "berlin/berlin.md": "# Berlin\n" + "Trains run in the town all day. " * 200,
    "readme.txt": "What these towns have in common.",
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_each_document_stands_with_its_sha1_and_all_of_its_chunks(docs: Path, retrieve: Program) -> None:
    assert retrieve("build", "--docs-dir", docs).code == 0
    shutil.rmtree(docs)  # nothing of it is looked at
    listed = retrieve("inspect", "files", "--json").json
    assert [file["file"] for file in listed["files"]] == ["berlin/berlin.md", "munich/munich.md", "readme.txt"]
    for file in listed["files"]:
        content = hashlib.sha1(TEXTS[file["file"]].encode()).hexdigest()
        parser = card("text" if file["file"].endswith(".txt") else "markdown", main_content=True)
        parts = ["document", file["file"], "", parser, content, ""]
        named = json.dumps(parts, separators=(",", ":"), sort_keys=True)
        assert file["sha1"] == hashlib.sha1(named.encode()).hexdigest()
        record = retrieve("inspect", "record", file["file"], "--json").json
        assert file["chunk_ids"] == [chunk["id"] for chunk in record["chunks"]]
        assert (file["records"], file["chunks"]) == (1, len(file["chunk_ids"]))
    assert listed["total_chunks"] == retrieve("inspect", "status", "--json").json["chunks"]
    assert listed["groups"] == {file["file"].split("/")[0]: file["chunks"] for file in listed["files"][:2]}
    assert listed["without_group"] == 1


def test_a_catalog_is_one_file_with_its_counts(docs: Path, tmp_path: Path, retrieve: Program) -> None:
    tools = write_catalog(tmp_path / "tools.jsonl", TOOLS)
    Path("config.yaml").write_text(f"sources:\n- {{kind: catalog, path: {tools}}}\n- {{kind: docs, path: {docs}}}\n")
    assert retrieve("build").code == 0
    assert retrieve("inspect", "files", "--json").json["total_files"] == 1 + len(TEXTS)
    listed = retrieve("inspect", "files", "--source", "tools.jsonl", "--json").json
    (file,) = listed["files"]
    assert (file["file"], file["kind"], file["records"]) == ("tools.jsonl", "catalog", len(TOOLS))
    assert "chunk_ids" not in file
    before = file["sha1"]
    write_catalog(tools, [*TOOLS[:-1], {**TOOLS[-1], "name": "Another"}])
    retrieve("sync")
    assert retrieve("inspect", "files", "--source", "tools.jsonl", "--json").json["files"][0]["sha1"] != before


def test_a_group_and_a_source_narrow_the_list(docs: Path, index: Path, retrieve: Program) -> None:
    listed = retrieve("inspect", "files", "--group", "microscopy", "--json").json
    assert (listed["total_files"], listed["total_records"]) == (1, 2)
    assert list(listed["groups"]) == ["microscopy"]
    done = retrieve("inspect", "files", "--source", "nothing")
    assert done.code == 2
    assert "tools.jsonl" in done.err
