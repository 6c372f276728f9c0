"""docs/changing.md: usual changes, each made with a toy by the files that the page lists, or from outside."""

import re
from pathlib import Path

import pytest
from package_text import PACKAGE
from samples import ROOT

PAGE = (ROOT / "docs" / "changing.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| an? ([^|]+?) \| ([^|]+) \|", PAGE, re.MULTILINE))
PLUGINS = {
    **dict.fromkeys(["source", "chunker", "encoder", "reranker"], ("program/toys/parts.py", "program/test_plugins.py")),
    "retriever": ("program/toys/toy.py", "program/test_plugins.py"),
    "provider of web search": ("program/toys/library.py", "websearch/conftest.py"),
    "engine": ("engines/sqlite_plugin.py", "engines/test_plugin.py"),
}
"""Changes that a plug-in makes, with the toy, and the tests that install and use it."""


def test_the_page_lists_files_that_exist() -> None:
    assert len(ROWS) == 14
    files = [file for files in ROWS.values() for file in re.findall(r"`([a-z_/]+\.py)`", files)]
    assert [file for file in files if not (PACKAGE / file).is_file()] == []
    folders = [folder for files in ROWS.values() for folder in re.findall(r"`([a-z_/]+/)NAME", files)]
    assert [folder for folder in folders if not (PACKAGE / folder).is_dir()] == []


@pytest.mark.parametrize("change", PLUGINS)
def test_a_plugin_adds_a_toy_of_it(change: str) -> None:
    toy, tests = ((ROOT / "tests" / path).read_text("utf-8") for path in PLUGINS[change])
    name = re.search(rf'^([A-Z]+) = (?:Plugin\("{change.split(maxsplit=1)[0]}"|Toy\w*\()', toy, re.MULTILINE)
    assert name is not None
    assert f"{Path(PLUGINS[change][0]).stem}:{name[1]}" in tests
    assert re.search(rf"^\| an? {change} \|[^|]+\| yes \|", PAGE, re.MULTILINE)
