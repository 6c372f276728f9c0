"""Dense vectors in a FAISS file: a flat inner product (exact, memory-mapped) by default, or an HNSW graph.

A flat file is searched in place by NumPy: faiss would take longer to import than the search takes, and the product is
bound by memory bandwidth either way. The file stays an ordinary faiss index that any other program can read.

Every score that leaves this file comes from `numerics.products`: a row has the same one, to the bit, in a list, in a
filtered list, in a group and asked for by itself, whatever kernel, file or graph found it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from retrieve_cli.contracts import Candidates, Json, Unit
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.frozen import dataclass
from retrieve_cli.numerics import available_cores
from retrieve_cli.retrievers import quantized
from retrieve_cli.retrievers.hnsw_index import HnswIndex, faiss_package
from retrieve_cli.retrievers.scan import Scan, contenders, members, score_rows
from retrieve_cli.retrievers.selection import best, grouped, masks, spread, total
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
"""Rows read at a time to be quantised; bounds the memory."""
_WORTH_THREADS = 8
"""Queries from which on they are spread over the cores: NumPy lets go of the interpreter while it multiplies."""
_WORTH_LIMIT = 2
"""Candidates, as a multiple of the depth, from which on the best `depth` of them are scored first: the lowest of these
scores is a tighter limit for the others than the scan's."""
_SLACK = np.float32(1.01)
"""Covers the rounding of a limit."""
_HINT = "see which files are damaged: retrieve inspect verify; then build again: retrieve build"


@dataclass(frozen=True, slots=True)
class Parameters:
    """Which faiss index is written: `flat`, or `hnsw` with its neighbours a node and its breadth of construction."""

    kind: Literal["flat", "hnsw"] = "flat"
    hnsw_m: int = 32
    hnsw_ef_construction: int = 200
    quantized_from: int | None = None
    """Rows from which on a flat index has bytes beside it to scan; None: never."""

    @property
    def card(self) -> Mapping[str, Json]:
        """What changes the answers of the index; part of the recipe."""
        graph = {"hnsw_m": self.hnsw_m, "hnsw_ef_construction": self.hnsw_ef_construction}
        return {"kind": "flat"} if self.kind == "flat" else {"kind": "hnsw", **graph}

    def quantizes(self, rows: int) -> bool:
        """Return True if so many rows have bytes beside them, as long as bytes can stand for them."""
        return self.kind == "flat" and self.quantized_from is not None and rows >= self.quantized_from


