"""Mean and deviation of scores from stored statistics are those of a pass over all rows, exactly or nearly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from retrieve_cli.contracts import TermWeights
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage import pickles, postings, term_statistics as of_terms
from retrieve_cli.storage.bitmap import sampled_groups
from retrieve_cli.storage.postings import PostingTable
from retrieve_cli.storage.term_statistics import SAMPLE_ROWS, TermStatistics, posting_statistics
from retrieve_cli.storage.vector_statistics import VectorStatistics, vector_statistics

ROWS, DIM = 6000, 24
KERNELS = ["Haswell", "Zen", "Prescott"]


def starts_of(rows: int = ROWS, *, most: int = 6, seed: int = 0) -> Any:
    """Return groups of 1 to `most` rows."""
    ends = np.cumsum(np.random.default_rng(seed).integers(1, most + 1, rows))
    return np.concatenate([[0], ends[ends < rows], [rows]])


def vectors_of(rows: int = ROWS, *, dim: int = DIM, seed: int = 0) -> Any:
    """Return (rows, dim) float32 around a few centres, with a mean that is not 0."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((9, dim))[np.sort(generator.integers(0, 9, rows))]
    return (0.2 + centres + generator.standard_normal((rows, dim))).astype(np.float32)


def weights_of(rows: int = 3000, *, vocabulary: int = 400, seed: int = 0, low: float = 0.1) -> list[TermWeights]:
    """Return rows in which neighbouring terms occur together, the first ones more often; every 50th row is empty."""
    generator, made = np.random.default_rng(seed), []
    for row in range(rows):
        first = (vocabulary * generator.random(6) ** 3).astype(int)
        terms = np.unique(np.concatenate([first, np.minimum(first + 1, vocabulary - 1)]))[
            : 0 if row % 50 == 0 else None
        ]
        made.append(TermWeights(terms.astype(np.int32), generator.uniform(low, 2.0, len(terms)).astype(np.float32)))
    return made


def columns_of(rows: list[TermWeights]) -> PostingTable:
    """Return the same rows as an inverted file."""
    terms = np.concatenate([np.empty(0, np.int64), *(row.terms for row in rows)]).astype(np.int64)
    numbers = np.repeat(np.arange(len(rows)), [len(row.terms) for row in rows])
    order = np.argsort(terms, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(terms)))
    weights = np.concatenate([np.empty(0, np.float32), *(row.weights for row in rows)])[order]
    return PostingTable(starts, numbers[order].astype(np.int32), weights, len(rows))


def term_statistics(rows: list[TermWeights], *, starts: Any = None, sample: int = SAMPLE_ROWS) -> TermStatistics:
    return posting_statistics(columns_of(rows), starts=starts, sample=sample)


def scores_of(query: TermWeights, rows: list[TermWeights]) -> Any:
    asked = dict(zip(query.terms.tolist(), query.weights.tolist(), strict=True))
    pairs = [zip(row.terms.tolist(), row.weights.tolist(), strict=True) for row in rows]
    return np.array([sum(asked.get(term, 0.0) * weight for term, weight in row) for row in pairs])


def query_of(*terms: int) -> TermWeights:
    return TermWeights(np.array(terms, np.int32), np.linspace(1.0, 2.0, len(terms)).astype(np.float32))


def best_of(scores: Any, starts: Any) -> Any:
    """Return the best score of each group, or without groups all."""
    return scores if starts is None else np.maximum.reduceat(scores, starts[:-1])


def bytes_of(made: VectorStatistics | TermStatistics) -> dict[str, Any]:
    return {name: np.asarray(value).tobytes() for name, value in made.to_arrays().items()}


# -------------------------------------------------------------------------------------------------- vectors


@settings(max_examples=30)
@given(seed=st.integers(0, 999), rows=st.sampled_from([1, 2, 40, 5000]), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_mean_and_deviation_over_all_vectors_are_exact(seed: int, rows: int, scale: float) -> None:
    vectors = vectors_of(rows, seed=seed) * np.float32(scale)
    query = np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)
    scores = vectors.astype(np.float64) @ query

    mean, deviation = vector_statistics([vectors], dim=DIM, length=rows).spread(query, grouped=False)

    length = float(np.linalg.norm(vectors, axis=1).max() * np.linalg.norm(query))
    assert mean == pytest.approx(scores.mean(), abs=2e-6 * length)
    assert deviation == pytest.approx(scores.std(), rel=1e-4, abs=2e-6 * length)


def test_the_best_vectors_of_groups_are_nearly_exact_if_all_are_sampled() -> None:
    vectors, starts = vectors_of(), starts_of()
    made = vector_statistics([vectors], dim=DIM, length=ROWS, starts=starts)

    for query in vectors[::500]:
        scores = best_of(vectors.astype(np.float64) @ query, starts)
        mean, deviation = made.spread(query, grouped=True)
        assert mean == pytest.approx(scores.mean(), abs=0.002 * scores.std())
        assert deviation == pytest.approx(scores.std(), rel=0.002)


