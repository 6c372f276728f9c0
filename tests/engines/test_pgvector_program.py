"""The program with its vectors in a real PostgreSQL: the answers of local files, through syncs and crashes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.injected import alike, close_all, said
from engines.pgvector_server import PostgresServer
from samples import Program, fails, succeeds, write_catalog
from sync.state import live, records
from waiting import PATIENCE_S

SIZE = 40


@pytest.fixture
def source(
    postgres: PostgresServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retrieve: Program
) -> Iterator[Path]:
    """A catalog whose index was built into a database."""
    monkeypatch.setenv("RETRIEVE_ENGINES__DENSE", "pgvector")
    monkeypatch.setenv("RETRIEVE_PGVECTOR__URL", postgres.url(database))
    monkeypatch.setenv("RETRIEVE_PGVECTOR__TIMEOUT_S", str(PATIENCE_S))
    monkeypatch.setenv("RETRIEVE_FUSION__METHOD", "rrf")
    catalog = write_catalog(tmp_path / "tools.jsonl", tenants(1))
    succeeds(retrieve("build", "--catalog", catalog))
    yield catalog
    close_all()


def tenants(version: int) -> list[dict[str, Any]]:
    rows = [{**row, "tenant": "ab"[place % 2], "license": "MIT"} for place, row in enumerate(records(version, SIZE))]
    rows[3]["license"] = 'it\'s "x", y\\z; DROP SCHEMA retrieve CASCADE; --'
    return rows


def answers(retrieve: Program, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[Any, Any]:
    """An answer through the engine, and that of local files."""
    found = []
    for place in ("pgvector", "local"):
        monkeypatch.setenv("RETRIEVE_ENGINES__DENSE", place)
        done = succeeds(retrieve("query", "segment lungs", "-k", "20", "--json", *words))
        found.append(said(done.json))
    monkeypatch.setenv("RETRIEVE_ENGINES__DENSE", "pgvector")
    return found[0], found[1]


FILTERS = (
    (),
    ("--filter", "license=MIT"),
    ("--filter", "!license=MIT"),
    ("--filter", 'license="it\'s ""x"", y\\z; DROP SCHEMA retrieve CASCADE; --"'),
    ("--tenant", "a"),
    ("--tenant", "b", "--filter", "license=*", "--chunks"),
)


@pytest.mark.parametrize("words", FILTERS)
def test_answers_are_those_of_local_files(
    source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    through, local = answers(retrieve, monkeypatch, *words)
    assert through["results"]
    assert alike(through, local)


def test_after_a_sync_the_views_show_the_new_generation(
    source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer, database: str
) -> None:
    before = live(Path("artifacts"))
    write_catalog(source, [*tenants(2)[:2], *tenants(1)[2:]])
    succeeds(retrieve("sync"))
    now = live(Path("artifacts"))
    assert now != before
    through, local = answers(retrieve, monkeypatch)
    assert alike(through, local)
    rows = postgres.run("SELECT count(*) FROM retrieve.chunks", database=database)
    assert rows == [(SIZE,)]
    schemas = {name for (name,) in postgres.run("SELECT nspname FROM pg_namespace", database=database)}
    assert {f"retrieve_{before}", f"retrieve_{now}"} <= schemas


LOSSES = {
    "rows": 'DELETE FROM {schema}.embeddings_dense WHERE "row" < 7',
    "a table of labels": "DROP TABLE {schema}.chunks CASCADE",
    "everything": "DROP SCHEMA retrieve CASCADE",
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_the_server_lost_is_counted_named_and_sent_again(
    source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer, database: str, loss: str
) -> None:
    wanted = answers(retrieve, monkeypatch)[1]
    generation = live(Path("artifacts"))
    postgres.run(LOSSES[loss].format(schema=f"retrieve_{generation}"), database=database)
    close_all()
    status = succeeds(retrieve("engines", "status", "--json")).json["engines"]["pgvector"]
    assert status["fault"]
    assert status["fault"] in retrieve("engines", "status").out
    assert "retrieve engines push" in retrieve("doctor").out
    succeeds(retrieve("engines", "push"))
    close_all()
    assert all(alike(found, wanted) for found in answers(retrieve, monkeypatch))
    assert succeeds(retrieve("engines", "status", "--json")).json["engines"]["pgvector"]["fault"] == ""
    rows = postgres.run("SELECT count(*) FROM retrieve.chunks", database=database)
    assert rows == [(SIZE,)], "the views show it again"


def test_a_query_over_a_lost_table_ends_with_5_and_the_hint(
    source: Path, retrieve: Program, postgres: PostgresServer, database: str
) -> None:
    postgres.run(f"DROP TABLE retrieve_{live(Path('artifacts'))}.embeddings_dense CASCADE", database=database)
    fails(retrieve("query", "segment lungs"), 5, "retrieve engines push")


def test_a_server_that_dies_is_named_and_answers_after_its_restart(
    source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    wanted = answers(retrieve, monkeypatch)[0]
    postgres.kill()
    try:
        fails(retrieve("query", "segment lungs", "--mode", "dense"), 6, "pgvector")
        fails(retrieve("sync"), 6)
    finally:
        postgres.start()
    assert answers(retrieve, monkeypatch)[0] == wanted
