"""Indexes over an engine: what they make of inexact and unrestricted lists, and how much they read."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from engines.contents import DIM, GENERATION, TERMS, VECTORS, Content, content, parts_of, send
from engines.sqlite_engine import SqliteEngine, SqliteGeneration, create_database
from engines.suite_base import same, vector, words
from hypothesis import given, settings, strategies as st
from profiles import examples

from retrieve_cli.contracts import Field, Matching, TermWeights
from retrieve_cli.contracts.engines import AnyOf, Capabilities, Part, Within
from retrieve_cli.engines.index import TermEngineIndex, VectorEngineIndex
from retrieve_cli.engines.listing import Units
from retrieve_cli.errors import IndexCorrupt, Unavailable
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.impacts import Bm25Index, Bm25Writer, Formula
from retrieve_cli.retrieval.retrievers.vector_index import FlatIndex

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


def random_mask(share: float, units: int = ROWS) -> Any:
    return np.random.default_rng(5).random(units) < share


worse = {
    "as it can": {},
    "conditions ignored": {"ignores": True},
    "inexact scores": {"noise": 5e-7},
}


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("how", worse)
def test_lists_are_complete_however_an_engine_answers(stored: Any, made: Content, how: str, grouped: bool) -> None:
    flat = FlatIndex(made.vectors)
    starts = made.starts if grouped else None

    @settings(max_examples=examples(0.4))
    @given(st.integers(0, 999), st.sampled_from([1, 10, 200]), st.none() | st.floats(0, 1), st.sampled_from([0, 700]))
    def holds(seed: int, depth: int, share: float | None, most_rows: int) -> None:
        allowed = None if share is None else [random_mask(share, len(made.starts) - 1 if grouped else ROWS)]
        vectors = vector_index(Watched(stored.vectors(VECTORS), **worse[how]), most_rows=most_rows)
        asked: dict[str, Any] = {"depth": depth, "starts": starts, "allowed": allowed}
        assert same(vectors.search([vector(seed)], **asked)[0], flat.search([vector(seed)], **asked)[0])
        lexical = term_index(Watched(stored.terms(TERMS), **worse[how]), most_rows=most_rows)
        for query in (words(seed), common(seed)):
            assert same(lexical.search([query], **asked)[0], made.sparse.search([query], **asked)[0])

    holds()


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
            pairs: Any = [(vectors, FlatIndex(made.vectors), vector(1)), (lexical, made.sparse, common(1))]
            for found, wanted, query in pairs:
                (listed,) = found.search([query], depth=100, allowed=allowed, conditions=[conditions])
                assert same(listed, wanted.search([query], depth=100, allowed=allowed)[0])


def test_equal_rows_of_a_list_are_in_order(tmp_path: Path) -> None:
    made = content(ROWS)
    made.vectors[500:520] = made.vectors[500]
    for row in range(500, 520):
        made.weights[row] = TermWeights(np.array([7], np.int32), np.array([1e3], np.float32))  # type: ignore[index]
    stored = opened(tmp_path, made)
    query = TermWeights(np.array([7], np.int32), np.array([1.0], np.float32))
    pairs: Any = [
        (vector_index(stored.vectors(VECTORS)), FlatIndex(made.vectors), made.vectors[500]),
        (term_index(stored.terms(TERMS)), made.sparse, query),
    ]
    for starts in (None, made.starts):
        for found, wanted, asked in pairs:
            lists = [index.search([asked], depth=10, starts=starts)[0].rows.tolist() for index in (found, wanted)]
            assert lists[0] == lists[1]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("share", [None, 0.5, 0.1])
def test_a_query_reads_what_does_not_depend_on_the_number_of_rows(
    stored: Any, made: Content, share: float | None, grouped: bool
) -> None:
    vectors, lexical = Watched(stored.vectors(VECTORS)), Watched(stored.terms(TERMS))
    starts = made.starts if grouped else None
    allowed = None if share is None else [random_mask(share, len(made.starts) - 1 if grouped else ROWS)]
    for _ in range(2):
        asked: dict[str, Any] = {"depth": 100, "starts": starts, "allowed": allowed}
        vector_index(vectors, most_rows=ROWS).search([vector(1)], **asked)
        term_index(lexical, most_rows=ROWS).search([common(1)], **asked)
    assert set(vectors.calls) == {"exact" if share == 0.1 else "nearest"}
    assert vectors.calls.total() <= 4
    counts = 1 if share is None else 2
    assert lexical.calls["nearest"] <= 4
    assert lexical.calls["matching" if grouped else "count"] == 2 * counts
    assert set(lexical.calls) == {"nearest", "matching" if grouped else "count"}
    assert lexical.read["matching"] <= 2 * counts * 5001


def test_a_filter_of_many_records_makes_no_array_of_their_rows() -> None:
    units = Units(2_000_000, np.arange(0, 2_000_001, 2))
    mask = random_mask(0.4, 1_000_000)
    index, conditions = vector_index(None), [AnyOf("tenant", ["a"])]
    tracemalloc.start()
    scope = index.scope(units, mask, conditions)
    kept = scope.kept(np.arange(1000), np.ones(1000, np.float32))[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert scope.within == Within(conditions=conditions)
    assert kept.tolist() == [row for row in range(1000) if mask[row // 2]]
    assert peak < 100_000


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


def test_only_terms_either_match_or_do_not(stored: Any) -> None:
    assert isinstance(term_index(stored.terms(TERMS)), Matching)
    assert not isinstance(vector_index(stored.vectors(VECTORS)), Matching)


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


@pytest.mark.parametrize("variant", ["lucene", "robertson", "atire", "okapi"])
def test_lexical_scores_are_those_of_local_bm25(tmp_path: Path, variant: Any) -> None:
    random = np.random.default_rng(3)
    names = [f"w{number}" for number in range(40)]
    texts = [" ".join(random.choice(names, random.integers(0, 12), p=zipf(40)).tolist()) for _ in range(1300)]
    writer = Bm25Writer(analyzer=TextAnalyzer(), unit="chunk", formula=Formula(variant))
    for text in texts:
        writer.add([Field("text", text)])
    contents = writer.stored()
    local, made = Bm25Index(contents), content(1300)
    made = Content(made.vectors, rows_of(contents, 1300), made.labels, made.starts)
    vocabulary = {name: number for number, name in enumerate(sorted(names))}
    index = term_index(opened(tmp_path, made, vectors=False).terms(TERMS), rows=1300)
    for _ in range(20):
        query = " ".join(random.choice(names, 6).tolist())
        counts = Counter(local.analyzer.terms(query))
        ids = np.array([vocabulary[name] for name in counts], np.int32)
        asked = TermWeights(ids, np.array(list(counts.values()), np.float32))
        for starts in (None, made.starts):
            (found,) = index.search([asked], depth=50, starts=starts)
            wanted = local.search([query], depth=50, starts=starts)[0]
            if variant in ("robertson", "okapi"):  # rows whose weights add up to 0 share a term, too
                wanted = replace(wanted, before=found.before, after=found.after)
            assert same(found, wanted)
            if variant in ("robertson", "okapi"):
                continue
            assert index.matching(asked, starts=starts).tolist() == local.matching(query, starts=starts).tolist()


def zipf(count: int) -> Any:
    shares = 1.0 / np.arange(1, count + 1)
    return shares / shares.sum()


def rows_of(stored: Any, rows: int) -> list[TermWeights]:
    """The impacts of a local index, by row."""
    terms = np.repeat(np.arange(len(stored["starts"]) - 1), np.diff(stored["starts"])).astype(np.int32)
    return [TermWeights(terms[kept := stored["rows"] == row], stored["impacts"][kept]) for row in range(rows)]
