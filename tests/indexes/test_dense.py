"""The dense index: flat search held to NumPy and to faiss, the graph held to the flat search."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from indexes import searches

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.retrieval.retrievers import vector_index as dense
from retrieve_cli.retrieval.retrievers.vector_index import DenseIndex, FlatVectors, Parameters, open_vectors

faiss = pytest.importorskip("faiss")

DIM = 16
FLAT = Parameters()
HNSW = Parameters("hnsw", hnsw_m=16, hnsw_ef_construction=80)
CLOSE = {"rtol": 1e-6, "atol": 1e-6}


def unit_vectors(count: int, *, dim: int = DIM, seed: int = 0) -> Any:
    return searches.unit_vectors(count, dim, seed)


def clustered(count: int, *, seed: int = 0) -> Any:
    """Unit vectors around forty centres, as texts about forty things lie."""
    generator = np.random.default_rng(seed)
    centres = unit_vectors(40, seed=99)[generator.integers(0, 40, count)]
    vectors = centres + 0.2 * generator.standard_normal((count, DIM)).astype(np.float32)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def write(vectors: Any, path: Path, *, parameters: Parameters) -> int:
    """In blocks, as a build does."""
    blocks = (vectors[start : start + 1000] for start in range(0, len(vectors), 1000))
    return dense.write(blocks, path, rows=len(vectors), dim=vectors.shape[1], parameters=parameters)


def build(folder: Path, vectors: Any, parameters: Parameters = FLAT, *, ef_search: int = 64) -> Any:
    assert write(vectors, folder / "dense.faiss", parameters=parameters) == len(vectors)
    return DenseIndex([open_vectors(folder / "dense.faiss", hnsw_ef_search=ef_search)])


# ----------------------------------------------------------------------------------------------------- flat


@pytest.mark.parametrize("rows", [0, 1, 2, 1023, 1024, 1025, 2048, 2500])
def test_a_flat_search_equals_the_product_of_numpy(rows: int, tmp_path: Path) -> None:
    vectors, queries = unit_vectors(rows), unit_vectors(5, seed=1)
    index = build(tmp_path, vectors)

    found = index.search(list(queries), depth=100)

    assert (len(index), index.dim) == (rows, DIM)
    for query, candidates in zip(queries, found, strict=True):
        exact = vectors.astype(np.float64) @ query
        order = np.argsort(-exact, kind="stable")[:100]
        assert candidates.rows.tolist() == order.tolist()
        np.testing.assert_allclose(candidates.scores, exact[order], **CLOSE)
        np.testing.assert_allclose(index.score(query, np.arange(rows)), exact, **CLOSE)
        spread = (exact.mean(), exact.std()) if rows else (0, 0)
        assert (candidates.mean, candidates.deviation) == pytest.approx(spread, abs=1e-6)


@given(scores=hnp.arrays(np.int16, st.integers(1, 20), elements=st.integers(-9, 9)), depth=st.integers(1, 25))
def test_equal_scores_stand_in_row_order_and_the_list_ends_at_the_depth(scores: Any, depth: int) -> None:
    noise = np.where(np.arange(len(scores)) % 2, 1e-7, -1e-7)  # less than what is compared
    index = DenseIndex([FlatVectors((scores / 32 + noise).astype(np.float32)[:, None])])

    (found,) = index.search([np.ones(1, np.float32)], depth=depth)

    assert found.rows.tolist() == np.argsort(-scores, kind="stable")[:depth].tolist()


@pytest.mark.parametrize("parameters", [FLAT, HNSW], ids=["flat", "hnsw"])
def test_the_file_is_an_index_that_faiss_reads(parameters: Parameters, tmp_path: Path) -> None:
    vectors = unit_vectors(300)
    write(vectors, tmp_path / "dense.faiss", parameters=parameters)

    read = faiss.read_index(str(tmp_path / "dense.faiss"))

    assert (read.ntotal, read.d, read.metric_type) == (300, DIM, faiss.METRIC_INNER_PRODUCT)
    assert read.reconstruct_n(0, 300).tobytes() == vectors.tobytes()


# ----------------------------------------------------------------------------------------------------- hnsw


@pytest.fixture(scope="module")
def vectors() -> Any:
    return clustered(3000)


@pytest.fixture(scope="module")
def graph(vectors: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return build(tmp_path_factory.mktemp("hnsw"), vectors, HNSW)


def test_a_graph_finds_nearly_all_that_a_flat_search_finds(graph: Any, vectors: Any) -> None:
    queries = list(clustered(50, seed=7))
    exact = DenseIndex([FlatVectors(vectors)]).search(queries, depth=10)

    found = graph.search(queries, depth=10)

    hits = sum(len(set(near.rows) & set(best.rows)) for near, best in zip(found, exact, strict=True))
    assert hits / (10 * len(queries)) >= 0.95


def test_segments_with_and_without_a_graph_are_searched_together(vectors: Any, tmp_path: Path) -> None:
    write(vectors[:2000], tmp_path / "dense.faiss", parameters=HNSW)
    graph = open_vectors(tmp_path / "dense.faiss", hnsw_ef_search=64)
    index = DenseIndex([FlatVectors(vectors[2000:2400]), graph, FlatVectors(vectors[2400:])])
    rows = np.concatenate([vectors[2000:2400], vectors[:2000], vectors[2400:]])
    exact, queries = DenseIndex([FlatVectors(rows)]), list(clustered(20, seed=9))
    for starts in (None, np.append(np.arange(0, 3000, 4), 3000)):
        allowed = [np.arange(3000 if starts is None else 750) % 5 > 0] * 20
        wanted = {"depth": 10, "starts": starts, "allowed": allowed}
        shared = 0
        for near, best in zip(index.search(queries, **wanted), exact.search(queries, **wanted), strict=True):
            shared += len(set(near.rows) & set(best.rows))
            assert (near.before, near.after) == (best.before, best.after)
        assert shared / 200 >= 0.95
    assert index.vectors(np.array([0, 400, 2999])).tobytes() == rows[[0, 400, 2999]].tobytes()


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_graph_of_few_rows_lists_them_all(rows: int, tmp_path: Path) -> None:
    index = build(tmp_path, unit_vectors(rows), HNSW)

    (found,) = index.search([unit_vectors(1, seed=3)[0]], depth=5)

    assert sorted(found.rows) == list(range(rows))
    assert index.score(unit_vectors(1)[0], np.arange(rows)).shape == (rows,)


# --------------------------------------------------------------------------------------------------- damage


def assert_is_refused(path: Path, reason: str | None = None) -> None:
    with pytest.raises(IndexCorrupt, match=reason):
        open_vectors(path, hnsw_ef_search=64)


@pytest.mark.parametrize("place", range(45))
def test_a_damaged_flat_header_is_refused_or_means_the_same(place: int, tmp_path: Path) -> None:
    path, vectors, query = tmp_path / "dense.faiss", unit_vectors(40), unit_vectors(1, seed=1)[0]
    (expected,) = build(tmp_path, vectors).search([query], depth=3)
    whole = path.read_bytes()

    for flipped in (0x01, 0x10, 0x80, 0xFF):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ flipped]) + whole[place + 1 :])
        try:
            index = DenseIndex([open_vectors(path, hnsw_ef_search=64)])
        except IndexCorrupt:
            continue
        assert (len(index), index.dim) == (40, DIM)
        assert index.search([query], depth=3)[0].rows.tolist() == expected.rows.tolist()


@pytest.mark.parametrize("dim_and_rows", [(-2, -3), (0, -5), (-1, 0), (0, 7)])
def test_a_flat_header_with_impossible_numbers_is_refused(dim_and_rows: tuple[int, int], tmp_path: Path) -> None:
    from retrieve_cli.retrieval.retrievers.vector_index import _FLAT_HEADER

    dim, rows = dim_and_rows
    header = _FLAT_HEADER.pack(b"IxFI", dim, rows, 0, 0, 1, 0, dim * rows)
    (tmp_path / "dense.faiss").write_bytes(header + bytes(4 * dim * rows))

    assert_is_refused(tmp_path / "dense.faiss")


# Runs in a process of its own: reading past the end of a mapped file ends a process. A graph that is cut short is
# found by the store, which holds every file to its length before anything is opened.
CUTS = """
import sys
from pathlib import Path
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.retrieval.retrievers.vector_index import open_vectors

