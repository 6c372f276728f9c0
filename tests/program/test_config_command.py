"""`retrieve config`: the settings that hold, their origin, and changes of the file that keep its comments."""

import json
from pathlib import Path

import pytest
from program.asking import Configure
from samples import ROOT, Program

from retrieve_cli.cli.main import with_shared_last
from retrieve_cli.config.loading import load

FILE = "# mine\nsearch:\n  k: 5  # few\n\nfusion: {rrf_k: 70}\n"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETRIEVE_ENCODER__KIND")


def test_defaults_are_the_commented_file_of_the_repository(retrieve: Program) -> None:
    assert retrieve("config", "defaults").out == (ROOT / "config.yaml").read_text("utf-8")


def test_all_settings_are_shown_as_a_configuration_that_says_the_same(retrieve: Program, tmp_path: Path) -> None:
    Path("config.yaml").write_text(FILE)
    done = retrieve("config")
    assert done == retrieve("config", "show")
    again = tmp_path / "again.yaml"
    again.write_text(done.out)
    assert load(again, {}) == load(Path("config.yaml"), {})


def test_the_origin_of_each_value_that_is_no_default_is_named(
    retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("config.yaml").write_text(FILE + "bm25: {b: 0.75}\n")
    monkeypatch.setenv("RETRIEVE_SEARCH__MAX_ALSO", "5")
    monkeypatch.setenv("SYNC_EVERY_HOURS", "3")
    lines = reversed(retrieve("config", "show").out.splitlines())  # the first key of a name counts: `web` has a k, too
    shown = {line.split(":")[0].strip(): line for line in lines}
    assert shown["k"].endswith("# config.yaml (default: 10)")
    assert shown["max_also"].endswith("# environment variable RETRIEVE_SEARCH__MAX_ALSO (default: 8)")
    assert "#" not in shown["b"]
    value = retrieve("config", "show", "--changed", "--json").json
    assert value["file"] == "config.yaml"
    assert value["settings"] == {"sync": {"every_hours": 3}, "search": {"k": 5, "max_also": 5}, "fusion": {"rrf_k": 70}}
    assert value["origins"]["search.k"] == {"kind": "file", "where": "config.yaml", "default": 10}
    assert value["origins"]["sync.every_hours"]["where"] == "environment variable SYNC_EVERY_HOURS"


def test_a_section_or_a_key_is_shown_alone(retrieve: Program) -> None:
    assert retrieve("config", "show", "fusion.rrf_k").out == "fusion:\n  rrf_k: 60\n"
    assert retrieve("config", "show", "fusion").out.splitlines()[1].startswith("  method:")
    assert retrieve("config", "defaults", "--json").json["fusion.rrf_k"] == 60


def test_a_secret_within_an_address_is_not_shown(retrieve: Program) -> None:
    Path("config.yaml").write_text(
        "encoder: {base_url: 'https://me:hunter2@host/v1?key=hunter2'}\n"
        "sources: [{kind: sparql, endpoint: 'https://me:hunter2@host/q', query: q.rq}]\n"
    )
    for words in (["show"], ["show", "--json"]):
        done = retrieve("config", *words)
        assert (done.code, "hunter2" in done.out + done.err) == (0, False), done


def test_options_of_every_command_may_come_before_the_command(retrieve: Program) -> None:
    Path("x.yaml").write_text("search: {k: 3}\n")
    before = retrieve("--config", "x.yaml", "--json", "config", "show", "search.k")
    assert before == retrieve("config", "show", "search.k", "--config", "x.yaml", "--json")
    assert before.json["settings"] == {"search": {"k": 3}}
    assert with_shared_last(["--config=a", "-q", "query", "--", "--json"]) == [
        "query",
        "--config=a",
        "-q",
        "--",
        "--json",
    ]
    assert with_shared_last(["--config"]) == ["--config"]


@pytest.mark.parametrize(
    ("key", "value", "lines"),
    [
        ("search.k", "20", "search:\n  k: 20\n"),
        ("search.retrievers", "[bm25]", "search:\n  retrievers: [bm25]\n"),
        ("fusion.weights", "{bm25: 0.5}", "fusion:\n  weights: {bm25: 0.5}\n"),
    ],
)
def test_set_prints_the_lines_to_put_into_the_file_and_changes_nothing(
    retrieve: Program, key: str, value: str, lines: str
) -> None:
    Path("config.yaml").write_text(FILE)
    done = retrieve("config", "set", key, value)
    assert (done.code, done.out, Path("config.yaml").read_text()) == (0, lines, FILE)
    assert f"note: put these lines into config.yaml; {key} is " in done.err
    Path("new.yaml").write_text(done.out)
    assert retrieve("config", "show", key, "--config", "new.yaml").code == 0


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["set", "search.kk", "3"], "`search.k`"),
        (["set", "k", "3"], "`search.k`"),
        (["set", "search.mode", "hybird"], "`hybrid`"),
        (["set", "search.k", "0"], "config"),
        (["set", "search.k"], "retrieve config set search.k 20"),
        (["show", "serch"], "`search`"),
        (["show", "serch.k"], "did you mean `search.k`"),
        (["defaults", "search"], "retrieve config show search"),
        (["show", "search.k", "3"], "retrieve config set"),
    ],
    ids=str,
)
def test_what_is_wrong_changes_nothing_and_leads_on(retrieve: Program, words: list[str], hint: str) -> None:
    Path("config.yaml").write_text(FILE)
    done = retrieve("config", *words)
    assert (done.code, done.out, hint in done.err) == (2, "", True), done.err
    assert Path("config.yaml").read_text() == FILE
    error = json.loads(retrieve("config", *words, "--json").err)["error"]
    assert error["kind"] == "usage"


def test_a_variable_that_wins_over_the_file_is_named(retrieve: Program, configure: Configure) -> None:
    configure("search", k=7)
    done = retrieve("config", "set", "search.k", "4")
    assert "RETRIEVE_SEARCH__K wins over the file" in done.err
    assert "next build" in retrieve("config", "set", "bm25.unit", "chunk").err
