"""`retrieve eval scaffold`: the whole program, from an index to a gold file."""

import json
from pathlib import Path
from typing import Any

import pytest
from samples import Program

GOLD = Path("gold.jsonl")


def lines() -> list[Any]:
    return [json.loads(line) for line in GOLD.read_text("utf-8").splitlines()]


def test_a_file_is_made_and_what_was_made_is_said(index: Path, retrieve: Program) -> None:
    done = retrieve("eval", "scaffold", "--out", GOLD, "-n", 3)
    assert done.code == 0, done.err
    assert "wrote 3 queries from descriptions to gold.jsonl" in done.out
    assert [line["id"] for line in lines()] == ["descriptions-0001", "descriptions-0002", "descriptions-0003"]


def test_in_json_it_is_one_object(index: Path, retrieve: Program) -> None:
    done = retrieve("eval", "scaffold", "--out", GOLD, "--from", "titles", "--json")
    assert done.json == {"schema_version": 1, "path": "gold.jsonl", "queries": 5, "from": "titles", "skipped": {}}
    assert done.err == ""


def test_fewer_than_were_asked_for_is_said(index: Path, retrieve: Program) -> None:
    done = retrieve("eval", "scaffold", "--out", GOLD, "-n", 20)
    assert (done.code, len(lines())) == (0, 5)
    assert "5 fair queries instead of 20" in done.err


def test_the_file_can_be_measured_with(index: Path, retrieve: Program) -> None:
    assert retrieve("eval", "scaffold", "--out", GOLD).code == 0
    done = retrieve("eval", "--gold", GOLD, "--json")
    assert done.code == 0, done.err
    assert (done.json["queries"], done.json["metrics"]["RR@10"]) == (5, 1.0)


def test_a_file_that_is_there_is_replaced_by_force_only(index: Path, retrieve: Program) -> None:
    GOLD.write_text("mine")
    done = retrieve("eval", "scaffold", "--out", GOLD)
    assert (done.code, GOLD.read_text()) == (2, "mine")
    assert "--force" in done.err
    assert retrieve("eval", "scaffold", "--out", GOLD, "--force").code == 0
    assert len(lines()) == 5


@pytest.mark.parametrize(
    "wrong",
    [
        ["--out", "nowhere/gold.jsonl"],
        ["--out", "."],
        ["--out", GOLD, "--from", "heading"],
        ["--out", GOLD, "-n", "0"],
        ["--out", GOLD, "--from", "headings"],
        ["--out", GOLD, "--from", "session"],
    ],
)
def test_what_cannot_be_done_is_a_usage_error_with_a_hint(index: Path, retrieve: Program, wrong: list[str]) -> None:
    done = retrieve("eval", "scaffold", *wrong)
    assert (done.code, GOLD.exists()) == (2, False)
    assert "hint: " in done.err


def test_without_an_index_the_code_is_that_of_a_missing_index(retrieve: Program) -> None:
    assert retrieve("eval", "scaffold", "--out", GOLD).code == 4
