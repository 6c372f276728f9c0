"""A filter of chunks, from the query to the retrievers: a record is worth its best chunk of those that may be found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from retrieval.stages.retrievers import UNITS, make_layout, make_retriever, table_for

from retrieve_cli.contracts import Hit, Query, Ranking, Unit
from retrieve_cli.retrieval.stages.expand import Expand, LinkedRecord
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout

layouts = st.lists(st.integers(1, 5), min_size=1, max_size=8).map(make_layout)


def drawn(data: st.DataObject, layout: ChunkLayout) -> tuple[Any, Any]:
    """Chunks that pass, at least one, and the records that have one."""
    chunks = data.draw(hnp.arrays(np.bool_, int(layout.starts[-1])))
    chunks[data.draw(st.integers(0, len(chunks) - 1))] = True
    return chunks, np.logical_or.reduceat(chunks, layout.starts[:-1])


def listed(scores: dict[int, float], depth: int) -> list[tuple[int, float]]:
    """Rows and scores, best first, equal ones in the order of rows."""
    return sorted(scores.items(), key=lambda each: (-each[1], each[0]))[:depth]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("index_unit", UNITS)
@given(layout=layouts, data=st.data(), depth=st.integers(1, 12))
def test_what_is_listed_is_worth_its_best_allowed_chunk_and_none_is_missed(
    index_unit: Unit, unit: Unit, layout: ChunkLayout, data: st.DataObject, depth: int
) -> None:
    chunks, records = drawn(data, layout)
    table = table_for(data, len(records) if index_unit == "record" else len(chunks))
    options = {"layout": layout, "unit": unit, "index_unit": index_unit}
    retriever = make_retriever("retriever", table, depth=depth, **options)
    (account,) = retriever.ask([Query("0", records=records, chunks=chunks)])

    def worth(row: int) -> float:
        return float(table[0, layout.record_of(np.array([row]))[0] if index_unit == "record" else row])

    allowed = np.flatnonzero(chunks).tolist()
    if unit == "chunk" and index_unit == "record":  # by record, then in the order of the text
        order = sorted(allowed, key=lambda row: (-worth(row), row))
        expected = [(row, worth(row)) for row in order][:depth]
    elif unit == "chunk":
        expected = listed({row: worth(row) for row in allowed}, depth)
    else:
        best = {int(record): -np.inf for record in np.flatnonzero(records)}
        for row in allowed:
            record = int(layout.record_of(np.array([row]))[0])
            best[record] = max(best[record], worth(row))
        expected = listed(best, depth)
    found = account.candidates
    assert list(zip(found.rows.tolist(), found.scores.tolist(), strict=True)) == expected
    assert account.score(found.rows).tolist() == found.scores.tolist()

    free = make_retriever("retriever", table, depth=depth, **options).ask([Query("0")])[0].candidates
    assert (found.mean, found.deviation) == (free.mean, free.deviation)
    if unit == "record":
        shown = account.best_chunks(found.rows)
        assert chunks[shown].all()
        if index_unit == "chunk":
            assert [worth(row) for row in shown.tolist()] == found.scores.tolist()


def test_what_hits_lead_to_is_shown_by_an_allowed_chunk() -> None:
    stage = Expand(lambda *_: [LinkedRecord(1, 0.5, lambda: "path")], make_layout([2, 3]), seeds=1, floor=1, depth=1)
    records, chunks = np.ones(2, np.bool_), np.array([True, False, False, False, True])
    for mask, shown in ((None, "01#0"), (chunks, "01#2")):
        ranking = Ranking.of(Query("0", records=records, chunks=mask), [Hit("00#0", 0, 0, 1.0)])
        assert [hit.id for hit in stage([ranking])[0].hits] == ["00#0", shown]
