"""The forward pass in NumPy over mapped weights: one short text, without loading onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.models.runtimes.bert import Architecture, forward, positions
from retrieve_cli.numerics import one_blas_thread

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors

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
