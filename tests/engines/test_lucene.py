"""Lucene's lists of candidates are long and close enough: rescored exactly, the best ten are those of local files."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from engines.opensearch_lucene import LuceneLists, LuceneRow, lucene_jar, lucene_lists
from samples import collection

from retrieve_cli.contracts import Field
from retrieve_cli.engines.opensearch.collections import _ROUNDED
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.impacts import Bm25Index, Bm25Writer, Formula

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Vectors


_FORMULA = Formula("lucene", 1.2, 0.75)
_LENGTH = 200


class Compared(NamedTuple):
    """Lists of Lucene and the scores of local files."""

    index: Bm25Index
    asked: Sequence[str]
    lists: Sequence[LuceneLists]

    def same(self, lists: Sequence[tuple["Rows", "Vectors"]]) -> float:
        """Share of the queries whose best ten, after exact rescoring of a list, are those of the local index."""
        equal = []
        for query, (rows, _) in zip(self.asked, lists, strict=True):
            scores = self.index._scores(query)[rows]
            (wanted,) = self.index.search([query], depth=10)
            equal.append(rows[np.lexsort((rows, -scores))[:10]].tolist() == wanted.rows.tolist())
        return float(np.mean(equal))


def generated() -> tuple[list[str], list[str]]:
    """Texts of words of which few are frequent, and 1,000 queries."""
    random = np.random.default_rng(7)
    texts = [" ".join(f"w{word}x" for word in random.zipf(1.2, random.integers(20, 200)) % 20_000) for _ in range(5000)]
    queries = []
    while len(queries) < 1000:
        words = texts[random.integers(0, len(texts))].split()
        queries.append(" ".join(random.choice(words, random.integers(2, 9))))
    return texts, queries


def stored(name: str) -> tuple[list[str], list[str]]:
    """A collection that lies beside the repository."""
    folder = collection(name)
    lines = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
    queries = [json.loads(line)["text"] for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    return [f"{line['title']} {line['text']}" for line in lines], queries[:1000]


@pytest.fixture(scope="module", params=["generated", "scifact", "cranfield"])
def compared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    lucene_jar()
    texts, queries = generated() if request.param == "generated" else stored(request.param)
    writer = Bm25Writer(analyzer=TextAnalyzer(), unit="record", formula=_FORMULA)
    for text in texts:
        writer.add([Field("text", text)])
    columns = writer.stored()
    index = Bm25Index(columns)
    asked, terms = [], []
    for query in queries:
        known = index.weights_of(query)
        if len(known.terms):
            asked.append(query)
            terms.append((known.terms.astype(np.int64), known.weights))
    folder = tmp_path_factory.mktemp("lucene")
    lists = lucene_lists(folder, rows_of(columns, len(texts)), terms, k1=1.2, b=0.75, length=_LENGTH)
    return Compared(index, asked, lists)


def rows_of(columns: dict[str, "Rows"], count: int) -> list[LuceneRow]:
    """Return postings by row."""
    terms = np.repeat(np.arange(len(columns["starts"]) - 1), np.diff(columns["starts"]))
    order = np.lexsort((terms, columns["rows"]))
    ends = np.cumsum(np.bincount(columns["rows"], minlength=count))[:-1]
    split = [
        np.split(array[order], ends)
        for array in (terms, columns["impacts"], np.asarray(columns["frequencies"]).astype(np.int64))
    ]
    return [LuceneRow(*each) for each in zip(*split, strict=True)]


@pytest.mark.parametrize("scored_by", ["features", "words"])
def test_lists_of_lucene_are_candidates_for_the_same_ten(compared: Compared, scored_by: str) -> None:
    """By words, Lucene keeps the length of a text in one byte, so that its scores are close to ours, not the same."""
    assert compared.same([getattr(lists, scored_by) for lists in compared.lists]) >= 0.995


def test_a_rank_feature_loses_at_most_the_eighth_bit_of_a_weight(compared: Compared) -> None:
    for query, lists in zip(compared.asked, compared.lists, strict=True):
        rows, scores = lists.features
        exact = compared.index._scores(query)[rows]
        assert (scores <= exact * (1 + 1e-5)).all()
        assert (exact <= scores * _ROUNDED * (1 + 1e-5)).all()
