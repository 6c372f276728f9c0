"""Sources of a build on the command line: catalogs and folders in any number, and what is said of all others."""

import json
import time
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog


def write(path: Path, text: str) -> Path:
    """A file, in folders that are made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder of two documents."""
    write(tmp_path / "docs" / "lungs.md", "# How lungs are segmented\nBy hand.")
    return write(tmp_path / "docs" / "cells.md", "# How cells are counted\nOne by one.").parent


def generation(retrieve: Program, *arguments: object) -> str:
    """The generation of a build into a folder of its own."""
    done = retrieve("build", *arguments, "--artifacts", f"a{time.monotonic_ns()}", "--json")
    assert done.code == 0, done.err
    return str(done.json["generation"])


def test_a_file_is_a_catalog_and_a_folder_holds_documents(catalog: Path, docs: Path, retrieve: Program) -> None:
    done = retrieve("build", catalog, docs)
    assert done.code == 0
    assert "7 records and documents, 7 chunks" in done.out
    assert retrieve("query", "how cells are counted", "-k", 1, "-l").out == "cells.md\n"
    assert retrieve("query", "stitches microscope tiles", "-k", 1, "-l").out == "stitch\n"
    sources = json.loads(next(Path("artifacts/generations").glob("*/manifest.json")).read_text())["sources"]
    assert [(source["kind"], source["name"]) for source in sources] == [("catalog", "tools.jsonl"), ("docs", "docs")]
    (docs / "new.md").write_text("# New\nNews.")
    assert retrieve("sync", "--json").json["added"] == 1


def test_an_argument_is_the_same_source_as_the_flag(catalog: Path, docs: Path, retrieve: Program) -> None:
    assert generation(retrieve, catalog) == generation(retrieve, "--catalog", catalog)
    assert generation(retrieve, docs) == generation(retrieve, "--docs-dir", docs)
    both = generation(retrieve, catalog, docs)
    assert generation(retrieve, "--docs-dir", docs, "--catalog", catalog) == both
    assert generation(retrieve, catalog, "--docs-dir", docs) == both
    Path("config.yaml").write_text(f"sources: [{{kind: catalog, path: {catalog}}}, {{kind: docs, path: {docs}}}]\n")
    assert generation(retrieve) == both


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("tols.jsonl", "cannot read tols.jsonl: No such file", "did you mean tools.jsonl?"),
        ("zebra", "cannot read zebra: No such file", "retrieve build tools.jsonl or retrieve build docs/"),
        ("docs/lungs.md", "is a single document", "retrieve build docs"),
        ("pack.zip", "is a zip archive", "unzip"),
        ("https://zoe:secret@x.org/t.jsonl?key=1", "not addresses", "sources: [{kind: http, url: 'https://x.org/t.jsonl"),
        ("beir", "a BEIR collection", "retrieve build beir/corpus.jsonl"),
    ],
)  # fmt: skip
def test_what_is_no_source_is_an_error_that_names_the_right_way(
    catalog: Path, docs: Path, retrieve: Program, word: str, message: str, hint: str
) -> None:
    (docs / "deep").mkdir()
    Path("beir").mkdir()
    write_catalog(Path("beir/corpus.jsonl"), TOOLS)
    Path("pack.zip").write_bytes(b"PK\x03\x04....")
    done = retrieve("build", word)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert hint in done.err
    assert "secret" not in done.err
    assert max(map(len, done.err.splitlines())) < 300
    assert not Path("artifacts").exists()


# ------------------------------------------------------------------------------------------------ no source at all


def test_a_build_without_sources_suggests_what_lies_here(catalog: Path, docs: Path, retrieve: Program) -> None:
    write_catalog(Path("gold.jsonl"), [{"query": "lungs", "relevant": ["lungs"]}])
    write(Path("empty/picture.png"), "x")
    done = retrieve("build")
    assert done.code == 2
    assert "retrieve build tools.jsonl or retrieve build docs/; or" in done.err
    assert "sources:" in done.err


# ------------------------------------------------------------------------------------ what a build replaces


def test_a_build_from_other_sources_says_what_it_replaces_and_how_to_go_back(
    catalog: Path, docs: Path, retrieve: Program
) -> None:
    first = retrieve("build", catalog, "--json").json["generation"]
    done = retrieve("build", docs)
    back = f"retrieve sync --rollback {first}"
    assert f"replaces all records of generation {first}; go back: {back}" in done.err
    assert retrieve(*back.split()[1:]).code == 0
    assert retrieve("query", "stitches microscope tiles", "-k", 1, "-l").out == "stitch\n"


def test_a_build_from_the_same_sources_replaces_nothing(catalog: Path, docs: Path, retrieve: Program) -> None:
    assert "replaces" not in retrieve("build", catalog, docs).err
    assert "replaces" not in retrieve("build", docs, catalog).err
    write_catalog(catalog, TOOLS[:4])
    assert "replaces" not in retrieve("build", docs, catalog).err


def test_sources_that_are_named_replace_those_of_the_configuration_and_that_is_said(
    catalog: Path, docs: Path, retrieve: Program
) -> None:
    Path("config.yaml").write_text(f"sources: [{{kind: catalog, path: {catalog}}}]\n")
    done = retrieve("build", docs)
    assert "2 documents" in done.out
    assert "`sources:` of the configuration is not used; the next retrieve sync follows it again" in done.err
    assert "is not used" not in retrieve("build", "tools.jsonl").err
    assert "is not used" not in retrieve("build").err


# -------------------------------------------------------------------------------------------------- the next step


def test_a_build_ends_with_a_query_that_finds_something(catalog: Path, docs: Path, retrieve: Program) -> None:
    done = retrieve("build", docs, "--artifacts", "my index")
    assert done.err.splitlines()[-1] == """next: retrieve query "How cells are counted" --artifacts 'my index'"""
    assert retrieve("query", "How cells are counted", "--artifacts", "my index", "-l", "-k", 1).out == "cells.md\n"
    assert "next:" not in retrieve("build", docs, "-q").err
    assert retrieve("build", docs, "--json").err == ""


def test_a_name_that_a_shell_would_read_is_no_example(retrieve: Program) -> None:
    write_catalog(Path("odd.jsonl"), [{"id": "a", "name": '$(reboot) "`'}, {"id": "b", "name": "x\x1b[31m y"}])
    assert retrieve("build", "odd.jsonl").err.splitlines()[-1] == 'next: retrieve query "what you are looking for"'


def test_a_replaced_generation_that_is_removed_is_not_offered(
    catalog: Path, docs: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_STORE__KEEP", "1")
    assert retrieve("build", catalog).code == 0
    assert "--rollback" not in retrieve("build", docs).err
