"""Queries of a masked language model on a CPU: the logits of their tokens become term weights.

The forward pass of `bert.py`, then the head that predicts words. Like the forward pass, the head is described once and
run twice: by NumPy (one short query) and by onnxruntime (any batch).

Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa), Sanh et al. 2019 (DistilBERT); the weights from the logits: Formal
et al. 2021, https://arxiv.org/abs/2109.10086 (SPLADE v2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from retrieve_cli.contracts import Json, TermWeights
from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.encoders.splade_folder import Activation, Masked, Pooling
from retrieve_cli.models.runtimes import bert
from retrieve_cli.models.runtimes.bert import Architecture, EagerOperations, Operations, forward
from retrieve_cli.models.runtimes.exports import Contents, Export
from retrieve_cli.models.runtimes.onnx_runner import GraphOperations, OnnxRunner
from retrieve_cli.models.runtimes.packages import Truncating
from retrieve_cli.models.runtimes.tensors import Digests, read
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows, Terms, Vectors
    from retrieve_cli.models.runtimes.tensors import Extent

    Stored = NDArray[Any]

X = TypeVar("X")

_DISTILBERT = {
    "transformer.layer.": "encoder.layer.",
    "attention.q_lin": "attention.self.query",
    "attention.k_lin": "attention.self.key",
    "attention.v_lin": "attention.self.value",
    "attention.out_lin": "attention.output.dense",
    "sa_layer_norm": "attention.output.LayerNorm",
    "ffn.lin1": "intermediate.dense",
    "ffn.lin2": "output.dense",
    "output_layer_norm": "output.LayerNorm",
}
"""DistilBERT is BERT without kinds of tokens, under other names."""
_HEADS = (
    ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions"),
    ("lm_head.dense", "lm_head.layer_norm", "lm_head"),
    ("vocab_transform", "vocab_layer_norm", "vocab_projector"),
)
"""Names that BERT, RoBERTa and DistilBERT give the head's layer, its normalisation, and the words' bias."""
_LAYOUT = 1
"""Raised when the graph or the weights' layout changes, so that older exports are written again."""


