"""The documentation tells the truth: its commands run, print what the pages show, and name flags that exist."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT, blocks, calls, check, shown_steps, workspace
from samples import Program
from typer.core import TyperGroup

from retrieve_cli.cli.main import program

CODE = re.compile(r"`retrieve ([^`]+)`")


@pytest.fixture
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a clone, the same for every page: an index knows the paths of its sources."""
    folder = tmp_path_factory.getbasetemp() / "pages" / "clone"
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, clone: Path) -> None:
    differences = [f"$ {step.command}\n--- shown\n" + "\n".join(step.shown) + "\n--- printed\n" + "\n".join(printed)
                   for step, printed in check(page, workspace(clone))]  # fmt: skip
    assert not differences, "\n\n".join(differences)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_call_of_the_program_on_a_page_can_be_parsed(page: Path) -> None:
    lines = [step.command for block, step in shown_steps(page, run=False) if block.language in ("console", "sh")]
    for arguments in [arguments for line in lines for arguments in calls(line)]:
        context = program().make_context("retrieve", list(arguments))
        while isinstance(context.command, TyperGroup) and (rest := [*context._protected_args, *context.args]):
            name, command, rest = context.command.resolve_command(context, rest)
            context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_that_are_not_run_say_why(page: Path) -> None:
    text = page.read_text("utf-8")
    reasons = [block.skipped for block in blocks(text) if block.skipped is not None]
    assert text.count("<!-- not run: ") == len(reasons)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_flags_that_a_page_names_in_passing_exist(page: Path, retrieve: Program) -> None:
    for inline in CODE.findall(page.read_text("utf-8")):
        command, flags = _parts(inline)
        text = retrieve(*command, "--help").out
        assert text, inline
        assert [flag for flag in flags if flag not in text] == [], inline


def test_each_line_of_the_table_of_queries_does_what_it_is_listed_for(index: Path, retrieve: Program) -> None:
    needs = {"--mode splade": 6, "--retrievers bm25,splade": 6, "--tenant acme": 2, "--min-confidence 0.5": 2}
    rows = [line for line in (ROOT / "docs" / "queries.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    lines = [line for row in rows for line in CODE.findall(row) if "TEXT" in line]
    for line in lines:
        words = [{"TEXT": "brain", "ID": "brain", "DIR": str(ROOT / "catalogs")}.get(w, w) for w in shlex.split(line)]
        done = retrieve(*words)
        code = next((code for flags, code in needs.items() if flags in line), 0)
        assert (line, done.code, "hint: " in done.err) == (line, code, code != 0)
    assert len(lines) > 14


def _parts(inline: str) -> tuple[list[str], list[str]]:
    """The command of an inline `retrieve …`, with a command below it if it has one, and its flags."""
    words = inline.replace("\\|", "|").split()
    command = words[:1] if re.fullmatch("[a-z]+", words[0]) else []
    nested = command and command[0] in ("inspect", "models", "snapshot", "config", "eval", "engines")
    if nested and len(words) > 1 and re.fullmatch("[a-z]+", words[1]):
        command = words[:2]
    return command, [word.split("=")[0] for word in words if re.match("--?[a-z]", word)]


def test_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 12_000


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#: ]+)(?:#[^) ]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_files_of_the_package_that_pages_name_exist() -> None:
    for page in PAGES:
        for file in re.findall(r"`((?:tests/)?[a-z_]+/[a-z_/]+\.py)`", page.read_text("utf-8")):
            assert any((ROOT / folder / file).exists() for folder in ("", "retrieve_cli")), f"{page.name}: {file}"