def test_moments_of_group_means_correct_most_of_the_error_of_a_small_sample() -> None:
    starts, generator = starts_of(), np.random.default_rng(0)
    centres = np.repeat(generator.standard_normal((len(starts) - 1, DIM)), np.diff(starts), axis=0)
    vectors = (centres + 0.4 * generator.standard_normal((ROWS, DIM))).astype(np.float32)
    small = vector_statistics([vectors], dim=DIM, length=ROWS, starts=starts, sample=200)
    chosen = sampled_groups(starts, 200)
    corrected, plain = [], []
    for query in vectors[::100]:
        exact = best_of(vectors @ query, starts).std()
        corrected.append(small.spread(query, grouped=True)[1] / exact - 1)
        plain.append(best_of(vectors[chosen.rows] @ query, chosen.begins).std() / exact - 1)

    assert np.square(corrected).mean() < 0.5 * np.square(plain).mean()
    assert np.sqrt(np.square(corrected).mean()) < 0.1


def test_the_sizes_of_blocks_do_not_change_the_bytes() -> None:
    vectors, starts = vectors_of(), starts_of(most=900)

    whole = vector_statistics([vectors], dim=DIM, length=ROWS, starts=starts)
    pieces = (vectors[start : start + 7] for start in range(0, ROWS, 7))

    assert bytes_of(vector_statistics(pieces, dim=DIM, length=ROWS, starts=starts)) == bytes_of(whole)


def test_groups_of_one_row_are_rows() -> None:
    vectors = vectors_of(50)
    made = vector_statistics([vectors], dim=DIM, length=50, starts=np.arange(51))
    assert made.spread(vectors[0], grouped=True) == made.spread(vectors[0], grouped=False)


@pytest.mark.parametrize("grouped", [False, True])
def test_long_vectors_have_a_sample_instead_of_moments(grouped: bool) -> None:
    vectors, starts = vectors_of(3000, dim=1030), starts_of(3000)
    made = vector_statistics([vectors], dim=1030, length=3000, starts=starts)
    scores = best_of(vectors.astype(np.float64) @ vectors[7], starts if grouped else None)

    mean, deviation = made.spread(vectors[7], grouped=grouped)

    assert mean == pytest.approx(scores.mean(), abs=0.1 * scores.std())
    assert deviation == pytest.approx(scores.std(), rel=0.1)
    assert sum(np.asarray(value).nbytes for value in made.to_arrays().values()) < 5 << 20


# ---------------------------------------------------------------------------------------------------- terms


