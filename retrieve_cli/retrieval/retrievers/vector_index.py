"""Dense vectors in a FAISS file: a flat inner product (exact, memory-mapped) by default, or an HNSW graph.

A flat file is searched in place by NumPy: importing faiss would take longer than the search, and the product is bound
by memory bandwidth either way. The file is an ordinary faiss index that any other program can read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from retrieve_cli.contracts import Candidates, Json, Unit
from retrieve_cli.cores import available_cores, one_blas_thread
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.retrievers.hnsw_index import HnswIndex, faiss_package, score_rows
from retrieve_cli.retrieval.retrievers.selection import best, best_of_groups, masks, spread
from retrieve_cli.storage.mapped import MappedFile

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors

_FLAT_HEADER = struct.Struct("<4siqqq?iQ")
"""faiss write_index of an IndexFlatIP: "IxFI", d, ntotal, two unused, is_trained, metric, number of floats."""
_FLAT = b"IxFI"
_UNUSED = 1 << 20
_TRAINED = True
_INNER_PRODUCT = 0
_BLOCK = 256
"""Rows multiplied at a time: 384 KiB for 384 dimensions, which stay in the cache between the copy and the product."""
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


def open_index(
    source: Path | MappedFile, *, hnsw_ef_search: int, device: Literal["auto", "cpu", "cuda"] = "cpu"
) -> FlatIndex | HnswIndex:
    """Map `dense.faiss` of either kind into memory.

    `device` is the place where a flat index is scanned for batches of queries.

    Raises:
        IndexCorrupt: the file is missing, truncated, or not an inner-product index.
        Unavailable: `cuda` is requested, and faiss finds no GPU.
    """
    path = source.path if isinstance(source, MappedFile) else source
    try:
        file = MappedFile.of(source)
    except OSError as error:
        raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    head = file.data[: _FLAT_HEADER.size].tobytes()
    if head[:4] != _FLAT:
        return HnswIndex(path, ef_search=hnsw_ef_search)
    if len(head) < _FLAT_HEADER.size:
        raise IndexCorrupt(f"{path} is truncated", hint=_HINT)
    _, dim, rows, _, _, _, _, floats = _FLAT_HEADER.unpack(head)
    if dim < 1 or rows < 0 or floats != dim * rows or len(file) != _FLAT_HEADER.size + 4 * floats:
        raise IndexCorrupt(f"{path} does not contain the {rows} rows of {dim} numbers of its header", hint=_HINT)
    vectors = np.frombuffer(file.data, np.float32, floats, _FLAT_HEADER.size).reshape(rows, dim)
    return FlatIndex(vectors, device=device)


class _Wanted(NamedTuple):
    """Limits of one search."""

    depth: int
    starts: Rows | None
    allowed: Mask | None
    visible: Mask | None


class FlatIndex:
    """Exact search: the inner product of the query with every row."""

    unit: Unit = "chunk"

    def __init__(self, vectors: Vectors, *, device: Literal["auto", "cpu", "cuda"] = "cpu") -> None:
        """Wrap (n, dim) float32 vectors, usually of a mapped file.

        A GPU scans batches.

        Raises:
            Unavailable: the device is `cuda`, and faiss finds no GPU.
        """
        self._vectors = vectors
        self._device = device
        if device == "cuda":
            from retrieve_cli.retrieval.retrievers.gpu_scan import pairwise_on_gpu

            pairwise_on_gpu(device)

    def __len__(self) -> int:
        return len(self._vectors)

    @property
    def dim(self) -> int:
        return int(self._vectors.shape[1])

    def vectors(self, rows: Rows) -> Vectors:
        """Return the vectors of rows, (n, dim) float32."""
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
        """Return the best rows by inner product. Each query has its own scan, so its answer ignores the batch."""
        limits = zip(masks(queries, allowed), masks(queries, visible), strict=True)
        wanted = [_Wanted(depth, starts, *pair) for pair in limits]
        if len(queries) < _WORTH_THREADS:
            return [self._find(*each) for each in zip(queries, wanted, strict=True)]
        from retrieve_cli.retrieval.retrievers import gpu_scan  # only needed for batches

        if len(queries) >= gpu_scan.WORTH_QUERIES and (pairwise := gpu_scan.pairwise_on_gpu(self._device)) is not None:
            scanned = gpu_scan.scores_on_gpu(pairwise, queries, self._vectors)
            return [_chosen(*each) for each in zip(scanned, wanted, strict=True)]
        from concurrent.futures import ThreadPoolExecutor  # not needed for a single query

        with ThreadPoolExecutor(available_cores()) as threads:
            return list(threads.map(self._find, queries, wanted))

    def score(self, query: Vectors, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the inner product with each of `rows`, or the best one in each group of rows."""
        return score_rows(self.vectors, query, rows, starts)

    def _find(self, query: Vectors, wanted: _Wanted) -> Candidates:
        return _chosen(self._scores(query), wanted)

    def _scores(self, query: Vectors) -> Vectors:
        """Return the inner product with every row, (n,) float32.

        The rows of a mapped file begin at byte 45: NumPy copies such rows for a product, and is fastest if a block
        stays in the cache meanwhile.
        """
        rows, dim = self._vectors.shape
        scores, scratch = np.empty(rows, np.float32), _aligned(min(rows, _BLOCK), dim)
        with one_blas_thread:
            for start in range(0, rows, _BLOCK):
                block = self._vectors[start : start + _BLOCK]
                np.copyto(scratch[: len(block)], block)
                np.dot(scratch[: len(block)], query, out=scores[start : start + len(block)])
        return scores


def _chosen(scores: Vectors, wanted: _Wanted) -> Candidates:
    """Return the best rows, or groups of rows, by the scores of all rows."""
    depth, starts, allowed, visible = wanted
    scores = best_of_groups(scores, starts)
    seen = scores if visible is None else scores[visible]
    mean, deviation = spread(seen, len(seen))
    rows = np.arange(len(scores)) if allowed is None else np.flatnonzero(allowed)
    kept = best(scores, rows, depth)
    return Candidates(kept, scores[kept], mean, deviation, len(seen), len(rows))


def _aligned(rows: int, dim: int) -> Vectors:
    """Return an empty (rows, dim) float32 array that begins at a cache line."""
    size = 4 * rows * dim
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size].view(np.float32).reshape(rows, dim)
