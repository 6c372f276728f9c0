"""Rows to scores on a CPU, by `onnx_runner.py`: a row's logit through the model's activation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.encoders.bert import Architecture
from retrieve_cli.encoders.cross.cross_folder import CrossFolder
from retrieve_cli.encoders.cross.cross_graph import cross_export
from retrieve_cli.encoders.cross.pairs import PairTokenizer, Row
from retrieve_cli.encoders.onnx_runner import OnnxRunner
from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors


def _sigmoid(logits: Vectors) -> Vectors:
    """Return the sigmoid, computed in double precision, in which no logit overflows."""
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
    """Pair scores of models of the BERT family, by an exported graph."""

    def __init__(self, folder: CrossFolder, *, cache_dir: Path, batch_size: int | None, threads: int | None) -> None:
        super().__init__(
            folder.path / "tokenizer.json",
            lowercase=folder.model.lowercase,
            segmented=folder.segmented,
            prompt=folder.prompt,
        )
        self._activation = _ACTIVATIONS[folder.activation]
        self._first_half = int(folder.model.config["max_position_embeddings"])
        """Rows of the table of positions before those of the second text."""
        export = partial(cross_export, folder, cache_dir)
        architecture = Architecture.read(folder.model.config)
        self._runner = OnnxRunner(export, architecture, threads=threads, batch_size=batch_size)

    def scores(self, rows: Sequence[Row]) -> Vectors:
        """(n,) float32."""
        logits = np.zeros(len(rows), dtype=np.float32)

        def keep(place: int, logit: Vectors) -> None:
            logits[place] = logit[0, 0]

        shifts = [np.array(row.segments, dtype=np.int64) * self._first_half for row in rows]
        self._runner.run([row.ids for row in rows], keep, shifts=shifts)
        return self._activation(logits)