@pytest.mark.parametrize("grouped", [False, True])
@settings(max_examples=20)
@given(seed=st.integers(0, 99), terms=st.sets(st.integers(0, 399), min_size=1, max_size=8))
def test_scores_of_terms_are_exact_if_all_rows_are_sampled(grouped: bool, seed: int, terms: set[int]) -> None:
    rows, starts, query = weights_of(600, seed=seed), starts_of(600, seed=seed), query_of(*sorted(terms))
    scores = best_of(scores_of(query, rows), starts if grouped else None)

    mean, deviation = term_statistics(rows, starts=starts).spread(query, grouped=grouped)

    assert mean == pytest.approx(scores.mean(), rel=1e-5, abs=1e-9)
    assert deviation == pytest.approx(scores.std(), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("low", [0.1, -2.0], ids=["above 0", "also below 0"])
def test_one_term_is_exact_whatever_is_sampled(grouped: bool, low: float) -> None:
    rows, starts = weights_of(low=low), starts_of(3000)
    made = term_statistics(rows, starts=starts, sample=10)
    for term in (0, 5, 200, 399):
        scores = best_of(scores_of(query_of(term), rows), starts if grouped else None)
        expected = scores.mean(), scores.std()
        assert made.spread(query_of(term), grouped=grouped) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_the_sample_corrects_for_terms_that_occur_together() -> None:
    rows = weights_of()
    made = term_statistics(rows, sample=600)
    for first in (0, 10, 40):
        query = TermWeights(np.array([first, first + 1], np.int32), np.ones(2, np.float32))
        parts = [made.spread(query_of(term), grouped=False)[1] for term in query.terms.tolist()]
        exact = scores_of(query, rows).std()
        mean, deviation = made.spread(query, grouped=False)
        assert np.hypot(*parts) < 0.95 * exact, "as if they were independent"
        assert deviation == pytest.approx(exact, rel=0.08)
        assert mean == pytest.approx(scores_of(query, rows).mean(), rel=1e-5)


@pytest.mark.parametrize("block", [1, 500, 1 << 20])
def test_blocks_of_any_size_give_the_same_bytes(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    rows, starts = weights_of(), starts_of(3000)
    expected = bytes_of(term_statistics(rows, starts=starts))
    monkeypatch.setattr(postings, "_BLOCK", block)
    assert bytes_of(term_statistics(rows, starts=starts)) == expected


def test_terms_that_no_row_has_change_nothing() -> None:
    made = term_statistics(weights_of())
    with_others = TermWeights(np.array([3, 8, 5000], np.int32), np.array([1, 2, 9], np.float32))
    assert made.spread(with_others, grouped=False) == made.spread(query_of(3, 8), grouped=False)
    assert made.spread(query_of(5000, 6000), grouped=False) == (0.0, 0.0)


def test_the_number_of_stored_terms_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = weights_of()
    frequent = term_statistics(rows).spread(query_of(0), grouped=False)
    monkeypatch.setattr(of_terms, "_MOST_TERMS", 100)
    made = term_statistics(rows)

    rare = made.spread(query_of(399), grouped=False)

    assert len(made.to_arrays()["terms"]) == 100
    assert made.spread(query_of(0), grouped=False) == frequent
    assert rare == made.spread(query_of(398), grouped=False), "the average of those that are not stored"
    assert 0 < rare[1] < frequent[1]


# --------------------------------------------------------------------------------------------------- common


def test_an_empty_index_has_mean_and_deviation_0() -> None:
    none = np.empty((0, DIM), np.float32)
    for grouped in (False, True):
        assert vector_statistics([none], dim=DIM, length=0).spread(np.ones(DIM, np.float32), grouped=grouped) == (0, 0)
        assert term_statistics([]).spread(query_of(1, 2), grouped=grouped) == (0.0, 0.0)


@pytest.mark.parametrize("rows", [99, 101])
def test_another_number_of_rows_than_promised_is_an_error(rows: int) -> None:
    with pytest.raises(ValueError, match=f"{rows} rows instead of 100"):
        vector_statistics([vectors_of(rows)], dim=DIM, length=100)


@pytest.mark.parametrize("starts", [None, starts_of()], ids=["rows", "groups"])
def test_stored_statistics_answer_with_the_same_bits(tmp_path: Path, starts: Any) -> None:
    vectors = vectors_of()
    made = vector_statistics([vectors], dim=DIM, length=ROWS, starts=starts)
    rows = weights_of(ROWS)
    terms = term_statistics(rows, starts=starts)
    pickles.dump([made.to_arrays(), terms.to_arrays()], tmp_path / "statistics.pkl")

    first, second = pickles.load(tmp_path / "statistics.pkl")

    for grouped in (False, True):
        stored = VectorStatistics.of_arrays(first).spread(vectors[3], grouped=grouped)
        assert stored == made.spread(vectors[3], grouped=grouped)
        stored = TermStatistics.of_arrays(second).spread(query_of(1, 2, 9), grouped=grouped)
        assert stored == terms.spread(query_of(1, 2, 9), grouped=grouped)


def test_damaged_statistics_are_rejected() -> None:
    vectors = vector_statistics([vectors_of()], dim=DIM, length=ROWS, starts=starts_of()).to_arrays()
    terms = term_statistics(weights_of(), starts=starts_of(3000)).to_arrays()
    for opened, stored in ((VectorStatistics.of_arrays, vectors), (TermStatistics.of_arrays, terms)):
        arrays = [name for name, value in stored.items() if isinstance(value, np.ndarray)]
        for name in arrays:
            with pytest.raises(IndexCorrupt):
                opened({**stored, name: stored[name][:-1]})
        with pytest.raises(IndexCorrupt):
            opened({**stored, "kind": "other"})


@given(sizes=st.lists(st.integers(1, 200), min_size=1, max_size=60), most=st.integers(1, 300))
def test_a_sample_has_whole_small_groups_and_few_rows(sizes: list[int], most: int) -> None:
    starts = np.append(0, np.cumsum(sizes))

    chosen = sampled_groups(starts, most)

    owners = np.searchsorted(starts, chosen.rows, side="right") - 1
    assert (np.diff(chosen.rows) > 0).all()
    assert len(chosen.rows) <= max(most, 64)
    assert len(np.unique(owners)) == len(chosen.begins) - 1
    for begin, end in zip(chosen.begins[:-1], chosen.begins[1:], strict=True):
        assert len(set(owners[begin:end].tolist())) == 1
        assert end - begin == min(sizes[owners[begin]], 64)


PROGRAM = """
import hashlib, json, sys
import numpy as np
from test_score_statistics import ROWS, DIM, bytes_of, query_of, starts_of, term_statistics, vectors_of, weights_of
from retrieve_cli.storage.vector_statistics import vector_statistics
vectors = np.round(vectors_of() * 256).astype(np.float32) / np.float32(300)
rows = weights_of(2000)
made = vector_statistics([vectors], dim=DIM, length=ROWS, starts=starts_of())
terms = term_statistics(rows, starts=starts_of(2000))
spreads = [made.spread(vectors[4], grouped=g) + terms.spread(query_of(1, 2, 30), grouped=g) for g in (False, True)]
stored = [[name, hashlib.sha1(data).hexdigest()] for each in (made, terms) for name, data in bytes_of(each).items()]
print(json.dumps([[number.hex() for each in spreads for number in each], stored]))
"""


def test_statistics_have_the_same_bits_on_every_processor() -> None:
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[attr-defined]

    known = " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))
    environments = [{}, *({"OPENBLAS_CORETYPE": kernel} for kernel in KERNELS), {"NPY_DISABLE_CPU_FEATURES": known}]
    printed = []
    for environment in environments:
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path, **environment}
        )
        assert done.returncode == 0, done.stderr
        printed.append(json.loads(done.stdout))
    assert all(each == printed[0] for each in printed)
