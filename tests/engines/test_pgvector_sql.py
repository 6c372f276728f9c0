"""Queries of other programs against the views in PostgreSQL, as a design writes them down."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from engines.contents import DIM, GENERATION, VECTORS, Content, content, send
from engines.pgvector_server import PostgresServer
from engines.suite_base import vector

from retrieve_cli.config.engine_settings import PgvectorSettings
from retrieve_cli.contracts.engines import Part
from retrieve_cli.engines.pgvector.engine import PgvectorEngine

SEED = """
SELECT c.*, e.embedding <=> %(query_vector)s AS distance
FROM embeddings e
JOIN chunks c ON e.chunk_id = c.id
WHERE e.document_id IN (%(docId1)s, %(docId2)s)
ORDER BY distance ASC
LIMIT %(similarityTopK)s
"""
"""The statement of the design "RAG Query Flow", with its list of documents spelled out."""
EVERYWHERE = SEED.replace("WHERE e.document_id IN (%(docId1)s, %(docId2)s)\n", "")
TOP = 20
HNSW = f"Index Scan using embeddings_{VECTORS}_hnsw"

NewEngine = Callable[..., PgvectorEngine]
Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def new_engine(postgres: PostgresServer, database: str) -> Iterator[NewEngine]:
    """Makes engines over one database."""
    made: list[PgvectorEngine] = []

    def make(**settings: Any) -> PgvectorEngine:
        made.append(PgvectorEngine(PgvectorSettings(url=postgres.url(database), **settings)))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def ask(postgres: PostgresServer, database: str) -> Iterator[Ask]:
    """Runs a statement of another program, whose search path has the views and the extension."""
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(postgres.url(database), autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SET search_path TO retrieve, public")

        def run(text: str, **values: Any) -> list[dict[str, Any]]:
            cursor = connection.execute(text.encode(), values)
            return cursor.fetchall() if cursor.description else []

        yield run


def pushed(engine: PgvectorEngine, made: Content, generation: str = GENERATION) -> None:
    send(engine, made, [Part(VECTORS, "chunk", len(made), DIM)], generation=generation, step=5000)
    engine.publish(generation)


def values(seed: int) -> dict[str, Any]:
    return {"query_vector": str(vector(seed).tolist()), "similarityTopK": TOP}


def plan(ask: Ask, text: str, **given: Any) -> str:
    return "\n".join(line["QUERY PLAN"] for line in ask(f"EXPLAIN {text}", **given))


def indexes(ask: Ask) -> list[str]:
    """The definitions of the indexes over vectors."""
    found = ask("SELECT indexdef FROM pg_indexes WHERE indexname LIKE '%%_hnsw' ORDER BY schemaname")
    return [row["indexdef"] for row in found]


@pytest.mark.parametrize("kind", ["vector", "halfvec"])
def test_the_statement_of_the_design_uses_the_hnsw_index(new_engine: NewEngine, ask: Ask, kind: str) -> None:
    """Design C: "Results are ordered by similarity (closest first). The HNSW index on the embedding column makes this
    fast."""
    made = content(20_000)
    pushed(new_engine(type=kind), made)
    assert [f"{kind}_cosine_ops" in text for text in indexes(ask)] == [True]
    assert HNSW in plan(ask, EVERYWHERE, **values(1))
    rows = ask(EVERYWHERE, **values(1))
    assert np.diff([row["distance"] for row in rows]).min() > -1e-3, "ordered, as far as 16 bits tell"
    scores = made.vectors @ vector(1)
    best = {made.labels[row].id for row in np.argsort(-scores)[:TOP]}
    assert len({row["id"] for row in rows} & best) >= TOP - 1
    named = {"docId1": made.labels[5].doc_id, "docId2": made.labels[900].doc_id}
    own = ask(SEED, **values(1), **named)
    assert {row["document_id"] for row in own} == set(named.values())
    assert [row["distance"] for row in own] == sorted(row["distance"] for row in own)


def nearest(engine: PgvectorEngine) -> list[int]:
    rows, _ = engine.open(GENERATION).vectors(VECTORS).nearest(vector(1), TOP)
    return sorted(map(int, rows))


def test_an_index_of_an_earlier_release_is_searched_as_before(new_engine: NewEngine, ask: Ask) -> None:
    made = content(2000)
    pushed(new_engine(), made)
    expected = nearest(new_engine())
    (cosine,) = indexes(ask)
    ask(f"DROP INDEX retrieve_{GENERATION}.embeddings_{VECTORS}_hnsw")
    ask(cosine.replace("vector_cosine_ops", "vector_ip_ops"))
    assert nearest(new_engine()) == expected


def test_vectors_of_any_length_are_searched_by_their_inner_product(new_engine: NewEngine, ask: Ask) -> None:
    made = content(2000)
    lengths = np.random.default_rng(5).uniform(0.5, 2.0, len(made)).astype(np.float32)
    stretched = replace(made, vectors=made.vectors * lengths[:, None])
    pushed(new_engine(), stretched)
    assert ["vector_ip_ops" in text for text in indexes(ask)] == [True]
    best = sorted(int(row) for row in np.argsort(-(stretched.vectors @ vector(1)))[:TOP])
    assert len(set(nearest(new_engine())) & set(best)) >= TOP - 1
