"""`sync.every_hours`: a query syncs first if the last sync is that old; and the variables without our prefix."""

import os
import time
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog

from retrieve_cli.config.loading import load


def _age(path: Path, hours: float) -> None:
    then = time.time() - 3600 * hours
    os.utime(path, (then, then))


@pytest.fixture
def catalog(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog that is indexed, and to which a tool was added since; a query syncs every six hours."""
    path = write_catalog(tmp_path / "tools.jsonl", TOOLS)
    assert retrieve("build", "--catalog", path).code == 0
    write_catalog(path, [*TOOLS, {"id": "ears", "name": "EarFinder", "description": "Outlines ears in photographs."}])
    monkeypatch.setenv("SYNC_EVERY_HOURS", "6")
    return path


def _ids(retrieve: Program) -> list[str]:
    return [result["doc_id"] for result in retrieve("query", "outlines ears in photographs", "--json").json["results"]]


def test_a_query_syncs_first_if_the_last_sync_is_older_than_the_hours(catalog: Path, retrieve: Program) -> None:
    assert "ears" not in _ids(retrieve)
    _age(Path("artifacts/current"), 5)
    assert "ears" not in _ids(retrieve)
    _age(Path("artifacts/current"), 7)
    assert "ears" in _ids(retrieve)


def test_a_sync_that_failed_is_not_tried_again_by_the_next_query(catalog: Path, retrieve: Program) -> None:
    _age(Path("artifacts/current"), 7)
    catalog.unlink()
    assert "were not synced first" in retrieve("query", "ears").err
    assert "were not synced first" not in retrieve("query", "ears").err


def test_a_sync_of_nothing_counts_as_a_sync(catalog: Path, retrieve: Program) -> None:
    assert retrieve("sync").code == 0
    _age(Path("artifacts/current"), 7)
    catalog.unlink()
    assert "were not synced first" not in retrieve("query", "ears").err


def test_without_hours_no_query_syncs(catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    _age(Path("artifacts/current"), 7000)
    for hours in ("0", "null"):
        monkeypatch.setenv("SYNC_EVERY_HOURS", hours)
        assert "ears" not in _ids(retrieve)


def test_the_environment_may_name_the_catalog_and_have_it_embedded_before_the_first_answer(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTWARE_CATALOG", str(write_catalog(tmp_path / "named: by, [environment].jsonl", TOOLS)))
    assert retrieve("build", "--artifacts", "built").code == 0
    assert retrieve("inspect", "record", "lungs", "--artifacts", "built").code == 0
    monkeypatch.setenv("EMBED_CATALOG_ON_START", "0")
    assert retrieve("query", "lungs").code == 4
    monkeypatch.setenv("EMBED_CATALOG_ON_START", "1")
    assert retrieve("query", "lungs", "--json").json["results"][0]["doc_id"] == "lungs"


def test_a_variable_of_ours_wins_over_an_alias_and_an_empty_alias_sets_nothing() -> None:
    hours = {"SYNC_EVERY_HOURS": "6", "EMBED_CATALOG_ON_START": "1", "RETRIEVE_SYNC__EVERY_HOURS": "2"}
    settings = load(None, hours)
    assert (settings.sync.every_hours, settings.sources.auto_sync) == (2.0, True)
    assert load(None, {"SYNC_EVERY_HOURS": " ", "SOFTWARE_CATALOG": ""}) == load(None, {})
