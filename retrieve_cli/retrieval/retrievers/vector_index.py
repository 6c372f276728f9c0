"""Dense vectors in a FAISS file: a flat inner product (exact, memory-mapped) by default, or an HNSW graph.

A flat file is searched in place by NumPy: importing faiss would take longer than the search, and the product is bound
by memory bandwidth either way. The file is an ordinary faiss index that any other program can read.

Every score that leaves this file comes from `numerics.products`: the score of a row is the same, to the bit, in a list,
in a filtered list, in a group and alone, for every kernel, file or graph that found it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from retrieve_cli.contracts import Candidates, Json, Unit
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.frozen import Frozen
from retrieve_cli.numerics import available_cores
from retrieve_cli.retrieval.retrievers.hnsw_index import HnswIndex, faiss_package
from retrieve_cli.retrieval.retrievers.scan import (
    CODES_FILE,
    Extremes,
    QuantizedScan,
    Scan,
    contenders,
    members,
    score_rows,
    write_codes,
)
from retrieve_cli.retrieval.retrievers.selection import best, best_of_groups, masks, spread
from retrieve_cli.storage.bitmap import Restricted, spread_within, total
from retrieve_cli.storage.mapped import MappedFile

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors

_FLAT_HEADER = struct.Struct("<4siqqq?iQ")
"""faiss write_index of an IndexFlatIP: "IxFI", d, ntotal, two unused, is_trained, metric, number of floats."""
_FLAT = b"IxFI"
_UNUSED = 1 << 20
_TRAINED = True
_INNER_PRODUCT = 0
_BLOCK = 4096
"""Rows read at a time for quantisation; bounds the memory."""
_WORTH_THREADS = 8
"""Minimum queries that are distributed over the cores: NumPy releases the interpreter while it multiplies."""
_WORTH_LIMIT = 2
"""Minimum candidates, as a multiple of the depth, for which the best `depth` of them are scored first: their lowest
exact score is a tighter limit for the others than the scan's."""
_SLACK = np.float32(1.01)
"""Factor for the rounding of a limit."""
_HINT = "list the damaged files: retrieve inspect verify; then build again: retrieve build"


class Parameters(Frozen):
    """Kind of faiss index to write: `flat`, or `hnsw` with its neighbours per node and its construction breadth."""

    kind: Literal["flat", "hnsw"] = "flat"
    hnsw_m: int = 32
    hnsw_ef_construction: int = 200
    quantized_from: int | None = None
    """Rows from which on a flat index has a quantised copy; None: never."""

    @property
    def card(self) -> Mapping[str, Json]:
        """Return the parameters that change the answers of the index; part of the recipe."""
        graph = {"hnsw_m": self.hnsw_m, "hnsw_ef_construction": self.hnsw_ef_construction}
        return {"kind": "flat"} if self.kind == "flat" else {"kind": "hnsw", **graph}

    def quantizes(self, rows: int) -> bool:
        """Return True if this many rows get a quantised copy, provided that all numbers are finite."""
        return self.kind == "flat" and self.quantized_from is not None and rows >= self.quantized_from


def write(blocks: Iterable[Vectors], path: Path, *, rows: int, dim: int, parameters: Parameters) -> int:
    """Write a faiss inner-product index of the rows of `blocks`, each (m, dim) float32; return their number.

    A flat file is a header and the vectors: it is written without faiss, to the same bytes. Many rows also get a
    quantised copy, see `QuantizedScan`.

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
    extremes = Extremes(dim)
    with path.open("wb") as file:
        file.write(_FLAT_HEADER.pack(_FLAT, dim, rows, _UNUSED, _UNUSED, _TRAINED, _INNER_PRODUCT, rows * dim))
        for block in extremes.watch(blocks):
            file.write(np.ascontiguousarray(block, "<f4").data)
    if parameters.quantizes(rows) and extremes.finite:
        write_codes(_stored_rows(path, dim), path.with_name(CODES_FILE), rows=rows, extremes=extremes)
    return rows


def _stored_rows(path: Path, dim: int) -> Iterator[Vectors]:
    """Yield the rows of a flat file in blocks."""
    with path.open("rb") as file:
        file.seek(_FLAT_HEADER.size)
        while len(block := np.fromfile(file, "<f4", _BLOCK * dim)):
            yield block.reshape(-1, dim)


def open_index(
    source: Path | MappedFile,
    *,
    hnsw_ef_search: int,
    codes: MappedFile | None = None,
    device: Literal["auto", "cpu", "cuda"] = "cpu",
) -> FlatIndex | HnswIndex:
    """Map `dense.faiss` of either kind into memory; a flat index is scanned by its quantised `codes` if any.

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
    scan = None if codes is None else QuantizedScan(codes, rows=rows, dim=dim)
    return FlatIndex(vectors, scan, device=device)


