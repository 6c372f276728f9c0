"""The reference is what the program says: every command, flag and key, and a file that is not stale."""

import importlib.util
from types import ModuleType
from typing import Any

import pytest
import yaml
from samples import ROOT

from retrieve_cli.cli.main import program
from retrieve_cli.cli.names import ALIASES
from retrieve_cli.config import loading
from retrieve_cli.config.settings import Settings
from retrieve_cli.config.values import every_key
from retrieve_cli.errors import Exit
from retrieve_cli.frozen import asdict


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_reference", ROOT / "docs" / "reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_in_the_repository_are_not_stale(reference: ModuleType) -> None:
    pages = reference.pages()
    assert {path: path.read_text("utf-8") for path in pages if path.exists()} == pages, "make reference"
    assert set((ROOT / "docs" / "reference").glob("*")) == {path for path in pages if path.parent.name == "reference"}
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert [path for path in pages if f": {path.relative_to(ROOT / 'docs')}" not in navigation] == []


def test_the_page_does_not_depend_on_the_terminal(reference: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = reference.pages()
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert reference.pages() == before


def test_every_command_and_flag_is_on_the_page(reference: ModuleType) -> None:
    pages = {path.stem: text for path, text in reference.pages().items()}
    group: Any = program()
    for name in group.commands:
        if name == "help" or name in ALIASES:
            continue
        command = group.commands[name].load()
        for part in (command, *getattr(command, "commands", {}).values()):
            assert all(
                flag in pages[name]
                for option in part.params
                if not getattr(option, "hidden", False)
                for flag in option.opts
                if flag.startswith("-")
            )


def test_every_key_is_on_the_page_once_with_its_default(reference: ModuleType) -> None:
    sections = reference.sections((ROOT / "config.yaml").read_text("utf-8"))
    shown = {f"{section.name}.{key.name}": key.default for section in sections for key in section.keys if key.name}
    assert sorted(shown) == sorted(every_key())
    defaults = asdict(Settings())
    for name, default in shown.items():
        section, _, key = name.partition(".")
        loaded = loading.override(Settings(), {section: {key: yaml.safe_load(reference._default(default))}}, where=name)
        assert asdict(loaded)[section][key] == defaults[section][key], name
    page = "".join(reference.pages().values())
    assert all(page.count(f"**`{name}`**") == 1 for name in shown)


def test_every_exit_code_is_on_the_page(reference: ModuleType) -> None:
    page = "".join(reference.pages().values())
    assert all(f"| {int(code)} | " in page for code in Exit)