def masked_architecture(config: Mapping[str, Json]) -> Architecture:
    """Return the architecture in a model's config.json.

    Raises:
        Unavailable: it is a model of another family.
    """
    if config.get("model_type") != "distilbert":
        architecture = Architecture.read(config)
        if architecture.padding is not None and architecture.activation != "gelu":
            raise Unavailable("The head of RoBERTa is known with hidden_act gelu only.")
        return architecture
    sizes = {"num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "hidden_size": "dim"}
    renamed = {ours: config[theirs] for ours, theirs in sizes.items()}
    return Architecture.read({"model_type": "bert", "hidden_act": config.get("activation", "gelu"), **renamed})


class HeadOperations(Operations[X], Protocol[X]):
    """Operations of the model, the head included."""

    def project(self, x: X) -> X:
        """A logit for each entry of the vocabulary."""


def predictions(ops: HeadOperations[X], architecture: Architecture, *, ids: X, positions: X) -> X:
    """A logit of each token for each entry of the vocabulary."""
    x = forward(ops, architecture, ids=ids, positions=positions)
    return ops.project(ops.norm(ops.activate(ops.linear(x, "head")), "head"))


class EagerHead(EagerOperations):
    """`HeadOperations` on arrays (t, dim)."""

    def project(self, x: Any) -> Any:
        logits = x @ self._weights.get("words", self._weights["word"]).T
        logits += self._weights["words.bias"]
        return logits


class GraphHead(GraphOperations):
    """`HeadOperations` on names of values, all of them (n * t, dim)."""

    def project(self, x: str) -> str:
        table = self._weight("words" if "words" in self._extents else "word")
        return self.emit("Gemm", [x, table, self._weight("words.bias")], "logits", transB=1)


def eager_logits(architecture: Architecture, weights: Mapping[str, Vectors], ids: Rows) -> Vectors:
    """(t, v) float32: the logits of each of one text's (t,) ids."""
    return bert.run(predictions, EagerHead(architecture, weights), architecture, ids)


def write_head_graph(architecture: Architecture, extents: Mapping[str, Extent]) -> bytes:
    """An ONNX model: `ids` and `positions` (n, t) int64 to `logits` (n * t, v) float32."""
    ops = GraphHead(architecture, extents)
    predictions(ops, architecture, ids="ids", positions="positions")
    (size,) = extents["words.bias"].shape
    return ops.model("masked", "logits", ["tokens", size])


def arrange_masked(checkpoint: Mapping[str, Stored], architecture: Architecture) -> dict[str, Stored]:
    """A checkpoint's tensors under the names that `predictions` uses.

    The words' table is the one of the embeddings unless the checkpoint has another.

    Raises:
        UsageError: a tensor is missing.
    """
    names = {_renamed(name): tensor for name, tensor in checkpoint.items()}
    arranged = bert.arrange(names, architecture)
    dense, norm, words = next((head for head in _HEADS if f"{head[0]}.weight" in names), _HEADS[0])
    parts = {
        "head.matrix": (f"{dense}.weight",),
        "head.bias": (f"{dense}.bias",),
        "head.scale": (f"{norm}.weight",),
        "head.shift": (f"{norm}.bias",),
        "words.bias": (f"{words}.decoder.bias", f"{words}.bias"),
    }
    for ours, theirs in parts.items():
        name = next((name for name in theirs if name in names), None)
        if name is None:
            raise bert.no_tensor(theirs[0])
        arranged[ours] = names[name].T if ours == "head.matrix" else names[name]
    own = next((names[name] for name in (f"{words}.decoder.weight", f"{words}.weight") if name in names), None)
    if own is not None and not np.array_equal(own, arranged["word"]):
        arranged["words"] = own
    return arranged


def weigh(logits: Vectors, pooling: Pooling, activation: Activation) -> Vectors:
    """(v,) float32, the weights of one text from its logits (t, v). Nothing is padded, so every row counts."""
    if pooling == "max":  # the activation is monotone, so that it may wait until one row is left
        return _flatten(logits.max(axis=0), activation)
    summed: Vectors = _flatten(logits, activation).sum(axis=0)
    return summed


def _flatten(logits: Vectors, activation: Activation) -> Vectors:
    weights = np.log1p(np.maximum(logits, 0))
    return weights if activation == "relu" else np.log1p(weights)


def _renamed(name: str) -> str:
    """A tensor's name as BERT spells it."""
    name = name.removeprefix("distilbert.")
    if name.startswith("transformer.layer."):
        for theirs, ours in _DISTILBERT.items():
            name = name.replace(theirs, ours)
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


class Pruning(Frozen):
    """Keeps the weights above 0 that are at least `min_weight`, and of these the `top_terms` heaviest."""

    min_weight: float = 0.0
    top_terms: int | None = None

    def dense(self, weights: Vectors) -> TermWeights:
        """Return the pruned term weights from one weight for each entry of the vocabulary, (v,) float32."""
        terms = np.flatnonzero(weights > 0).astype(np.int32)
        return self.kept(terms, weights[terms])

    def kept(self, terms: Terms, weights: Vectors) -> TermWeights:
        """Return the pruned terms in ascending order; of equal weights the lower ids are kept."""
        heavy = (weights > 0) & (weights >= np.float32(self.min_weight))
        terms, weights = terms[heavy], weights[heavy]
        if self.top_terms is not None and len(terms) > self.top_terms:
            best = np.sort(np.lexsort((terms, -weights))[: self.top_terms])
            terms, weights = terms[best], weights[best]
        return TermWeights(terms, weights)


def runs(route: Masked) -> bool:
    """Return whether a model can be exported: its family is known and its weights are no pickle."""
    try:
        masked_architecture(route.folder.config)
    except Unavailable:
        return False
    return route.folder.weights[0].suffix == ".safetensors"


class OnnxQueries(Truncating):
    """Queries through an export that is made once."""

    def __init__(
        self, route: Masked, tokenizer: ModelTokenizer, *, name: str, cache_dir: Path, threads: int | None = None
    ) -> None:
        export = partial(masked_export, route, cache_dir, name=name)
        self._runner = OnnxRunner(export, masked_architecture(route.folder.config), threads=threads)
        self._route = route
        self._tokenizer = tokenizer

    def __str__(self) -> str:
        return "onnxruntime"

    def encode(self, texts: Sequence[str], pruning: Pruning) -> list[TermWeights]:
        """A text without a token has no term. The route a query takes depends on its own length only."""
        tokenized = self._tokenizer.ids(texts, max_tokens=self._route.folder.max_tokens)
        self._count_truncated(tokenized.truncated)
        weighted = [TermWeights(np.empty(0, np.int32), np.empty(0, np.float32))] * len(texts)

        def keep(place: int, logits: Vectors) -> None:
            weighted[place] = pruning.dense(weigh(logits, self._route.pooling, self._route.activation))

        self._runner.run_queries(tokenized.ids, keep, eager_logits)
        return weighted


def masked_export(route: Masked, cache_dir: Path, digests: Digests | None = None, *, name: str) -> Export:
    """The export of the model, which may not be written yet.

    Raises:
        Unavailable: it is a model of another family.
    """
    model = route.folder.revision(digests or Digests(cache_dir))
    revision = sha1({"model": model, "head": "masked", "layout": _LAYOUT})
    architecture = masked_architecture(route.folder.config)

    def contents() -> Contents:
        return arrange_masked(read(route.folder.weights), architecture), partial(write_head_graph, architecture)

    return Export(cache_dir, name, revision, contents)