class _Wanted(NamedTuple):
    """Limits of one search."""

    depth: int
    starts: Rows | None
    allowed: Mask | None
    visible: Mask | None


class FlatIndex(Restricted):
    """Exact search: the inner product of the query with every row."""

    unit: Unit = "chunk"

    def __init__(
        self,
        vectors: Vectors,
        scan: QuantizedScan | None = None,
        *,
        device: Literal["auto", "cpu", "cuda"] = "cpu",
    ) -> None:
        """Wrap (n, dim) float32 vectors, usually of a mapped file.

        `scan` selects the candidates; by default the vectors themselves are scanned. A GPU scans batches.

        Raises:
            Unavailable: the device is `cuda`, and faiss finds no GPU.
        """
        self._vectors = vectors
        self._scan = scan or Scan(vectors)
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
        cores = available_cores()
        limits = zip(masks(queries, allowed), masks(queries, visible), strict=True)
        wanted = [_Wanted(depth, starts, *pair) for pair in limits]
        if len(queries) < _WORTH_THREADS:
            return [self._find(query, limits, threads=cores) for query, limits in zip(queries, wanted, strict=True)]
        from retrieve_cli.retrieval.retrievers import gpu_scan  # only needed for batches

        if len(queries) >= gpu_scan.WORTH_QUERIES and (pairwise := gpu_scan.pairwise_on_gpu(self._device)) is not None:
            scanned = gpu_scan.GpuScan(self._vectors, pairwise).scores(queries)
            plain = partial(self._chosen, spread_of=lambda scores, _: spread(scores, len(scores)))
            return [
                plain(query, limits, *scores) for query, limits, scores in zip(queries, wanted, scanned, strict=True)
            ]
        from concurrent.futures import ThreadPoolExecutor  # not needed for a single query

        with ThreadPoolExecutor(cores) as threads:
            return list(threads.map(self._find, queries, wanted))

    def score(self, query: Vectors, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the inner product with each of `rows`, or the best one in each group of rows."""
        return score_rows(self.vectors, query, rows, starts)

    def _find(self, query: Vectors, wanted: _Wanted, threads: int = 1) -> Candidates:
        scores, bound = self._scan.scores(query, threads=threads)
        return self._chosen(query, wanted, scores, bound, spread_of=self._scan.spread)

    def _chosen(
        self,
        query: Vectors,
        wanted: _Wanted,
        scores: Vectors,
        bound: float,
        *,
        spread_of: Callable[[Vectors, Vectors], tuple[float, float]],
    ) -> Candidates:
        """Return the best rows by exact scores, from a scan whose `scores` are within `bound` of these."""
        depth, starts, allowed, visible = wanted
        worth = best_of_groups(scores, starts)
        if self.population is None:
            mean, deviation = spread_of(worth, query)
        else:
            mean, deviation = spread_within(self.population, starts, partial(self.score, query))

        def exact(units: Rows) -> Vectors:
            if starts is None or not len(units):
                return self.score(query, units)
            rows, begins = members(scores, bound, units, worth[units], starts)
            return best_of_groups(self.score(query, rows), np.append(begins, len(rows)))

        near = contenders(worth, bound, depth, allowed)
        if len(near) > _WORTH_LIMIT * depth:
            near = near[~(worth[near] < exact(best(worth, near, depth)).min() - _SLACK * bound)]
        scored = exact(near)
        kept = best(scored, np.arange(len(near)), depth)
        before, after = total(len(worth), visible), total(len(worth), allowed)
        return Candidates(near[kept], scored[kept], mean, deviation, before, after)
