"""The BERT family, described once: what its checkpoints hold and the forward pass over a handful of operations.

`forward` is run here in NumPy (one short text) and written down as an ONNX graph by `onnx_runner.py` (any batch),
so that both are the same model by construction. Pooling and normalisation come after either of them, here.

Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa: the positions start after the padding index).

The forward pass in NumPy over mapped weights: one short text, without loading onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np

from retrieve_cli.cores import one_blas_thread
from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes.tensors import to_float32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Json, Rows, Vectors
    from retrieve_cli.models.runtimes.model_folder import Pooling


Activation = Literal["gelu", "gelu_tanh", "relu"]

X = TypeVar("X")

_POSITIONS_FROM_PADDING = {"roberta", "xlm-roberta", "camembert"}
_FAMILY = {"bert"} | _POSITIONS_FROM_PADDING
_ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
_LINEAR = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention": "attention.output.dense",
    "inner": "intermediate.dense",
    "outer": "output.dense",
}
_NORM = {"attention": "attention.output.LayerNorm", "outer": "output.LayerNorm"}


class Architecture(Frozen):
    """Parameters of the forward pass, without the weights."""

    layers: int
    heads: int
    dim: int
    epsilon: float
    activation: Activation
    padding: int | None
    """The padding index after which positions are counted (RoBERTa); None where they are counted from 0 (BERT)."""

    @classmethod
    def read(cls, config: Mapping[str, Json]) -> Architecture:
        """From a model's config.json.

        Raises:
            Unavailable: it is a model of another family, or one with a part that this forward pass lacks.
        """
        kind = config.get("model_type")
        if kind not in _FAMILY:
            raise _unsupported(f"model_type {quoted(kind)}")
        if (positions := config.get("position_embedding_type") or "absolute") != "absolute":
            raise _unsupported(f"position_embedding_type {quoted(positions)}")
        if (activation := config.get("hidden_act", "gelu")) not in _ACTIVATIONS:
            raise _unsupported(f"hidden_act {quoted(activation)}")
        if config.get("is_decoder") or config.get("add_cross_attention"):
            raise _unsupported("a decoder")
        return cls(
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            dim=int(config["hidden_size"]),
            epsilon=float(config.get("layer_norm_eps", 1e-12)),
            activation=_ACTIVATIONS[activation],
            padding=int(config.get("pad_token_id", 1)) if kind in _POSITIONS_FROM_PADDING else None,
        )


class Operations(Protocol[X]):
    """Operations of the forward pass. `name` names the weights that they use: see `arrange`."""

    def rows(self, name: str, which: X) -> X:
        """The rows of a table."""

    def add(self, left: X, right: X) -> X: ...

    def linear(self, x: X, name: str) -> X:
        """x @ matrix + bias."""

    def norm(self, x: X, name: str) -> X:
        """Layer normalisation over the last axis."""

    def activate(self, x: X) -> X: ...

    def attention(self, query: X, key: X, value: X) -> X:
        """Scaled dot products over all heads; every token sees every other."""


def forward(ops: Operations[X], architecture: Architecture, *, ids: X, positions: X) -> X:
    """Hidden state of each token after the last layer."""
    x = ops.norm(ops.add(ops.rows("word", ids), ops.rows("position", positions)), "embedding")
    for number in range(architecture.layers):
        layer = f"layer.{number}"
        query, key, value = (ops.linear(x, f"{layer}.{part}") for part in ("query", "key", "value"))
        context = ops.attention(query, key, value)
        x = ops.norm(ops.add(ops.linear(context, f"{layer}.attention"), x), f"{layer}.attention")
        inner = ops.activate(ops.linear(x, f"{layer}.inner"))
        x = ops.norm(ops.add(ops.linear(inner, f"{layer}.outer"), x), f"{layer}.outer")
    return x


def arrange(checkpoint: Mapping[str, NDArray[Any]], architecture: Architecture) -> dict[str, NDArray[Any]]:
    """A checkpoint's tensors under the names that `forward` uses, matrices turned to (in, out).

    Raises:
        UsageError: a tensor is missing.
    """
    names = {_plain(name): name for name in checkpoint}

    def tensor(name: str) -> NDArray[Any]:
        if name not in names:
            raise no_tensor(name)
        return checkpoint[names[name]]

    def norm(ours: str, theirs: str) -> dict[str, NDArray[Any]]:
        return {f"{ours}.scale": tensor(f"{theirs}.weight"), f"{ours}.shift": tensor(f"{theirs}.bias")}

    position = to_float32(tensor("embeddings.position_embeddings.weight"))
    if (kinds := "embeddings.token_type_embeddings.weight") in names:
        position = position + to_float32(tensor(kinds))[0]
    arranged = {"word": tensor("embeddings.word_embeddings.weight"), "position": position}
    arranged |= norm("embedding", "embeddings.LayerNorm")
    for number in range(architecture.layers):
        ours, theirs = f"layer.{number}", f"encoder.layer.{number}"
        for part, name in _LINEAR.items():
            arranged[f"{ours}.{part}.matrix"] = tensor(f"{theirs}.{name}.weight").T
            arranged[f"{ours}.{part}.bias"] = tensor(f"{theirs}.{name}.bias")
        for part, name in _NORM.items():
            arranged |= norm(f"{ours}.{part}", f"{theirs}.{name}")
    return arranged


def no_tensor(name: str) -> UsageError:
    """The error of a checkpoint that lacks a tensor."""
    return UsageError(f"The model's weights hold no tensor {name}.", hint="fetch the model's files again")


def positions(ids: Rows, architecture: Architecture) -> Rows:
    """Row of the position table for each token of (n, t) ids."""
    if architecture.padding is None:
        return np.broadcast_to(np.arange(ids.shape[-1]), ids.shape)
    # A text may spell the padding token out; transformers gives such a token the padding's own position.
    real = (ids != architecture.padding).astype(np.int64)
    places: Rows = np.cumsum(real, axis=-1) * real + architecture.padding
    return places


def pool(hidden: Vectors, pooling: Pooling) -> Vectors:
    """One vector (dim,) of one text's hidden states (t, dim). Nothing is padded, so every row counts."""
    pooled: Vectors
    if pooling == "mean":
        pooled = hidden.mean(axis=0, dtype=np.float32)
    elif pooling == "max":
        pooled = hidden.max(axis=0)
    else:
        pooled = hidden[0 if pooling == "cls" else -1]
    return pooled


