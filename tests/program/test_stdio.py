"""A catalog that is a stream, a terminal without Unicode, and an interruption at an odd moment."""

import json
from pathlib import Path

import pytest
from bad_input.speech import process, said, shell, unforeseen
from samples import write_catalog

from retrieve_cli.cli.failures import failure_of
from retrieve_cli.errors import Terminated


@pytest.mark.parametrize("records", [3, 3000])
@pytest.mark.parametrize(
    "line",
    ["cat tools.jsonl | retrieve build --catalog /dev/stdin", "retrieve build --catalog <(cat tools.jsonl)"],
)
def test_a_stream_is_read_whole_or_rejected_and_never_in_part(line: str, records: int) -> None:
    write_catalog(Path("tools.jsonl"), [{"id": str(number), "name": f"Tool {number}"} for number in range(records)])
    done = shell(line)
    if done.code:
        assert "no records in" not in said(done, 2)
    else:
        assert f"{records} records" in done.out


@pytest.mark.parametrize("setting", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}], ids=str)
def test_a_terminal_without_unicode_gets_every_answer(monkeypatch: pytest.MonkeyPatch, setting: dict[str, str]) -> None:
    write_catalog(Path("tools.jsonl"), [{"id": "é🧠", "name": "Émoji 🧠", "description": "עברית …"}])
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    assert process("build", "--catalog", "tools.jsonl").code == 0
    for format_ in ("text", "csv"):
        done = process("query", "brain", "--format", format_)
        assert (done.code, unforeseen(done.err)) == (0, False), done.err
    assert json.loads(process("query", "brain", "--json").out)["results"][0]["id"].endswith("#0")


@pytest.mark.parametrize(("cause", "code"), [(KeyboardInterrupt(), 130), (Terminated(), 143)])
def test_an_interruption_while_a_class_is_defined_is_one(cause: BaseException, code: int) -> None:
    """Python 3.11 turns what a descriptor raises while its class is defined into a RuntimeError."""
    wrapped = RuntimeError("Error calling __set_name__")
    wrapped.__cause__ = cause
    assert failure_of(wrapped).code == code
