"""Runs that are kept: all that made an answer, in a folder of its own, without secrets, to be shown again."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import Program

RETRIEVAL, RUN, SUMMARY = "retrieval.json", "run.json", "run_summary.txt"


def kept(index: Path) -> list[Path]:
    """The folders of runs, oldest first."""
    return sorted(path for path in (index / "runs").iterdir() if path.is_dir())


def saved(retrieve: Program, index: Path, *words: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The answer of a query that was kept, and its two JSON files."""
    done = retrieve("query", *words, "--save-run", "--json")
    assert done.code == 0, done
    folder = index / "runs" / done.json["run_id"]
    files = [json.loads((folder / name).read_text("utf-8")) for name in (RETRIEVAL, RUN)]
    return done.json, files[0], files[1]


def test_a_run_has_three_files_and_nothing_else(index: Path, retrieve: Program) -> None:
    saved(retrieve, index, "brain")
    (folder,) = kept(index)
    assert sorted(path.name for path in folder.iterdir()) == sorted([RETRIEVAL, RUN, SUMMARY])


def test_without_the_flag_nothing_is_kept(index: Path, retrieve: Program) -> None:
    assert "run_id" not in retrieve("query", "brain", "--json").json
    assert not (index / "runs").exists()


def test_a_run_keeps_what_the_answer_said_but_the_texts(index: Path, retrieve: Program) -> None:
    answer, retrieval, run = saved(retrieve, index, "brain [EXCLUDE:lungs]", "--filter", "!license=GPL", "--gate")
    (entry,) = retrieval["answers"]
    for key in (
        "query", "clean_query", "enhanced_query", "excluded", "filters", "strategies_used", "strategies_skipped",
        "fusion_method", "pipeline", "generation", "timings_ms", "trace", "total_results",
    ):  # fmt: skip
        assert entry[key] == answer[key], key
    for own, shown in zip(entry["results"], answer["results"], strict=True):
        assert own.items() <= shown.items()
        assert {"rank", "id", "doc_id", "score", "source_scores"} <= own.keys()
        assert "content" not in own
    assert entry["unit"] == "record"
    assert retrieval["run_id"] == run["run_id"] == answer["run_id"]
    assert (run["generation"], run["queries"]) == (answer["generation"], 1)


