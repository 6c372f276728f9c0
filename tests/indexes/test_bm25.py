"""BM25 as an index: weighted fields, search against brute force and groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from indexes.searches import best, shared_folder, without

from retrieve_cli.contracts import Field
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.bm25_formula import Formula
from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer
from retrieve_cli.storage import pickles

words = st.sampled_from("ct lung liver scan mask voxel".split())
texts = st.lists(words, max_size=8).map(" ".join)
corpora = st.lists(texts, min_size=1, max_size=12)
queries = st.lists(words | st.just("unknown"), max_size=5).map(" ".join)
variants = st.sampled_from(["lucene", "robertson", "atire", "okapi"])


def build(folder: Path, rows: Sequence[Sequence[Field]], formula: Formula | None = None) -> Bm25Index:
    writer = Bm25Writer(analyzer=TextAnalyzer(), unit="chunk")
    for fields in rows:
        writer.add(fields)
    assert writer.write(folder / "bm25.pkl") == len(rows)
    return Bm25Index([pickles.load(folder / "bm25.pkl")], formula=formula)


def plain(corpus: Sequence[str]) -> list[list[Field]]:
    return [[Field("text", text)] for text in corpus]


def every_score(index: Any, query: str) -> np.ndarray:
    return index.score(query, np.arange(len(index)))


# --------------------------------------------------------------------------------------------------- fields


@shared_folder
@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=8), query=queries, variant=variants)
def test_a_weight_of_two_equals_writing_the_field_twice(pairs: Any, query: str, variant: Any, tmp_path: Path) -> None:
    formula = Formula(variant)
    weighted = build(tmp_path, [[Field("name", name, 2.0), Field("text", text)] for name, text in pairs], formula)
    twice = build(tmp_path, plain([f"{name} {name} {text}" for name, text in pairs]), formula)

    np.testing.assert_allclose(every_score(weighted, query), every_score(twice, query), rtol=1e-6)


# -------------------------------------------------------------------------------------------------- searches


@shared_folder
@given(corpus=corpora, query=queries, variant=variants, depth=st.integers(1, 15))
def test_a_search_equals_brute_force_over_the_scores_with_ties_in_row_order(
    corpus: list[str], query: str, variant: Any, depth: int, tmp_path: Path
) -> None:
    index = build(tmp_path, plain(corpus), Formula(variant))
    scores = every_score(index, query)

    (found,) = index.search([query], depth=depth)

    expected = best(scores, depth)
    assert found.rows.tolist() == expected.tolist()
    assert found.scores.tolist() == scores[expected].tolist()
    assert (found.rows.dtype, found.scores.dtype) == (np.int64, np.float32)


@shared_folder
@given(corpus=corpora, query=queries, times=st.integers(1, 4))
def test_a_query_term_counts_as_often_as_it_is_written(
    corpus: list[str], query: str, times: int, tmp_path: Path
) -> None:
    index = build(tmp_path, plain(corpus))
    repeated = " ".join([query] * times)

    np.testing.assert_allclose(every_score(index, repeated), times * every_score(index, query), rtol=1e-5)


# ---------------------------------------------------------------------------------------------------- edges


@pytest.mark.parametrize("query", ["", "the of", "unknown", "?!"], ids=["empty", "stop words", "unknown", "marks"])
def test_a_query_without_a_known_term_finds_nothing(query: str, tmp_path: Path) -> None:
    index = build(tmp_path, plain(["lung", "liver"]))

    (found,) = index.search([query], depth=5)

    assert (len(found.rows), found.mean, found.deviation) == (0, 0, 0)
    assert every_score(index, query).tolist() == [0, 0]


def test_rows_without_a_word_are_kept_and_never_found(tmp_path: Path) -> None:
    index = build(tmp_path, [[], [Field("text", "lung")], [Field("text", "")]])

    (found,) = index.search(["lung"], depth=5)

    assert len(index) == 3
    assert found.rows.tolist() == [1]


def test_the_index_analyses_queries_as_it_did_the_rows(tmp_path: Path) -> None:
    writer = Bm25Writer(analyzer=TextAnalyzer(stemming="none", stop_words="none"), unit="record")
    writer.add([Field("text", "the scans")])
    writer.write(tmp_path / "bm25.pkl")
    index = Bm25Index([pickles.load(tmp_path / "bm25.pkl")])

    assert index.unit == "record"
    assert [len(found.rows) for found in index.search(["scan", "scans", "the"], depth=5)] == [0, 1, 1]


@pytest.mark.parametrize(
    "part",
    ["unit", "analyzer", "length", "total", "terms", "term_ends", "starts", "rows", "codes", "pair_lengths", "lengths"],
)
def test_a_file_without_one_of_its_parts_is_refused(part: str, tmp_path: Path) -> None:
    build(tmp_path, plain(["lung"]))

    with pytest.raises(IndexCorrupt, match="incomplete"):
        Bm25Index([without(part, tmp_path / "bm25.pkl")])


@pytest.mark.parametrize("part", ["term_ends", "starts", "rows", "codes", "pair_lengths", "lengths", "languages"])
def test_arrays_that_do_not_fit_each_other_are_refused(part: str, tmp_path: Path) -> None:
    build(tmp_path, plain(["lung ct", "ct"]))
    stored = dict(pickles.load(tmp_path / "bm25.pkl"))

    with pytest.raises(IndexCorrupt, match="fit"):
        Bm25Index([{**stored, part: stored[part][:-1]}])
