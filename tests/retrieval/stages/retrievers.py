"""Retrievers with given scores: query "0" scores the rows by the first line of a table, "1" by the second."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from retrieve_cli.contracts import Field, Query, Ranking, Unit
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer
from retrieve_cli.retrieval.retrievers.vector_index import DenseIndex, FlatVectors
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout, IndexRetrieval

ASKED = [Ranking(Query("0"))]
UNITS: tuple[Unit, ...] = ("record", "chunk")


class RecordIndex(DenseIndex):
    """The same engine over rows that stand for records."""

    unit: Unit = "record"


def make_layout(sizes: Sequence[int]) -> ChunkLayout:
    """Records of so many chunks each; the chunks of record 3 are called `03#0`, `03#1` ..."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def chunk_id(row: int) -> str:
        record = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{record:02}#{row - int(starts[record])}"

    return ChunkLayout(starts=starts, chunk_id=chunk_id)


def make_retriever(
    name: str,
    table: Any,
    *,
    layout: ChunkLayout | None = None,
    unit: Unit = "chunk",
    index_unit: Unit = "chunk",
    depth: int = 1000,
) -> IndexRetrieval[Any]:
    """A retriever over a (queries, rows) table of scores; without a layout each row is a record of one chunk."""
    scores = np.array(table, np.float32)
    index = (DenseIndex if index_unit == "chunk" else RecordIndex)([FlatVectors(np.ascontiguousarray(scores.T))])
    axes = np.eye(len(scores), dtype=np.float32)
    return IndexRetrieval(
        name=name,
        index=index,
        prepare=lambda texts: [axes[int(text)] for text in texts],
        layout=layout or make_layout([1] * scores.shape[1]),
        unit=unit,
        depth=depth,
    )


def make_retrievers(tables: Iterable[Any], **options: Any) -> list[IndexRetrieval[Any]]:
    """Retrievers called `retriever0`, `retriever1` …, one over each table."""
    return [make_retriever(f"retriever{at}", table, **options) for at, table in enumerate(tables)]


def deaf_retriever(scores: Sequence[float]) -> IndexRetrieval[Any]:
    """A retriever `dense` that has the same scores for every query."""
    made = make_retriever("dense", [scores])
    (axis,) = made.prepare(["0"])
    return IndexRetrieval("dense", made.index, lambda texts: [axis] * len(texts), made.layout, "chunk", 1000)


def words_index(texts: Iterable[str], unit: Unit = "chunk") -> Bm25Index:
    """An index of words: only rows with a term of the query are listed."""
    writer = Bm25Writer(analyzer=TextAnalyzer(), unit=unit)
    for text in texts:
        writer.add([Field("text", text)])
    return Bm25Index([writer.stored()])


def words_retriever(texts: Sequence[str], depth: int = 1000) -> IndexRetrieval[Any]:
    """A retriever `bm25` of words over records of one chunk each."""
    return IndexRetrieval("bm25", words_index(texts), list, make_layout([1] * len(texts)), "chunk", depth)


def table_for(data: st.DataObject, rows: int, queries: int = 1) -> Any:
    """(queries, rows) float32 scores, ties included."""
    return data.draw(hnp.arrays(np.int16, (queries, rows), elements=st.integers(-8, 8))).astype(np.float32) / 4
