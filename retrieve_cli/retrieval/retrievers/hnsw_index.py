"""An HNSW graph of vectors (Malkov, Yashunin 2018), searched by faiss."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.errors import IndexCorrupt, Unavailable
from retrieve_cli.retrieval.retrievers.selection import best_of_groups, rows_of

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors

_EXACT_SHARE = 0.2
"""Share of allowed rows up to which they are all scored instead of searching the graph: that is exact, and faster than
visiting many other rows for each allowed one."""
_MARGIN = 2
"""Factor by which a filtered search is broader than the share of allowed rows requires, because these may be clustered
far from the query. For the best twenty in one half of 30,000 vectors it raises the worst recall from 60 % to 90 %."""
_FETCHED = 4096
"""Rows fetched at a time for scoring; bounds the memory."""
_HINT = "list the damaged files: retrieve inspect verify; then build again: retrieve build"


def faiss_package() -> Any:
    """Return the package faiss. Raises: Unavailable if it is not installed."""
    try:
        import faiss
    except ImportError as error:
        hint = "pip install 'retrieve-cli[cpu]' (or [gpu])"
        raise Unavailable("the package faiss is not installed", hint=hint) from error
    return faiss


class HnswGraph:
    """A graph of the vectors of a segment, searched approximately; any row can still be scored exactly."""

    def __init__(self, path: Path, *, ef_search: int) -> None:
        """Raises: IndexCorrupt if faiss cannot read the file or it contains another kind of index."""
        faiss = faiss_package()
        try:
            self._index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except (RuntimeError, MemoryError) as error:
            raise IndexCorrupt(f"{path} cannot be read by faiss", hint=_HINT) from error
        if not isinstance(self._index, faiss.IndexHNSWFlat) or self._index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise IndexCorrupt(f"{path} is neither a flat nor an HNSW index of inner products", hint=_HINT)
        if not _is_sound(faiss, self._index):
            raise IndexCorrupt(f"the graph in {path} is damaged", hint=_HINT)
        self._index.hnsw.efSearch = ef_search

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def dim(self) -> int:
        return int(self._index.d)

    def vectors(self, rows: Rows) -> Vectors:
        """Return the vectors of rows, (n, dim) float32."""
        return np.asarray(self._index.reconstruct_batch(rows), np.float32)

    def nearest(self, query: Vectors, *, depth: int, starts: Rows | None, allowed: Mask | None) -> tuple[Rows, Vectors]:
        """Return rows, or groups of rows, with approximately the best ones among them, and their scores.

        They are all allowed ones if these are few.
        """
        if not len(self):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        if allowed is None or allowed.all():
            return self._walk(query, depth, starts)
        return self._within(query, depth, starts, allowed)

    def _within(self, query: Vectors, depth: int, starts: Rows | None, allowed: Mask) -> tuple[Rows, Vectors]:
        """Return allowed rows or groups with the best ones among them, and their scores; all allowed ones if few."""
        chosen = np.flatnonzero(allowed)
        only = allowed if starts is None else np.repeat(allowed, np.diff(starts))
        if only.mean() > _EXACT_SHARE:
            rows, scores = self._walk(query, depth, starts, only)
            # A search may end in a part of the graph that is not connected to the allowed rows.
            if len(rows) >= min(depth, len(chosen)):
                return rows, scores
        return chosen, score_rows(self.vectors, query, chosen, starts)

    def _walk(self, query: Vectors, depth: int, starts: Rows | None, only: Mask | None = None) -> tuple[Rows, Vectors]:
        """Return rows, or the best groups, from a search of the graph among all rows or `only` some, with scores."""
        reach = min(depth if starts is None else 3 * depth, len(self))
        limits = None
        if only is not None:
            # The search visits other rows too, so it is broader by the inverse of the share of allowed rows.
            faiss = faiss_package()
            chosen = faiss.IDSelectorBitmap(np.packbits(only, bitorder="little"))
            breadth = math.ceil(_MARGIN * max(self._index.hnsw.efSearch, reach) / float(only.mean()))
            limits = faiss.SearchParametersHNSW(sel=chosen, efSearch=breadth)
        rows = self._index.search(query[None], reach, params=limits)[1][0]
        rows = rows[rows >= 0].astype(np.int64)
        if starts is not None:
            groups, first = np.unique(np.searchsorted(starts, rows, side="right") - 1, return_index=True)
            rows = groups[np.argsort(first)[:depth]]  # faiss lists rows best first
        rows = np.sort(rows)
        return rows, score_rows(self.vectors, query, rows, starts)


def score_rows(vectors_of: Callable[[Rows], Vectors], query: Vectors, rows: Rows, starts: Rows | None) -> Vectors:
    """Return inner products with the rows from `vectors_of`; with `starts`, the best of each group in `rows`.

    einsum, and not BLAS: its second thread would cost more than these products.
    """
    if starts is not None:
        every, begins = rows_of(rows, starts)
        scores = score_rows(vectors_of, query, every, None)
        return best_of_groups(scores, np.append(begins, len(every)))
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _FETCHED):
        piece = slice(start, start + _FETCHED)
        scores[piece] = np.einsum("ij,j->i", vectors_of(rows[piece]), query)
    return scores


def _is_sound(faiss: Any, index: Any) -> bool:
    """Return True if every link of the graph leads to a row: faiss follows links without checking them."""
    graph, rows = index.hnsw, int(index.ntotal)
    links = faiss.rev_swig_ptr(graph.neighbors.data(), graph.neighbors.size()) if rows else np.empty(0, np.int32)
    ends, levels = faiss.vector_to_array(graph.offsets), faiss.vector_to_array(graph.levels)
    steps = faiss.vector_to_array(graph.cum_nneighbor_per_level)
    if (len(ends), len(levels), int(index.storage.ntotal)) != (rows + 1, rows, rows):
        return False
    if not rows:
        return True
    return bool(
        ((levels >= 1) & (levels < len(steps))).all()
        and ends[0] == 0
        and (np.diff(ends.astype(np.int64)) == steps[levels]).all()
        and int(ends[-1]) == len(links)
        and ((links >= -1) & (links < rows)).all()
        and 0 <= graph.entry_point < rows
        and graph.max_level + 1 == levels[graph.entry_point]
    )
