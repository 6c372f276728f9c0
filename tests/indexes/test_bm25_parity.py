"""BM25 held to rank_bm25 and bm25s: the same scores for the same tokens, on random corpora and on real text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from profiles import examples
from rank_bm25 import BM25Okapi
from samples import collection

from retrieve_cli.contracts import Field
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.bm25_formula import Formula, Variant, idf
from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer

TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
VARIANTS: list[Variant] = ["okapi", "lucene", "robertson", "atire"]
"""The first by rank_bm25, the others by bm25s."""

words = st.sampled_from("ct lung liver scan mask slice 3d voxel".split())
documents = st.lists(st.lists(words, max_size=12), min_size=1, max_size=12).filter(any)
queries = st.lists(words, max_size=6)
formulas = {"k1": st.floats(0.1, 3), "b": st.floats(0, 0.99)}
"""At b = 1 rank_bm25 divides zero by zero in a row without a word."""


def ours(corpus: Sequence[Sequence[str]], formula: Formula) -> Callable[[Sequence[str]], Any]:
    """Query tokens to (n,) scores, of tokens that are taken as they are."""
    writer = Bm25Writer(analyzer=TextAnalyzer(stemming="none", stop_words="none"), unit="record")
    for tokens in corpus:
        writer.add([Field("text", " ".join(tokens))])
    index = Bm25Index([writer.stored()], formula=formula)
    return lambda query: index.score(" ".join(query), np.arange(len(corpus)))


def theirs(corpus: Sequence[Sequence[str]], formula: Formula) -> Callable[[Sequence[str]], Any]:
    """Query tokens to (n,) scores, by the package that has the formula."""
    if formula.variant == "okapi":
        return BM25Okapi(corpus, k1=formula.k1, b=formula.b).get_scores
    engine = bm25s.BM25(method=formula.variant, k1=formula.k1, b=formula.b, backend="numpy", csc_backend="numpy")
    engine.index([list(tokens) for tokens in corpus], show_progress=False)

    def score(query: Sequence[str]) -> Any:
        """bm25s counts each place of the query, and refuses a query of nothing but unknown words."""
        known = [token for token in query if token in engine.vocab_dict]
        return engine.get_scores(known) if known else np.zeros(len(corpus))

    return score


@lru_cache(maxsize=1)
def scifact() -> tuple[list[list[str]], list[list[str]]]:
    """Terms of the first 400 abstracts and of the first 40 questions."""
    analyzer, folder = TextAnalyzer(), collection("scifact")

    def read(name: str, count: int) -> list[dict[str, str]]:
        with (folder / name).open(encoding="utf-8") as lines:
            return [json.loads(line) for _, line in zip(range(count), lines, strict=False)]

    corpus = [analyzer.terms(f"{row.get('title', '')} {row['text']}") for row in read("corpus.jsonl", 400)]
    return corpus, [analyzer.terms(row["text"]) for row in read("queries.jsonl", 40)]


def as_tokens(corpus: list[list[str]]) -> list[list[str]]:
    """The same texts in words that no analyzer takes apart: compounds would be split a second time."""
    names: dict[str, str] = {}
    return [[names.setdefault(term, f"w{len(names)}") for term in terms] for terms in corpus]


# --------------------------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=examples(2))
@given(corpus=documents, query=queries, **formulas)
def test_scores_equal_those_of_the_package(variant: Variant, corpus: Any, query: Any, k1: float, b: float) -> None:
    formula = Formula(variant, k1, b)

    np.testing.assert_allclose(ours(corpus, formula)(query), theirs(corpus, formula)(query), **TOLERANCE)


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_equal_those_of_the_package_on_real_text(variant: Variant) -> None:
    corpus, asked = scifact()
    tokens = as_tokens(corpus + asked)
    corpus, asked = tokens[: len(corpus)], tokens[len(corpus) :]
    formula = Formula(variant, 1.5 if variant == "okapi" else 1.2, 0.75)
    score, expected = ours(corpus, formula), theirs(corpus, formula)

    for query in asked:
        np.testing.assert_allclose(score(query), expected(query), **TOLERANCE)


# ------------------------------------------------------------------------------------------------- formulas


@pytest.mark.parametrize("variant", ["lucene", "atire"])
@given(documents=st.integers(1, 10_000), data=st.data())
def test_the_idf_of_lucene_and_atire_is_never_negative_and_falls_with_the_frequency(
    variant: Variant, documents: int, data: st.DataObject
) -> None:
    frequencies = np.array(sorted(data.draw(st.sets(st.integers(1, documents), min_size=1))), np.float64)

    weights = idf(variant, documents, frequencies)

    assert (weights >= 0).all()
    assert (np.diff(weights) < 0).all()
