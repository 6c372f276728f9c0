"""First guesses work or lead to the right command in one step: aliases, `help`, misspelt and related words."""

import json
import re
from pathlib import Path

import pytest
from program.asking import refused
from samples import Program

from retrieve_cli import cli
from retrieve_cli.cli.main import program
from retrieve_cli.cli.names import ADVICE, ALIASES, COMMANDS, RELATED_WORDS


@pytest.mark.parametrize("count", [("-k", "2"), ("-n", "2"), ("--limit", "2"), ("--top-k", "2")])
def test_search_is_query_by_another_name(index: Path, retrieve: Program, count: tuple[str, str]) -> None:
    done = retrieve("search", "brain", *count, "-l")
    assert done == retrieve("query", "brain", "-k", "2", "-l")
    assert len(done.out.splitlines()) == 2


def test_index_is_build_by_another_name(catalog: Path, retrieve: Program) -> None:
    assert retrieve("index", "--catalog", catalog).code == 0
    assert retrieve("query", "lungs").code == 0


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_has_a_short_flag(retrieve: Program, flag: str) -> None:
    assert retrieve(flag).out.startswith("retrieve ")


def test_the_help_names_each_alias_once(retrieve: Program) -> None:
    shown = retrieve("--help").out
    for alias, name in ALIASES.items():
        assert shown.count(f"also: {alias}") == 1
        assert f"  {name} " in shown


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("serach", "search"),
        ("bulid", "build"),
        ("update", "sync"),
        ("list", "inspect records"),
        ("status", "inspect status"),
        ("SEARCH", "search"),
    ],
)
def test_a_word_that_is_no_command_leads_to_one(retrieve: Program, word: str, meant: str) -> None:
    done = retrieve(word, "lungs")
    assert (done.code, f"hint: did you mean `retrieve {meant}`?" in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("query lungs --where license=MIT", "--filter FIELD=VALUE"),
        ("query lungs --top 3", "-k N"),
        ("sync --watch", "retrieve serve --sync-every 15m; or call `retrieve sync` from cron"),
        ("watch docs", "retrieve serve --sync-every 15m; or call `retrieve sync` from cron"),
        ("add new.jsonl", "to add a source, list it under `sources:` in config.yaml, then run: retrieve sync"),
        ("remove lungs", "remove it from its source, then run: retrieve sync"),
        ("query lungs --filters license=MIT", "did you mean --filter?"),
    ],
)
def test_what_other_programs_call_something_leads_to_it(retrieve: Program, words: str, advice: str) -> None:
    assert f"hint: {advice}" in refused(retrieve, *words.split())


@pytest.mark.parametrize(
    "words", ["query x --source a", "serve --recursive", "build docs --columns a", "install x", "build --tag x"]
)
def test_nothing_is_suggested_that_is_only_spelled_a_little_alike(retrieve: Program, words: str) -> None:
    said = refused(retrieve, *words.split())
    assert "did you mean" not in said
    assert "ossible options" not in said
    assert "--filter" not in said


def test_a_flag_that_is_advised_exists(retrieve: Program) -> None:
    text = retrieve("query", "--help").out
    assert all(advice.split()[0] in text for advice in ADVICE.values() if advice.startswith("-"))


def test_a_word_like_no_command_leads_to_the_list(retrieve: Program) -> None:
    assert "hint: list the commands: retrieve --help" in retrieve("zzzzzz\x1b[31m").err


@pytest.mark.parametrize("meant", sorted(set(RELATED_WORDS.values())))
def test_a_command_that_is_suggested_exists(retrieve: Program, meant: str) -> None:
    words = [word for word in meant.split() if not word.isupper()]
    assert retrieve(*words, "--help").code == 0


def test_every_command_has_a_file_and_a_line_of_help() -> None:
    group = program()
    assert set(group.commands) == set(COMMANDS) | set(ALIASES)
    assert all(help_.endswith(".") for help_ in COMMANDS.values())


def test_json_and_jsonl_are_one_object_and_lines(index: Path, retrieve: Program) -> None:
    one = retrieve("query", "brain", "--json")
    lines = retrieve("query", "brain", "--format", "jsonl")
    ranks = [json.loads(line)["rank"] for line in lines.out.splitlines()]
    assert ranks == [result["rank"] for result in one.json["results"]] == [1, 2, 3, 4, 5]
    assert len(retrieve("inspect", "records", "--format", "jsonl").out.splitlines()) == 5


def test_every_object_that_a_command_prints_names_the_version_of_its_schema(index: Path, retrieve: Program) -> None:
    for command in ("config", "doctor", "trust", "sync --dry-run", "inspect status",
                    "inspect records", "inspect record brain", "inspect verify", "keys list", "models list",
                    "snapshot list", "query brain"):  # fmt: skip
        assert retrieve(*command.split(), "--json").json["schema_version"] == 1, command
    for file in Path(cli.__file__).parent.glob("*.py"):  # all others: what prints JSON prints `document`
        printed = re.findall(r"\bdump\((\S+)", file.read_text("utf-8"))
        assert {call for call in printed if call not in ("row))", "rows))", '{"query_id":')} == set()


def test_an_error_with_jsonl_is_json(retrieve: Program) -> None:
    assert retrieve("query", "x", "--format", "jsonl").err.startswith('{"error": ')
