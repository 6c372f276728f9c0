"""Rows that stay are copied in ranges, and files that come out the same are shared: nothing of it shows."""

import json
import os
from pathlib import Path

import pytest
from samples import Program
from sync.state import Fresh, Publish, live, records

# ---------------------------------------------------------------------------------------------- shared files


def vectors(artifacts: Path) -> Path:
    return artifacts / "generations" / live(artifacts) / "dense.faiss"


def with_license(name: str) -> list[dict[str, object]]:
    """The catalog with another field that no text has."""
    return [{**row, "license": name} for row in records(0)]


@pytest.fixture(params=["flat", "hnsw"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RETRIEVE_DENSE__INDEX", request.param)
    return str(request.param)


def test_a_change_that_no_text_shows_leaves_the_vectors_and_a_graph_over_them_as_they_are(
    kind: str, artifacts: Path, publish: Publish, fresh: Fresh
) -> None:
    first = vectors(artifacts)
    publish(with_license("MIT"))
    second = vectors(artifacts)
    assert first != second
    assert first.samefile(second)
    assert live(fresh()) == live(artifacts)
    publish([{**row, "description": "another"} for row in records(0)])
    assert not vectors(artifacts).samefile(second)


def test_a_shared_file_outlives_the_generation_that_had_it_first(
    artifacts: Path, publish: Publish, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_STORE__KEEP", "1")
    first = vectors(artifacts)
    publish(with_license("MIT"))
    assert not first.exists()
    assert vectors(artifacts).stat().st_nlink == 1
    done = retrieve("inspect", "verify", "--json")
    assert done.code == 0, done.err
    assert json.loads(retrieve("query", "lungs", "--json").out)["results"]
    assert retrieve("sync", "--verify").code == 0


def test_where_there_are_no_links_the_file_is_written(
    artifacts: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, fresh: Fresh
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    first = vectors(artifacts)
    publish(with_license("MIT"))
    assert not vectors(artifacts).samefile(first)
    assert live(fresh()) == live(artifacts)
