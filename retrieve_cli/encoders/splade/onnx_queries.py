"""Queries of a masked language model on a CPU, by `onnx_runner.py`: the logits of their tokens become term weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.exports import Contents, Export
from retrieve_cli.encoders.onnx_runner import OnnxRunner
from retrieve_cli.encoders.splade.head import arrange_masked, eager_logits, masked_architecture, weigh, write_head_graph
from retrieve_cli.encoders.splade.splade_folder import Masked
from retrieve_cli.encoders.splade.vocabulary import Pruning, SpladeTokenizer
from retrieve_cli.encoders.tensors import read
from retrieve_cli.encoders.threads import Truncating
from retrieve_cli.errors import Unavailable
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors
    from retrieve_cli.encoders.bert import Architecture

_LAYOUT = 1
"""Raised when the graph or the weights' layout changes, so that older exports are written again."""


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
        self, route: Masked, tokenizer: SpladeTokenizer, *, name: str, cache_dir: Path, threads: int | None = None
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
    return Export(cache_dir, name, revision, partial(_contents, route, masked_architecture(route.folder.config)))


def _contents(route: Masked, architecture: Architecture) -> Contents:
    return arrange_masked(read(route.folder.weights), architecture), partial(write_head_graph, architecture)
