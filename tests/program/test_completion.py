"""TAB completes commands, flags, values, ids and filters, shows no more than a command may find, and never fails."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from program.asking import Configure
from samples import ROOT, TOOLS, Program, write_catalog
from waiting import PATIENCE_S

from retrieve_cli.cli.completing import candidates, for_bash, run, split
from retrieve_cli.cli.completion import SCRIPTS


def tab(line: str) -> list[str]:
    """The candidates at the end of a line."""
    try:
        return candidates(split(line)[0])
    except OSError:  # there is no index: `run` is silent then
        return []


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("retrieve ", "init"),
        ("retrieve qu", "query"),
        ("retrieve se", "serve"),
        ("retrieve sea", "search"),
        ("retrieve help ins", "inspect"),
        ("retrieve inspect rec", "records"),
        ("retrieve models pu", "pull"),
        ("retrieve models pull sp", "splade"),
        ("retrieve query --filt", "--filter"),
        ("retrieve search --filt", "--filter"),
        ("retrieve inspect why --doc", "--doc-ids"[:-1]),
        ("retrieve query --mode b", "bm25"),
        ("retrieve query --mode=b", "--mode=bm25"),
        ("retrieve query x y --format js", "json"),
        ("retrieve query --color ne", "never"),
        ("retrieve query --retrievers bm25,d", "bm25,dense"),
        ("retrieve init --preset im", "imaging"),
        ("retrieve completion z", "zsh"),
        ("retrieve keys cr", "create"),
        ("retrieve keys create --scope search,d", "search,documents:write"),
        ("retrieve config s", "show"),
        ("retrieve config set search.mo", "search.mode"),
        ("retrieve config set search.mode d", "dense"),
        ("retrieve config set docs.follow_links t", "true"),
        ("retrieve config show fus", "fusion"),
    ],
)
def test_commands_flags_and_choices_are_completed(line: str, first: str) -> None:
    assert tab(line)[0] == first


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("retrieve inspect record l", ["lungs"]),
        ("retrieve inspect chunk l", ["lungs#0"]),
        ("retrieve inspect record lungs l", []),
        ("retrieve inspect why 'brain scans' ", ["lungs", "cells", "brain", "stitch", "align"]),
        ("retrieve query --doc-id c", ["cells"]),
        ("retrieve query x --doc-id=c", ["--doc-id=cells"]),
        ("retrieve query --filter lic", ["license="]),
        ("retrieve query --filter '!lic", ["!license="]),
        ("retrieve query --filter license=", ["license=BSD-3-Clause", "license=MIT"]),
        ("retrieve query --filter=license=m", ["--filter=license=MIT"]),
        ("retrieve query --boost license=M", ["license=MIT:"]),
        ("retrieve query --filter nothing=", []),
        ("retrieve query --artifacts elsewhere --doc-id c", []),
        ("retrieve query --docs-dir . --doc-id c", []),
    ],
)
def test_ids_and_filters_are_completed_from_the_current_index(index: Path, line: str, found: list[str]) -> None:
    assert tab(line) == found


def test_generations_and_runs_are_completed(index: Path, retrieve: Program) -> None:
    live = (index / "current").read_text().strip()
    retrieve("query", "brain", "--save-run")
    (run_id,) = (path.name for path in (index / "runs").iterdir())
    assert tab("retrieve inspect diff ") == [live]
    assert tab("retrieve sync --rollback ") == [live]
    assert tab("retrieve inspect run ") == [run_id]


def test_ids_of_keys_that_can_be_revoked_are_completed(retrieve: Program) -> None:
    first, second = (retrieve("keys", "create", "--json").json["id"] for _ in range(2))
    retrieve("keys", "revoke", first)
    assert tab("retrieve keys revoke ") == [second]
    assert tab(f"retrieve keys revoke {second} ") == []


def test_a_tenant_is_shown_its_own_records_only(tenants: Path, configure: Configure) -> None:
    assert tab("retrieve query --tenant acme --doc-id ") == ["lungs"]
    assert tab("retrieve query --tenant acme --filter license=") == ["license=MIT"]
    assert tab("retrieve query --tenant globex --filter license=") == ["license=MIT"]
    assert tab("retrieve query --tenant nobody --doc-id ") == []
    assert tab("retrieve inspect why x --tenant acme ") == ["lungs"]
    assert len(tab("retrieve query --doc-id ")) == 5
    configure("search", require_tenant="true")
    assert tab("retrieve query --doc-id ") == tab("retrieve query --filter lic") == []
    assert tab("retrieve query --tenant acme --doc-id ") == ["lungs"]


def test_odd_ids_and_values_are_completed_as_the_program_takes_them(tmp_path: Path, retrieve: Program) -> None:
    odd = ['a "quoted" id', "é#1", "back\\slash", "semi;colon", "\x1b[31mred"]
    records = [{"id": name, "name": name, "description": "x", "license": "MIT, or so"} for name in odd]
    retrieve("build", "--catalog", write_catalog(tmp_path / "odd.jsonl", records))
    shown = [name for name in odd if name.isprintable()]
    assert [name for name in shown if name in tab("retrieve inspect record ")] == shown
    assert not any("\x1b" in name for name in tab("retrieve inspect record "))
    for name in shown:
        assert tab(f"retrieve inspect record {for_bash([name], '', '', breaks='')[0][:-1]}") == [name]
    (condition,) = tab("retrieve query --filter license=")
    assert condition == 'license="MIT, or so"'
    assert len(retrieve("inspect", "records", "--filter", condition, "--jsonl").out.splitlines()) == len(odd)


def test_candidates_are_bounded(tmp_path: Path, retrieve: Program) -> None:
    records = [{"id": f"tool{at}", "name": f"Tool {at}", "description": "x", "topic": f"t{at}"} for at in range(500)]
    retrieve("build", "--catalog", write_catalog(tmp_path / "many.jsonl", records))
    assert len(tab("retrieve inspect record ")) == 200
    assert tab("retrieve inspect record tool499") == ["tool499"]
    assert len(tab("retrieve query --filter topic=")) == 200


@pytest.mark.parametrize(
    ("line", "words", "quote"),
    [
        ("retrieve ", [""], ""),
        ("retrieve", [""], ""),
        ("retrieve query 'a b' c", ["query", "a b", "c"], ""),
        ("retrieve query 'a b", ["query", "a b"], "'"),
        ('retrieve x "a\\"b" ', ["x", 'a"b', ""], ""),
        ("retrieve a\\ b", ["a b"], ""),
    ],
)
def test_a_line_is_split_as_bash_splits_it(line: str, words: list[str], quote: str) -> None:
    assert split(line) == (words, quote)


def test_bash_gets_what_stands_behind_the_last_character_that_breaks_words() -> None:
    breaks = " \t\n\"'@><=;|&(:"
    assert for_bash(["license=MIT"], "license=M", "", breaks=breaks) == ["MIT"]
    assert for_bash(["a b"], "a", "", breaks=breaks) == ["a\\ b"]
    assert for_bash(["a b"], "a", '"', breaks=breaks) == ["a b"]


@pytest.mark.parametrize(
    "arguments",
    [[], ["bash"], ["bash", "retrieve \x00"], ["zsh"], ["zsh", "query", "--filter", "x="],
     ["bash", "retrieve nosuch x "],
     ["fish", "inspect", "record", "\udcff"], ["zsh", "query", "--config", "none.yaml", "--doc-id", ""]],
    ids=repr,
)  # fmt: skip
def test_whatever_is_wrong_there_are_no_candidates_and_no_words(
    arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run(arguments)
    assert capfd.readouterr() == ("", "")


def test_a_damaged_index_has_no_candidates(index: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for path in (*index.glob("generations/*/records.jsonl"), *index.glob("generations/*/columns.pkl")):
        path.write_bytes(b"\xff" * path.stat().st_size)
    run(["bash", "retrieve inspect record "])
    run(["bash", "retrieve query --filter lic"])
    (index / "current").write_text("../../etc")
    run(["bash", "retrieve inspect record "])
    assert capfd.readouterr() == ("", "")


def loaded(line: str, modules: str) -> list[str]:
    """Those of some modules that completing a line loads."""
    code = (
        "import sys; sys.argv = ['retrieve', '__complete', 'bash', sys.argv[1]]\n"
        "from retrieve_cli.__main__ import run; run()\n"
        f"print('loaded', *(name for name in '{modules}'.split() if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, line], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()[1:]


def test_a_key_press_loads_no_more_than_it_needs(index: Path) -> None:
    assert loaded("retrieve qu", "typer numpy yaml orjson retrieve_cli.config") == []
    assert loaded("retrieve query --fo", "numpy yaml rich retrieve_cli.search") == []
    assert loaded("retrieve inspect record lu", "numpy yaml rich retrieve_cli.search") == []
    assert loaded("retrieve query --filter lic", "rich yaml torch retrieve_cli.search.searcher") == []


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_of_a_shell_is_one_that_it_takes(shell: str, retrieve: Program, tmp_path: Path) -> None:
    done = retrieve("completion", shell)
    assert (done.code, done.out) == (0, SCRIPTS[shell])
    assert retrieve("completion", shell, "--json").json == {
        "schema_version": 1,
        "shell": shell,
        "script": SCRIPTS[shell],
    }
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(done.out)
    checked = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_shell_that_is_unknown_leads_to_one(retrieve: Program) -> None:
    done = retrieve("completion", "bsh")
    assert (done.code, "`bash`" in done.err) == (2, True)


PROGRAM = """#!/bin/bash
if [ "$1" = __complete ]; then exec {python} -m retrieve_cli "$@"; fi
{python} -S -c 'import json, sys; print("GIVEN", json.dumps(sys.argv[1:]))' "$@"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("keys", "given"),
    [
        ("retrieve ins\trecord lu\t", ["inspect", "record", "lungs"]),
        ("retrieve query --fi\t", ["query", "--fil"]),
        ("retrieve query --filter lic\tM\tx", ["query", "--filter", "license=MIT", "x"]),
        ("retrieve query --filter=lic\tB\tx", ["query", "--filter=license=BSD-3-Clause", "x"]),
        ("retrieve query --format md --doc-id 'ce\t", ["query", "--format", "md", "--doc-id", "cells"]),
        ("retrieve inspect record od\t", ["inspect", "record", "odd id"]),
    ],
)
def test_a_real_bash_completes_at_the_press_of_a_key(
    keys: str, given: list[str], tmp_path: Path, retrieve: Program
) -> None:
    records = [*TOOLS, {"id": "odd id", "name": "Odd", "description": "x"}]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", records)).code == 0
    program = tmp_path / "bin" / "retrieve"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "rc").write_text(f"PS1='> '\nbind 'set bell-style none'\n{SCRIPTS['bash']}")
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    line = typed(["bash", "--noprofile", "--rcfile", str(tmp_path / "rc"), "-i"], keys, environment)
    assert json.loads(line) == given


def typed(command: list[str], keys: str, environment: dict[str, str]) -> str:
    """What the program of a shell at a terminal is given when keys are pressed, and then Return."""
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        shown(ours, "> ")
        os.write(ours, f"{keys}\n".encode())
        shown(ours, "GIVEN ")
        return shown(ours, "\n").strip()
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def shown(terminal: int, end: str) -> str:
    """What a terminal shows up to the end of a text, and that is read of it."""
    text = ""
    while not text.endswith(end):
        assert select.select([terminal], [], [], PATIENCE_S)[0], text
        text += os.read(terminal, 1).decode(errors="replace")
    return text
