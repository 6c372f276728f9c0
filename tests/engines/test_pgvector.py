"""The engine pgvector on a real server: the suite, and what is particular to PostgreSQL."""

from collections.abc import Callable, Iterator

import pytest
from engines.pgvector_server import PostgresServer
from engines.rows import NAMES, queries, row
from engines.suite import EngineSuite

from retrieve_cli.config.index_settings import PgvectorSettings
from retrieve_cli.contracts.engines import Schema
from retrieve_cli.engines.pgvector import PgvectorEngine
from retrieve_cli.errors import Unavailable, UsageError

PASSWORD = "sesame-84"
NAME, OTHER, _ = NAMES
Run = Callable[[str], list[tuple[object, ...]]]


@pytest.fixture
def new_engine(postgres: PostgresServer, database: str) -> Iterator[Callable[..., PgvectorEngine]]:
    """Makes engines over an empty database."""
    engines: list[PgvectorEngine] = []

    def make(user: str = "tester", password: str | None = None) -> PgvectorEngine:
        engines.append(PgvectorEngine(PgvectorSettings(url=postgres.url(database, user)), password=password))
        return engines[-1]

    yield make
    for engine in engines:
        engine._close()


class TestPgvector(EngineSuite):
    server: PostgresServer

    @pytest.fixture(autouse=True)
    def running(self, postgres: PostgresServer) -> None:
        type(self).server = postgres

    def unreachable(self) -> PgvectorEngine:
        return PgvectorEngine(PgvectorSettings(url=f"postgresql://me:{PASSWORD}@127.0.0.1:1/postgres"))

    def kill_server(self) -> None:
        self.server.kill()


@pytest.fixture
def engine(new_engine: Callable[..., PgvectorEngine]) -> PgvectorEngine:
    return new_engine()


@pytest.fixture
def run(postgres: PostgresServer, database: str) -> Run:
    """Runs a statement as superuser."""
    return lambda text: postgres.run(text, database=database)


def filled(engine: PgvectorEngine, dim: int = 8, count: int = 30, name: str = NAME) -> Schema:
    schema = Schema({"dense": dim})
    engine.create(name, schema)
    engine.upsert(name, [row(number, schema, tenants=["a"]) for number in range(count)])
    engine.publish(name, "aaaaaaaaaaaa")
    return schema


@pytest.mark.parametrize(("dim", "operators"), [(8, "vector_cosine_ops"), (2001, "halfvec_cosine_ops"), (4001, None)])
def test_vectors_of_every_length_are_found(engine: PgvectorEngine, run: Run, dim: int, operators: str | None) -> None:
    schema = filled(engine, dim)
    built = [text for (text,) in run("SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'")]
    assert [str(operators) in str(text) for text in built] == ([] if operators is None else [True])
    (hits,) = engine.search(NAME, [("dense", row(7, schema).vectors["dense"])], None, 3).hits
    assert hits[0].id == "record-3#1"
    assert hits[0].score == pytest.approx(1, abs=1e-3)


def test_the_statement_of_a_person_finds_the_published_collection(engine: PgvectorEngine, run: Run) -> None:
    schema = filled(engine)
    engine.publish(NAME, "b" * 12)
    nearest = (
        "SET search_path TO retrieve, public; SELECT c.id, e.embedding <=> '{}' AS distance FROM embeddings e"
        " JOIN chunks c ON e.chunk_id = c.id WHERE e.document_id IN ('record-3', 'record-4')"
        " ORDER BY distance ASC LIMIT 2"
    )
    found = run(nearest.format(row(7, schema).vectors["dense"].tolist()))
    assert found[0][0] == "record-3#1"
    filled(engine, 12, 4, OTHER)
    engine.publish(OTHER, "c" * 12)
    assert run("SELECT count(*) FROM retrieve.chunks") == [(4,)]


def test_a_missing_right_and_a_wrong_password_are_explained_without_it(
    new_engine: Callable[..., PgvectorEngine],
) -> None:
    with pytest.raises(Unavailable) as caught:
        new_engine("locked", PASSWORD).published()
    assert PASSWORD not in str(caught.value)
    assert "password_env" in str(caught.value.hint)


def test_a_connection_that_died_is_made_again(engine: PgvectorEngine, run: Run) -> None:
    schema = filled(engine)
    run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'retrieve'")
    assert engine.search(NAME, queries(schema), None, 3).marker == "aaaaaaaaaaaa"


@pytest.mark.parametrize("name", ["", "a-b", "A", "x" * 60, 'a"b', "é"])
def test_a_schema_that_needs_quotes_is_rejected(name: str) -> None:
    with pytest.raises(UsageError):
        PgvectorEngine(PgvectorSettings(schema=name))
