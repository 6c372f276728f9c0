"""Requests and bytes of a query do not grow with the index: the same queries over 2,000 and over 20,000 rows, counted
between client and server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from engines import served
from engines.contents import GENERATION, OTHER, TERMS, VECTORS, Content, NoStatistics, content, send
from engines.sqlite_engine import SqliteEngine, create_database
from engines.traffic import Calls, Counter, Seen, Traffic

from retrieve_cli.contracts import Query, Ranking, TermWeights
from retrieve_cli.contracts.engines import AnyOf, Engine, Part
from retrieve_cli.engines.index import TermEngineIndex, VectorEngineIndex
from retrieve_cli.retrieval.retrievers.vector_index import FlatIndex
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Fusion
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout, IndexRetrieval

if TYPE_CHECKING:
    from pathlib import Path

    from engines.served import Served

    from retrieve_cli.contracts import Unit, Vectors

    Serving = Callable[[Path], AbstractContextManager[Served]]

SIZES = {2_000: OTHER, 20_000: GENERATION}
"""Numbers of rows, and the generation of each."""
DIM, DEPTH = 384, 200
QUERIES = range(2)
HYBRID_BYTES = 150_000
ROW_BYTES = 30
"""A row number, as JSON and all that is around it."""
_SHARES = np.cumsum(1 / (np.arange(40_000) + 2.7))


@dataclass(frozen=True)
class Driver:
    """An engine, what counts its traffic, and what passes a collection to the counter if no server does."""

    engine: Engine
    counter: Counter
    parts: Sequence[str] = (VECTORS, TERMS)
    counted: Callable[[Any], Any] = lambda collection: collection

    def held(self, count: int) -> list[Part]:
        """Return the parts of some number of rows that are in the engine; a query finds the others in local files."""
        parts = [Part(VECTORS, "chunk", count, DIM), Part(TERMS, "chunk", count)]
        return [part for part in parts if part.name in self.parts]


def drawn(random: np.random.Generator, count: int, *, above: int = 0) -> TermWeights:
    """Return a text of `count` words by Zipf's law, without the most frequent words of the vocabulary."""
    lowest = _SHARES[above - 1] if above else 0.0
    found = np.searchsorted(_SHARES, lowest + random.random(count) * (_SHARES[-1] - lowest))
    terms = np.unique(np.minimum(found, len(_SHARES) - 1)).astype(np.int32)
    return TermWeights(terms, random.gamma(4.0, 0.2, len(terms)).astype(np.float32))


def words(seed: int) -> TermWeights:
    """Return a query of ten words, which half of all rows match."""
    return drawn(np.random.default_rng([1, seed]), 10, above=10)


def vector(seed: int) -> Vectors:
    """Return a query of norm 1."""
    made = np.random.default_rng([2, seed]).normal(size=DIM)
    return (made / np.linalg.norm(made)).astype(np.float32)


@cache
def rows(count: int) -> Content:
    """Return rows of 30 words each, with vectors."""
    random = np.random.default_rng(3)
    centres = random.normal(size=(50, DIM))
    vectors = centres[random.integers(0, 50, count)] + 0.7 * random.normal(size=(count, DIM))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = [drawn(random, 30) for _ in range(count)]
    return replace(content(count), vectors=vectors.astype(np.float32), weights=weights)


# -------------------------------------------------------------------------------------------------- servers


@contextmanager
def sqlite(folder: Path) -> Iterator[Driver]:
    """The engine of the tests, which has no server: its calls are counted."""
    create_database(folder / "server.db")
    calls = Calls()
    yield Driver(SqliteEngine(folder / "server.db"), calls, counted=calls.counted)


@contextmanager
def driven(serving: Serving, folder: Path) -> Iterator[Driver]:
    """An engine that reaches its server through a proxy."""
    with serving(folder) as server:
        traffic = Traffic()
        yield Driver(server.engine(traffic.before(server.port)), traffic, server.parts)
        traffic.close()


DRIVERS = {
    "sqlite": sqlite,
    "pgvector": partial(driven, served.pgvector),
    "qdrant": partial(driven, served.qdrant),
    # The graph of Milvus Lite misses some of the rows that it is to score, by chance; their vectors are then read.
    "milvus": partial(driven, partial(served.milvus, index="flat")),
    "osmem": partial(driven, served.osmem),
    "noida": partial(driven, served.noida),
}


