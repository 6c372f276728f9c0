"""`retrieve eval scaffold`: the whole program, from an index or a session to a gold file."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from samples import Program

Stdin = Callable[[str | bytes], None]
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
        ["--out", GOLD, "--from", "session", "--seed", "1"],
    ],
)
def test_what_cannot_be_done_is_a_usage_error_with_a_hint(index: Path, retrieve: Program, wrong: list[str]) -> None:
    done = retrieve("eval", "scaffold", *wrong)
    assert (done.code, GOLD.exists()) == (2, False)
    assert "hint: " in done.err


def test_without_an_index_the_code_is_that_of_a_missing_index(retrieve: Program) -> None:
    assert retrieve("eval", "scaffold", "--out", GOLD).code == 4


# ------------------------------------------------------------------------------------------------ sessions


def test_a_session_keeps_what_was_judged(index: Path, retrieve: Program, stdin: Stdin) -> None:
    stdin("segment lungs in CT\n1:3\ncars\n\ncount cells\ncells 3:0\n\nnever read\n1\n")
    done = retrieve("eval", "scaffold", "--from", "session", "--out", GOLD, "--json")
    assert done.json == {
        "schema_version": 1,
        "path": "gold.jsonl",
        "queries": 2,
        "from": "session",
        "skipped": {"nothing right": 1},
    }
    assert [(line["query"], line["relevant"]["lungs" if not number else "cells"]) for number, line in
            enumerate(lines())] == [("segment lungs in CT", 3), ("count cells", 1)]  # fmt: skip
    assert {line["synthetic"] for line in lines()} == {"session"}


def test_a_session_shows_its_answers_on_stderr(index: Path, retrieve: Program, stdin: Stdin) -> None:
    stdin("segment lungs in CT\n1\n")
    done = retrieve("eval", "scaffold", "--from", "session", "--out", GOLD)
    assert "  1  LungMapper  [lungs]" in done.err
    assert "Segments lungs and lobes in chest CT volumes." in done.err
    assert ">" not in done.err, "there is no prompt where nobody sits"
    assert "LungMapper" not in done.out


def test_a_session_ends_after_n_queries(index: Path, retrieve: Program, stdin: Stdin) -> None:
    stdin("segment lungs in CT\n1\ncount cells\n1\n")
    assert retrieve("eval", "scaffold", "--from", "session", "--out", GOLD, "-n", 1).code == 0
    assert len(lines()) == 1


def test_input_that_ends_before_the_judgment_keeps_the_others(index: Path, retrieve: Program, stdin: Stdin) -> None:
    stdin("segment lungs in CT\n1\ncount cells")
    done = retrieve("eval", "scaffold", "--from", "session", "--out", GOLD, "--json")
    assert (done.code, done.json["skipped"], len(lines())) == (0, {"not judged": 1}, 1)


@pytest.mark.parametrize("wrong", [b"9\n", b"nobody\n", b"\xff\n"])
def test_a_line_that_is_no_judgment_is_named_and_the_others_are_kept(
    index: Path, retrieve: Program, stdin: Stdin, wrong: bytes
) -> None:
    stdin(b"segment lungs in CT\n1\ncount cells\n" + wrong)
    done = retrieve("eval", "scaffold", "--from", "session", "--out", GOLD)
    assert (done.code, len(lines())) == (2, 1)
    assert "line 4 of stdin" in done.err


@pytest.mark.parametrize("text", ["", "\n", "cars\n\n\n"])
def test_a_session_without_a_judgment_leaves_the_old_file(
    index: Path, retrieve: Program, stdin: Stdin, text: str
) -> None:
    GOLD.write_text("mine")
    stdin(text)
    done = retrieve("eval", "scaffold", "--from", "session", "--out", GOLD, "--force")
    assert (done.code, GOLD.read_text()) == (2, "mine")


class Keyboard(io.BytesIO):
    """What is typed in a terminal; at its end, the keys of an interruption."""

    def __init__(self, typed: str, *, interrupted: bool = False) -> None:
        super().__init__(typed.encode())
        self._interrupted = interrupted

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(size)
        if not line and self._interrupted:
            raise KeyboardInterrupt
        return line


def sit_down(monkeypatch: pytest.MonkeyPatch, keyboard: Keyboard) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=keyboard, isatty=lambda: True))


def test_a_terminal_is_prompted_and_asked_again(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    sit_down(monkeypatch, Keyboard("segment lungs in CT\n9\n1\n\n"))
    done = retrieve("eval", "scaffold", "--from", "session", "--out", GOLD)
    assert (done.code, lines()[0]["relevant"]) == (0, {"lungs": 1})
    assert (done.err.count("query> "), done.err.count("relevant> ")) == (2, 2)
    assert "there is no result '9'" in done.err


def test_an_interruption_keeps_what_was_judged(index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    sit_down(monkeypatch, Keyboard("segment lungs in CT\n1\ncount cells\n", interrupted=True))
    done = retrieve("eval", "scaffold", "--from", "session", "--out", GOLD)
    assert (done.code, len(lines())) == (130, 1)
    assert "1 judged query saved to gold.jsonl" in done.err
