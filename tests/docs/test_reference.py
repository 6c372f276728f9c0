"""The reference is what the program says: every command, flag and key, and a file that is not stale."""

import importlib.util
from types import ModuleType

import pytest
from samples import ROOT


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
