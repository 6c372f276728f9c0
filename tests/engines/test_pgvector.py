"""The engine pgvector on a real server: the suite, and what is particular to PostgreSQL."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
from engines.contents import GENERATION, OTHER, TERMS, VECTORS, Content, batch, content, parts_of, put, send
from engines.pgvector_server import PostgresServer
from engines.suite import EngineSuite
from engines.suite_base import vector

from retrieve_cli.config.index_settings import PgvectorSettings
from retrieve_cli.contracts.engines import AnyOf, Part, Within
from retrieve_cli.engines.pgvector.engine import PgvectorEngine, problems
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError

PASSWORD = "sesame-84"
NewEngine = Callable[..., PgvectorEngine]


class TestPgvector(EngineSuite):
    has_terms = False

    @pytest.fixture
    def new_engine(self, postgres: PostgresServer, database: str) -> Callable[[], PgvectorEngine]:
        type(self).server = postgres
        self.database = database
        return lambda: PgvectorEngine(PgvectorSettings(url=postgres.url(database)))

    server: PostgresServer
    database: str

    def losses(self) -> dict[str, Callable[[], object]]:
        held = "relkind = 'r' AND nspname LIKE 'retrieve%'"
        found = (
            f"SELECT nspname || '.' || relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE {held}"
        )
        return {
            say.format(table): partial(self.server.run, say.format(table), database=self.database)
            for (table,) in self.server.run(found, database=self.database)
            for say in ("DROP TABLE {} CASCADE", "TRUNCATE {} CASCADE")
        }

    def unreachable(self) -> PgvectorEngine:
        return PgvectorEngine(PgvectorSettings(url=f"postgresql://me:{PASSWORD}@127.0.0.1:1/postgres"))

    def kill_server(self) -> None:
        self.server.kill()


@pytest.fixture
def new_engine(postgres: PostgresServer, database: str) -> Iterator[NewEngine]:
    """Makes engines over one database."""
    made: list[PgvectorEngine] = []

    def make(user: str = "tester", password: str | None = None, **settings: Any) -> PgvectorEngine:
        chosen = PgvectorSettings(url=postgres.url(database, user), **settings)
        made.append(PgvectorEngine(chosen, password=password))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def engine(new_engine: NewEngine) -> PgvectorEngine:
    return new_engine()


@pytest.fixture
def run(postgres: PostgresServer, database: str) -> Callable[[str], list[Any]]:
    """Runs a statement in the engine's database as superuser."""
    return lambda text: postgres.run(text, database=database)


def parts(made: Content) -> list[Part]:
    return parts_of(made, vectors=True, terms=False)


def pushed(engine: PgvectorEngine, rows: int = 60, generation: str = GENERATION) -> Content:
    made = content(rows)
    send(engine, made, parts(made), generation=generation)
    return made


@pytest.mark.parametrize(("dim", "kind"), [(2001, "halfvec_ip_ops"), (4001, None)])
def test_vectors_too_long_for_an_index_are_found(
    engine: PgvectorEngine, run: Callable[[str], list[Any]], dim: int, kind: str | None
) -> None:
    vectors = np.random.default_rng(0).normal(size=(30, dim)).astype(np.float32)
    staging = engine.stage(GENERATION, [Part(VECTORS, "chunk", 30, dim)])
    staging.put(VECTORS, batch(content(30), VECTORS, np.arange(30))._replace(vectors=vectors))
    staging.finish()
    indexes = [text for (text,) in run("SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'")]
    assert [kind in text for text in indexes] == ([] if kind is None else [True])
    found, _ = engine.open(GENERATION).collection(VECTORS).nearest(vectors[7], 3)
    assert found[0] == 7


