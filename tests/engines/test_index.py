"""Indexes over an engine: what they make of inexact and unrestricted lists, and how much they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from engines.contents import DIM, GENERATION, TERMS, VECTORS, Content, content, parts_of, send
from engines.sqlite_engine import SqliteEngine, SqliteGeneration, create_database
from engines.suite_base import same, vector

from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.engines import AnyOf, Capabilities, Part, Within
from retrieve_cli.engines.index import TermEngineIndex, VectorEngineIndex
from retrieve_cli.errors import IndexCorrupt, Unavailable
from retrieve_cli.retrieval.retrievers.vector_index import DenseIndex, FlatVectors

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Terms, Vectors

ROWS = 3000


class Watched:
    """A collection of an engine that notes what is read, and may answer worse than it could."""

    def __init__(self, inner: Any, *, ignores: bool = False, noise: float = 0.0) -> None:
        """`ignores` conditions; scores have a relative error of `noise`."""
        self._inner = inner
        self._ignores = ignores
        self._noise = noise
        self.calls: Counter[str] = Counter()
        self.read: Counter[str] = Counter()

    def nearest(self, query: Any, limit: int, *, within: Within | None = None, **exact: bool) -> tuple[Rows, Vectors]:
        self.calls["exact" if exact.get("exact") else "nearest"] += 1
        if self._ignores and within is not None and within.rows is None:
            within = None
        rows, scores = self._inner.nearest(query, ROWS if self._noise else limit, within=within, **exact)
        wrong = 1 + self._noise * np.random.default_rng(limit).uniform(-1, 1, len(scores))
        scores = np.asarray(scores * wrong, np.float32)
        order = np.argsort(-scores, kind="stable")[:limit]
        return rows[order], scores[order]

    def scores(self, query: Any, rows: Rows) -> Vectors:
        self.calls["scores"] += 1
        self.read["scores"] += len(rows)
        return np.asarray(self._inner.scores(query, rows), np.float32)

    def count(self, terms: Terms, limit: int, *, within: Within | None = None) -> int:
        self.calls["count"] += 1
        return int(self._inner.count(terms, limit, within=within))

    def matching(self, terms: Terms, limit: int, *, within: Within | None = None) -> Rows:
        self.calls["matching"] += 1
        self.read["matching"] += limit
        return np.asarray(self._inner.matching(terms, limit, within=within), np.int64)


@pytest.fixture(scope="module")
def made() -> Content:
    return content(ROWS)


@pytest.fixture(scope="module")
def stored(made: Content, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The rows in an engine."""
    return opened(tmp_path_factory.mktemp("engine"), made)


def opened(folder: Path, made: Content, *, vectors: bool = True) -> SqliteGeneration:
    """Store rows in an engine, and open them."""
    create_database(folder / "server.db")
    engine = SqliteEngine(folder / "server.db")
    send(engine, made, parts_of(made, vectors=vectors, terms=True))
    return engine.open(GENERATION)


def vector_index(collection: Any, *, most_rows: int = 700) -> VectorEngineIndex:
    part, limits = Part(VECTORS, "chunk", ROWS, DIM), Capabilities(most_rows)
    return VectorEngineIndex(collection, part=part, capabilities=limits)


def term_index(collection: Any, *, most_rows: int = 700, rows: int = ROWS) -> TermEngineIndex:
    part, limits = Part(TERMS, "chunk", rows), Capabilities(most_rows)
    return TermEngineIndex(collection, part=part, capabilities=limits)


def common(seed: int) -> TermWeights:
    """A query whose terms are in most rows."""
    return TermWeights(np.array([7, 14, 21, 28], np.int32), vector(seed)[:4] ** 2 + np.float32(0.1))


def test_conditions_that_are_ignored_change_no_list(stored: Any, made: Content) -> None:
    for conditions in (
        [AnyOf("decile", ["3"])],
        [AnyOf("decile", ["3", "4", "9"])],
        [AnyOf("modality", ["kind 1"], negated=True)],
    ):
        allowed = [made.admitted(conditions)]
        for ignores in (False, True):
            vectors = vector_index(Watched(stored.vectors(VECTORS), ignores=ignores), most_rows=0)
            lexical = term_index(Watched(stored.terms(TERMS), ignores=ignores), most_rows=0)
            pairs: Any = [
                (vectors, DenseIndex([FlatVectors(made.vectors)]), vector(1)),
                (lexical, made.sparse, common(1)),
            ]
            for found, wanted, query in pairs:
                (listed,) = found.search([query], depth=100, allowed=allowed, conditions=[conditions])
                assert same(listed, wanted.search([query], depth=100, allowed=allowed)[0])


def test_matches_beyond_the_limit_are_said_to_be_more(
    stored: Any, made: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wanted,) = made.sparse.search([common(1)], depth=10)
    for limit, relation in ((wanted.after - 1, "gte"), (wanted.after, "eq")):
        monkeypatch.setattr("retrieve_cli.engines.index.COUNTED", limit)
        (found,) = term_index(stored.terms(TERMS)).search([common(1)], depth=10)
        assert (found.before, found.after, found.relation) == (limit, limit, relation)
        assert same(found, wanted)


def test_a_query_without_terms_asks_an_engine_nothing(stored: Any) -> None:
    lexical = Watched(stored.terms(TERMS))
    for weights in ([], [0.0]):
        query = TermWeights(np.array([7][: len(weights)], np.int32), np.array(weights, np.float32))
        (found,) = term_index(lexical).search([query], depth=10)
        assert (len(found.rows), found.before, found.after) == (0, 0, 0)
    assert not lexical.calls


@pytest.mark.parametrize("failure", [Unavailable("the server is down", hint="start it"), IndexCorrupt("row 3")])
def test_failures_of_an_engine_pass_through(stored: Any, failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise failure

    vectors, lexical = stored.vectors(VECTORS), stored.terms(TERMS)
    for name in ("nearest", "vectors", "scores"):
        monkeypatch.setattr(vectors, name, fails)
    monkeypatch.setattr(lexical, "count", fails)
    asked: list[Callable[[], Any]] = [
        lambda: vector_index(vectors).search([vector(1), vector(2)], depth=3),
        lambda: vector_index(vectors).score(vector(1), np.array([2])),
        lambda: term_index(lexical).search([common(1)], depth=3),
    ]
    for ask in asked:
        with pytest.raises(type(failure)) as caught:
            ask()
        assert caught.value is failure
