"""Queries of other programs against the views in PostgreSQL, as a design writes them down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from doc_pages import ROOT
from engines.contents import DIM, GENERATION, VECTORS, Content, content, send
from engines.pgvector_server import PostgresServer
from engines.suite_base import vector

from retrieve_cli.config.index_settings import PgvectorSettings
from retrieve_cli.contracts.engines import Part
from retrieve_cli.engines.pgvector.engine import PgvectorEngine

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Vectors

SEED = """
SELECT c.*, e.embedding <=> :query_vector AS distance
FROM embeddings e
JOIN chunks c ON e.chunk_id = c.id
WHERE e.document_id IN (:docIds)
ORDER BY distance ASC
LIMIT :similarityTopK;
"""
"""The statement of the design "RAG Query Flow"."""
PAGE = (ROOT / "docs" / "engines.md").read_text("utf-8")
SETTINGS, _, SHOWN = PAGE.partition("```sql\n")[2].partition("```")[0].partition("\n\n")
"""The page about engines shows the same, below settings of the session."""
DOCUMENTS = re.sub(r":(\w+)", r"%(\1)s", SEED.replace(":docIds", ":docId1, :docId2"))
EVERYWHERE = re.sub("WHERE.*\n", "", DOCUMENTS)
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
        connection.execute(SETTINGS.encode())
        yield lambda text, **values: connection.execute(text.encode(), values).fetchall()


def pushed(engine: PgvectorEngine, made: Content, generation: str = GENERATION) -> None:
    send(engine, made, [Part(VECTORS, "chunk", len(made), DIM)], generation=generation, step=5000)
    engine.publish(generation)


def values(seed: int) -> dict[str, Any]:
    return {"query_vector": str(vector(seed).tolist()), "similarityTopK": TOP}


def plan(ask: Ask, text: str, **given: Any) -> str:
    return "\n".join(line["QUERY PLAN"] for line in ask(f"EXPLAIN {text}", **given))


def definition(ask: Ask, generation: str = GENERATION) -> str:
    """Definition of the index over vectors."""
    [row] = ask(
        "SELECT indexdef FROM pg_indexes WHERE indexname = %(name)s AND schemaname = %(schema)s",
        name=f"embeddings_{VECTORS}_hnsw",
        schema=f"retrieve_{generation}",
    )
    return str(row["indexdef"])


def best(scores: Vectors, count: int = TOP) -> list[int]:
    return np.argsort(-scores, kind="stable")[:count].tolist()


@pytest.mark.parametrize("kind", ["vector", "halfvec"])
def test_the_statement_of_the_design_uses_the_hnsw_index(new_engine: NewEngine, ask: Ask, kind: str) -> None:
    """Seed: "The HNSW index on the embedding column makes this fast."""
    made = content(20_000)
    pushed(new_engine(type=kind), made)
    assert f"{kind}_cosine_ops" in definition(ask)
    assert HNSW in plan(ask, EVERYWHERE, **values(1))
    assert HNSW in plan(ask, EVERYWHERE.replace(")s AS", ")s::vector AS"), **values(1))
    found = ask(EVERYWHERE, **values(1))
    scores = made.vectors @ vector(1)
    distances = [row["distance"] for row in found]
    assert np.allclose(distances, 1 - scores[best(scores)], atol=1e-2)
    assert (np.diff(distances) > -1e-3).all(), "closest first, but for the rounding of float16"
    nearest = made.labels[best(scores)[0]]
    assert (found[0]["document_id"], found[0]["content"]) == (nearest.doc_id, nearest.text)


def test_the_documents_of_the_statement_are_looked_up(new_engine: NewEngine, ask: Ask) -> None:
    """Seed: "WHERE e.document_id IN (:docIds)"."""
    assert SHOWN.strip() == SEED.strip()
    made = content(20_000)
    pushed(new_engine(index="none"), made)
    documents = [made.labels[0].doc_id, made.labels[-1].doc_id]
    given = {**values(1), "docId1": documents[0], "docId2": documents[1]}
    assert "Seq Scan" not in plan(ask, DOCUMENTS, **given)
    rows = [row for row, label in enumerate(made.labels) if label.doc_id in documents]
    rows.sort(key=lambda row: -(made.vectors[row] @ vector(1)))
    assert [row["id"] for row in ask(DOCUMENTS, **given)] == [made.labels[row].id for row in rows]


def test_vectors_of_other_lengths_are_ranked_by_inner_product(new_engine: NewEngine, ask: Ask) -> None:
    engine, made = new_engine(), content(3000)
    longer = made.vectors * np.linspace(0, 3, len(made), dtype=np.float32)[:, np.newaxis]
    made = Content(longer, made.weights, made.labels, made.starts)
    pushed(engine, made)
    assert "vector_ip_ops" in definition(ask)
    found, _ = engine.open(GENERATION).collection(VECTORS).nearest(vector(3), TOP)
    assert found.tolist() == best(made.vectors @ vector(3))
    assert len(ask(EVERYWHERE, **values(3))) == TOP