def test_views_show_the_current_generation_and_keep_the_rights_on_them(
    engine: PgvectorEngine, run: Callable[[str], list[Any]]
) -> None:
    made, other = pushed(engine), pushed(engine, 50, OTHER)
    engine.publish(OTHER)
    run("DROP ROLE IF EXISTS reader")
    run("CREATE ROLE reader; GRANT USAGE ON SCHEMA retrieve TO reader; GRANT SELECT ON retrieve.chunks TO reader")
    engine.publish(GENERATION)
    shown = run("SET ROLE reader; SELECT id, document_id, title, tenant_id FROM retrieve.chunks")
    run("DROP OWNED BY reader; DROP ROLE reader")
    expected = [(label.id, label.doc_id, label.title, label.tenant) for label in made.labels]
    assert sorted(map(repr, shown)) == sorted(map(repr, expected))
    assert run('SELECT count(*), max("row") FROM retrieve.embeddings') == [(len(made), len(made) - 1)]
    assert len(made) != len(other)
    nearest = f"SELECT \"row\" FROM retrieve.embeddings ORDER BY embedding <#> '{vector(1).tolist()}' LIMIT 1"
    assert run(nearest) == [(int(np.argmax(made.vectors @ vector(1))),)]


def test_a_connection_that_died_between_queries_is_replaced(
    engine: PgvectorEngine, run: Callable[[str], list[Any]]
) -> None:
    made = pushed(engine)
    collection = engine.open(GENERATION).collection(VECTORS)
    ended = run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'retrieve'")
    assert ended
    assert collection.nearest(vector(1), 1)[0].tolist() == [int(np.argmax(made.vectors @ vector(1)))]


