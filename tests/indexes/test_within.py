"""An index over some rows alone: its numbers are those of an index that has no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from indexes.searches import shared_folder, unit_vectors

from retrieve_cli.contracts import Field, Restrictable, TermWeights, TokenVectors
from retrieve_cli.retrieval.retrievers import vector_index as dense
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.bm25 import RankBm25Index, RankBm25Writer
from retrieve_cli.retrieval.retrievers.impacts import Bm25Index, Bm25Writer, Formula
from retrieve_cli.retrieval.retrievers.splade import SparseIndex, SparseWriter
from retrieve_cli.retrieval.retrievers.vector_index import FlatIndex, Parameters
from retrieve_cli.storage import pickles, token_table
from retrieve_cli.storage.bitmap import POPULATION_ROWS
from retrieve_cli.storage.token_table import PackedTokens, Stretch, TokenTable

WORDS = "ct lung liver scan mask".split()
Make = Callable[[Path, Sequence[Sequence[int]]], Any]
"""From rows, each a few numbers, to an index of them."""


def bm25(variant: Any) -> Make:
    def make(folder: Path, rows: Sequence[Sequence[int]]) -> Bm25Index:
        formula = Formula(variant)
        writer = Bm25Writer(analyzer=TextAnalyzer(), unit="chunk", formula=formula)
        for row in rows:
            writer.add([Field("text", " ".join(WORDS[number] for number in row))])
        writer.write(folder / "bm25.pkl")
        return Bm25Index(pickles.load(folder / "bm25.pkl"), formula=formula)

    return make


def rank_bm25(folder: Path, rows: Sequence[Sequence[int]]) -> RankBm25Index:
    writer = RankBm25Writer(analyzer=TextAnalyzer(), unit="chunk", k1=1.5, b=0.75)
    for row in rows:
        writer.add([Field("text", " ".join(WORDS[number] for number in row))])
    writer.write(folder / "bm25.pkl")
    return RankBm25Index(pickles.load(folder / "bm25.pkl"))


def sparse(folder: Path, rows: Sequence[Sequence[int]]) -> SparseIndex:
    writer = SparseWriter(unit="chunk")
    for row in rows:
        terms = np.unique(np.array(row, np.int32))
        writer.add(TermWeights(terms, (1 + terms).astype(np.float32) / 3))
    writer.write(folder / "splade.pkl")
    return SparseIndex(pickles.load(folder / "splade.pkl"))


def vectors(rows: Sequence[Sequence[int]]) -> Any:
    made = np.zeros((len(rows), 7), np.float32)
    for vector, row in zip(made, rows, strict=True):
        np.add.at(vector, np.array(row, np.int64), np.float32(1 / 3))
    return made


def flat(folder: Path, rows: Sequence[Sequence[int]]) -> Any:
    return FlatIndex(vectors(rows))


def filed(parameters: Parameters) -> Make:
    def make(folder: Path, rows: Sequence[Sequence[int]]) -> Any:
        path = folder / "dense.faiss"
        dense.write([vectors(rows)], path, rows=len(rows), dim=7, parameters=parameters)
        codes = path.with_name("dense_sq8.faiss")
        return dense.open_index(path, hnsw_ef_search=64, codes=codes if codes.exists() else None)

    return make


MAKERS: dict[str, Make] = {
    **{variant: bm25(variant) for variant in ("lucene", "robertson", "atire", "okapi")},
    "rank_bm25": rank_bm25,
    "sparse": sparse,
    "flat": flat,
    "hnsw": filed(Parameters("hnsw", hnsw_m=8, hnsw_ef_construction=40)),
}
QUERIES: dict[str, Any] = {
    "sparse": TermWeights(np.array([1, 3], np.int32), np.array([0.7, 0.4], np.float32)),
    **dict.fromkeys(("flat", "hnsw"), np.array([0.3, 0.1, 0.7, 0.2, 0.4, 0, 0], np.float32)),
}
rows = st.lists(st.lists(st.integers(0, len(WORDS) - 1), max_size=6), min_size=1, max_size=12)


@pytest.mark.parametrize("kind", MAKERS)
@shared_folder
@given(given_rows=rows, data=st.data())
def test_an_index_over_some_rows_answers_as_one_that_has_no_others(
    kind: str, given_rows: list[list[int]], data: st.DataObject, tmp_path: Path
) -> None:
    own = np.array(data.draw(st.lists(st.booleans(), min_size=len(given_rows), max_size=len(given_rows))), np.bool_)
    places = np.flatnonzero(own)
    if not len(places):
        return
    query = QUERIES.get(kind, "liver scan ct ct")
    for name in ("all", "own"):
        (tmp_path / name).mkdir(exist_ok=True)
    index = MAKERS[kind](tmp_path / "all", given_rows)
    assert isinstance(index, Restrictable)
    (found,) = index.within(own).search([query], depth=20, allowed=[own], visible=[own])
    alone = MAKERS[kind](tmp_path / "own", [given_rows[place] for place in places])
    everything = np.ones(len(places), np.bool_)
    (wanted,) = alone.within(everything).search([query], depth=20, allowed=[everything], visible=[everything])
    assert found.rows.tolist() == places[wanted.rows].tolist()
    assert found.scores.tobytes() == wanted.scores.tobytes()
    counted = (found.mean, found.deviation, found.before, found.after)
    assert counted == (wanted.mean, wanted.deviation, wanted.before, wanted.after)
    asked = alone.within(everything).score(query, np.arange(len(places)))
    assert index.within(own).score(query, places).tobytes() == asked.tobytes()
    (plain,) = alone.search([query], depth=20)  # what an index computes without anybody to hide
    assert plain.scores.tolist() == pytest.approx(wanted.scores.tolist(), rel=1e-6)
    assert (plain.mean, plain.deviation) == pytest.approx((wanted.mean, wanted.deviation), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("grouped", [False, True])
def test_mean_and_deviation_of_many_rows_do_not_depend_on_the_others(grouped: bool) -> None:
    own = unit_vectors(3 * POPULATION_ROWS, 4)
    query, groups = unit_vectors(1, 4, seed=5)[0], np.arange(0, len(own) + 1, 3)
    found = []
    for others in (0, 30, 3000):
        every = np.concatenate([unit_vectors(others, 4, seed=1), own, unit_vectors(others, 4, seed=2)])
        starts = np.concatenate([np.arange(others), others + groups, others + len(own) + 1 + np.arange(others)])
        mask = np.zeros(len(every), np.bool_)
        mask[others : others + len(own)] = True
        options = {"starts": starts, "allowed": [mask[starts[:-1]]]} if grouped else {"allowed": [mask]}
        (answer,) = FlatIndex(every).within(mask).search([query], depth=5, **options)
        found.append((answer.mean, answer.deviation, answer.scores.tobytes()))
    assert len(set(found)) == 1
    scores = (own @ query).astype(np.float64)
    scores = np.maximum.reduceat(scores, groups[:-1]) if grouped else scores
    assert abs(found[0][0] - scores.mean()) < 0.05 * scores.std()
    assert found[0][1] == pytest.approx(scores.std(), rel=0.05)


def test_weights_of_tokens_do_not_depend_on_the_chunks_of_others(tmp_path: Path) -> None:
    texts = [[1, 2, 2], [3], [2, 9], [], [1, 4, 9, 9]]
    own = np.array([True, False, True, True, False])

    def table(name: str, chunks: Sequence[Sequence[int]]) -> TokenTable:
        ids = np.array([number for chunk in chunks for number in chunk], np.int32)
        packed = token_table.pack(TokenVectors(ids, unit_vectors(len(ids), 8)))
        stretch = Stretch(PackedTokens(ids, packed.codes), np.array([len(chunk) for chunk in chunks]))
        token_table.write([stretch], tmp_path / name, dim=8)
        return TokenTable(pickles.load(tmp_path / name))

    asked = np.array([0, 1, 2, 3, 4, 9, 200], np.int32)
    alone = table("own", [text for text, mine in zip(texts, own, strict=True) if mine])
    assert table("all", texts).within(own).idf(asked).tobytes() == alone.idf(asked).tobytes()
