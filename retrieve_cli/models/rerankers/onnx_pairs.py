"""Rows to scores on a CPU, by `onnx_runner.py`: the encoder of `bert.py` with a head, written without torch as a graph.

The two segments of a pair are two halves of one table of positions: the row of a token in the second text is its
position plus the length of the first half, so that the graph adds two rows a token, as it does for one text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import replace
from retrieve_cli.models.rerankers.cross_folder import CrossFolder
from retrieve_cli.models.rerankers.pairs import PairRow, PairTokenizer
from retrieve_cli.models.runtimes.bert import Architecture, arrange, forward, no_tensor
from retrieve_cli.models.runtimes.digests import Digests
from retrieve_cli.models.runtimes.exports import Contents, Export
from retrieve_cli.models.runtimes.onnx_graph import GraphOperations
from retrieve_cli.models.runtimes.onnx_runner import OnnxRunner
from retrieve_cli.models.runtimes.tensors import Extent, read, to_float32
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Vectors

    Stored = NDArray[Any]
_LAYOUT = 1
"""Raised when the head or its graph changes, so that older exports are made again."""
_HEADS = {
    "bert": {"inner": "pooler.dense", "outer": "classifier"},
    "roberta": {"inner": "classifier.dense", "outer": "classifier.out_proj"},
}
"""Names in a checkpoint of the two layers between the first token's state and the logit (tanh between them)."""


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
        return "the model has custom modules"
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
        """Rows of the position table before the rows of the second text."""
        export = partial(cross_export, folder, cache_dir)
        architecture = Architecture.read(folder.model.config)
        self._runner = OnnxRunner(export, architecture, threads=threads, batch_size=batch_size)

    def scores(self, rows: Sequence[PairRow]) -> Vectors:
        """(n,) float32."""
        logits = np.zeros(len(rows), dtype=np.float32)

        def keep(place: int, logit: Vectors) -> None:
            logits[place] = logit[0, 0]

        shifts = [np.array(row.segments, dtype=np.int64) * self._first_half for row in rows]
        self._runner.run([row.ids for row in rows], keep, shifts=shifts)
        return self._activation(logits)


def cross_export(folder: CrossFolder, cache_dir: Path, digests: Digests | None = None) -> Export:
    """The export of the cross-encoder, which may not be written yet."""
    own = folder.revision(digests or Digests(cache_dir))
    revision = sha1({"revision": own, "layout": _LAYOUT})
    return Export(cache_dir, folder.name, revision, partial(_contents, folder), suffix="-cross")


def _contents(folder: CrossFolder) -> Contents:
    architecture = Architecture.read(folder.model.config)
    head = _HEADS["bert" if architecture.padding is None else "roberta"]
    tensors = _arranged(read(folder.model.weights), architecture, head=head, segmented=folder.segmented)
    return tensors, partial(write_cross_graph, architecture)


def _arranged(
    checkpoint: Mapping[str, Stored], architecture: Architecture, *, head: Mapping[str, str], segmented: bool
) -> dict[str, Stored]:
    """The encoder's tensors, both halves of its table of positions, and the head's two layers."""

    def tensor(name: str) -> Stored:
        for key, stored in checkpoint.items():
            if key == name or key.endswith(f".{name}"):
                return stored
        raise no_tensor(name)

    arranged = arrange(checkpoint, architecture)
    if segmented:
        kinds = to_float32(tensor("embeddings.token_type_embeddings.weight"))
        first = to_float32(tensor("embeddings.position_embeddings.weight"))
        arranged["position"] = np.concatenate([first + kinds[0], first + kinds[1]])
    for ours, theirs in head.items():
        arranged[f"head.{ours}.matrix"] = tensor(f"{theirs}.weight").T
        arranged[f"head.{ours}.bias"] = tensor(f"{theirs}.bias")
    return arranged


def write_cross_graph(architecture: Architecture, extents: Mapping[str, Extent]) -> bytes:
    """An ONNX model: `ids` and `positions` (n, t) int64 to `logits` (n, 1) float32."""
    ops = GraphOperations(architecture, extents)
    below = replace(architecture, layers=architecture.layers - 1)
    states = forward(ops, below, ids="ids", positions="positions")
    state = _last_layer(ops, architecture, states)
    inner = ops.emit("Tanh", [ops.linear(state, "head.inner")])
    ops.emit("Identity", [ops.linear(inner, "head.outer")], "logits")
    return ops.model("cross-encoder", "logits", ["n", 1])


def _last_layer(ops: GraphOperations, architecture: Architecture, states: str) -> str:
    """The first token's state (n, dim) after the last layer.

    The head reads no other: of the rest only keys and values are needed, which saves five sixths of the layer.
    """
    layer, heads = f"layer.{architecture.layers - 1}", architecture.heads
    one = ops.emit("Constant", [], value_ints=[1])
    zero = ops.emit("Constant", [], value_int=0)
    first = ops.emit("Gather", [ops.emit("Reshape", [states, ops.batch_shape]), zero], axis=1)
    query = ops.emit("Unsqueeze", [ops.linear(first, f"{layer}.query"), one])
    key, value = (
        ops.emit("Reshape", [ops.linear(states, f"{layer}.{part}"), ops.batch_shape]) for part in ("key", "value")
    )
    context = ops.emit("MultiHeadAttention", [query, key, value], domain="com.microsoft", num_heads=heads)
    context = ops.emit("Squeeze", [context, one])
    state = ops.norm(ops.add(ops.linear(context, f"{layer}.attention"), first), f"{layer}.attention")
    inner = ops.activate(ops.linear(state, f"{layer}.inner"))
    return ops.norm(ops.add(ops.linear(inner, f"{layer}.outer"), state), f"{layer}.outer")
