"""README tells the truth: its help texts are the program's, its commands exist."""

import re

import pytest
from samples import ROOT, Program

README = (ROOT / "README.md").read_text("utf-8")
HELP = re.findall(r"```\n\$ retrieve ([a-z ]*)--help\n(.*?)```", README, re.DOTALL)


def test_readme_shows_the_help_of_the_main_commands() -> None:
    assert {command.strip() for command, _ in HELP} == {"build", "sync", "query"}


@pytest.mark.parametrize(("command", "shown"), HELP)
def test_a_help_text_in_readme_is_the_live_one(command: str, shown: str, retrieve: Program, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    live = retrieve(*command.split(), "--help").out
    assert [line.rstrip() for line in shown.strip().splitlines()] == [
        line.rstrip() for line in live.strip().splitlines()
    ]


def test_every_target_that_readme_names_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"`make ([a-z-]+)`", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_continuous_integration_runs_what_readme_says() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "make check" in script
    assert "make test" in script
    assert "make bits" in script
