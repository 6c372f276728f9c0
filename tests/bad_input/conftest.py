"""Fixtures for hostile input: an index to harm, built once and copied for every test."""

import contextlib
import io
import os
import shutil
from pathlib import Path

import pytest
from samples import TOOLS, write_catalog

from retrieve_cli.cli.main import main


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds in this process do not wait for the disk: no machine loses power here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the five tools, not to be touched."""
    folder = tmp_path_factory.mktemp("built")
    tools = write_catalog(folder / "tools.jsonl", TOOLS)
    words = ["build", "--catalog", str(tools), "--artifacts", str(folder / "artifacts")]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        patch.chdir(folder)
        assert main(words) == 0
    return folder / "artifacts"


@pytest.fixture
def index(untouched: Path, catalog: Path) -> Path:
    """A copy of it at the default place, beside its catalog."""
    shutil.copytree(untouched, "artifacts")
    return Path("artifacts").resolve()
