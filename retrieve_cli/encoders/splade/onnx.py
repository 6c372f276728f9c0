"""Queries of a masked language model on a CPU: onnxruntime over mapped weights, NumPy for a short query, no torch.

As in `onnx.py`, only texts of exactly the same number of tokens share a batch, so that a query's weights do not depend
on its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.encoders.bert import positions
from retrieve_cli.encoders.cache import GRAPH, WEIGHTS, export_folder, sound
from retrieve_cli.encoders.digests import Digests
from retrieve_cli.encoders.onnx import same_length
from retrieve_cli.encoders.packages import require
from retrieve_cli.encoders.splade.head import eager_logits, masked_architecture, weigh
from retrieve_cli.encoders.splade.splade_folder import Masked
from retrieve_cli.encoders.splade.terms import Pruning
from retrieve_cli.encoders.splade.vocabulary import SpladeTokenizer
from retrieve_cli.encoders.tensors import read
from retrieve_cli.encoders.threads import available_cores, spread
from retrieve_cli.errors import Unavailable
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors
    from retrieve_cli.encoders.bert import Architecture

_SHORT = 64
"""Queries of up to so many tokens go through NumPy: beyond, loading onnxruntime is the smaller cost.

With a model of BERT's size a process has its first twelve tokens weighed after 0.1 s, and after 0.5 s with onnxruntime,
which then takes 30 ms for each further query, NumPy 50 ms.
"""
LAYOUT = 1
"""Raised when the graph or the weights' layout changes, so that older exports are made again."""
_BATCH_TOKENS = 512


def runs(route: Masked) -> bool:
    """Whether a model can be exported: its family is known and its weights are no pickle."""
    try:
        masked_architecture(route.folder.config)
    except Unavailable:
        return False
    return route.folder.weights[0].suffix == ".safetensors"


class OnnxQueries:
    """Queries through an export that is made once."""

    def __init__(
        self, route: Masked, tokenizer: SpladeTokenizer, *, name: str, cache_dir: Path, threads: int | None = None
    ) -> None:
        self._architecture = masked_architecture(route.folder.config)
        self._route = route
        self._tokenizer = tokenizer
        self._name = name
        self._cache_dir = cache_dir
        self._threads = threads or available_cores()
        self.truncated = 0

    def __str__(self) -> str:
        return "onnxruntime"

    def encode(self, texts: Sequence[str], pruning: Pruning) -> list[TermWeights]:
        """A text without a token has no term. Which way a query takes depends on its own length only."""
        tokenized = self._tokenizer.ids(texts, max_tokens=self._route.folder.max_tokens)
        self.truncated += tokenized.truncated
        ids = tokenized.ids
        found = [TermWeights(np.empty(0, np.int32), np.empty(0, np.float32))] * len(ids)
        short = [place for place, tokens in enumerate(ids) if 0 < len(tokens) <= _SHORT]
        long = [place for place, tokens in enumerate(ids) if len(tokens) > _SHORT]
        # Loaded before the threads begin, which share them.
        weights = self._weights if short else {}
        session: Any = self._session if long else None

        def eager(place: int) -> None:
            logits = eager_logits(self._architecture, weights, np.array(ids[place], np.int64))
            found[place] = self._finish(logits, pruning)

        def batched(batch: Sequence[int]) -> None:
            tokens = np.array([ids[place] for place in batch], np.int64)
            inputs = {"ids": tokens, "positions": np.ascontiguousarray(positions(tokens, self._architecture))}
            (logits,) = session.run(None, inputs)
            for place, own in zip(batch, np.split(logits, len(batch)), strict=True):
                found[place] = self._finish(own, pruning)

        spread(eager, short, threads=self._threads)
        spread(batched, list(same_length(ids, long, batch_tokens=_BATCH_TOKENS)), threads=self._threads)
        return found

    def _finish(self, logits: Vectors, pruning: Pruning) -> TermWeights:
        return pruning.dense(weigh(logits, self._route.pooling, self._route.activation))

    @cached_property
    def _exported(self) -> Path:
        return open_export(self._route, self._architecture, name=self._name, cache_dir=self._cache_dir)

    @cached_property
    def _weights(self) -> Mapping[str, Vectors]:
        return read([self._exported / WEIGHTS])

    @cached_property
    def _session(self) -> Any:
        runtime = require("onnxruntime")
        options = runtime.SessionOptions()
        # A product that is split among threads may be summed in another order: whole batches are spread instead.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # Batches come in many shapes: an arena that grows whenever one does not fit has no bound.
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.log_severity_level = 3
        graph = str(self._exported / GRAPH)
        return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def open_export(route: Masked, architecture: Architecture, *, name: str, cache_dir: Path) -> Path:
    """The model's place in the cache, written now if it is absent, damaged or of an older layout.

    Raises:
        Unavailable: the cache cannot be written.
    """
    digests = Digests(cache_dir)
    revision = sha1({"model": route.folder.revision(digests), "head": "masked", "layout": LAYOUT})
    target = export_folder(cache_dir, name, revision)
    if not sound(target, revision, digests):
        from retrieve_cli.encoders.splade.export import publish_masked  # a query finds the export there already

        try:
            publish_masked(route, architecture, target, name=name, revision=revision, digests=digests)
        except OSError as error:
            raise Unavailable(
                f"The model cache {cache_dir} cannot be written: {error.strerror or error}.",
                hint="choose a folder that can be written as the model cache, or make room on its disk",
            ) from error
    return target
