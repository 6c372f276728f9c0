"""Inner products of many queries with all rows by faiss on a GPU.

The graph of an HNSW index is still built on the CPU: faiss builds one on a GPU only with NVIDIA's
cuVS, which the wheels of `faiss-gpu-cu12` do not contain.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from retrieve_cli.errors import Unavailable
from retrieve_cli.retrieval.retrievers.hnsw_index import faiss_package

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

    Pairwise = Callable[[Vectors, Vectors], Vectors]
    """Function from (q, dim) and (n, dim) to (q, n) inner products, all float32."""

WORTH_QUERIES = 64
"""Minimum queries in a batch for which sending the vectors to a GPU pays off."""
_DRIVER = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Device files of a GPU driver on Linux, and on the Windows Subsystem for Linux."""
_SCORES = 1 << 26
"""Maximum scores computed at a time: 256 MiB."""


def pairwise_on_gpu(device: Literal["auto", "cpu", "cuda"]) -> Pairwise | None:
    """Return a function for inner products on a GPU; None if a GPU is not requested, or not available.

    Raises:
        Unavailable: `cuda` is requested, and faiss finds no GPU.
    """
    if device == "cpu":
        return None
    missing = "no GPU found" if not any(map(os.path.exists, _DRIVER)) else _why_faiss_has_none()
    if missing and device == "auto":
        return None
    if missing:
        hint = "set dense.device: auto, or install the driver and: pip install 'retrieve-cli[gpu]'"
        raise Unavailable(f"`dense.device: cuda` requires a GPU, but none can be used: {missing}", hint=hint)
    return _pairwise()


@cache
def _pairwise() -> Pairwise:
    """Return faiss's inner products, with scratch memory on the GPU that is allocated once."""
    faiss = faiss_package()
    resources = faiss.StandardGpuResources()
    return lambda queries, vectors: faiss.pairwise_distance_gpu(
        resources, queries, vectors, metric=faiss.METRIC_INNER_PRODUCT
    )


def _why_faiss_has_none() -> str:
    try:
        faiss = faiss_package()
    except Unavailable:
        return "the package faiss is not installed"
    if not hasattr(faiss, "StandardGpuResources"):
        return "the installed faiss is built for CPUs"
    return "" if faiss.get_num_gpus() else "faiss finds no GPU"


def scores_on_gpu(pairwise: Pairwise, queries: Sequence[Vectors], vectors: Vectors) -> Iterator[Vectors]:
    """Yield for each query the inner products with all rows, (n,) float32."""
    at_once = max(1, _SCORES // max(len(vectors), 1))
    for start in range(0, len(queries), at_once):
        yield from pairwise(np.ascontiguousarray(queries[start : start + at_once], np.float32), vectors)
