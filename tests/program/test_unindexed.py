"""Queries over a folder without an index: the same answers as from one, and nothing is left behind."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest
from program.asking import Configure, answered, refused
from samples import Program

from retrieve_cli.search.searcher import Searcher


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below a folder, and what the files hold."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


WAYS: list[list[str]] = [
    [],
    ["--chunks", "-k", "20"],
    ["--filter", "group=storage"],
    ["--filter", "section=Inspect", "--boost", "path=*claims*:2"],
    ["--context", "1", "--max-tokens", "80"],
    ["--also", "gateways", "--route"],
    ["--mode", "bm25"],
]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_the_answer_is_that_of_an_index_of_words_and_nothing_is_written(
    guides: Path, temporary: Path, retrieve: Program, way: list[str], configure: Configure
) -> None:
    configure("dense", enabled="false")
    assert retrieve("build", "--docs-dir", guides).code == 0
    artifacts = Path("artifacts").resolve()
    indexed = answered(retrieve, "inspect the claims", *way)
    before = tree(artifacts)
    found = answered(retrieve, "--docs-dir", guides, "inspect the claims", *way)
    assert {**found, "timings_ms": None} == {**indexed, "timings_ms": None}
    assert tree(artifacts) == before
    assert tree(temporary) == {}


@pytest.mark.parametrize("form", ["text", "json"])
def test_without_them_words_answer_which_is_said_and_no_folder_is_made(
    guides: Path, temporary: Path, retrieve: Program, form: str
) -> None:
    done = retrieve("query", "--docs-dir", guides, "--artifacts", "other", "inspect the claims", "--format", form)
    assert done.code == 0
    assert "claims" in done.out
    assert not Path("other").exists()
    assert tree(temporary) == {}
    if form == "json":
        assert (done.json["strategies_used"], done.json["pipeline"]) == (["bm25"], "bm25@200")
        assert done.json["strategies_skipped"].keys() == {"dense"}
        assert "a query does not encode documents" in done.json["strategies_skipped"]["dense"]
        assert len(done.json["generation"]) == 12
    if form == "text":
        assert "note: dense is skipped: a query does not encode documents" in done.err


def test_a_document_that_changed_after_the_build_is_found_as_it_is_now(guides: Path, retrieve: Program) -> None:
    (guides / "storage" / "claims.md").write_text("# Quokkas\n\nA quokka is a small wallaby.\n")
    done = retrieve("query", "--docs-dir", guides, "quokka", "--json")
    assert [each["doc_id"] for each in done.json["results"]] == ["storage/claims.md"]
    assert done.json["results"][0]["freshness"] == "fresh"


def test_the_mode_of_the_configuration_reads_the_folders_that_it_lists(guides: Path, retrieve: Program) -> None:
    config = Path("config.yaml")
    config.write_text(
        "sources: [{kind: docs, path: guides}, {kind: catalog, path: nowhere.jsonl}]\ndocs: {mode: standard_chunking}\n"
    )
    best = answered(retrieve, "--artifacts", "other", "inspect the claims")["results"][0]
    assert best["doc_id"] == "storage/claims.md"
    assert not Path("other").exists()
    config.write_text("docs: {mode: standard_chunking}\n")
    assert "retrieve query --docs-dir DIR" in refused(retrieve, "query", "claims")
    assert retrieve("query", "--docs-dir", guides, "claims").code == 0


def test_a_folder_that_is_too_large_names_the_key_and_the_command(
    guides: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    (guides / "picture.png").write_bytes(bytes(1_000_000))  # which is not read
    size = sum(path.stat().st_size for path in guides.rglob("*.md")) / 2**20
    monkeypatch.setattr("retrieve_cli.cli.folder_queries._MOST_MB", size + 0.0001)
    assert retrieve("query", "--docs-dir", guides, "claims").code == 0
    monkeypatch.setattr("retrieve_cli.cli.folder_queries._MOST_MB", size - 0.0001)
    err = refused(retrieve, "query", "--docs-dir", guides, "claims")
    assert "without an index" in err
    assert f"retrieve build --docs-dir {guides}" in err


def test_documents_that_cannot_be_read_are_told_and_the_others_answer(
    guides: Path, retrieve: Program, tmp_path: Path
) -> None:
    (guides / "broken.md").write_bytes(b"\xff\0 claims")
    done = retrieve("query", "--docs-dir", guides, "inspect claims", "--json")
    assert done.code == 0
    assert done.json["notices"][0].startswith("1 of 10 documents cannot be read: broken.md: it is not a text")
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "broken.md").write_bytes(b"\xff\0 claims")
    assert "none of the 1 documents can be read" in refused(retrieve, "query", "--docs-dir", tmp_path / "all", "claims")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--mode", "dense", "--artifacts", "other"], 6, "dense cannot answer without an index"),
        (["--retrievers", "bm25,dense", "--artifacts", "other"], 6, "dense cannot answer without an index"),
        (["--save-run"], 2, "--save-run"),
        (["--min-confidence", "0.5"], 2, "no calibration"),
    ],
)
def test_what_takes_an_index_is_an_error(
    guides: Path, temporary: Path, retrieve: Program, words: list[str], code: int, said: str
) -> None:
    assert said in refused(retrieve, "query", "--docs-dir", guides, "claims", *words, code=code)
    assert tree(temporary) == {}


def test_with_a_gpu_required_words_alone_are_no_answer(guides: Path, retrieve: Program, configure: Configure) -> None:
    configure("encoder", device="cuda")
    refused(retrieve, "query", "--docs-dir", guides, "--artifacts", "other", "claims", code=6)
    assert retrieve("query", "--docs-dir", guides, "--artifacts", "other", "claims", "--mode", "bm25").code == 0


def test_a_query_is_not_logged_where_there_is_no_index(guides: Path, retrieve: Program, configure: Configure) -> None:
    configure("log", queries="true")
    before = tree(Path("artifacts"))
    assert retrieve("query", "--docs-dir", guides, "claims", "--strict-fresh").code == 0
    assert tree(Path("artifacts")) == before


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError, None])
def test_nothing_is_left_behind_where_it_fails_or_is_asked_to_end(
    guides: Path,
    temporary: Path,
    retrieve: Program,
    monkeypatch: pytest.MonkeyPatch,
    failure: type[BaseException] | None,
) -> None:
    def end(*_: Any) -> None:
        assert tree(temporary)
        if failure:
            raise failure
        os.kill(os.getpid(), SIGTERM)

    monkeypatch.setattr(Searcher, "answer", end)
    code = retrieve("query", "--docs-dir", guides, "claims").code
    assert code != 0 if failure else code == 143
    assert tree(temporary) == {}
