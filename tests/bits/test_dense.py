"""A row has one score: in a list, a filtered list, a group, a batch, by whatever file or graph, and asked for alone."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from indexes.searches import unit_vectors

from retrieve_cli.contracts import Hit, Query, Ranking
from retrieve_cli.retrieval.retrievers import vector_index as dense
from retrieve_cli.retrieval.retrievers.vector_index import FlatIndex, Parameters
from retrieve_cli.retrieval.stages.diversity import Mmr
from retrieve_cli.retrieval.stages.fusion import weighted_sum

pytestmark = pytest.mark.bits

DIMS = (3, 8, 100, 256, 384)
ROWS = 1100
"""More than one block."""


def opened(folder: Path, vectors: Any, parameters: Parameters) -> Any:
    path = folder / f"{parameters.kind}-{vectors.shape[1]}.faiss"
    dense.write([vectors], path, rows=len(vectors), dim=vectors.shape[1], parameters=parameters)
    return dense.open_index(path, hnsw_ef_search=200)


def aligned(vectors: Any) -> Any:
    memory = np.empty(vectors.nbytes + 64, np.uint8)
    first = -memory.ctypes.data % 64
    copy = memory[first : first + vectors.nbytes].view(np.float32).reshape(vectors.shape)
    copy[...] = vectors
    return copy


@pytest.fixture(scope="module", params=DIMS)
def indexes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The same rows in a mapped file, in aligned memory, as a view of others, and in a graph."""
    vectors = unit_vectors(ROWS, request.param, 0)
    folder = tmp_path_factory.mktemp("dense")
    return [
        opened(folder, vectors, Parameters()),
        FlatIndex(aligned(vectors)),
        FlatIndex(np.repeat(vectors, 2, axis=0)[::2]),
        opened(folder, vectors, Parameters("hnsw", 16, 100)),
    ]


def query_of(index: Any, seed: int) -> Any:
    return unit_vectors(1, index.dim, seed)[0]


GROUPS = np.concatenate([[0], np.cumsum(np.random.default_rng(1).integers(1, 6, 250)), [ROWS]])
STARTS = [None, GROUPS[GROUPS <= ROWS].astype(np.int64)]


def single_scores(index: Any, query: Any, starts: Any) -> Any:
    """The score of each row, or group, asked for by itself."""
    units = ROWS if starts is None else len(starts) - 1
    return np.concatenate([index.score(query, np.array([unit]), starts=starts) for unit in range(units)])


@pytest.mark.parametrize("starts", STARTS, ids=["rows", "groups"])
@pytest.mark.parametrize("seed", range(1, 6))
def test_whatever_holds_the_rows_and_however_many_are_asked_for_a_row_has_one_score(
    indexes: list[Any], starts: Any, seed: int
) -> None:
    query = query_of(indexes[0], seed)
    alone = single_scores(indexes[0], query, starts)
    order = np.random.default_rng(seed).permutation(len(alone))

    for index in indexes:
        assert index.score(query, np.arange(len(alone)), starts=starts).tobytes() == alone.tobytes()
        assert index.score(query, order, starts=starts).tobytes() == alone[order].tobytes()
        for part in (order[:1], order[:7], order[100:201]):
            assert index.score(query, part, starts=starts).tobytes() == alone[part].tobytes()


@pytest.mark.parametrize("starts", STARTS, ids=["rows", "groups"])
@settings(max_examples=25)
@given(seed=st.integers(1, 999), depth=st.integers(1, 400), share=st.sampled_from([0.01, 0.1, 0.5, 0.9, 1.0]))
def test_a_filtered_answer_is_the_full_ranking_restricted(
    indexes: list[Any], starts: Any, seed: int, depth: int, share: float
) -> None:
    query, units = query_of(indexes[0], seed), ROWS if starts is None else len(starts) - 1
    mask = np.random.default_rng(seed).random(units) < share
    scores = indexes[0].score(query, np.arange(units), starts=starts)
    ranked = np.lexsort((np.arange(units), -scores))

    for index in indexes[:3]:
        (free,) = index.search([query], depth=depth, starts=starts)
        (full,) = index.search([query], depth=units, starts=starts)
        (some,) = index.search([query], depth=depth, starts=starts, allowed=[mask])
        assert free.rows.tolist() == ranked[:depth].tolist()
        assert free.scores.tobytes() == scores[free.rows].tobytes()
        assert some.rows.tolist() == ranked[mask[ranked]][:depth].tolist()
        assert some.scores.tobytes() == scores[some.rows].tobytes()
        assert (some.mean, some.deviation) == (free.mean, free.deviation) == (full.mean, full.deviation)


@pytest.mark.parametrize("starts", STARTS, ids=["rows", "groups"])
@pytest.mark.parametrize("share", [0.1, 0.6, 1.0])
def test_what_a_graph_lists_has_the_scores_that_it_has_when_asked_for(
    indexes: list[Any], starts: Any, share: float
) -> None:
    flat, graph = indexes[0], indexes[3]
    mask = np.random.default_rng(0).random(ROWS if starts is None else len(starts) - 1) < share
    for seed in range(1, 9):
        query = query_of(flat, seed)
        (found,) = graph.search([query], depth=50, starts=starts, allowed=[mask])
        assert found.scores.tobytes() == flat.score(query, found.rows, starts=starts).tobytes()
        assert (np.lexsort((found.rows, -found.scores)) == np.arange(len(found.rows))).all()


