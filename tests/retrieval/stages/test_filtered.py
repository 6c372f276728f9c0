"""A filter of records, from the query to the retrievers: what comes back is what all would give, less the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from retrieval.stages.retrievers import UNITS, make_layout, make_retriever, table_for, words_index, words_retriever

from retrieve_cli.contracts import Hit, Query, Ranking, Unit
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Fusion
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout, IndexRetrieval, Retrieve

ZSCORE = Fusion("weighted", "zscore", weights={"words": 0.7, "dense": 1.3, "names": 0.4})
WORDS = "ct lung liver scan".split()

layouts = st.lists(st.integers(1, 4), min_size=1, max_size=8).map(make_layout)
units = st.sampled_from(UNITS)


def rows_of(layout: ChunkLayout, unit: Unit) -> int:
    return len(layout.starts) - 1 if unit == "record" else int(layout.starts[-1])


def mask_for(data: st.DataObject, layout: ChunkLayout) -> Any:
    return data.draw(hnp.arrays(np.bool_, len(layout.starts) - 1))


def retrievers_for(data: st.DataObject, layout: ChunkLayout, unit: Unit) -> list[IndexRetrieval[Any]]:
    """Words, vectors of chunks and vectors of records, asked for all they have."""
    dense = make_retriever("dense", table_for(data, int(layout.starts[-1])), layout=layout, unit=unit)
    table = table_for(data, len(layout.starts) - 1)
    names = make_retriever("names", table, layout=layout, unit=unit, index_unit="record")
    words_unit = data.draw(units)
    of_words = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
    texts = [data.draw(of_words) for _ in range(rows_of(layout, words_unit))]
    index = words_index(texts, words_unit)
    words = IndexRetrieval("words", index, lambda texts: ["ct lung"] * len(texts), layout, unit, 1000)
    return [words, dense, names]


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-9, abs=1e-9)


# ------------------------------------------------------------------------------------------------ all stages


@pytest.mark.parametrize("unit", UNITS)
@given(layout=layouts, data=st.data())
def test_a_filtered_fusion_is_the_fusion_of_everything_less_what_is_filtered_out(
    unit: Unit, layout: ChunkLayout, data: st.DataObject
) -> None:
    stage = Fuse(tuple(retrievers_for(data, layout, unit)), fusion=ZSCORE, keep=1000)
    mask = mask_for(data, layout)

    filtered, whole = stage([Ranking(Query("0", records=mask)), Ranking(Query("0"))])

    kept = [hit for hit in whole.hits if mask[hit.record]]
    expected = {hit.id: hit for hit in kept}
    assert {hit.id for hit in filtered.hits} == set(expected)
    assert [hit.score for hit in filtered.hits] == close([hit.score for hit in kept])
    for hit in filtered.hits:
        same = expected[hit.id]
        assert (hit.row, hit.record, hit.score) == (same.row, same.record, close(same.score))
        for why, before in zip(hit.evidence, same.evidence, strict=True):
            assert (why.source, why.score, why.weight) == (before.source, before.score, before.weight)
            assert why.normalized == close(before.normalized)
            assert why.rank == rank_among(kept, before.source, before.rank)


def rank_among(hits: Sequence[Hit], retriever: str, rank: int | None) -> int | None:
    """The place of a rank of a retriever's list among those that these hits have."""
    ranks = [why.rank for hit in hits for why in hit.evidence if why.source == retriever and why.rank is not None]
    return None if rank is None else sorted(ranks).index(rank) + 1


def test_what_is_allowed_is_found_however_much_else_is_better() -> None:
    texts = ["lung"] * 50 + ["lung and much else besides it", "liver"]
    mask = np.arange(52) >= 50
    words = words_retriever(texts, depth=3)

    for stage in (Retrieve(words, keep=3), Fuse((words,), fusion=Fusion(), keep=3)):
        (ranking,) = stage([Ranking(Query("lung", records=mask))])
        assert [hit.row for hit in ranking.hits] == [50]
        assert ranking.hits[0].evidence[0].rank == 1


def test_a_filter_tells_by_retriever_how_many_candidates_it_left() -> None:
    words = words_retriever(["lung", "lung", "liver", "lung"])
    table = make_retriever("dense", [[1, 2, 3, 4]], layout=words.layout)
    axis = table.prepare(["0"])
    dense = IndexRetrieval("dense", table.index, lambda texts: axis * len(texts), words.layout, "chunk", 1)
    query = Query("lung", records=np.array([True, False, True, True]), narrowed=True)
    ranking = Ranking(query, trace={"rewritten": "lungs"})
    of_words = {"candidates_before_filter": 3, "candidates_after_filter": 2}
    of_dense = {"candidates_before_filter": 4, "candidates_after_filter": 3}

    (alone,) = Retrieve(words, keep=1)([ranking])
    (fused,) = Fuse((words, dense), fusion=Fusion(), keep=1)([ranking])

    assert alone.trace == {"rewritten": "lungs", "filter": {"bm25": of_words}}
    assert fused.trace == {"rewritten": "lungs", "filter": {"bm25": of_words, "dense": of_dense}}
