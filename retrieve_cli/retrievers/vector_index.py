"""Dense vectors in a FAISS file: a flat inner product (exact, memory-mapped) by default, or an HNSW graph.

A flat file is searched in place by NumPy: faiss would take longer to import than the search takes, and the product is
bound by memory bandwidth either way. The file stays an ordinary faiss index that any other program can read.

Every score that leaves this file comes from `numerics.products`: a row has the same one, to the bit, in a list, in a
filtered list, in a group and asked for by itself, whatever kernel, file or graph found it.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrieve_cli.contracts import Candidates, Json, Unit
from retrieve_cli.errors import IndexCorrupt, Unavailable
from retrieve_cli.frozen import dataclass
from retrieve_cli.numerics import products
from retrieve_cli.retrievers.scan import Scan, contenders, members
from retrieve_cli.retrievers.selection import best, grouped, masks, rows_of, spread, total
from retrieve_cli.storage.mapped import MappedFile, unchecked

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors

_FLAT_HEADER = struct.Struct("<4siqqq?iQ")
"""faiss write_index of an IndexFlatIP: "IxFI", d, ntotal, two unused, is_trained, metric, number of floats."""
_FLAT = b"IxFI"
_UNUSED = 1 << 20
_TRAINED = True
_INNER_PRODUCT = 0
_BLOCK = 4096
"""Rows fetched at a time to be scored; bounds the memory."""
_WORTH_THREADS = 8
"""Queries from which on they are spread over the cores: NumPy lets go of the interpreter while it multiplies."""
_SAMPLE = 4096
"""Rows from which an approximate index estimates how a query's scores are spread."""
_EXACT_SHARE = 0.2
"""Up to this share of allowed rows a graph is not walked, but each of them scored: that is exact, and faster than to
walk past many rows for each that may be listed."""
_MARGIN = 2
"""How much broader a walk for some rows is than their share asks for: they may lie together, far from the query. Of the
best twenty in one half of 30,000 vectors it found 60 % at worst without this margin, and 90 % with it."""


_HINT = "see which files are damaged: retrieve inspect verify; then build again: retrieve build"


@dataclass(frozen=True, slots=True)
class Parameters:
    """Which faiss index is written: `flat`, or `hnsw` with its neighbours a node and its breadth of construction."""

    kind: Literal["flat", "hnsw"] = "flat"
    hnsw_m: int = 32
    hnsw_ef_construction: int = 200

    @property
    def card(self) -> Mapping[str, Json]:
        """What changes the answers of the index; part of the recipe."""
        return {"kind": "flat"} if self.kind == "flat" else asdict(self)


