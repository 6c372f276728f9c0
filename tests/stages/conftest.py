"""Retrievers with given scores: query "0" scores the rows by the first line of a table, "1" by the second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from retrieve_cli.contracts import Unit
from retrieve_cli.retrievers.vector_index import FlatIndex
from retrieve_cli.stages.retrieve import IndexRetrieval, Layout


class RecordIndex(FlatIndex):
    """The same engine over rows that stand for records."""

    unit: Unit = "record"


def make_layout(sizes: Sequence[int]) -> Layout:
    """Records of so many chunks each; the chunks of record 3 are called `03#0`, `03#1` ..."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def chunk_id(row: int) -> str:
        record = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{record:02}#{row - int(starts[record])}"

    return Layout(starts=starts, chunk_id=chunk_id)


def make_retriever(
    name: str,
    table: Any,
    *,
    layout: Layout | None = None,
    unit: Unit = "chunk",
    index_unit: Unit = "chunk",
    depth: int = 1000,
) -> IndexRetrieval[Any]:
    """A retriever over a (queries, rows) table of scores; without a layout each row is a record of one chunk."""
    scores = np.array(table, np.float32)
    index = (FlatIndex if index_unit == "chunk" else RecordIndex)(np.ascontiguousarray(scores.T))
    axes = np.eye(len(scores), dtype=np.float32)
    return IndexRetrieval(
        name=name,
        index=index,
        prepare=lambda texts: [axes[int(text)] for text in texts],
        layout=layout or make_layout([1] * scores.shape[1]),
        unit=unit,
        depth=depth,
    )


@pytest.fixture(scope="session", name="make_retriever")
def _make_retriever() -> Callable[..., IndexRetrieval[Any]]:
    return make_retriever


@pytest.fixture(scope="session", name="make_layout")
def _make_layout() -> Callable[..., Layout]:
    return make_layout