def write(blocks: Iterable[Vectors], path: Path, *, rows: int, dim: int, parameters: Parameters) -> int:
    """Writes a faiss inner-product index over the rows of `blocks`, each (m, dim) float32; returns their number.

    A flat file is its header and the vectors: it is written without faiss, to the same bytes. Many rows get a file of
    bytes beside it, see `quantized`.

    Raises:
        Unavailable: a graph is asked for and faiss is not installed.
    """
    if parameters.kind == "hnsw":
        faiss: Any = faiss_package()
        index = faiss.IndexHNSWFlat(dim, parameters.hnsw_m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = parameters.hnsw_ef_construction
        for block in blocks:
            index.add(np.ascontiguousarray(block))
        faiss.write_index(index, str(path))
        return int(index.ntotal)
    extremes = quantized.Extremes(dim)
    with path.open("wb") as file:
        file.write(_FLAT_HEADER.pack(_FLAT, dim, rows, _UNUSED, _UNUSED, _TRAINED, _INNER_PRODUCT, rows * dim))
        for block in extremes.watch(blocks):
            file.write(np.ascontiguousarray(block, "<f4").data)
    if parameters.quantizes(rows) and extremes.finite:
        quantized.write(_written(path, dim), path.with_name(quantized.FILE), rows=rows, extremes=extremes)
    return rows


def _written(path: Path, dim: int) -> Iterator[Vectors]:
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
    """Maps `dense.faiss` into memory, whichever kind it holds; a flat one is scanned by its `codes` if it has some.

    `device` is where a flat one is scanned for batches of queries.

    Raises:
        IndexCorrupt: the file is absent, cut short, or no inner-product index.
        Unavailable: `cuda` is asked for, and faiss finds no GPU.
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
    scan = None if codes is None else quantized.QuantizedScan(codes, rows=rows, dim=dim)
    return FlatIndex(vectors, file, scan, device=device)


def _spread_of_rows(scores: Vectors, _: Vectors) -> tuple[float, float]:
    """Mean and standard deviation of scores, of rows or of the best in groups."""
    return spread(scores, len(scores))


class _Wanted(NamedTuple):
    """Limits of one search."""

    depth: int
    starts: Rows | None
    allowed: Mask | None
    visible: Mask | None


class FlatIndex:
    """Exact search: the inner product of the query with every row."""

    unit: Unit = "chunk"

    def __init__(
        self,
        vectors: Vectors,
        file: MappedFile | None = None,
        scan: quantized.QuantizedScan | None = None,
        *,
        device: Literal["auto", "cpu", "cuda"] = "cpu",
    ) -> None:
        """Takes (n, dim) float32 vectors, usually those of a mapped file, whose blocks are checked as they are read.

        `scan` finds the candidates; by default the vectors themselves are scanned. A GPU scans for batches.

        Raises:
            Unavailable: the device is `cuda`, and faiss finds no GPU.
        """
        self._vectors = vectors
        self._file = file
        self._check = unchecked if file is None else file.check_parts
        self._scan = scan or Scan(vectors, self._check)
        self._device = device
        if device == "cuda":
            from retrieve_cli.retrievers.gpu_scan import pairwise_on_gpu

            pairwise_on_gpu(device)

    def __len__(self) -> int:
        return len(self._vectors)

    @property
    def dim(self) -> int:
        return int(self._vectors.shape[1])

    def vectors(self, rows: Rows) -> Vectors:
        """The vectors of rows, (n, dim) float32. Raises: IndexCorrupt if one of them is damaged."""
        if self._file is None:
            return self._vectors[rows]
        return self._file.rows(_FLAT_HEADER.size, 4 * self.dim, rows).view("<f4")

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

        many, cores = len(queries) >= _WORTH_THREADS, available_cores()
        wanted = [
            _Wanted(depth, starts, *each) for each in zip(masks(queries, allowed), masks(queries, visible), strict=True)
        ]
        if not many:
            return [self._find(*each, threads=cores) for each in zip(queries, wanted, strict=True)]
        if (scanned := self._scanned_on_gpu(queries)) is not None:
            plain = zip(queries, wanted, scanned, strict=True)
            return [self._chosen(query, each, *scores, spread_of=_spread_of_rows) for query, each, scores in plain]
        from concurrent.futures import ThreadPoolExecutor  # a single query does without it

        with ThreadPoolExecutor(cores) as threads:
            return list(threads.map(self._find, queries, wanted))

    def score(self, query: Vectors, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """The inner product with each of `rows`, or the best one in each group of rows."""
        return score_rows(self.vectors, query, rows, starts)

    def _scanned_on_gpu(self, queries: Sequence[Vectors]) -> Iterator[tuple[Vectors, float]] | None:
        """Scores of all rows and their bound for each query; None if no GPU scans for so many."""
        from retrieve_cli.retrievers import gpu_scan  # batches alone need it

        if len(queries) < gpu_scan.WORTH_QUERIES or (pairwise := gpu_scan.pairwise_on_gpu(self._device)) is None:
            return None
        return gpu_scan.GpuScan(self._vectors, pairwise, self._check).scores(queries)

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
        """The best rows, by exact scores, of a scan whose `scores` are within `bound` of those."""
        depth, starts, allowed, visible = wanted
        worth = grouped(scores, starts)
        mean, deviation = spread_of(worth, query)

        def exact(units: Rows) -> Vectors:
            if starts is None or not len(units):
                return self.score(query, units)
            rows, begins = members(scores, bound, units, worth[units], starts)
            return grouped(self.score(query, rows), np.append(begins, len(rows)))

        near = contenders(worth, bound, depth, allowed)
        if len(near) > _WORTH_LIMIT * depth:
            near = near[~(worth[near] < exact(best(worth, near, depth)).min() - _SLACK * bound)]
        found = exact(near)
        kept = best(found, np.arange(len(near)), depth)
        before, after = total(len(worth), visible), total(len(worth), allowed)
        return Candidates(near[kept], found[kept], mean, deviation, before, after)
