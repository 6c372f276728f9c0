"""A catalog that would drive the terminal: whatever is printed, in whatever format, is text."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from bad_input.speech import RAW_CONTROLS, unforeseen
from samples import Program

from retrieve_cli.cli.main import command_of, program
from retrieve_cli.cli.names import COMMANDS

EVIL = "lungs\x1b[2J\x9b31m\u202e\u2066\x07\x7f\u200b\U000e0041"
ENDLESS = {"serve", "mcp", "web"}
"""Commands that serve until they are stopped, that ask others, or that print a script."""
FORMULA = "=cmd|' /C calc'!A0"


@pytest.fixture
def _evil(retrieve: Program) -> None:
    """An index of records whose names, values and edges hold escape sequences and formulas."""
    items = [
        {"id": f"a{EVIL}", "name": EVIL, "description": f"lungs {EVIL}", "url": f"https://x/{EVIL}",
         "requires_tool": ["b"], "license": EVIL, f"odd{EVIL}": EVIL},
        {"id": "b", "name": FORMULA, "description": "lungs too", "part_of": f"nowhere{EVIL}"},
        {"id": "c", "name": "@SUM(1)", "description": "-lungs", "requires_tool": [f"a{EVIL}"]},
    ]  # fmt: skip
    Path("evil.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    Path("config.yaml").write_text("graph: {entities: [license]}")
    assert retrieve("build", "--catalog", "evil.jsonl").code == 0


@pytest.mark.usefixtures("_evil")
def test_json_still_holds_the_very_characters(retrieve: Program) -> None:
    answer = json.loads(retrieve("query", "lungs", "--json").out)
    assert EVIL in {result["name"] for result in answer["results"]}


@pytest.mark.usefixtures("_evil")
def test_no_cell_of_csv_is_a_formula(retrieve: Program) -> None:
    rows = list(csv.DictReader(io.StringIO(retrieve("query", "lungs", "--format", "csv").out)))
    assert len(rows) == 3
    names = {row["name"] for row in rows}
    assert {f"'{FORMULA}", "'@SUM(1)"} <= names
    assert all(not cell.startswith(("=", "+", "@")) for row in rows for cell in row.values())
    assert all(float(row["score"]) <= 1e9 for row in rows)


def leaves(name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command of that name that does something, by the words that name it."""
    found = command_of(name)
    context = found.make_context(name, [], resilient_parsing=True, **program().context_settings)
    inner = found.list_commands(context) if hasattr(found, "list_commands") else ()
    yield from (((name, each), found.get_command(context, each)) for each in inner)
    if not inner:
        yield (name,), found


@pytest.mark.usefixtures("_evil")
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - ENDLESS - {"help"}))
def test_no_command_prints_what_it_was_given_as_it_came(retrieve: Program, name: str) -> None:
    """Each text that a command takes: as an argument, and as the value of each option."""
    for names, command in leaves(name):
        arguments = [EVIL for each in command.params if each.param_type_name == "argument"]
        options = [each.opts[-1] for each in command.params if each.param_type_name == "option" and not each.is_flag]
        for given in ([], *([flag, EVIL] for flag in options)):
            for form in ((), ("--json",)):
                done = retrieve(*names, *arguments, *given, *form)
                shown = done.out.replace("\r\n", "\n") + done.err
                assert not unforeseen(done.err), (names, given, done.err)
                raw = {each for each in shown if category(each) in ("Cc", "Cf", "Co", "Cs") and each not in "\n\t"}
                assert not (raw & RAW_CONTROLS if form else raw), (names, given, raw)
