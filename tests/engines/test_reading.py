"""Readers of generations in engines: while others are published, when engines die, lose or change what they hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from engines.injected import Servers, said
from engines.sqlite_collections import SqliteTerms, SqliteVectors
from samples import Program, fails, succeeds, write_catalog
from sync.state import live, records, versions

from retrieve_cli.api.index import Index
from retrieve_cli.config import loading
from retrieve_cli.errors import IndexCorrupt, Unavailable
from retrieve_cli.storage.store import Store

SIZE = 24
TEXT = "segment lungs"


@pytest.fixture
def built(servers: Servers, tmp_path: Path, retrieve: Program) -> str:
    """The id of an index that was built into the engines."""
    source = write_catalog(tmp_path / "tools.jsonl", records(1, SIZE))
    assert retrieve("build", "--catalog", source).code == 0
    return live(Path("artifacts"))


@pytest.fixture
def reader(built: str) -> Iterator[Index]:
    """An index that stays open and follows no newer generation."""
    with Index(Store(Path("artifacts").resolve()), loading.load(None, os.environ)) as index:
        yield index


def publish(version: int, retrieve: Program) -> str:
    write_catalog(Path("tools.jsonl"), records(version, SIZE))
    succeeds(retrieve("sync"))
    return live(Path("artifacts"))


def answer(reader: Index, **choices: Any) -> Any:
    return said(reader.search(TEXT, **choices).to_json())


def test_readers_of_the_older_generation_go_on_while_a_new_one_is_published(
    servers: Servers, reader: Index, built: str, retrieve: Program
) -> None:
    before = answer(reader)
    with ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(answer, reader) for _ in range(20)]
        now = publish(2, retrieve)
        answers += [threads.submit(answer, reader) for _ in range(5)]
    assert now != built
    for each in answers:
        for key in ("generation", "strategies_used", "total_matches"):
            assert each.result()[key] == before[key]
        assert [hit | {"freshness": "fresh"} for hit in each.result()["results"]] == before["results"]
    assert reader.refresh()
    assert answer(reader)["generation"] == now
    assert versions(answer(reader)) == {"version2"}


def test_a_reader_whose_generation_was_dropped_is_given_the_command(
    servers: Servers, reader: Index, built: str, retrieve: Program
) -> None:
    answer(reader)
    for version in (2, 3):
        publish(version, retrieve)
    assert built not in [each.generation for each in servers.engine("qdrant").generations()]
    for choices in ({"mode": "dense"}, {"mode": "bm25"}, {}):
        with pytest.raises(IndexCorrupt, match=f"no complete generation {built}") as failed:
            answer(reader, **choices)
        assert "retrieve engines push" in failed.value.hint
    assert reader.refresh()
    assert answer(reader)["strategies_used"] == ["bm25", "dense"]


@pytest.mark.parametrize(
    ("kind", "call", "left", "role"),
    [
        (SqliteVectors, "nearest", "bm25", "dense"),
        (SqliteTerms, "nearest", "dense", "bm25"),
    ],
)
def test_a_retriever_whose_engine_dies_in_a_query_is_skipped_and_alone_is_an_error(
    reader: Index, monkeypatch: pytest.MonkeyPatch, kind: type, call: str, left: str, role: str
) -> None:
    answer(reader)

    def dies(*_: Any, **__: Any) -> Any:
        raise Unavailable("the server closed the connection", hint="start it")

    with monkeypatch.context() as patch:
        patch.setattr(kind, call, dies)
        found = answer(reader)
        assert found["strategies_used"] == [left]
        assert "the server closed the connection" in found["strategies_skipped"][role]
        assert found["results"]
        with pytest.raises(Unavailable, match="closed the connection"):
            answer(reader, mode=role)
    assert answer(reader)["strategies_used"] == ["bm25", "dense"]


@pytest.mark.parametrize(("name", "role", "left"), [("qdrant", "dense", "bm25"), ("opensearch", "bm25", "dense")])
def test_an_engine_that_cannot_be_reached_is_skipped_until_it_is_there_again(
    servers: Servers, reader: Index, retrieve: Program, name: str, role: str, left: str
) -> None:
    servers.stop(name)
    for found in (answer(reader), said(retrieve("query", TEXT, "--json").json)):
        assert found["strategies_used"] == [left]
        assert "does not answer" in found["strategies_skipped"][role]
    assert fails(retrieve("query", TEXT, "--mode", role), 6, f"the database {name}.db does not answer").out == ""
    servers.start(name)
    assert answer(reader)["strategies_used"] == ["bm25", "dense"]


def test_a_secret_that_is_missing_is_named_and_one_that_is_there_is_not_shown(
    servers: Servers, built: str, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_QDRANT__API_KEY_ENV", "OUR_KEY")
    for command in (["query", TEXT, "--mode", "dense"], ["sync"], ["engines", "status"], ["engines", "push"]):
        fails(retrieve(*command), 6, "qdrant.api_key_env: OUR_KEY is not set", "export OUR_KEY=")
    monkeypatch.setenv("OUR_KEY", "s3cr3t-s3cr3t")
    for command in (["query", TEXT, "--mode", "dense"], ["sync", "--verbose"], ["engines", "status", "--json"]):
        done = succeeds(retrieve(*command))
        assert "s3cr3t" not in done.out + done.err
    assert "s3cr3t" not in "".join(path.read_text() for path in Path("artifacts").rglob("*.json"))


def test_an_index_that_was_sent_elsewhere_names_the_command(
    servers: Servers, built: str, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENGINES__DENSE", "pgvector")
    fails(retrieve("query", TEXT), 5, f"generation {built} was not sent to pgvector", "retrieve engines push")
    assert retrieve("engines", "push").code == 0
    assert retrieve("query", TEXT, "--json").json["strategies_used"] == ["bm25", "dense"]


def test_eval_compares_an_engine_with_the_local_files(servers: Servers, built: str, retrieve: Program) -> None:
    Path("gold.jsonl").write_text('{"query": "segment lungs", "relevant": ["t3"]}\n', "utf-8")
    done = retrieve("eval", "--gold", "gold.jsonl", "--mode", "dense", "--with", "engines.dense=local", "--json")
    (run,) = succeeds(done).json["runs"]
    assert run["run"] == "engines.dense=local"
    assert run["metrics"] == done.json["metrics"]