def to_unit(vector: Vectors) -> Vectors:
    """A vector (dim,) of L2 norm 1; the zero vector stays."""
    norm = float(np.sqrt(np.dot(vector, vector)))
    return vector / np.float32(max(norm, 1e-12))


def _plain(name: str) -> str:
    """A tensor's name without the wrapper's prefix ("bert.", "roberta.") and in today's spelling."""
    for root in ("embeddings.", "encoder."):
        if (start := name.find(root)) > 0 and name[start - 1] == ".":
            name = name[start:]
            break
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _unsupported(what: str) -> Unavailable:
    message = f"The onnx encoder cannot run this model ({what}); it knows BERT, RoBERTa, XLM-RoBERTa and CamemBERT."
    return Unavailable(message, hint="set `encoder.kind: torch`, which runs any sentence-transformers model")


_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun 1964, 7.1.26: |error| <= 1.5e-7."""
_ERF_P = 0.3275911


class EagerOperations:
    """`bert.Operations` on arrays (t, dim)."""

    def __init__(self, architecture: Architecture, weights: Mapping[str, Vectors]) -> None:
        self._architecture = architecture
        self._weights = weights

    def rows(self, name: str, which: Any) -> Any:
        return self._weights[name][which]

    def add(self, left: Any, right: Any) -> Any:
        return left + right

    def linear(self, x: Any, name: str) -> Any:
        y = x @ self._weights[f"{name}.matrix"]
        y += self._weights[f"{name}.bias"]
        return y

    def norm(self, x: Any, name: str) -> Any:
        x = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(self._architecture.epsilon))
        x /= deviation
        x *= self._weights[f"{name}.scale"]
        x += self._weights[f"{name}.shift"]
        return x

    def activate(self, x: Any) -> Any:
        if self._architecture.activation == "relu":
            return np.maximum(x, 0)
        if self._architecture.activation == "gelu_tanh":
            return 0.5 * x * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)))
        return gelu(x)

    def attention(self, query: Any, key: Any, value: Any) -> Any:
        heads, tokens = self._architecture.heads, len(query)
        query, key, value = (part.reshape(tokens, heads, -1).swapaxes(0, 1) for part in (query, key, value))
        scores = query @ key.swapaxes(1, 2)
        scores *= np.float32(query.shape[-1] ** -0.5)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        return (scores @ value).swapaxes(0, 1).reshape(tokens, -1)


def gelu(x: Vectors) -> Vectors:
    """x * Phi(x), Phi the normal distribution (Hendrycks and Gimpel 2016), any shape."""
    t = np.abs(x)
    t *= np.float32(0.5**0.5)
    tail = np.square(t)
    np.negative(tail, out=tail)
    np.exp(tail, out=tail)
    t *= np.float32(_ERF_P)
    t += np.float32(1)
    np.reciprocal(t, out=t)
    series = np.full_like(t, _ERF[-1])
    for coefficient in _ERF[-2::-1]:
        series *= t
        series += np.float32(coefficient)
    series *= t
    series *= tail
    # x * Phi(x) = relu(x) - |x| * (1 - erf(|x| / sqrt 2)) / 2, which cancels nothing for large |x|.
    series *= np.abs(x)
    series *= np.float32(-0.5)
    series += np.maximum(x, 0)
    return series


def hidden_states(architecture: Architecture, weights: Mapping[str, Vectors], ids: Rows) -> Vectors:
    """(t, dim) float32: the hidden state of each of one text's (t,) ids."""
    return run(forward, EagerOperations(architecture, weights), architecture, ids)


def run(model: Callable[..., Any], ops: EagerOperations, architecture: Architecture, ids: Rows) -> Vectors:
    """Return what a forward pass such as `bert.forward` makes of one text's (t,) ids."""
    with one_blas_thread:
        result: Vectors = model(ops, architecture, ids=ids, positions=positions(ids, architecture))
    return result
