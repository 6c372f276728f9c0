"""A flat index that is scanned by one byte a number answers as one whose vectors are scanned."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from samples import TOOLS, Program, succeeds, write_catalog

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.numerics import products
from retrieve_cli.retrieval.retrievers import scan, vector_index
from retrieve_cli.retrieval.retrievers.vector_index import Parameters, open_index
from retrieve_cli.storage.mapped import MappedFile

ALWAYS = Parameters(quantized_from=0)
ROWS = 1500
"""More than two blocks."""

pytestmark = pytest.mark.bits


def vectors_of(seed: int, rows: int = ROWS, *, dim: int = 24) -> Any:
    """(rows, dim) float32: unit vectors about a few centres, far from 0 in some dimensions and constant in one."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((12, dim))[generator.integers(0, 12, rows)]
    vectors = centres + 0.3 * generator.standard_normal((rows, dim)) + (seed % 3) * np.linspace(0, 5, dim)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[:, seed % dim] = 0.125
    return vectors.astype(np.float32)


def opened(folder: Path, vectors: Any, parameters: Parameters = ALWAYS) -> Any:
    """The index of the vectors, read through its bytes if it has some."""
    path, codes = folder / "dense.faiss", folder / scan.CODES_FILE
    codes.unlink(missing_ok=True)
    vector_index.write([vectors], path, rows=len(vectors), dim=vectors.shape[1], parameters=parameters)
    return reopened(folder)


def reopened(folder: Path) -> Any:
    codes = folder / scan.CODES_FILE
    return open_index(folder / "dense.faiss", hnsw_ef_search=1, codes=MappedFile(codes) if codes.exists() else None)


@pytest.mark.parametrize("grouped", [False, True], ids=["rows", "groups"])
@settings(max_examples=40)
@given(seed=st.integers(0, 999), depth=st.integers(1, 300), share=st.sampled_from([0.01, 0.3, 1.0]))
def test_what_is_listed_is_the_same_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, grouped: bool, seed: int, depth: int, share: float
) -> None:
    folder, vectors = tmp_path_factory.mktemp("dense"), vectors_of(seed)
    plain, coded = opened(folder, vectors, Parameters()), opened(folder, vectors)
    generator = np.random.default_rng(seed)
    starts = np.append(0, np.flatnonzero(generator.random(ROWS) < 0.4) + 1) if grouped else None
    starts = None if starts is None else np.append(starts[starts < ROWS], ROWS)
    units = ROWS if starts is None else len(starts) - 1
    allowed = [None if share == 1.0 else generator.random(units) < share]
    query = vectors[seed] + 0.1 * generator.standard_normal(24).astype(np.float32)

    (expected,) = plain.search([query], depth=depth, starts=starts, allowed=allowed)
    (found,) = coded.search([query], depth=depth, starts=starts, allowed=allowed)

    assert found.rows.tolist() == expected.rows.tolist()
    assert found.scores.tobytes() == expected.scores.tobytes()
    assert (found.before, found.after) == (expected.before, expected.after)
    assert found.mean == pytest.approx(expected.mean, abs=0.005 * expected.deviation)
    assert found.deviation == pytest.approx(expected.deviation, rel=0.005)


@settings(max_examples=60)
@given(seed=st.integers(0, 999), scale=st.sampled_from([1e-30, 1e-6, 1.0, 1e6, 1e15]), rows=st.integers(1, 40))
def test_no_score_of_the_scan_is_further_from_the_exact_one_than_its_bound(
    tmp_path_factory: pytest.TempPathFactory, seed: int, scale: float, rows: int
) -> None:
    """Few rows, so that most numbers are the smallest or the largest of their dimension, where a byte is worst."""
    vectors = vectors_of(seed, rows) * np.float32(scale)
    index = opened(tmp_path_factory.mktemp("dense"), vectors)
    query = np.random.default_rng(seed).standard_normal(24).astype(np.float32)

    scores, bound = index._scan.scores(query)

    exact = products(vectors.astype(np.float64), query.astype(np.float64))
    assert np.abs(scores - exact).max() <= bound
    assert np.abs(scores - products(vectors, query)).max() <= bound


