"""One retriever alone, and how records and chunks meet: groups of chunks, and records spread over their chunks."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st
from retrieval.stages.retrievers import ASKED, make_layout, make_retriever, table_for

from retrieve_cli.contracts import Hit, Query, Ranking
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Fusion
from retrieve_cli.retrieval.stages.retrieve import Retrieve

sizes = st.lists(st.integers(1, 4), min_size=1, max_size=6)


@given(
    hits=st.lists(
        st.tuples(st.sampled_from(["a#0", "a#1", "b#0", "ä#0"]), st.floats(-3, 3)), unique_by=lambda hit: hit[0]
    )
)
def test_a_ranking_is_ordered_by_score_and_then_by_id(hits: list[tuple[str, float]]) -> None:
    ranking = Ranking.of(Query("q"), [Hit(name, 0, 0, score) for name, score in hits])

    keys = [(-round(hit.score, 6), hit.id) for hit in ranking.hits]
    assert keys == sorted(keys)
    assert Ranking.of(Query("q"), reversed(ranking.hits)) == ranking


@given(sizes=sizes, depth=st.integers(1, 8), data=st.data())
def test_a_chunk_index_ranks_records_by_their_best_chunk_and_shows_it(
    sizes: list[int], depth: int, data: st.DataObject
) -> None:
    layout = make_layout(sizes)
    table = table_for(data, sum(sizes))
    retriever = make_retriever("dense", table, layout=layout, unit="record", depth=depth)
    groups = np.split(table[0], layout.starts[1:-1])
    expected = sorted(((-group.max(), at, int(group.argmax())) for at, group in enumerate(groups)))[:depth]

    (ranking,) = Retrieve(retriever, keep=1000)(ASKED)

    assert [(-hit.score, hit.record, hit.row - layout.starts[hit.record]) for hit in ranking.hits] == expected


@given(sizes=sizes, depth=st.integers(1, 8), data=st.data())
def test_a_record_index_gives_each_chunk_the_score_of_its_record(
    sizes: list[int], depth: int, data: st.DataObject
) -> None:
    layout = make_layout(sizes)
    table = table_for(data, len(sizes))
    retriever = make_retriever("bm25", table, layout=layout, unit="chunk", index_unit="record", depth=depth)
    spread = np.repeat(table[0], sizes)

    (ranking,) = Retrieve(retriever, keep=1000)(ASKED)

    order = np.lexsort((np.arange(len(spread)), -spread))[:depth]
    assert [(hit.row, hit.score) for hit in ranking.hits] == [(row, spread[row]) for row in order]
    (account,) = retriever.ask([Query("0")])
    assert account.score(np.arange(len(spread))).tolist() == spread.tolist()


@given(sizes=sizes, data=st.data())
def test_a_record_retriever_and_a_chunk_retriever_fuse_at_the_level_of_records_in_either_order(
    sizes: list[int], data: st.DataObject
) -> None:
    layout = make_layout(sizes)
    words, vectors = table_for(data, len(sizes)), table_for(data, sum(sizes))
    of_records = make_retriever("bm25", words, layout=layout, unit="record", index_unit="record")
    of_chunks = make_retriever("dense", vectors, layout=layout, unit="record")
    fusion = Fusion("weighted", "minmax", weights={"bm25": 1, "dense": 2})

    (forward,) = Fuse((of_records, of_chunks), fusion=fusion, keep=1000)(ASKED)
    (backward,) = Fuse((of_chunks, of_records), fusion=fusion, keep=1000)(ASKED)

    groups = np.split(vectors[0], layout.starts[1:-1])
    assert {hit.record: (hit.row, *(why.score for why in hit.evidence)) for hit in forward.hits} == {
        at: (layout.starts[at] + group.argmax(), words[0, at], group.max()) for at, group in enumerate(groups)
    }
    assert [(hit.id, hit.score) for hit in forward.hits] == [(hit.id, hit.score) for hit in backward.hits]
