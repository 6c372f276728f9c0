"""An engine that a plug-in adds: the engine suite through the registry, and the program with its indexes in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from engines.injected import forget_all, search_in
from engines.sqlite_engine import create_database
from samples import Program, fails, succeeds, write_catalog
from sync.state import records

from retrieve_cli.assemble.engines import engine
from retrieve_cli.config import plugins
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.engines import Engine


@pytest.fixture(autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs a package that adds the engine `sqlite`, as entry points name it."""
    folder = tmp_path_factory.mktemp("packages")
    about = folder / "toy_engine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy_engine\nVersion: 1.0\n")
    points = "sqlite = engines.sqlite_plugin:ENGINE\nother = engines.sqlite_plugin:ENGINE\n"
    (about / "entry_points.txt").write_text(f"[retrieve.plugins]\n{points}")
    monkeypatch.syspath_prepend(str(folder))
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    plugins.installed.cache_clear()
    plugins.load.cache_clear()
    forget_all()


def made(path: Path) -> Engine:
    return engine("sqlite", Settings(plugins={"sqlite": {"path": str(path)}}))


def test_the_program_builds_into_it_and_answers_from_it(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_database(tmp_path / "server.db")
    Path("config.yaml").write_text(yaml.safe_dump({"plugins": {"sqlite": {"path": str(tmp_path / "server.db")}}}))
    monkeypatch.setenv("RETRIEVE_FUSION__METHOD", "rrf")
    search_in("sqlite", monkeypatch)
    succeeds(retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", records(1, 20))))
    status = succeeds(retrieve("engines", "status", "--json")).json["engines"]["sqlite"]
    assert status["fault"] == ""
    assert "ok    sqlite" in retrieve("doctor").out
    through = succeeds(retrieve("query", "segment lungs", "--json")).json
    search_in("local", monkeypatch)
    local = succeeds(retrieve("query", "segment lungs", "--json")).json
    assert through["results"]
    assert through["strategies_used"] == local["strategies_used"]


def test_an_engine_under_another_name_is_refused(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("config.yaml").write_text(yaml.safe_dump({"plugins": {"sqlite": {"path": "x"}}}))
    search_in("other", monkeypatch)
    write_catalog(tmp_path / "tools.jsonl", records(1, 3))
    fails(retrieve("build", "--catalog", tmp_path / "tools.jsonl"), 6, "an engine with another name")
