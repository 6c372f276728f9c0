"""Batches of queries are scanned by faiss on a GPU if there is one, with the scores of the CPU within 1e-6.

There is a GPU on few machines: faiss's own product of all pairs on the CPU, whose last bits differ from those of the
scan here just as a GPU's do, stands in its place but for the last test.
"""

from pathlib import Path

import faiss
import numpy as np
import pytest
from indexes.searches import unit_vectors
from samples import TOOLS, Program, write_catalog

from retrieve_cli.contracts import Candidates
from retrieve_cli.errors import Unavailable
from retrieve_cli.retrieval.retrievers import gpu_scan
from retrieve_cli.retrieval.retrievers.gpu_scan import WORTH_QUERIES, pairwise_on_gpu, scores_on_gpu
from retrieve_cli.retrieval.retrievers.vector_index import DenseIndex, FlatVectors, Parameters, open_vectors, write

ROWS, DIM = 5000, 48


def _vectors(rows: int, seed: int = 0) -> np.ndarray:
    return unit_vectors(rows, DIM, seed)


def _products(queries: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Inner products as faiss computes them."""
    return faiss.pairwise_distances(queries, np.ascontiguousarray(vectors), metric=faiss.METRIC_INNER_PRODUCT)


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_scan, "pairwise_on_gpu", lambda device: None if device == "cpu" else _products)


def _same(mine: Candidates, theirs: Candidates) -> bool:
    lists = np.array_equal(mine.rows, theirs.rows) and np.allclose(mine.scores, theirs.scores, atol=1e-6)
    numbers = np.allclose([mine.mean, mine.deviation], [theirs.mean, theirs.deviation], atol=1e-6)
    return lists and numbers and (mine.before, mine.after) == (theirs.before, theirs.after)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.usefixtures("_gpu")
def test_a_gpu_lists_what_the_cpu_lists_with_its_scores(*, grouped: bool) -> None:
    vectors, queries = _vectors(ROWS), list(_vectors(WORTH_QUERIES, seed=1))
    starts = np.arange(0, ROWS + 1, 4) if grouped else None
    units = ROWS if starts is None else len(starts) - 1
    rng = np.random.default_rng(2)
    allowed = [None if at % 3 else rng.random(units) < 0.1 for at in range(len(queries))]
    wanted = {"depth": 50, "starts": starts, "allowed": allowed}
    segments = [FlatVectors(part) for part in np.split(vectors, [3, ROWS // 3])]
    on_gpu = DenseIndex(segments, device="auto").search(queries, **wanted)
    on_cpu = DenseIndex([FlatVectors(vectors)]).search(queries, **wanted)
    assert all(map(_same, on_gpu, on_cpu))


def test_scores_are_computed_in_blocks_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_scan, "_SCORES", 2500)
    asked: list[int] = []

    def counted(queries: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        asked.append(len(queries))
        return _products(queries, vectors)

    assert len(list(scores_on_gpu(counted, list(_vectors(5, seed=1)), _vectors(1000)))) == 5
    assert asked == [2, 2, 1]


@pytest.mark.usefixtures("_gpu")
def test_few_queries_stay_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_scan, "scores_on_gpu", None)  # which would fail if it was called
    index = DenseIndex([FlatVectors(_vectors(100))], device="auto")
    assert len(index.search(list(_vectors(WORTH_QUERIES - 1, seed=1)), depth=5)) == WORTH_QUERIES - 1


@pytest.mark.skipif(faiss.get_num_gpus() > 0, reason="there is a GPU")
def test_a_gpu_that_was_required_and_is_not_there_is_an_error(tmp_path: Path, retrieve: Program) -> None:
    assert pairwise_on_gpu("auto") is None
    with pytest.raises(Unavailable, match=r"dense.device: cuda"):
        pairwise_on_gpu("cuda")
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", TOOLS)).code == 0
    Path("config.yaml").write_text("dense: {device: cuda}\n")
    done = retrieve("query", "lungs", "--mode", "dense")
    assert done.code == 6
    assert "dense.device: auto" in done.err


@pytest.mark.skipif(faiss.get_num_gpus() == 0, reason="faiss finds no GPU")
def test_a_real_gpu_lists_what_the_cpu_lists(tmp_path: Path) -> None:
    vectors, queries = _vectors(ROWS), list(_vectors(WORTH_QUERIES, seed=1))
    write([vectors], tmp_path / "dense.faiss", rows=ROWS, dim=DIM, parameters=Parameters())
    stored = open_vectors(tmp_path / "dense.faiss", hnsw_ef_search=1)
    mine = DenseIndex([stored], device="cuda").search(queries, depth=50)
    theirs = DenseIndex([stored]).search(queries, depth=50)
    assert all(map(_same, mine, theirs))