path = Path(sys.argv[1])
whole = path.read_bytes()
for length in [0, 1, 3, 4, 30, 44, 45, 46, 100, *range(150, len(whole), 400), len(whole) - 1]:
    path.write_bytes(whole[:length])
    try:
        open_vectors(path, hnsw_ef_search=64)
    except IndexCorrupt:
        continue
    sys.exit(f"{length} of {len(whole)} bytes were accepted")
"""


def test_a_flat_file_cut_short_is_refused(tmp_path: Path) -> None:
    write(unit_vectors(100), tmp_path / "dense.faiss", parameters=FLAT)

    ran = subprocess.run([sys.executable, "-c", CUTS, str(tmp_path / "dense.faiss")], capture_output=True, text=True)

    assert ran.returncode == 0, ran.stderr[-300:]


@pytest.mark.parametrize("content", [b"", b"IxFI", b"not an index of any kind, but long enough to look like one"])
def test_a_file_of_another_kind_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "dense.faiss").write_bytes(content)
    assert_is_refused(tmp_path / "dense.faiss")


@pytest.mark.parametrize("made", ["IndexFlatL2", "IndexHNSWFlat"])
def test_an_index_of_distances_is_refused(made: str, tmp_path: Path) -> None:
    index = getattr(faiss, made)(DIM, *([8] if made == "IndexHNSWFlat" else []))
    index.add(unit_vectors(10))
    faiss.write_index(index, str(tmp_path / "dense.faiss"))
    assert_is_refused(tmp_path / "dense.faiss")


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    assert_is_refused(tmp_path / "dense.faiss", "cannot read")