def test_a_query_has_one_answer_alone_and_in_a_batch_and_from_every_place_of_the_vectors(indexes: list[Any]) -> None:
    queries = list(unit_vectors(20, indexes[0].dim, 7))
    expected = [answer(indexes[0].search([query], depth=60)[0]) for query in queries]

    for index in indexes[:3]:
        assert [answer(found) for found in index.search(queries, depth=60)] == expected


def answer(found: Any) -> tuple[Any, ...]:
    return found.rows.tolist(), found.scores.tobytes(), found.mean, found.deviation


@pytest.mark.parametrize("threads", [1, 2])
def test_an_answer_does_not_depend_on_the_threads_that_blas_has(indexes: list[Any], threads: int) -> None:
    from retrieve_cli.numerics import openblas

    index, query = indexes[0], query_of(indexes[0], 3)
    expected, blas = answer(index.search([query], depth=60)[0]), openblas()
    before = blas[0]() if blas else 0
    try:
        if blas:
            blas[1](threads)
        assert answer(index.search([query], depth=60)[0]) == expected
    finally:
        if blas:
            blas[1](before)


# ---------------------------------------------------------------------- the scan may be as wrong as its bound says


Scores = Callable[[Any], tuple[Any, float]]


@pytest.mark.parametrize("starts", STARTS, ids=["rows", "groups"])
@settings(max_examples=40)
@given(seed=st.integers(0, 999), depth=st.integers(1, 300), bound=st.sampled_from([1e-6, 1e-4, 1e-2, 0.3]))
def test_a_scan_that_is_off_by_its_bound_changes_no_answer(starts: Any, seed: int, depth: int, bound: float) -> None:
    """Any kernel may scan: every score is moved by up to the bound, the best ones down and the others up."""
    vectors = unit_vectors(ROWS, 8, seed)
    right, wrong, query = FlatIndex(vectors), FlatIndex(vectors), unit_vectors(1, 8, seed + 1)[0]
    exact = right.score(query, np.arange(ROWS))
    generator = np.random.default_rng(seed)
    middle = np.partition(exact, -depth)[-depth]
    towards = np.where(exact >= middle, -1.0, 1.0) if seed % 2 else generator.choice([-1.0, 1.0], ROWS)
    moved = (exact + np.float32(0.99 * bound) * towards * generator.random(ROWS)).astype(np.float32)
    wrong._scan.scores = lambda _, **__: (moved, bound)  # type: ignore[method-assign]
    mask = generator.random(ROWS if starts is None else len(starts) - 1) < 0.5

    for allowed in (None, [mask]):
        (expected,) = right.search([query], depth=depth, starts=starts, allowed=allowed)
        (found,) = wrong.search([query], depth=depth, starts=starts, allowed=allowed)
        assert found.rows.tolist() == expected.rows.tolist()
        assert found.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.parametrize("length", [1e-20, 1.0, 7.5, 1e15, 1e25])
def test_rows_of_any_length_are_ranked_by_their_exact_scores(length: float) -> None:
    """An encoder need not normalise; products of the longest rows overflow in no kernel and all."""
    vectors = unit_vectors(600, 40, 2) * (np.float32(length) * np.linspace(0.1, 1, 600, dtype=np.float32)[:, None])
    index, query = FlatIndex(vectors), unit_vectors(1, 40, 3)[0] * np.float32(3)
    scores = index.score(query, np.arange(600))

    (found,) = index.search([query], depth=100)

    assert found.rows.tolist() == np.lexsort((np.arange(600), -scores))[:100].tolist()
    assert found.scores.tobytes() == scores[found.rows].tobytes()


# ------------------------------------------------------------------------------------------------- behind it


@settings(max_examples=60)
@given(legs=st.integers(1, 4), count=st.integers(1, 60), seed=st.integers(0, 999))
def test_a_fused_score_does_not_depend_on_the_other_candidates(legs: int, count: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    parts, weights = generator.standard_normal((legs, count)), generator.random(legs)

    together = weighted_sum(parts, weights)

    alone = [weighted_sum(parts[:, place : place + 1], weights) for place in range(count)]
    assert together.tobytes() == np.concatenate(alone).tobytes()
    assert weighted_sum(parts[:, ::-1], weights)[::-1].tobytes() == together.tobytes()


@pytest.mark.parametrize("dim", DIMS)
def test_how_alike_two_hits_are_does_not_depend_on_which_others_are_listed(dim: int) -> None:
    vectors = unit_vectors(40, dim, 4)
    stage = Mmr(lambda rows: vectors[rows], trade_off=0.5, keep=2)

    def second(others: list[int]) -> tuple[str, bytes]:
        """With all but two hits worth nothing, the second choice is the hit most like the first."""
        hits = [Hit(f"{row:02}", row, row, 2.0 if row == 0 else 1.9 if row == 1 else -50.0) for row in (0, 1, *others)]
        (after,) = stage([Ranking.of(Query("q"), hits)])
        return after.hits[1].id, struct.pack("d", after.hits[1].evidence[-1].normalized)

    expected = second([39])
    for count in range(2, 38):
        assert second(list(range(2, count + 1))) == expected
