"""Commands in messages: each is one of this program, and what a hint says to run makes its error go away."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from engines.injected import Servers, inject
from program.test_hints import said
from samples import ROOT, TOOLS, Done, Program, write_catalog

from retrieve_cli.cli.main import command_of, program
from retrieve_cli.cli.names import ALIASES

_COMMAND = re.compile(r"\bretrieve ((?:[a-z]+ ?)+)((?:--?[a-z][a-z-]*(?:[ =][A-Z]+)? ?)*)")
_PROSE = set("a and as at for has in is it makes or prints reads that to with".split())

_PROMPTS = ("models/runtimes/model_folder.py", "models/rerankers/cross_folder.py")
"""Files with instructions for models, which retrieve passages."""


def command_at(words: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the command that words begin with, and the rest of them."""
    root = found = program()
    rest = list(words)
    while rest and hasattr(found, "get_command"):
        name = ALIASES.get(rest[0], rest[0]) if found is root else rest[0]
        # With its names of --help: a command keeps the ones that it is asked with first.
        context = found.make_context("retrieve", [], resilient_parsing=True, **program().context_settings)
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

PLACES = {"FILE": "tools.jsonl", "TEXT": "brain", "SECONDS": "1", "ID": "x"}
"""What stands for a word in capitals."""


@dataclass(frozen=True)
class Provoker:
    """A way to make the program say that a command is to be run."""

    command: str
    make: Callable[[Program], Sequence[str]]
    """Makes the fault; returns the command line that meets it."""
    repairs: bool = True
    """False if the command only shows what to choose from: then it has to end well."""
    before: Callable[[], object] = lambda: None
    """What the hint says to do first in words."""
    engines: bool = False
    """True if indexes are in an engine."""


def built(retrieve: Program) -> None:
    assert retrieve("build", "--catalog", "tools.jsonl").code == 0


def missing(retrieve: Program) -> Sequence[str]:
    return ("query", "brain")


def damaged(retrieve: Program) -> Sequence[str]:
    built(retrieve)
    (path,) = Path("artifacts/generations").glob("*/bm25.pkl")
    path.write_bytes(path.read_bytes()[:-9])
    return ("query", "brain")


def stale(retrieve: Program) -> Sequence[str]:
    built(retrieve)
    write_catalog(Path("tools.jsonl"), [{**tool, "description": "Counts brains."} for tool in TOOLS])
    return ("query", "brain", "--strict-fresh")


def untrusted(retrieve: Program) -> Sequence[str]:
    Path("../edges.jsonl").resolve().write_text('{"source": "brain", "target": "lungs", "kind": "x"}\n')
    Path("config.yaml").write_text("graph: {files: [../edges.jsonl]}\n")
    return ("build", "--catalog", "tools.jsonl")


def gone_generation(retrieve: Program) -> Sequence[str]:
    built(retrieve)
    Path("artifacts/current").write_text("0123456789ab\n")
    return ("query", "brain")


def broken_keys(retrieve: Program) -> Sequence[str]:
    assert retrieve("keys", "create").code == 0
    Path("artifacts/keys.json").write_text("{")
    return ("keys", "list")


def lost_rows(retrieve: Program) -> Sequence[str]:
    built(retrieve)
    Path("artifacts/engines.json").unlink()
    return ("query", "brain")


def after_build(*words: str) -> Callable[[Program], Sequence[str]]:
    def make(retrieve: Program) -> Sequence[str]:
        built(retrieve)
        return words

    return make


def dangling(retrieve: Program) -> Sequence[str]:
    write_catalog(Path("tools.jsonl"), [{**TOOLS[0], "requires_tool": ["nowhere", TOOLS[1]["id"]]}, *TOOLS[1:]])
    return ("build", "--catalog", "tools.jsonl")


PROVOKERS = (
    Provoker("build", missing),
    Provoker("inspect verify", damaged),
    Provoker("build", damaged),
    Provoker("build", gone_generation),
    Provoker("sync", stale),
    Provoker("trust", untrusted),
    Provoker("keys create", broken_keys, before=lambda: Path("artifacts/keys.json").unlink()),
    Provoker("engines push", lost_rows, engines=True),
    Provoker("inspect graph", dangling, repairs=False),
    Provoker("inspect history", after_build("sync", "--rollback", "0123456789ab"), repairs=False),
    Provoker("inspect run", after_build("query", "brain", "--save-run"), repairs=False),
)


def said_to_run(done: Done) -> list[list[str]]:
    """Return the commands that an answer names, in order."""
    said = (done.err + done.out).partition("hint: ")[2] or done.err + done.out
    found = re.findall(r"\bretrieve ([a-z][^;,`)\n]*?)(?= or | \(|;|,|`|\)|\n|$)", said)
    return [[PLACES.get(word, word) for word in shlex.split(text)] for text in found]


@pytest.mark.parametrize("given", PROVOKERS, ids=lambda each: f"{each.command} of {each.make.__name__}")
def test_what_a_message_says_to_run_helps(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, given: Provoker
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    if given.engines:
        inject(monkeypatch.setattr)
        for name, value in Servers(tmp_path / "servers").create().environment().items():
            monkeypatch.setenv(name, value)
    else:
        monkeypatch.delenv("RETRIEVE_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_catalog(folder / "tools.jsonl", TOOLS)
    words = given.make(retrieve)
    failed = retrieve(*words)
    commands = said_to_run(failed)
    assert any(" ".join(command).startswith(given.command) for command in commands), failed
    if not given.repairs:
        done = retrieve(*commands[0])
        assert done.code == 0, (commands, done.err)
        return
    assert failed.code != 0
    given.before()
    for command in commands:
        done = retrieve(*command)
        if done.code == 2 and (deeper := said_to_run(done)):  # it may lead to another one
            assert retrieve(*deeper[0]).code == 0, done.err
            retrieve(*command)
    again = retrieve(*words)
    assert failed.err.partition("\n")[0] not in again.err, (commands, again.err)
    assert again.code == 0, (commands, again.err)
