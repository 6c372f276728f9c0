"""Runs that are kept: all that made an answer, in a folder of its own, without secrets, to be shown again."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from program.asking import Batch, Configure, answered, refused
from samples import Program

from retrieve_cli.config.bounds import keys_of
from retrieve_cli.config.settings import Settings

RETRIEVAL, RUN, SUMMARY = "retrieval.json", "run.json", "run_summary.txt"
SECRETS = re.compile("quetzal|axolotl")


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


def test_with_the_flag_three_files_are_kept_and_without_it_none(index: Path, retrieve: Program) -> None:
    assert "run_id" not in answered(retrieve, "brain")
    assert not (index / "runs").exists()
    saved(retrieve, index, "brain")
    (folder,) = kept(index)
    assert {path.name for path in folder.iterdir()} == {RETRIEVAL, RUN, SUMMARY}


def test_a_run_keeps_what_the_answer_said_but_the_texts(index: Path, retrieve: Program) -> None:
    answer, retrieval, run = saved(retrieve, index, "brain [EXCLUDE:lungs]", "--filter", "!license=GPL", "--route")
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
    index: Path, retrieve: Program, configure: Configure
) -> None:
    configure("fusion", method="rrf")
    _, _, run = saved(retrieve, index, "brain", "-k", "3", "--mode", "bm25", "--max-tokens", "77")
    configuration = run["configuration"]
    assert configuration["fusion"]["method"] == "rrf"
    assert (configuration["search"]["k"], configuration["search"]["mode"]) == (3, "bm25")
    assert configuration["budget"]["max_tokens"] == 77
    apart = {"models", "log"}
    decisive = {each.name for each in keys_of(Settings) if each.metadata["changes"] != "neither"} - apart
    assert set(configuration) == decisive >= {"expansion", "graph", "diversity", "context", "encoder"}
    assert run["inputs"]["options"]["k"] == 3
    manifest = json.loads((index / "generations" / run["generation"] / "manifest.json").read_text())
    assert run["recipe"] == manifest["recipe"]


def test_a_run_keeps_each_request(index: Path, retrieve: Program) -> None:
    Path("scan.nrrd").write_bytes(b"NRRD0004\ntype: short\ndimension: 3\nsizes: 2 2 2\nencoding: raw\n\n")
    Path("none.dcm").touch()
    _, _, run = saved(
        retrieve, index, "brain", "--also", "skull", "--file", "scan.nrrd", "--file", "none.dcm", "--filter",
        "license=MIT", "--doc-id", "brain", "--retrievers", "dense",
    )  # fmt: skip
    (request,) = run["inputs"]["requests"]
    assert request == {
        "id": "1", "query": "brain", "also": ["skull"], "filters": ["license=MIT"], "doc_ids": ["brain"],
        "retrievers": ["dense"], "files": ["scan.nrrd", "none.dcm"],
    }  # fmt: skip


def test_a_run_says_how_it_came_about_under_the_names_of_other_programs(
    guides: Path, retrieve: Program, configure: Configure
) -> None:
    configure("gating", top_groups=1)
    words = ("storage claims", "--also", "rotate secrets", "--route", "--chunks", "--max-tokens", "60", "-k", "4")
    answer, retrieval, run = saved(retrieve, Path("artifacts"), *words)
    assert retrieval["mode"] == run["mode"] == "vector_store_retrieval"
    assert retrieval["queries"] == ["storage claims", "rotate secrets"]
    gates = [text["trace"]["gate"] for text in answer["trace"]["texts"]]
    assert retrieval["gated_top_groups"] == list(dict.fromkeys(gate["chosen"][0]["group"] for gate in gates))
    assert len(retrieval["gated_top_groups"]) == 1  # for both texts together
    assert retrieval["answers"][0]["gating"] == gates
    configured = {"enabled": True, "field": "group", "global_candidates": 300, "candidates": 300, "top_groups": 1}
    assert retrieval["gating"].items() >= {**configured, "output": gates}.items()
    assert retrieval["gating"]["method"]
    assert retrieval["budgets"].items() >= {"max_tokens": 60, "max_chunks": None, "max_results": 4}.items()
    spent = answer["budget"]
    wanted = {"results": len(answer["results"]), "chunks": spent["chunks"], "tokens": spent["tokens"]}
    assert retrieval["budgets"]["applied"] == {**wanted, "cut": len(spent["cut"])}
    assert spent["cut"]
    assert retrieval["rerank"]["enabled"] is False
    _, plain, _ = saved(retrieve, Path("artifacts"), "storage claims", "-k", "3")
    assert plain["budgets"]["applied"] == {"results": 3, "chunks": 3, "tokens": None, "cut": 0}
    assert plain["answers"][0]["stages"][-1]["hits"] >= 3


def test_a_batch_is_one_run(index: Path, batch: Batch) -> None:
    answers = batch([{"id": "a", "query": "brain"}, {"id": "b", "query": "the lungs"}], "--save-run")
    (folder,) = kept(index)
    assert {answer["run_id"] for answer in answers} == {folder.name}
    entries = json.loads((folder / RETRIEVAL).read_text())["answers"]
    assert [entry["query_id"] for entry in entries] == ["a", "b"]
    summary = (folder / SUMMARY).read_text()
    assert "a: brain" in summary
    assert "b: the lungs" in summary


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


@pytest.mark.parametrize("name", ["nothing", "../runs", "..", "", ".", "queries.jsonl"])
def test_a_run_that_is_none_is_an_error_with_the_latest(index: Path, retrieve: Program, name: str) -> None:
    run_id = saved(retrieve, index, "brain")[0]["run_id"]
    assert run_id in refused(retrieve, "inspect", "run", name)


@pytest.mark.parametrize("content", ["", "[]", "{"])
@pytest.mark.parametrize("name", [RETRIEVAL, RUN])
def test_a_damaged_run_is_an_error_that_names_it(index: Path, retrieve: Program, name: str, content: str) -> None:
    run_id = saved(retrieve, index, "brain")[0]["run_id"]
    (index / "runs" / run_id / name).write_text(content)
    assert f"{run_id!r} cannot be read" in refused(retrieve, "inspect", "run", run_id)


# ----------------------------------------------------------------------------------------------------- secrets


def test_no_secret_of_an_address_or_of_the_environment_is_in_a_run(
    index: Path, retrieve: Program, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("rerank", backend="remote", model="some-model", retries=0, api_key_env="SOME_KEY")
    configure("rerank", base_url="http://127.0.0.1:9/v1?key=quetzal")
    configure("log", queries="true")
    monkeypatch.setenv("SOME_KEY", "axolotl")
    for form in ([], ["--json"], ["--explain", "-v"]):
        done = retrieve("query", "brain", "--save-run", *form)
        assert done.code == 0
        assert not SECRETS.search(done.out + done.err)
    written = [path.read_text() for path in (index / "runs").rglob("*") if path.is_file()]
    assert len(written) == 3 * 3 + 1
    assert not any(map(SECRETS.search, written))
    assert any("http://127.0.0.1:9/v1?…" in text for text in written)
    assert any("SOME_KEY" in text for text in written)


def test_a_password_in_an_address_is_kept_nowhere_whether_it_is_refused_or_not_asked(
    index: Path, retrieve: Program, configure: Configure
) -> None:
    configure("rerank", base_url="http://user:quetzal@127.0.0.1:9/v1?key=axolotl")
    saved(retrieve, index, "brain")
    written = "".join(path.read_text() for path in kept(index)[0].iterdir())
    assert not SECRETS.search(written)
    assert "127.0.0.1:9" in written
    configure("rerank", backend="remote", model="some-model")
    assert not SECRETS.search(refused(retrieve, "query", "brain", "--save-run"))
    assert len(kept(index)) == 1


# ------------------------------------------------------------------------------------------------ what fails


def test_a_run_that_cannot_be_kept_is_an_error_with_the_place(index: Path, retrieve: Program) -> None:
    (index / "runs").write_text("a file where a folder is to be")
    err = refused(retrieve, "query", "brain", "--save-run", code=1)
    assert "artifacts/runs" in err
    assert "--artifacts DIR" in err
    assert (index / "runs").read_text() == "a file where a folder is to be"
