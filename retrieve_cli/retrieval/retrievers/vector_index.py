"""Dense vectors in a FAISS file: a flat inner product (exact, memory-mapped) by default, or an HNSW graph.

A flat file is searched in place by NumPy: importing faiss would take longer than the search, and the product is bound
by memory bandwidth either way. The file is an ordinary faiss index that any other program can read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from retrieve_cli.contracts import Candidates, Json, Unit
from retrieve_cli.cores import available_cores, one_blas_thread
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.retrievers.hnsw_index import HnswGraph, faiss_package, score_rows
from retrieve_cli.retrieval.retrievers.selection import best, best_of_groups, count_of, masks, spread
from retrieve_cli.storage.mapped import MappedFile

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors
    from retrieve_cli.retrieval.retrievers.selection import Lowest

_FLAT_HEADER = struct.Struct("<4siqqq?iQ")
"""faiss write_index of an IndexFlatIP: "IxFI", d, ntotal, two unused, is_trained, metric, number of floats."""
_FLAT = b"IxFI"
_UNUSED = 1 << 20
_TRAINED = True
_INNER_PRODUCT = 0
_BLOCK = 256
"""Rows multiplied at a time: 384 KiB for 384 dimensions, which stay in the cache between the copy and the product."""
_PADDED = 16
_ALIGNMENT = 64
"""Bytes of a cache line."""
_WORTH_THREADS = 8
"""Minimum queries that are distributed over the cores: NumPy releases the interpreter while it multiplies."""
_HINT = "list the damaged files: retrieve inspect verify; then build again: retrieve build"


class Parameters(Frozen):
    """Kind of faiss index to write: `flat`, or `hnsw` with its neighbours per node and its construction breadth."""

    kind: Literal["flat", "hnsw"] = "flat"
    hnsw_m: int = 32
    hnsw_ef_construction: int = 200

    @property
    def card(self) -> Mapping[str, Json]:
        """Return the parameters that change the answers of the index; part of the recipe."""
        graph = {"hnsw_m": self.hnsw_m, "hnsw_ef_construction": self.hnsw_ef_construction}
        return {"kind": "flat"} if self.kind == "flat" else {"kind": "hnsw", **graph}


def write(blocks: Iterable[Vectors], path: Path, *, rows: int, dim: int, parameters: Parameters) -> int:
    """Write a faiss inner-product index of the rows of `blocks`, each (m, dim) float32; return their number.

    A flat file is a header and the vectors: it is written without faiss, to the same bytes.

    Raises:
        Unavailable: `hnsw` is requested and faiss is not installed.
    """
    if parameters.kind == "hnsw":
        faiss: Any = faiss_package()
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


def open_vectors(source: Path | MappedFile, *, hnsw_ef_search: int) -> FlatVectors | HnswGraph:
    """Map `dense.faiss` of either kind into memory.

    Raises:
        IndexCorrupt: the file is missing, truncated, or not an inner-product index.
    """
    path = source.path if isinstance(source, MappedFile) else source
    try:
        file = MappedFile.of(source)
    except OSError as error:
        raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    head = file.data[: _FLAT_HEADER.size].tobytes()
    if head[:4] != _FLAT:
        return HnswGraph(path, ef_search=hnsw_ef_search)
    if len(head) < _FLAT_HEADER.size:
        raise IndexCorrupt(f"{path} is truncated", hint=_HINT)
    _, dim, rows, _, _, _, _, floats = _FLAT_HEADER.unpack(head)
    if dim < 1 or rows < 0 or floats != dim * rows or len(file) != _FLAT_HEADER.size + 4 * floats:
        raise IndexCorrupt(f"{path} does not contain the {rows} rows of {dim} numbers of its header", hint=_HINT)
    return FlatVectors(np.frombuffer(file.data, np.float32, floats, _FLAT_HEADER.size).reshape(rows, dim))


class FlatVectors:
    """The vectors of a segment, all of which are scored."""

    def __init__(self, vectors: Vectors) -> None:
        """Wrap (n, dim) float32 vectors, usually of a mapped file."""
        self.all = vectors

    def __len__(self) -> int:
        return len(self.all)

    @property
    def dim(self) -> int:
        return int(self.all.shape[1])

    def vectors(self, rows: Rows) -> Vectors:
        """Return the vectors of rows, (n, dim) float32."""
        return self.all[rows]

    def score_into(self, query: Vectors, scores: Vectors) -> None:
        """Set the inner product with every row, (n,) float32.

        The rows of a mapped file begin at byte 45: NumPy copies such rows for a product, and is fastest if a block
        stays in the cache meanwhile. A product has a multiple of 16 rows: BLAS computes the last ones of other products
        with other last bits, and a score must not depend on the place of its row.
        """
        rows, dim = self.all.shape
        scratch = _aligned(_BLOCK, dim)
        with one_blas_thread:
            for start in range(0, rows, _BLOCK):
                block = self.all[start : start + _BLOCK]
                np.copyto(scratch[: len(block)], block)
                padded = len(block) + -len(block) % _PADDED
                scores[start : start + len(block)] = np.dot(scratch[:padded], query)[: len(block)]

    def nearest(self, query: Vectors, *, depth: int, starts: Rows | None, allowed: Mask | None) -> tuple[Rows, Vectors]:
        """Return all allowed rows, or groups of rows, and their scores."""
        scores = np.empty(len(self), np.float32)
        self.score_into(query, scores)
        scores = best_of_groups(scores, starts)
        rows = np.arange(len(scores)) if allowed is None else np.flatnonzero(allowed)
        return rows, scores[rows]


class _Wanted(NamedTuple):
    """Limits of one search."""

    depth: int
    starts: Rows | None
    allowed: Mask | None
    visible: Mask | None

    @property
    def unit(self) -> Unit:
        """Unit of a listed row."""
        return "chunk" if self.starts is None else "record"


class DenseIndex:
    """Index of the vectors of all segments: exact, unless a segment has a graph."""

    unit: Unit = "chunk"

    def __init__(
        self,
        segments: Sequence[FlatVectors | HnswGraph],
        *,
        device: Literal["auto", "cpu", "cuda"] = "cpu",
        lowest: Lowest | None = None,
    ) -> None:
        """`device` is the place where flat segments are scanned for batches of queries; `lowest` chooses among rows
        with equal scores.

        Raises:
            Unavailable: the device is `cuda`, and faiss finds no GPU.
        """
        self._segments = segments
        self._ends = np.cumsum([0, *map(len, segments)])
        self._lowest = lowest
        self._device = device
        if device == "cuda":
            from retrieve_cli.retrieval.retrievers.gpu_scan import pairwise_on_gpu

            pairwise_on_gpu(device)

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def dim(self) -> int:
        return self._segments[0].dim

    def vectors(self, rows: Rows) -> Vectors:
        """Return the vectors of rows, (n, dim) float32."""
        if len(self._segments) == 1:
            return self._segments[0].vectors(rows)
        vectors = np.empty((len(rows), self.dim), np.float32)
        numbers = np.searchsorted(self._ends, rows, side="right") - 1
        for number, segment in enumerate(self._segments):
            places = np.flatnonzero(numbers == number)
            vectors[places] = segment.vectors(rows[places] - self._ends[number])
        return vectors

    def search(
        self,
        queries: Sequence[Vectors],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
    ) -> list[Candidates]:
        """Return the best rows by inner product. Each query has its own scan, so its answer ignores the batch. With a
        graph, mean and deviation are computed from the listed scores."""
        limits = zip(masks(queries, allowed), masks(queries, visible), strict=True)
        wanted = [_Wanted(depth, starts, *pair) for pair in limits]
        flat = [segment.all for segment in self._segments if isinstance(segment, FlatVectors)]
        if len(flat) < len(self._segments):
            return list(map(self._approximate, queries, wanted))
        if len(queries) < _WORTH_THREADS:
            return list(map(self._exact, queries, wanted))
        from retrieve_cli.retrieval.retrievers import gpu_scan  # only needed for batches

        if len(queries) >= gpu_scan.WORTH_QUERIES and (pairwise := gpu_scan.pairwise_on_gpu(self._device)) is not None:
            scans = zip(*(gpu_scan.scores_on_gpu(pairwise, queries, vectors) for vectors in flat), strict=True)
            return list(map(self._best, map(np.concatenate, scans), wanted))
        from concurrent.futures import ThreadPoolExecutor  # not needed for a single query

        with ThreadPoolExecutor(available_cores()) as threads:
            return list(threads.map(self._exact, queries, wanted))

    def score(self, query: Vectors, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the inner product with each of `rows`, or the best one in each group of rows."""
        return score_rows(self.vectors, query, rows, starts)

    def _exact(self, query: Vectors, wanted: _Wanted) -> Candidates:
        scores = np.empty(len(self), np.float32)
        for segment, (start, end) in zip(self._segments, pairwise(self._ends), strict=True):
            if isinstance(segment, FlatVectors):
                segment.score_into(query, scores[start:end])
        return self._best(scores, wanted)

    def _best(self, scores: Vectors, wanted: _Wanted) -> Candidates:
        """Return the best rows, or groups of rows, by the scores of all rows."""
        scores = best_of_groups(scores, wanted.starts)
        seen = scores if wanted.visible is None else scores[wanted.visible]
        mean, deviation = spread(seen, len(seen))
        rows = np.arange(len(scores)) if wanted.allowed is None else np.flatnonzero(wanted.allowed)
        kept = best(scores, rows, wanted.depth, unit=wanted.unit, lowest=self._lowest)
        return Candidates(kept, scores[kept], mean, deviation, len(seen), len(rows))

    def _approximate(self, query: Vectors, wanted: _Wanted) -> Candidates:
        """Return approximately the best rows, or groups of rows; the rows of flat segments are exact."""
        starts = np.arange(len(self) + 1) if wanted.starts is None else wanted.starts
        scores, listed = np.zeros(len(starts) - 1, np.float32), np.zeros(len(starts) - 1, np.bool_)
        bounds = np.searchsorted(starts, self._ends)
        for segment, (first, end) in zip(self._segments, pairwise(bounds), strict=True):
            groups = None if wanted.starts is None else starts[first : end + 1] - starts[first]
            mask = None if wanted.allowed is None else wanted.allowed[first:end]
            rows, values = segment.nearest(query, depth=wanted.depth, starts=groups, allowed=mask)
            scores[first + rows], listed[first + rows] = values, True
        kept = best(scores, np.flatnonzero(listed), wanted.depth, unit=wanted.unit, lowest=self._lowest)
        before, after = (count_of(len(scores), mask) for mask in (wanted.visible, wanted.allowed))
        return Candidates(kept, scores[kept], *spread(scores[kept], len(kept)), before, after)


def _aligned(rows: int, dim: int) -> Vectors:
    """Return a (rows, dim) float32 array of zeros that begins at a cache line."""
    size = 4 * rows * dim
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size].view(np.float32).reshape(rows, dim)
