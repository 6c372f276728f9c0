"""The inverted file of learned sparse vectors: search against SciPy, groups, damage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from indexes.searches import shared_folder, without

from retrieve_cli.contracts import TermWeights
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.retrieval.retrievers.splade import SparseIndex, SparseWriter
from retrieve_cli.storage import pickles

VOCABULARY = 12
Row = dict[int, float]

weights = st.floats(2**-10, 8, width=32)
rows = st.dictionaries(st.integers(0, VOCABULARY - 1), weights, max_size=6)
corpora = st.lists(rows, min_size=1, max_size=12)
ties = st.lists(st.dictionaries(st.integers(0, 3), st.just(1.0), max_size=3), min_size=1, max_size=12)
queries = st.dictionaries(st.integers(0, VOCABULARY + 3), weights, max_size=6)


def sparse(row: Row) -> TermWeights:
    return TermWeights(np.array(sorted(row), np.int32), np.array([row[term] for term in sorted(row)], np.float32))


def build(folder: Path, corpus: Sequence[Row]) -> SparseIndex:
    writer = SparseWriter(unit="chunk")
    for row in corpus:
        writer.add(sparse(row))
    assert writer.write(folder / "splade.pkl") == len(corpus)
    return SparseIndex([pickles.load(folder / "splade.pkl")])


def product(corpus: Sequence[Row], query: Row) -> np.ndarray:
    """The query's score for every row, in double precision."""
    import scipy.sparse

    size = (len(corpus), VOCABULARY + 4)
    places = [(number, term) for number, row in enumerate(corpus) for term in row]
    values = [weight for row in corpus for weight in row.values()]
    matrix = scipy.sparse.csc_matrix((values, tuple(zip(*places, strict=True)) or ([], [])), size, dtype=np.float64)
    column = scipy.sparse.csc_matrix((list(query.values()), (list(query), [0] * len(query))), (size[1], 1))
    return (matrix @ column).toarray().ravel()


def every_score(index: SparseIndex, query: Row) -> np.ndarray:
    return index.score(sparse(query), np.arange(len(index)))


# -------------------------------------------------------------------------------------------------- searches


@shared_folder
@given(corpus=corpora, query=queries)
def test_a_score_is_the_inner_product_of_the_weights(corpus: list[Row], query: Row, tmp_path: Path) -> None:
    np.testing.assert_allclose(every_score(build(tmp_path, corpus), query), product(corpus, query), rtol=1e-6)


@shared_folder
@given(corpus=corpora | ties, query=queries, depth=st.integers(1, 15))
def test_a_search_lists_the_best_rows_of_the_product_with_ties_in_row_order(
    corpus: list[Row], query: Row, depth: int, tmp_path: Path
) -> None:
    index = build(tmp_path, corpus)
    scores = every_score(index, query)

    (found,) = index.search([sparse(query)], depth=depth)

    matching = np.flatnonzero(product(corpus, query))
    expected = matching[np.argsort(-scores[matching], kind="stable")][:depth]
    assert found.rows.tolist() == expected.tolist()
    np.testing.assert_allclose(found.scores, product(corpus, query)[expected], rtol=1e-6)
    assert (found.rows.dtype, found.scores.dtype) == (np.int64, np.float32)


@shared_folder
@given(corpus=corpora, query=queries, data=st.data())
def test_what_the_shared_terms_add_is_the_score(
    corpus: list[Row], query: Row, data: st.DataObject, tmp_path: Path
) -> None:
    index = build(tmp_path, corpus)
    row = data.draw(st.integers(0, len(corpus) - 1))

    shared = index.shared(sparse(query), row)

    assert shared.terms.tolist() == sorted(corpus[row].keys() & query.keys())
    assert shared.weights.sum() == pytest.approx(every_score(index, query)[row], rel=1e-5)


# ---------------------------------------------------------------------------------------------------- edges


@pytest.mark.parametrize("query", [{}, {7: 1.0}, {10**6: 1.0}], ids=["no term", "no row has it", "no such term"])
def test_a_query_without_a_term_in_common_finds_nothing(query: Row, tmp_path: Path) -> None:
    index = build(tmp_path, [{1: 0.5}, {9: 0.25}])

    (found,) = index.search([sparse(query)], depth=5)

    assert (len(found.rows), found.mean, found.deviation) == (0, 0, 0)
    assert every_score(index, query).tolist() == [0, 0]
    assert len(index.shared(sparse(query), 0).terms) == 0


def test_rows_without_a_term_are_kept_and_never_found(tmp_path: Path) -> None:
    index = build(tmp_path, [{}, {4: 2.0}, {}])

    (found,) = index.search([sparse({4: 3.0})], depth=5)

    assert len(index) == 3
    assert (found.rows.tolist(), found.scores.tolist()) == ([1], [6.0])


@pytest.mark.parametrize("part", ["unit", "length", "starts", "rows", "impacts"])
def test_a_file_without_one_of_its_parts_is_refused(part: str, tmp_path: Path) -> None:
    build(tmp_path, [{1: 1.0}])

    with pytest.raises(IndexCorrupt, match="incomplete"):
        SparseIndex([without(part, tmp_path / "splade.pkl")])


DAMAGE: dict[str, Any] = {
    "rows cut short": lambda stored: {"rows": stored["rows"][:-1]},
    "impacts cut short": lambda stored: {"impacts": stored["impacts"][:-1]},
    "starts cut short": lambda stored: {"starts": stored["starts"][:-1]},
    "starts that go back": lambda stored: {"starts": stored["starts"] - np.array([0, 0, 9, 0])},
    "starts that begin late": lambda stored: {"starts": np.maximum(stored["starts"], 1)},
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_arrays_that_do_not_fit_each_other_are_refused(damage: Any, tmp_path: Path) -> None:
    build(tmp_path, [{0: 1.0, 2: 1.0}, {2: 0.5}])
    stored = dict(pickles.load(tmp_path / "splade.pkl"))

    with pytest.raises(IndexCorrupt, match="fit"):
        SparseIndex([{**stored, **damage(stored)}])


def test_a_row_that_is_not_there_is_damage_that_the_search_reports(tmp_path: Path) -> None:
    build(tmp_path, [{0: 1.0}, {0: 1.0}])
    index = SparseIndex([{**pickles.load(tmp_path / "splade.pkl"), "length": 1}])

    with pytest.raises(IndexCorrupt, match="missing row"):
        index.search([sparse({0: 1.0})], depth=5)