@pytest.fixture(scope="module", params=DRIVERS)
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """An engine that holds the rows of both numbers."""
    with DRIVERS[request.param](tmp_path_factory.mktemp("server")) as driver:
        for count, generation in SIZES.items():
            send(driver.engine, rows(count), driver.held(count), generation=generation)
        yield driver
        driver.engine.close()


# ------------------------------------------------------------------------------------------------- measures


def hybrid(driver: Driver, count: int, unit: Unit) -> Fuse:
    """Return the hybrid search of the rows of one generation, which ranks records or chunks."""
    opened, made = driver.engine.open(SIZES[count]), rows(count)
    indexes: dict[str, Any] = {VECTORS: FlatIndex(made.vectors), TERMS: made.sparse}
    for part in driver.held(count):
        kind: Any = TermEngineIndex if part.dim is None else VectorEngineIndex
        collection = driver.counted(opened.terms(part.name) if part.dim is None else opened.vectors(part.name))
        able = driver.engine.capabilities
        indexes[part.name] = kind(collection, part=part, capabilities=able, statistics=NoStatistics())
    forms: dict[str, Any] = {VECTORS: vector, TERMS: words}
    asked: dict[str, Any] = {"layout": ChunkLayout(made.starts, str), "unit": unit, "depth": DEPTH}
    retrievals = [
        IndexRetrieval(name, index, partial(formed, forms[name]), waits=name in driver.parts, **asked)
        for name, index in indexes.items()
    ]
    return Fuse(tuple(retrievals), Fusion(), keep=10)


def formed(form: Callable[[int], Any], texts: Sequence[str]) -> list[Any]:
    """Return what an index is asked, of queries that are numbers."""
    return [form(int(text)) for text in texts]


def query(seed: int, count: int, *, filtered: bool) -> Query:
    """Return a query for records, or for those that satisfy a condition, more than half of all."""
    if not filtered:
        return Query(str(seed))
    made, conditions = rows(count), [AnyOf("modality", ["kind 1", "kind 2"])]
    records = np.logical_or.reduceat(made.admitted(conditions), made.starts[:-1])
    return Query(str(seed), records=records, conditions=lambda: conditions)


def traffic(driver: Driver, count: int, unit: Unit, *, filtered: bool) -> list[Seen]:
    """Return what each query asks of the server."""
    search, counted = hybrid(driver, count, unit), []
    search([Ranking(query(0, count, filtered=filtered))])  # opens connections
    for seed in QUERIES:
        with driver.counter.counting() as seen:
            (found,) = search([Ranking(query(seed, count, filtered=filtered))])
        assert len(found.hits) == search.keep
        assert seen.requests
        counted.append(seen)
    return counted


@pytest.mark.parametrize("filtered", [False, True], ids=["all", "filtered"])
def test_a_query_asks_no_more_of_ten_times_as_many_rows(driver: Driver, filtered: bool) -> None:
    few, many = (traffic(driver, count, "chunk", filtered=filtered) for count in SIZES)
    assert [seen.requests for seen in many] == [seen.requests for seen in few]
    assert sum(seen.bytes for seen in many) <= 1.2 * sum(seen.bytes for seen in few)
    assert max(seen.bytes for seen in many) <= HYBRID_BYTES


@pytest.mark.parametrize("filtered", [False, True], ids=["all", "filtered"])
def test_a_query_for_records_of_several_chunks_asks_a_bounded_number_of_rows(driver: Driver, filtered: bool) -> None:
    """Records that match are counted from the numbers of up to 2,000 chunks, once more if there is a filter."""
    few, many = (traffic(driver, count, "record", filtered=filtered) for count in SIZES)
    assert [seen.requests for seen in many] == [seen.requests for seen in few]
    assert max(seen.bytes for seen in many) <= HYBRID_BYTES + (1 + filtered) * 2_000 * ROW_BYTES


def test_a_hybrid_query_makes_three_round_trips_one_after_another(driver: Driver) -> None:
    driver.counter.latency_s = 0.25
    try:
        counted = traffic(driver, 20_000, "chunk", filtered=False)
    finally:
        driver.counter.latency_s = 0.0
    assert max(seen.round_trips for seen in counted) <= 3
