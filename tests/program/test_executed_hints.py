"""Commands in messages: each is one of this program, and what a hint says to run makes its error go away."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from program.test_hints import said
from samples import ROOT, TOOLS, Done, Program, write_catalog

from retrieve_cli.cli.main import command_of, program
from retrieve_cli.cli.names import ALIASES
from retrieve_cli.storage.inbox import Change, inbox_of

_COMMAND = re.compile(r"\bretrieve ((?:[a-z]+ ?)+)((?:--?[a-z][a-z-]*(?:[ =][A-Z]+)? ?)*)")
_PROSE = set("a and as at for has in is it makes or prints reads that to with".split())

_PROMPTS = ("encoders/prefixes.py", "encoders/cross/cross_folder.py")
"""Files with instructions for models, which retrieve passages."""


def command_at(words: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the command that words begin with, and the rest of them."""
    root = found = program()
    rest = list(words)
    while rest and hasattr(found, "get_command"):
        name = ALIASES.get(rest[0], rest[0]) if found is root else rest[0]
        context = found.make_context("retrieve", [], resilient_parsing=True)
        if (inner := found.get_command(context, name)) is None:
            break
        inner = command_of(name) if found is root else inner
        found, rest = inner, rest[1:]
    return found, rest


def test_every_command_that_a_message_names_is_one_of_this_program_with_its_flags() -> None:
    wrong, seen = [], 0
    for place, text in said():
        if place.partition(":")[0] in _PROMPTS:
            continue
        for names, flags in _COMMAND.findall(text):
            found, rest = command_at(names.split())
            subcommands = hasattr(found, "get_command")
            if subcommands and rest and not (found.invoke_without_command and rest[0] in _PROSE):
                wrong.append((place, text[:80]))
                continue
            seen += 1
            known = {flag for each in found.params for flag in (*each.opts, *each.secondary_opts)} | {"--help"}
            wrong += [(place, flag) for flag in re.findall(r"(?<!\w)--?[a-z][a-z-]*", flags) if flag not in known]
    assert seen > 100
    assert wrong == []


def test_every_extra_that_a_message_names_can_be_installed() -> None:
    extras = set(re.findall(r"^([a-z]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    named = {(place, name) for place, text in said() for name in re.findall(r"retrieve-cli\[([a-z,]+)\]", text)}
    assert len(named) > 5
    assert [each for each in named if not set(each[1].split(",")) <= extras] == []


# ------------------------------------------------------------------------------------------------ hints that are run


def missing(retrieve: Program) -> Sequence[str]:
    return ("query", "brain")


def damaged(retrieve: Program) -> Sequence[str]:
    assert retrieve("build", "--catalog", "tools.jsonl").code == 0
    (path,) = Path("artifacts/generations").glob("*/bm25.pkl")
    path.write_bytes(path.read_bytes()[:-9])
    return ("query", "brain")


def stale(retrieve: Program) -> Sequence[str]:
    assert retrieve("build", "--catalog", "tools.jsonl").code == 0
    write_catalog(Path("tools.jsonl"), [{**tool, "description": "Counts brains."} for tool in TOOLS])
    return ("query", "brain", "--strict-fresh")


def broken_inbox(retrieve: Program) -> Sequence[str]:
    assert retrieve("build", "--catalog", "tools.jsonl").code == 0
    log = inbox_of(Path("artifacts"))
    log.write(
        [Change("a", None, b'{"title": "a", "text": "lungs"}'), Change("b", None, b'{"title": "b", "text": "x"}')]
    )
    log.path.write_bytes(log.path.read_bytes().replace(b"lungs", b"lings", 1))
    return ("sync",)


def untrusted(retrieve: Program) -> Sequence[str]:
    Path("../edges.jsonl").resolve().write_text('{"source": "brain", "target": "lungs", "kind": "x"}\n')
    Path("config.yaml").write_text("graph: {files: [../edges.jsonl]}\n")
    return ("build", "--catalog", "tools.jsonl")


def gone_generation(retrieve: Program) -> Sequence[str]:
    assert retrieve("build", "--catalog", "tools.jsonl").code == 0
    Path("artifacts/current").write_text("0123456789ab\n")
    return ("query", "brain")


PROVOKERS = (missing, damaged, stale, broken_inbox, untrusted, gone_generation)


def hinted(done: Done) -> Iterator[list[str]]:
    """Yield the commands of a hint, in order."""
    hint = done.err.partition("hint: ")[2] or done.err
    for text in re.findall(r"\bretrieve ([a-z][^;,`)\n]*?)(?= or |;|,|`|\)|\n|$)", hint):
        yield shlex.split(text)


@pytest.mark.parametrize("provoke", PROVOKERS, ids=lambda each: each.__name__)
def test_what_a_hint_says_to_run_makes_the_error_go_away(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, provoke: Callable[[Program], Sequence[str]]
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("RETRIEVE_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_catalog(folder / "tools.jsonl", TOOLS)
    words = provoke(retrieve)
    failed = retrieve(*words)
    assert failed.code != 0
    commands = list(hinted(failed))
    assert commands, failed.err
    for command in commands:
        done = retrieve(*command)
        while done.code == 2 and (deeper := list(hinted(done))):  # a hint may lead to another one
            done = retrieve(*deeper[0])
            if deeper[0] == command:
                break
    again = retrieve(*words)
    assert failed.err.partition("\n")[0] not in again.err, (commands, again.err)
    assert again.code == 0, (commands, again.err)
