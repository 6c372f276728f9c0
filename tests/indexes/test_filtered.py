"""Searches for some rows alone: whatever the engine, the best of those, as if the others were not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from profiles import examples

from retrieve_cli.contracts import Candidates, Field, Index, TermWeights
from retrieve_cli.retrieval.retrievers import vector_index as dense
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer
from retrieve_cli.retrieval.retrievers.splade import SparseIndex, SparseWriter
from retrieve_cli.retrieval.retrievers.vector_index import DenseIndex, FlatVectors, Parameters
from retrieve_cli.storage import pickles

ROWS = 10_000
DIM = 8
QUERIES = 10
WORDS = "ct lung liver scan mask voxel spleen mri".split()
LINKS = Parameters("hnsw", hnsw_m=8, hnsw_ef_construction=40)


@dataclass(frozen=True)
class Engine:
    """An index of `ROWS` rows, and what it can be asked."""

    kind: str
    index: Index
    queries: list[Any]

    def listable(self, scores: Any) -> Any:
        """Which rows can be listed at all: an inverted file knows no row without a term of the query."""
        return np.ones(len(scores), np.bool_) if self.kind in ("flat", "hnsw") else scores != 0


# ---------------------------------------------------------------------------------------------- the engines


def _bm25(folder: Path) -> Engine:
    return _lexical(folder, "bm25", Bm25Writer(analyzer=TextAnalyzer(), unit="chunk"), Bm25Index)


def _lexical(folder: Path, kind: str, writer: Any, opened: Callable[[Any], Index]) -> Engine:
    """Of short texts of few words: most scores are shared by many rows."""
    generator = np.random.default_rng(0)
    for size in generator.integers(0, 6, ROWS):
        writer.add([Field("text", " ".join(WORDS[at] for at in generator.geometric(0.4, size) % len(WORDS)))])
    writer.write(folder / "bm25.pkl")
    return Engine(kind, opened([pickles.load(folder / "bm25.pkl")]), _questions())


def _questions() -> list[str]:
    generator = np.random.default_rng(1)
    return [" ".join(generator.choice(WORDS, 1 + at % 3)) for at in range(QUERIES)]


def _sparse(folder: Path) -> Engine:
    generator = np.random.default_rng(2)

    def row(terms: int) -> TermWeights:
        chosen = np.sort(generator.choice(40, terms, replace=False)).astype(np.int32)
        return TermWeights(chosen, generator.integers(1, 9, terms).astype(np.float32) / 4)

    writer = SparseWriter(unit="record")
    for _ in range(ROWS):
        writer.add(row(4))
    writer.write(folder / "splade.pkl")
    return Engine("sparse", SparseIndex([pickles.load(folder / "splade.pkl")]), [row(2) for _ in range(QUERIES)])


def _quarters(rows: int, seed: int) -> Any:
    """(rows, DIM) float32 in quarters: their products are exact in any order of addition, and many are equal."""
    return np.random.default_rng(seed).integers(-4, 5, (rows, DIM)).astype(np.float32) / 4


def _graph(folder: Path, vectors: Any, parameters: Parameters = LINKS) -> Any:
    path = folder / "dense.faiss"
    dense.write([vectors], path, rows=len(vectors), dim=vectors.shape[1], parameters=parameters)
    return DenseIndex([dense.open_vectors(path, hnsw_ef_search=64)])


def _flat(folder: Path) -> Engine:
    return Engine("flat", _graph(folder, _quarters(ROWS, 3), Parameters()), list(_quarters(QUERIES, 4)))


def _hnsw(folder: Path) -> Engine:
    return Engine("hnsw", _graph(folder, _quarters(ROWS, 3)), list(_quarters(QUERIES, 4)))


MAKERS: dict[str, Callable[[Path], Engine]] = {
    "bm25": _bm25,
    "sparse": _sparse,
    "flat": _flat,
    "hnsw": _hnsw,
}


@pytest.fixture(scope="module", params=list(MAKERS), name="engine")
def _engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return MAKERS[request.param](tmp_path_factory.mktemp(request.param))


def _starts() -> Any:
    """Groups of one to five rows."""
    ends = np.cumsum(np.random.default_rng(5).integers(1, 6, ROWS))
    return np.concatenate([[0], ends[ends < ROWS], [ROWS]]).astype(np.int64)


GROUPED = pytest.mark.parametrize("starts", [None, _starts()], ids=["rows", "groups"])


# ------------------------------------------------------------------------------------------------- the laws


def some(units: int, share: float, seed: int = 0) -> Any:
    """(units,) bool: that share of them, and one at least."""
    mask = np.zeros(units, np.bool_)
    mask[np.random.default_rng(seed).choice(units, max(1, round(share * units)), replace=False)] = True
    return mask


def units_of(starts: Any) -> int:
    return ROWS if starts is None else len(starts) - 1


def brute_force(engine: Engine, query: Any, depth: int, starts: Any, mask: Any) -> tuple[Any, Any, int, int]:
    """All scored, those that may not be listed dropped, the best of the rest: rows, scores, before and after."""
    scores = engine.index.score(query, np.arange(len(mask)), starts=starts)
    listable = engine.listable(scores)
    within = np.flatnonzero(listable & mask)
    rows = within[np.lexsort((within, -scores[within]))][:depth]
    return rows.tolist(), scores[rows].tolist(), int(listable.sum()), len(within)


def told(found: Candidates) -> tuple[Any, Any, int, int]:
    return found.rows.tolist(), found.scores.tolist(), found.before, found.after


def all_of(found: Candidates) -> tuple[Any, ...]:
    return *told(found), found.mean, found.deviation


SHARES = st.sampled_from([1 / ROWS, 0.001, 0.01, 0.1, 0.5, 0.9, 1.0]) | st.floats(0, 1)
FEW = st.sampled_from([1 / ROWS, 0.001, 0.01, 0.1]) | st.floats(0, 0.15)
"""Shares at which a graph is not walked: groups differ in size, so that of their rows it may be a little more."""


@GROUPED
@settings(max_examples=examples(2))
@given(data=st.data(), seed=st.integers(0, 2**32), place=st.integers(0, QUERIES - 1), depth=st.integers(1, 300))
def test_a_filtered_search_equals_brute_force_filtered(
    engine: Engine, starts: Any, data: st.DataObject, seed: int, place: int, depth: int
) -> None:
    mask = some(units_of(starts), data.draw(FEW if engine.kind == "hnsw" else SHARES), seed)
    query = engine.queries[place]

    (found,) = engine.index.search([query], depth=depth, starts=starts, allowed=[mask])

    assert told(found) == brute_force(engine, query, depth, starts, mask)
    assert (found.rows.dtype, found.scores.dtype) == (np.int64, np.float32)


@GROUPED
@pytest.mark.parametrize("share", [1 / ROWS, 0.01, 0.5])
def test_mean_and_deviation_are_those_of_all_rows_whatever_is_allowed(
    engine: Engine, starts: Any, share: float
) -> None:
    if engine.kind == "hnsw":
        return  # it does not score all rows
    mask = some(units_of(starts), share)

    (free,) = engine.index.search(engine.queries[:1], depth=5, starts=starts)
    (found,) = engine.index.search(engine.queries[:1], depth=5, starts=starts, allowed=[mask])

    assert free.deviation > 0
    assert (found.mean, found.deviation) == (free.mean, free.deviation)


@GROUPED
def test_mean_and_deviation_are_those_of_the_visible_rows(engine: Engine, starts: Any) -> None:
    if engine.kind == "hnsw":
        return  # it does not score all rows
    visible = some(units_of(starts), 0.3)

    (found,) = engine.index.search(engine.queries[:1], depth=5, starts=starts, visible=[visible])

    scores = engine.index.score(engine.queries[0], np.flatnonzero(visible), starts=starts)
    assert (found.mean, found.deviation) == pytest.approx((scores.mean(), scores.std()), abs=1e-6)


@GROUPED
def test_where_nothing_is_allowed_nothing_is_listed(engine: Engine, starts: Any) -> None:
    (free,) = engine.index.search(engine.queries[:1], depth=5, starts=starts)
    (found,) = engine.index.search(
        engine.queries[:1], depth=5, starts=starts, allowed=[np.zeros(units_of(starts), np.bool_)]
    )

    assert told(found) == ([], [], free.before, 0)
    assert (found.rows.dtype, found.scores.dtype) == (np.int64, np.float32)


@GROUPED
def test_rows_that_are_not_visible_are_not_counted(engine: Engine, starts: Any) -> None:
    visible = some(units_of(starts), 0.5)
    allowed = visible & some(units_of(starts), 0.3, seed=1)
    asked = {"depth": 5, "starts": starts, "allowed": [allowed] * QUERIES}

    narrow = engine.index.search(engine.queries, **asked, visible=[visible] * QUERIES)
    wide = engine.index.search(engine.queries, depth=5, starts=starts, allowed=[visible] * QUERIES)

    assert [each.before for each in narrow] == [each.after for each in wide]
    assert [told(each)[:2] for each in narrow] == [
        told(each)[:2] for each in engine.index.search(engine.queries, **asked)
    ]


@GROUPED
def test_a_batch_with_different_filters_answers_as_its_queries_do_one_by_one(engine: Engine, starts: Any) -> None:
    units = units_of(starts)
    allowed = [None if at % 3 == 0 else some(units, at / QUERIES, seed=at) for at in range(QUERIES)]

    together = engine.index.search(engine.queries, depth=20, starts=starts, allowed=allowed)

    for query, mask, found in zip(engine.queries, allowed, together, strict=True):
        (alone,) = engine.index.search([query], depth=20, starts=starts, allowed=[mask])
        assert all_of(found) == all_of(alone)


# ------------------------------------------------------------------------------------- what a walk passes by


def _clustered(count: int, seed: int) -> Any:
    """Unit vectors around forty centres."""
    generator, dim = np.random.default_rng(seed), 16
    centres = np.random.default_rng(99).standard_normal((40, dim))[generator.integers(0, 40, count)]
    vectors = centres + 0.6 * generator.standard_normal((count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module", name="clusters")
def _clusters() -> Any:
    return _clustered(5000, 0)


@pytest.fixture(scope="module", name="graph")
def _clusters_graph(clusters: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return _graph(tmp_path_factory.mktemp("graph"), clusters, Parameters("hnsw", 16, 80))


@pytest.mark.parametrize("near", [False, True], ids=["anywhere", "in one region"])
@pytest.mark.parametrize("width", [1, 3], ids=["rows", "groups"])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_a_walk_lists_nothing_else_and_nearly_all_of_the_best(
    clusters: Any, graph: Any, share: float, width: int, near: bool
) -> None:
    starts = None if width == 1 else np.append(np.arange(0, 5000, width), 5000)
    units = 5000 if starts is None else len(starts) - 1
    region = np.argsort(-(clusters @ clusters[0])[::width][:units])[: round(share * units)]
    mask = np.isin(np.arange(units), region) if near else some(units, share)
    queries = list(_clustered(30, 7))

    found = graph.search(queries, depth=20, starts=starts, allowed=[mask] * 30)
    exact = DenseIndex([FlatVectors(clusters)]).search(queries, depth=20, starts=starts, allowed=[mask] * 30)

    for query, each in zip(queries, found, strict=True):
        assert mask[each.rows].all()
        assert len(set(each.rows)) == 20
        assert (each.before, each.after) == (units, mask.sum())
        np.testing.assert_allclose(each.scores, graph.score(query, each.rows, starts=starts), rtol=1e-6, atol=1e-6)
    shared = [len(set(each.rows) & set(best.rows)) for each, best in zip(found, exact, strict=True)]
    assert sum(shared) / 600 >= 0.95


def test_what_a_walk_cannot_reach_is_scored_without_it(tmp_path: Path) -> None:
    """Two heaps of rows that no link joins."""
    heaps = np.repeat(np.array([[1.0, 0.0], [-1.0, 0.0]], np.float32), 300, axis=0)
    heaps[:, 1] = np.tile(np.arange(300, dtype=np.float32), 2) / 1024
    index = _graph(tmp_path, heaps, Parameters("hnsw", 2, 2))

    for heap in (slice(0, 300), slice(300, 600)):
        mask = np.zeros(600, np.bool_)
        mask[heap] = True
        (found,) = index.search([np.array([0.0, 1.0], np.float32)], depth=250, allowed=[mask])
        assert found.rows.tolist() == np.arange(600)[heap][::-1][:250].tolist()


def test_as_many_groups_are_listed_as_are_asked_for_where_a_few_have_all_the_best_rows(tmp_path: Path) -> None:
    vectors = np.repeat(_quarters(20, 8), 50, axis=0) + _quarters(1000, 9) / 64
    starts, mask = np.arange(0, 1001, 50), np.arange(20) % 2 == 0
    index, query = _graph(tmp_path, vectors), _quarters(1, 10)

    (found,) = index.search(list(query), depth=5, starts=starts, allowed=[mask])

    (exact,) = DenseIndex([FlatVectors(vectors)]).search(list(query), depth=5, starts=starts, allowed=[mask])
    assert told(found) == told(exact)
    assert len(found.rows) == 5