def test_a_run_keeps_the_configuration_that_decided_it_flags_included(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_FUSION__METHOD", "rrf")
    _, _, run = saved(retrieve, index, "brain", "-k", "3", "--mode", "bm25", "--max-tokens", "77")
    configuration = run["configuration"]
    assert configuration["fusion"]["method"] == "rrf"
    assert (configuration["search"]["k"], configuration["search"]["mode"]) == (3, "bm25")
    assert configuration["budget"]["max_tokens"] == 77
    stages = {"search", "fusion", "rerank", "expansion", "gating", "diversity", "broadening", "context", "budget"}
    assert set(configuration) == {*stages, "bm25", "dense", "splade"}


def test_a_run_keeps_what_a_budget_cut_and_each_attempt(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_SEARCH__GRADE", "0.2")
    answer, retrieval, _ = saved(retrieve, index, "brain volumes zebra quokka lynx badger", "--max-chunks", "1")
    (entry,) = retrieval["answers"]
    assert entry["budget"] == answer["budget"]
    assert entry["budget"]["cut"]
    assert entry["attempts"] == answer["attempts"]
    assert entry["applied"] == {"results": 1, "moved_by_reranker": 0}


def test_a_run_keeps_how_each_hit_was_moved_by_reading_it_again(
    catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "onnx")
    monkeypatch.setenv("RETRIEVE_RERANK__DEPTH", "3")
    assert retrieve("build", "--catalog", catalog).code == 0
    answer, retrieval, _ = saved(retrieve, Path("artifacts"), "images of cells in a volume")
    (entry,) = retrieval["answers"]
    moves = [each.get("rerank") for each in entry["results"]]
    assert moves == [each.get("rerank") for each in answer["results"]]
    assert moves.count(None) == 2
    moved = sum(move is not None and move["rank_before"] != rank for rank, move in enumerate(moves, 1))
    assert entry["applied"]["moved_by_reranker"] == moved


def test_a_batch_is_one_run(index: Path, retrieve: Program, stdin: Callable[[str], None]) -> None:
    stdin('{"id": "a", "query": "brain"}\n{"id": "b", "query": "the lungs"}\n')
    answers = [json.loads(line) for line in retrieve("query", "-", "--save-run", "--json").out.splitlines()]
    (folder,) = kept(index)
    assert {answer["run_id"] for answer in answers} == {folder.name}
    entries = json.loads((folder / RETRIEVAL).read_text())["answers"]
    assert [entry["query_id"] for entry in entries] == ["a", "b"]
    summary = (folder / SUMMARY).read_text()
    assert "a: brain" in summary
    assert "b: the lungs" in summary


def test_the_same_question_again_is_another_run(index: Path, retrieve: Program) -> None:
    first, second = (saved(retrieve, index, "brain")[0]["run_id"] for _ in range(2))
    assert first != second
    assert {folder.name for folder in kept(index)} == {first, second}


def test_the_summary_is_for_people_and_drives_no_terminal(index: Path, retrieve: Program) -> None:
    saved(retrieve, index, "brain\x1b[31m scans")
    summary = (kept(index)[0] / SUMMARY).read_text()
    assert "\x1b" not in summary
    assert "1. brain#0" in summary
    assert "fuse(bm25@200, dense@200)" in summary


# ------------------------------------------------------------------------------------------------- inspect run


def test_a_run_is_shown_again_with_its_answers(index: Path, retrieve: Program) -> None:
    _, retrieval, run = saved(retrieve, index, "brain", "--filter", "license=MIT")
    shown = retrieve("inspect", "run", run["run_id"], "--json")
    assert shown.json == {**run, "answers": retrieval["answers"]}
    assert yaml.safe_load(retrieve("inspect", "run", run["run_id"]).out) == shown.json


def test_text_says_where_a_run_is_kept(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--save-run")
    assert f"retrieve inspect run {kept(index)[0].name}" in done.err


@pytest.mark.parametrize("name", ["nothing", "../runs", "..", "", ".", "queries.jsonl"])
def test_a_run_that_is_none_is_an_error_with_the_latest(index: Path, retrieve: Program, name: str) -> None:
    run_id = saved(retrieve, index, "brain")[0]["run_id"]
    done = retrieve("inspect", "run", name)
    assert (done.code, done.out) == (2, "")
    assert run_id in done.err


def test_where_no_run_is_kept_the_error_says_how_to_keep_one(index: Path, retrieve: Program) -> None:
    done = retrieve("inspect", "run", "x")
    assert done.code == 2
    assert "--save-run" in done.err


@pytest.mark.parametrize("content", ["", "[]", "{", "3", '{"answers"'])
@pytest.mark.parametrize("name", [RETRIEVAL, RUN])
def test_a_damaged_run_is_an_error_that_names_it(index: Path, retrieve: Program, name: str, content: str) -> None:
    run_id = saved(retrieve, index, "brain")[0]["run_id"]
    (index / "runs" / run_id / name).write_text(content)
    done = retrieve("inspect", "run", run_id)
    assert (done.code, done.out) == (2, "")
    assert f"{run_id!r} cannot be read" in done.err


# ----------------------------------------------------------------------------------------------------- secrets


def test_no_secret_of_an_address_or_of_the_environment_is_in_a_run(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_RERANK__BACKEND", "remote")
    monkeypatch.setenv("RETRIEVE_RERANK__MODEL", "some-model")
    monkeypatch.setenv("RETRIEVE_RERANK__RETRIES", "0")
    monkeypatch.setenv("RETRIEVE_RERANK__BASE_URL", "http://127.0.0.1:9/v1?key=quetzal")
    monkeypatch.setenv("RETRIEVE_RERANK__API_KEY_ENV", "SOME_KEY")
    monkeypatch.setenv("SOME_KEY", "axolotl")
    monkeypatch.setenv("RETRIEVE_LOG__QUERIES", "true")
    for form in ([], ["--json"], ["--explain", "-v"], ["--log-json"]):
        done = retrieve("query", "brain", "--save-run", *form)
        assert done.code == 0
        assert "quetzal" not in done.out + done.err
        assert "axolotl" not in done.out + done.err
    written = [path.read_text() for path in (index / "runs").rglob("*") if path.is_file()]
    assert len(written) == 4 * 3 + 1
    assert not any("quetzal" in text or "axolotl" in text for text in written)
    assert any("http://127.0.0.1:9/v1?…" in text for text in written)
    assert any("SOME_KEY" in text for text in written)


def test_a_password_in_an_address_is_refused_and_kept_nowhere(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_RERANK__BACKEND", "remote")
    monkeypatch.setenv("RETRIEVE_RERANK__MODEL", "some-model")
    monkeypatch.setenv("RETRIEVE_RERANK__BASE_URL", "http://user:quetzal@127.0.0.1:9/v1")
    done = retrieve("query", "brain", "--save-run")
    assert done.code == 2
    assert "quetzal" not in done.out + done.err
    assert not (index / "runs").exists()


def test_a_password_in_an_address_that_is_not_asked_is_not_kept_either(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_RERANK__BASE_URL", "http://user:quetzal@127.0.0.1:9/v1?key=axolotl")
    saved(retrieve, index, "brain")
    written = "".join(path.read_text() for path in kept(index)[0].iterdir())
    assert "quetzal" not in written
    assert "axolotl" not in written
    assert "127.0.0.1:9" in written


# ------------------------------------------------------------------------------------------------ what fails


def test_a_run_that_cannot_be_kept_is_an_error_with_the_place(index: Path, retrieve: Program) -> None:
    (index / "runs").write_text("a file where a folder is to be")
    done = retrieve("query", "brain", "--save-run")
    assert (done.code, done.out) == (1, "")
    assert str(Path("artifacts/runs")) in done.err
    assert "--artifacts DIR" in done.err
    assert (index / "runs").read_text() == "a file where a folder is to be"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights_is_named(index: Path, retrieve: Program) -> None:
    (index / "runs").mkdir(mode=0o500)
    assert retrieve("query", "brain").code == 0
    done = retrieve("query", "brain", "--save-run")
    assert (done.code, done.out) == (1, "")
    assert "artifacts/runs" in done.err
