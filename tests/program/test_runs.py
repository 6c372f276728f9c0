"""Runs that are kept: all that made an answer, in a folder of its own, without secrets, to be shown again."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import Program

from retrieve_cli.config.settings import Settings

RETRIEVAL, RUN, SUMMARY = "retrieval.json", "run.json", "run_summary.txt"


def kept(index: Path) -> list[Path]:
    """The folders of runs, oldest first."""
    return sorted(path for path in (index / "runs").iterdir() if path.is_dir())


def saved(
    retrieve: Program, index: Path, *words: str, flag: str = "--save-run"
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The answer of a query that was kept, and its two JSON files."""
    done = retrieve("query", *words, flag, "--json")
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
        "fusion_method", "pipeline", "generation", "timings_ms", "trace", "total_results", "total_matches",
        "pipeline_info",
    ):  # fmt: skip
        assert entry[key] == answer[key], key
    for own, shown in zip(entry["results"], answer["results"], strict=True):
        assert {**own, "metadata": None}.items() <= {**shown, "metadata": None}.items()
        assert own["metadata"].items() <= shown["metadata"].items()
        assert {"rank", "id", "doc_id", "score", "source_scores"} <= own.keys()
        assert shown["content"] not in json.dumps(own)
        assert shown["description"] not in json.dumps(own)
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
    apart = {"models", "log"}
    decisive = {each.name for each in fields(Settings) if each.metadata["changes"] != "neither"} - apart
    assert set(configuration) == decisive >= {"expansion", "graph", "diversity", "context", "encoder"}
    assert run["inputs"]["options"]["k"] == 3
    manifest = json.loads((index / "generations" / run["generation"] / "manifest.json").read_text())
    assert run["recipe"] == manifest["recipe"]


def test_a_run_keeps_each_request_and_what_its_files_said(index: Path, retrieve: Program) -> None:
    Path("scan.nrrd").write_bytes(b"NRRD0004\ntype: short\ndimension: 3\nsizes: 2 2 2\nencoding: raw\n\n")
    Path("none.dcm").touch()
    _, _, run = saved(
        retrieve, index, "brain", "--also", "skull", "--file", "scan.nrrd", "--file", "none.dcm", "--filter",
        "license=MIT", "--doc-id", "brain", "--retrievers", "dense",
    )  # fmt: skip
    (request,) = run["inputs"]["requests"]
    seen, empty = request.pop("files")
    assert request == {
        "id": "1", "query": "brain", "also": ["skull"], "filters": ["license=MIT"], "doc_ids": ["brain"],
        "retrievers": ["dense"],
    }  # fmt: skip
    digest = hashlib.sha1(Path("scan.nrrd").read_bytes()).hexdigest()
    assert (seen["path"], seen["bytes"], seen["sha1"]) == ("scan.nrrd", Path("scan.nrrd").stat().st_size, digest)
    assert seen["tokens"] == ["format:NRRD", "format:3D"]
    assert empty["warnings"] == ["none.dcm is empty"]


def test_a_run_has_the_texts_of_its_results_if_that_is_asked_for(index: Path, retrieve: Program) -> None:
    answer, retrieval, run = saved(retrieve, index, "brain", "--context", "1", flag="--save-run=full")
    assert retrieval["answers"][0]["results"] == answer["results"]
    assert run["texts"] == "full"


@pytest.mark.parametrize(
    "words",
    [
        ("--save-run", "brain", "scans"),
        ("brain", "--save-run", "scans"),
        ("brain", "scans", "--save-run"),
        ("--save-run", "--", "brain", "scans"),
        ("--save-run=full", "brain", "scans"),
        ("--save-run=brief", "brain", "scans"),
    ],
    ids=" ".join,
)
def test_the_flag_takes_no_word_of_the_question(words: tuple[str, ...], index: Path, retrieve: Program) -> None:
    done = retrieve("query", "--json", *words)
    assert done.code == 0, done
    assert done.json["query"] == "brain scans"
    assert "run_id" in done.json


def test_behind_two_dashes_the_flag_is_a_word_of_the_question(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "--json", "--", "brain", "--save-run")
    assert (done.json["query"], "run_id" in done.json) == ("brain --save-run", False)


def test_an_unknown_value_of_the_flag_is_an_error_with_the_nearest(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--save-run=ful")
    assert (done.code, done.out) == (2, "")
    assert "full" in done.err
    assert not (index / "runs").exists()


def test_a_run_says_how_it_came_about_under_the_names_of_other_programs(
    guides: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_GATING__TOP_GROUPS", "1")
    words = ("storage claims", "--also", "rotate secrets", "--gate", "--chunks", "--max-tokens", "60", "-k", "4")
    answer, retrieval, run = saved(retrieve, Path("artifacts"), *words)
    assert retrieval["mode"] == run["mode"] == "vector_store_retrieval"
    assert retrieval["queries"] == ["storage claims", "rotate secrets"]
    gates = [text["trace"]["gate"] for text in answer["trace"]["texts"]]
    assert retrieval["gated_top_groups"] == list(dict.fromkeys(gate["chosen"][0]["group"] for gate in gates))
    assert len(retrieval["gated_top_groups"]) == 1  # for both texts together
    assert retrieval["answers"][0]["gating"] == gates
    gating = retrieval["gating"]
    assert (gating["enabled"], gating["field"], gating["global_candidates"], gating["top_groups"]) == (
        True, "group", 300, 1,
    )  # fmt: skip
    assert gating["method"]
    assert gating["candidates"] == 300
    assert gating["output"] == gates
    budgets = retrieval["budgets"]
    assert (budgets["max_tokens"], budgets["max_chunks"], budgets["max_results"]) == (60, None, 4)
    spent = answer["budget"]
    wanted = {"results": len(answer["results"]), "chunks": spent["chunks"], "tokens": spent["tokens"]}
    assert budgets["applied"] == {**wanted, "cut": len(spent["cut"])}
    assert spent["cut"]
    assert retrieval["rerank"]["enabled"] is False
    _, plain, _ = saved(retrieve, Path("artifacts"), "storage claims", "-k", "3")
    assert plain["budgets"]["applied"] == {"results": 3, "chunks": 3, "tokens": None, "cut": 0}
    assert plain["answers"][0]["stages"][-1]["hits"] >= 3


def test_a_question_in_fewer_words_is_among_the_queries_of_its_run(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_SEARCH__GRADE", "0.2")
    answer, retrieval, _ = saved(retrieve, index, "brain volumes zebra quokka lynx badger")
    assert retrieval["queries"] == [attempt["text"] for attempt in answer["attempts"]]
    assert len(retrieval["queries"]) > 1


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
    assert entry["applied"]["moved_by_reranker"] == retrieval["rerank"]["moved"] == moved
    assert retrieval["rerank"]["enabled"] is True
    assert (retrieval["rerank"]["strategy"], retrieval["rerank"]["depth"]) == ("maxsim", 3)
    before = {each["id"]: each["rerank"]["rank_before"] for each in answer["results"] if "rerank" in each}
    after = {each["id"]: each["rank"] for each in answer["results"] if "rerank" in each}
    assert entry["rerank"] == [{"id": name, "before": before[name], "after": after[name]} for name in after]


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
    assert shown.json == {**run, **retrieval}
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