def test_the_file_is_a_quantised_index_of_faiss(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    vectors = vectors_of(1)
    opened(tmp_path, vectors)

    index = faiss.read_index(str(tmp_path / scan.CODES_FILE))

    assert (index.ntotal, index.d, index.metric_type) == (ROWS, 24, faiss.METRIC_INNER_PRODUCT)
    half_step = (vectors.max(0) - vectors.min(0)) / 510
    assert (np.abs(index.reconstruct_n(0, ROWS) - vectors) <= 1.01 * half_step + 1e-7).all()
    query = vectors[7]
    scores = np.sort(reopened(tmp_path)._scan.scores(query)[0])[::-1]
    np.testing.assert_allclose(index.search(query[None], ROWS)[0][0], scores, rtol=1e-4, atol=1e-5)


def test_threads_change_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = vectors_of(2, 5000)
    for index in (opened(tmp_path, vectors), opened(tmp_path, vectors, Parameters())):
        alone = index._scan.scores(vectors[3])[0].tobytes()
        monkeypatch.setattr(scan, "WORTH_THREADS", 1)
        assert [index._scan.scores(vectors[3], threads=threads)[0].tobytes() for threads in (2, 3, 64)] == [alone] * 3
        monkeypatch.undo()


@pytest.mark.parametrize(
    "vectors",
    [
        np.empty((0, 4), np.float32),
        np.array([[1, np.nan], [0, 1]], np.float32),
        np.array([[1, np.inf], [0, 1]], np.float32),
        np.array([[3e38, 0], [-3e38, 1]], np.float32),
    ],
    ids=["no rows", "not a number", "infinite", "too wide"],
)
def test_vectors_that_no_bytes_can_stand_for_have_none(tmp_path: Path, vectors: Any) -> None:
    opened(tmp_path, vectors)

    assert not (tmp_path / scan.CODES_FILE).exists()


def test_few_rows_have_no_bytes_beside_them(tmp_path: Path) -> None:
    opened(tmp_path, vectors_of(1), Parameters(quantized_from=ROWS + 1))
    assert not (tmp_path / scan.CODES_FILE).exists()

    opened(tmp_path, vectors_of(1), Parameters(quantized_from=ROWS))
    assert (tmp_path / scan.CODES_FILE).exists()


def flipped(place: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


DAMAGE = {f"header {place}": flipped(place) for place in (0, 4, 8, 33, 37, 61)} | {
    f"cut to {size}": operator.itemgetter(slice(size)) for size in (0, 3, 72, 73, -1)
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_that_does_not_fit_the_vectors_is_an_error_of_the_index(tmp_path: Path, damage: str) -> None:
    opened(tmp_path, vectors_of(1))
    path = tmp_path / scan.CODES_FILE
    path.write_bytes(DAMAGE[damage](path.read_bytes()))

    with pytest.raises(IndexCorrupt, match="does not contain the bytes of 1500 rows of 24 numbers"):
        reopened(tmp_path)


# ----------------------------------------------------------------------------------------------- the whole program


def results(retrieve: Program, artifacts: Path) -> list[Any]:
    return succeeds(retrieve("query", "count the cells", "--json", "--artifacts", artifacts)).json["results"]


def test_the_program_gives_the_same_hits_with_bytes_to_scan(tmp_path: Path, retrieve: Program) -> None:
    catalog = write_catalog(tmp_path / "tools.jsonl", TOOLS)
    for name, rows in (("plain", "null"), ("coded", "1")):
        config = tmp_path / f"{name}.yaml"
        config.write_text(f"dense: {{quantized_from: {rows}}}\n")
        assert retrieve("build", "--catalog", catalog, "--artifacts", tmp_path / name, "--config", config).code == 0

    plain, coded = results(retrieve, tmp_path / "plain"), results(retrieve, tmp_path / "coded")

    assert list((tmp_path / "coded/generations").glob(f"*/{scan.CODES_FILE}"))
    assert not list((tmp_path / "plain/generations").glob(f"*/{scan.CODES_FILE}"))
    assert [hit["id"] for hit in coded] == [hit["id"] for hit in plain]
    for ours, theirs in zip(coded, plain, strict=True):
        assert ours["source_scores"]["dense"]["score"] == theirs["source_scores"]["dense"]["score"]
        assert ours["retrieval_score"] == pytest.approx(theirs["retrieval_score"], abs=0.05)