def write(blocks: Iterable[Vectors], path: Path, *, rows: int, dim: int, parameters: Parameters) -> int:
    """Writes a faiss inner-product index over the rows of `blocks`, each (m, dim) float32; returns their number.

    A flat file is its header and the vectors: it is written without faiss, to the same bytes.

    Raises:
        Unavailable: a graph is asked for and faiss is not installed.
    """
    if parameters.kind == "hnsw":
        faiss: Any = _faiss()
        index = faiss.IndexHNSWFlat(dim, parameters.hnsw_m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = parameters.hnsw_ef_construction
        for block in blocks:
            index.add(np.ascontiguousarray(block))
        faiss.write_index(index, str(path))
        return int(index.ntotal)
    with path.open("wb") as file:
        file.write(_FLAT_HEADER.pack(_FLAT, dim, rows, _UNUSED, _UNUSED, _TRAINED, _INNER_PRODUCT, rows * dim))
        for block in blocks:
            file.write(np.ascontiguousarray(block, "<f4").data)
    return rows


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        hint = "pip install 'retrieve-cli[cpu]' (or [gpu])"
        raise Unavailable("the package faiss is not installed", hint=hint) from error
    return faiss


def open_index(source: Path | MappedFile, *, hnsw_ef_search: int) -> FlatIndex | HnswIndex:
    """Maps `dense.faiss` into memory, whichever kind it holds.

    Raises:
        IndexCorrupt: the file is absent, cut short, or no inner-product index.
    """
    path = source.path if isinstance(source, MappedFile) else source
    try:
        file = MappedFile.of(source)
    except OSError as error:
        raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    file.check(0, min(_FLAT_HEADER.size, len(file)))
    head = file.data[: _FLAT_HEADER.size].tobytes()
    if head[:4] != _FLAT:
        file.check()  # faiss follows the links of the graph wherever they lead
        return HnswIndex(path, ef_search=hnsw_ef_search)
    if len(head) < _FLAT_HEADER.size:
        raise IndexCorrupt(f"{path} is cut short", hint=_HINT)
    _, dim, rows, _, _, _, _, floats = _FLAT_HEADER.unpack(head)
    if dim < 1 or rows < 0 or floats != dim * rows or len(file) != _FLAT_HEADER.size + 4 * floats:
        raise IndexCorrupt(f"{path} does not hold the {rows} rows of {dim} numbers that it announces", hint=_HINT)
    vectors = np.frombuffer(file.data, np.float32, floats, _FLAT_HEADER.size).reshape(rows, dim)
    return FlatIndex(vectors, file)


class FlatIndex:
    """Exact search: the inner product of the query with every row."""

    unit: Unit = "chunk"

    def __init__(self, vectors: Vectors, file: MappedFile | None = None) -> None:
        """Takes (n, dim) float32 vectors, usually those of a mapped file, whose blocks are checked as they are read."""
        self._vectors = vectors
        self._file = file
        self._scan = Scan(vectors, unchecked if file is None else file.check_parts)

    def __len__(self) -> int:
        return len(self._vectors)

    @property
    def dim(self) -> int:
        return int(self._vectors.shape[1])

    def vectors(self, rows: Rows) -> Vectors:
        """The vectors of rows, (n, dim) float32. Raises: IndexCorrupt if one of them is damaged."""
        if self._file is not None:
            self._file.check_rows(_FLAT_HEADER.size, 4 * self.dim, rows)
        return self._vectors[rows]

    def search(
        self,
        queries: Sequence[Vectors],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
    ) -> list[Candidates]:
        """The best rows by inner product. One scan a query: its answer then does not depend on the batch."""

        def find(query: Vectors, mask: Mask | None, seen: Mask | None) -> Candidates:
            return self._find(query, depth, starts, mask, seen)

        asked, counted = masks(queries, allowed), masks(queries, visible)
        if len(queries) < _WORTH_THREADS:
            return [find(*each) for each in zip(queries, asked, counted, strict=True)]
        from concurrent.futures import ThreadPoolExecutor  # a single query does without it

        with ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None) as threads:
            return list(threads.map(find, queries, asked, counted))

    def score(self, query: Vectors, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """The inner product with each of `rows`, or the best one in each group of rows."""
        return score_rows(self.vectors, query, rows, starts)

    def _find(
        self, query: Vectors, depth: int, starts: Rows | None, allowed: Mask | None, visible: Mask | None
    ) -> Candidates:
        scores, bound = self._scan.scores(query)
        worth = grouped(scores, starts)
        mean, deviation = spread(worth, len(worth))
        near = contenders(worth, bound, depth, allowed)
        if starts is None or not len(near):
            exact = self.score(query, near)
        else:
            rows, begins = members(scores, bound, near, worth[near], starts)
            exact = grouped(self.score(query, rows), np.append(begins, len(rows)))
        kept = best(exact, np.arange(len(near)), depth)
        before, after = total(len(worth), visible), total(len(worth), allowed)
        return Candidates(near[kept], exact[kept], mean, deviation, before, after)


class HnswIndex:
    """Approximate search over a graph (Malkov, Yashunin 2018); any row can still be scored exactly."""

    unit: Unit = "chunk"

    def __init__(self, path: Path, *, ef_search: int) -> None:
        """Raises: IndexCorrupt where faiss cannot read the file or it holds another kind of index."""
        faiss = _faiss()
        try:
            self._index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except (RuntimeError, MemoryError) as error:
            raise IndexCorrupt(f"{path} cannot be read by faiss", hint=_HINT) from error
        if not isinstance(self._index, faiss.IndexHNSWFlat) or self._index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise IndexCorrupt(f"{path} is neither a flat nor an HNSW index of inner products", hint=_HINT)
        self._index.hnsw.efSearch = ef_search

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def dim(self) -> int:
        return int(self._index.d)

    def search(
        self,
        queries: Sequence[Vectors],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
    ) -> list[Candidates]:
        """Near enough the best rows; the spread of scores is estimated from an even sample of rows.

        Where few rows are allowed the answer is exact.
        """
        asked = zip(queries, masks(queries, allowed), masks(queries, visible), strict=True)
        return [self._search(query, depth, starts, mask, seen) for query, mask, seen in asked]

    def score(self, query: Vectors, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """The exact inner product with each of `rows`, or the best one in each group of rows."""
        return score_rows(self.vectors, query, rows, starts)

    def vectors(self, rows: Rows) -> Vectors:
        """The vectors of rows, (n, dim) float32."""
        return np.asarray(self._index.reconstruct_batch(rows), np.float32)

    def _search(
        self, query: Vectors, depth: int, starts: Rows | None, allowed: Mask | None, visible: Mask | None
    ) -> Candidates:
        units = len(self) if starts is None else len(starts) - 1
        if units == 0:
            return Candidates(np.empty(0, np.int64), np.empty(0, np.float32), 0.0, 0.0)
        before, after = total(units, visible), total(units, allowed)
        if allowed is None or after == units:
            rows, scores = self._walk(query, depth, starts)
        else:
            rows, scores = self._within(query, depth, starts, allowed)
        sample = self.score(query, _sample(units), starts=starts)
        mean, deviation = spread(sample, len(sample))
        kept = best(scores, np.arange(len(rows)), depth)
        return Candidates(rows[kept], scores[kept], mean, deviation, before, after)

    def _within(self, query: Vectors, depth: int, starts: Rows | None, allowed: Mask) -> tuple[Rows, Vectors]:
        """Allowed rows or groups and their scores, the best ones among them: all of them where they are few."""
        chosen = np.flatnonzero(allowed)
        only = allowed if starts is None else np.repeat(allowed, np.diff(starts))
        if only.mean() > _EXACT_SHARE:
            rows, scores = self._walk(query, depth, starts, only)
            # A walk may end in a part of the graph from which what is allowed cannot be reached.
            if len(rows) >= min(depth, len(chosen)):
                return rows, scores
        return chosen, self.score(query, chosen, starts=starts)

    def _walk(self, query: Vectors, depth: int, starts: Rows | None, only: Mask | None = None) -> tuple[Rows, Vectors]:
        """What a walk of the graph finds of all rows or of `only` some: rows or the best groups, and their scores."""
        reach = min(depth if starts is None else 3 * depth, len(self))
        limits = None if only is None else self._limits(only, reach)
        rows = self._index.search(query[None], reach, params=limits)[1][0]
        rows = rows[rows >= 0].astype(np.int64)
        if starts is not None:
            groups, first = np.unique(np.searchsorted(starts, rows, side="right") - 1, return_index=True)
            rows = groups[np.argsort(first)[:depth]]  # faiss lists rows best first
        rows = np.sort(rows)
        return rows, self.score(query, rows, starts=starts)

    def _limits(self, only: Mask, reach: int) -> Any:
        """faiss's parameters of a walk that lists `only` some rows.

        It passes the others too, so that it has to be broader by as much as these are fewer, to find them as well.
        """
        faiss = _faiss()
        chosen = faiss.IDSelectorBitmap(np.packbits(only, bitorder="little"))
        breadth = math.ceil(_MARGIN * max(self._index.hnsw.efSearch, reach) / float(only.mean()))
        return faiss.SearchParametersHNSW(sel=chosen, efSearch=breadth)


def _sample(rows: int) -> Rows:
    """Row numbers spread evenly over all rows."""
    return np.linspace(0, rows - 1, min(_SAMPLE, rows), dtype=np.int64)


def score_rows(vectors_of: Any, query: Vectors, rows: Rows, starts: Rows | None) -> Vectors:
    """Inner products with the rows that `vectors_of` fetches; with `starts`, the best of each group in `rows`."""
    if starts is not None:
        every, begins = rows_of(rows, starts)
        return grouped(score_rows(vectors_of, query, every, None), np.append(begins, len(every)))
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _BLOCK):
        scores[start : start + _BLOCK] = products(vectors_of(rows[start : start + _BLOCK]), query)
    return scores