@contextmanager
def impatient(engine: PgvectorEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let an engine wait half a second only: not before its server keeps silent, for the machine may be slow."""
    with monkeypatch.context() as patch:
        patch.setattr(engine._connections, "_timeout_s", 0.5)
        yield


def test_a_server_that_hangs_is_unavailable(
    new_engine: NewEngine, run: Callable[[str], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = new_engine()
    assert engine.live() is None
    [(pid,)] = run("SELECT pid FROM pg_stat_activity WHERE application_name = 'retrieve'")
    os.kill(pid, signal.SIGSTOP)
    try:
        with impatient(engine, monkeypatch), pytest.raises(Unavailable, match="did not answer within"):
            engine.live()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert engine.live() is None


def test_a_query_that_takes_too_long_is_unavailable(
    engine: PgvectorEngine, postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    pushed(engine)
    collection = engine.open(GENERATION).collection(VECTORS)
    with psycopg.connect(postgres.url(database)) as other:
        other.execute(f"LOCK TABLE retrieve_{GENERATION}.embeddings_{VECTORS}".encode())
        with impatient(engine, monkeypatch), pytest.raises(Unavailable, match="did not answer within") as caught:
            collection.nearest(vector(1), 5)
    assert "timeout_s" in caught.value.hint
    assert len(collection.nearest(vector(1), 5)[0]) == 5


def test_a_schema_of_someone_else_is_not_touched(engine: PgvectorEngine, run: Callable[[str], list[Any]]) -> None:
    run(f"CREATE SCHEMA retrieve_{GENERATION}; CREATE TABLE retrieve_{GENERATION}.mine AS SELECT 42 AS answer")
    with pytest.raises(UsageError, match="already exists") as caught:
        engine.stage(GENERATION, parts(content(3)))
    assert "DROP SCHEMA" in caught.value.hint
    engine.drop(GENERATION)
    assert run(f"SELECT answer FROM retrieve_{GENERATION}.mine") == [(42,)]


def test_a_generation_that_is_dropped_while_it_is_stored_is_not_complete(engine: PgvectorEngine) -> None:
    made = content(60)
    staging = engine.stage(GENERATION, parts(made))
    put(staging, made, parts(made), np.arange(60))
    engine.drop(GENERATION)
    with pytest.raises(IndexCorrupt):
        staging.finish()
    assert list(engine.generations()) == []


def test_a_wrong_password_is_rejected_and_not_printed(new_engine: NewEngine, run: Callable[[str], list[Any]]) -> None:
    run("DROP ROLE IF EXISTS locked")
    run(f"CREATE ROLE locked LOGIN PASSWORD '{PASSWORD}'")
    assert new_engine("locked", PASSWORD).live() is None
    for password in ("wrong-19", None):
        with pytest.raises(Unavailable, match="rejects the credential") as caught:
            new_engine("locked", password).live()
        assert "wrong-19" not in f"{caught.value} {caught.value.hint}"


def test_a_password_in_an_address_is_never_printed(new_engine: NewEngine) -> None:
    addresses = ("postgresql://me:{}@127.0.0.1:1/here", "postgresql://me:{}@127.0.0.1:port/", "me:{}@here")
    for address in addresses:
        with pytest.raises((Unavailable, UsageError)) as caught:
            PgvectorEngine(PgvectorSettings(url=address.format(PASSWORD))).live()
        assert PASSWORD not in f"{caught.value} {caught.value.hint}"


def test_a_missing_right_is_a_problem_with_the_statement_that_grants_it(
    new_engine: NewEngine, run: Callable[[str], list[Any]], database: str
) -> None:
    run("DROP ROLE IF EXISTS guest")
    run("CREATE ROLE guest LOGIN; CREATE EXTENSION vector")
    engine = new_engine("guest")
    with pytest.raises(Unavailable, match="denies a right"):
        engine.stage(GENERATION, parts(content(3)))
    [(_, grant)] = engine.problems()
    run(grant)
    pushed(engine)
    assert list(engine.problems()) == []
    run("DROP OWNED BY guest; DROP ROLE guest")


def test_old_servers_and_extensions_are_problems() -> None:
    good = {
        "server": "18.4", "number": 180_004, "available": "0.8.5", "installed": "0.8.5", "database": 'a"b',
        "user": "me", "may_create": True,
    }  # fmt: skip
    cases: dict[str, dict[str, Any]] = {
        "upgrade the server": {"server": "12.9", "number": 120_009},
        "install it there: apt install postgresql-18-pgvector": {"installed": None, "available": None},
        "ALTER EXTENSION vector UPDATE;": {"installed": "0.7.4"},
        "install pgvector 0.8 on the server, then: ALTER EXTENSION vector UPDATE;": {
            "installed": "0.5.1",
            "available": "0.5.1",
        },
        'GRANT CREATE ON DATABASE "a""b" TO "me";': {"may_create": False},
    }
    assert list(problems(good)) == []
    for fix, change in cases.items():
        assert [found for _, found in problems({**good, **change})] == [fix]


@pytest.mark.parametrize("schema", ["", "Retrieve", "a-b", "pg_own", "1a", "a" * 41, 'a"; DROP'])
def test_a_schema_needs_a_plain_name(schema: str) -> None:
    with pytest.raises(UsageError, match="is not a name of a schema"):
        PgvectorEngine(PgvectorSettings(schema=schema))


def test_two_schemas_in_a_database_are_two_engines(new_engine: NewEngine) -> None:
    first, second = new_engine(schema="one"), new_engine(schema="one_two")
    pushed(first)
    pushed(second, 40, OTHER)
    second.publish(OTHER)
    assert [staged.generation for staged in first.generations()] == [GENERATION]
    assert (first.live(), second.live()) == (None, OTHER)
    second.drop(GENERATION)
    assert first.open(GENERATION).count(VECTORS) == 60


def test_a_selective_condition_finds_all_rows_of_a_list(engine: PgvectorEngine) -> None:
    made = content(3000)
    labels = [
        label._replace(fields={"rare": ["yes"] if row % 150 == 0 else ["no"]}) for row, label in enumerate(made.labels)
    ]
    made = Content(made.vectors, made.weights, labels, made.starts)
    send(engine, made, parts(made))
    within = Within(conditions=[AnyOf("rare", ["yes"])])
    found, _ = engine.open(GENERATION).collection(VECTORS).nearest(vector(1), 20, within=within)
    assert sorted(found.tolist()) == list(range(0, 3000, 150))


def test_term_weights_are_rejected(engine: PgvectorEngine) -> None:
    assert not engine.capabilities.terms
    with pytest.raises(UsageError, match="holds no term weights"):
        engine.stage(GENERATION, [Part(TERMS, "chunk", 3)])
