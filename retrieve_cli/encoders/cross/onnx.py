"""Rows to scores on a CPU: onnxruntime over mapped weights, and no torch.

As in `onnx.py` only rows of the same number of tokens share a batch, so that nothing is padded and a score is the
same to the bit whatever rows stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.encoders.bert import Architecture, positions
from retrieve_cli.encoders.cache import GRAPH
from retrieve_cli.encoders.cross.cross_folder import CrossFolder
from retrieve_cli.encoders.cross.export import open_cross
from retrieve_cli.encoders.cross.pairs import PairTokenizer, Row
from retrieve_cli.encoders.onnx import same_length
from retrieve_cli.encoders.packages import require
from retrieve_cli.encoders.threads import available_cores, spread
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_BATCH_TOKENS = 512
"""What a batch of one thread holds: its activations stay in the L2 cache."""


def _sigmoid(logits: Vectors) -> Vectors:
    """In double precision, where no logit overflows."""
    scores: Vectors = (1 / (1 + np.exp(-logits.astype(np.float64)))).astype(np.float32)
    return scores


_ACTIVATIONS: Mapping[str, Callable[[Vectors], Vectors]] = {
    "Identity": lambda logits: logits,
    "Sigmoid": _sigmoid,
    "Tanh": np.tanh,
}


def why_not(folder: CrossFolder) -> str:
    """Why onnxruntime cannot run this cross-encoder here, in a few words; nothing where it can."""
    if folder.chats:
        return "the model reads pairs through a chat template"
    if not folder.labelled:
        return "the model has modules of its own"
    if folder.activation not in _ACTIVATIONS:
        return f"the graph has no activation {folder.activation}"
    if folder.model.weights[0].suffix != ".safetensors":
        return "the model has no safetensors file"
    if not (folder.path / "tokenizer.json").is_file():
        return "the model has no tokenizer.json"
    try:
        Architecture.read(folder.model.config)
    except Unavailable:
        return f"the graph does not know this {folder.model.config.get('model_type')}"
    return ""


class OnnxPairs(PairTokenizer):
    """Reads pairs and scores rows, for BERT and its kin."""

    def __init__(self, folder: CrossFolder, *, cache_dir: Path, batch_size: int | None, threads: int | None) -> None:
        super().__init__(
            folder.path / "tokenizer.json",
            lowercase=folder.model.lowercase,
            segmented=folder.segmented,
            prompt=folder.prompt,
        )
        self._folder = folder
        self._cache_dir = cache_dir
        self._batch_size = batch_size
        self._threads = threads or available_cores()

    def scores(self, rows: Sequence[Row]) -> Vectors:
        """(n,) float32."""
        logits = np.zeros(len(rows), dtype=np.float32)
        session, batches = self._session, self._batches(rows)

        def run(batch: Sequence[int]) -> None:
            ids = np.array([rows[place].ids for place in batch], dtype=np.int64)
            segments = np.array([rows[place].segments for place in batch], dtype=np.int64)
            places = positions(ids, self._architecture) + segments * self._first_half
            (found,) = session.run(None, {"ids": ids, "positions": places})
            logits[list(batch)] = found[:, 0]

        spread(run, batches, threads=self._threads)
        return _ACTIVATIONS[self._folder.activation](logits)

    def _batches(self, rows: Sequence[Row]) -> list[Sequence[int]]:
        """Places of rows of one length each, the longest first, so that the threads end at about the same time."""
        alike = same_length([row.ids for row in rows], range(len(rows)), batch_tokens=_BATCH_TOKENS)
        size = self._batch_size or len(rows)
        return [batch[start : start + size] for batch in alike for start in range(0, len(batch), size)]

    @cached_property
    def _architecture(self) -> Architecture:
        return Architecture.read(self._folder.model.config)

    @property
    def _first_half(self) -> int:
        """Rows of the table of positions before those of the second text."""
        return int(self._folder.model.config["max_position_embeddings"])

    @cached_property
    def _session(self) -> Any:
        runtime = require("onnxruntime")
        options = runtime.SessionOptions()
        # A product that is split among threads may be summed in another order: whole batches are spread instead.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # Batches come in many shapes: an arena that grows whenever one does not fit has no bound.
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.log_severity_level = 3
        graph = open_cross(self._folder, self._cache_dir) / GRAPH
        return runtime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
